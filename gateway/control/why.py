"""Why: explains how a call with one token for one model would be handled, without contacting an upstream."""

from collections.abc import Iterable, Iterator

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.control.views import budget_views, price_view, until_ms
from gateway.core.admission import group_of
from gateway.core.catalog import Catalog, ModelEntry, Route, answering
from gateway.core.chooser import ChannelTickets
from gateway.core.dry_run import DryRun, DryRunState, PlannedCall, dry_run, native_channels
from gateway.core.engine import Engine
from gateway.core.model_prices import different_prices
from gateway.core.rate_scopes import RateScope
from gateway.core.routing import NOTHING_TRIED, choose, place
from gateway.core.visibility import Visibility, unused_fallbacks, visibility_of
from gateway.domain.advice import advice
from gateway.domain.call import CHAT_API
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.diagnosis import LimitView, Obstacle, PartyView, RouteView, UnusedFallback, Why
from gateway.domain.errors import BadRequest, GatewayError, InvalidToken, NoChannel, Unavailable, UpstreamError
from gateway.domain.group import Group
from gateway.domain.key_owners import digest, find_owner
from gateway.domain.price import Price, in_force
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX, Token
from gateway.domain.units import Millis
from gateway.domain.views import conversion
from gateway.inbound.chat.api import MAX_OUTPUT
from gateway.upstream.anthropic.dialect import marks_cache
from gateway.upstream.credentials import unset_text


async def explain(edits: ConfigEdits, request: web.Request) -> Why:
    """GET /why?token&model[&api][&prompt_tokens][&max_tokens][&stream]: how a call would be handled. The
    token is an id, a name or a key.
    """
    types = {"token": str, "model": str, "api": str, "prompt_tokens": int, "max_tokens": int, "stream": bool}
    asked = query(request.query, types)
    for name in ("token", "model"):
        if not asked.get(name):
            raise BadRequest(f"'{name}' is missing", code="missing_required_parameter", param=name)
    for name in ("prompt_tokens", "max_tokens"):
        if not 0 < asked.get(name, 1) <= MAX_OUTPUT:
            raise BadRequest(f"'{name}' must be from 1 to {MAX_OUTPUT}", param=name)
    apis = edits.engine.apis
    if (api := asked.get("api", CHAT_API)) not in apis:
        raise BadRequest(f"unknown API '{plain(api, 40)}'; use {', '.join(apis)}", param="api")
    wanted = PlannedCall(
        token=_token(edits.engine, asked["token"]),
        model=asked["model"],
        prompt_tokens=asked.get("prompt_tokens", 1000),
        max_tokens=asked.get("max_tokens"),
        stream=asked.get("stream", False),
        api=apis[api],
    )
    return _why(edits.engine, wanted)


def _token(engine: Engine, ref: str) -> Token:
    owner = find_owner(engine.catalog.registry, ref)
    if owner is not None and owner.since is not None:
        raise InvalidToken(f"{owner.text(engine.now())}; calls with it are rejected", param="token")
    if owner is not None or not ref.startswith(PREFIX):
        return engine.catalog.token(ref)
    if (token := engine.catalog.token_by_digest(digest(ref))) is None:
        raise InvalidToken("no token has this key; 'tollkeeper token list' lists the tokens", param="token")
    return token


def _dry_run_state(engine: Engine) -> DryRunState:
    return DryRunState(
        catalog=engine.catalog,
        limiter=engine.limiter,
        books=engine.store.books,
        look=lambda call, entry, *, waited=False: engine.pipeline.attempts.look(
            call, _without_unset(engine, entry), waited=waited
        ),
        closed=engine.pipeline.closed,
        pressed=lambda: engine.pressure.check(engine.clock.mono()),
    )


def _why(engine: Engine, wanted: PlannedCall) -> Why:
    catalog, now = engine.catalog, engine.now()
    outcome = dry_run(wanted, _dry_run_state(engine), now)
    token, group = wanted.token, group_of(wanted.token, catalog)
    visibility = visibility_of(wanted.model, token, group, catalog)
    hold_plan = outcome.admission.hold_plan if outcome.admission is not None else None
    entry = outcome.admission.entry if outcome.admission is not None else catalog.visible(token).get(wanted.model)
    price = _price(outcome, entry, wanted.model, catalog)
    need = outcome.need
    tickets = ChannelTickets(engine.limiter, need.rate_tokens if need is not None else 0)
    routes = list(_routes(engine, entry, outcome, tickets)) if entry is not None else []
    routes = _with_conversion(
        engine, wanted, [*routes, *_unused_routes(engine, wanted, {route.channel for route in routes})]
    )
    error = outcome.error or _store_error(engine) or _unset_error(engine, routes)
    return Why(
        token=token.name,
        group=group.name,
        model=wanted.model,
        prompt_tokens=wanted.prompt_tokens,
        max_tokens=wanted.max_tokens,
        stream=wanted.stream,
        api=wanted.api.name,
        works=error is None,
        status=200 if error is None else error.http_status,
        code=error.code if error is not None else "",
        message=_message(error) if error is not None else _success_text(outcome, sticky=_is_sticky(wanted, group)),
        fix=_fix(error, visibility, wanted, routes) if error is not None else "",
        retry_after_s=error.retry_after_s if error is not None else None,
        then=_next_obstacle(outcome.quota_error, wanted),
        visible=visibility.visible,
        rule=visibility.rule,
        price_state=_price_state(price),
        refuses_unpriced=catalog.registry.settings.refuse_unpriced,
        price=price_view(in_force(price, now), now, wanted.model) if price is not None else None,
        prices=[price_view(price, now, wanted.model) for price in _different_prices(entry, now)],
        multiplier=group.multiplier,
        hold_nanos=hold_plan.nanos if hold_plan is not None else None,
        hold_tokens=hold_plan.tokens if hold_plan is not None else None,
        holds_rest=hold_plan is not None and need is not None and hold_plan.nanos < need.nanos,
        hold_output=token.hold_output,
        available_nanos=engine.store.books.available(),
        parties=list(_parties(engine, token, group)),
        fallbacks=[other.name for other in entry.fallbacks if other.name not in outcome.unaffordable] if entry else [],
        unused_fallbacks=_unused_fallbacks(wanted, outcome, group, catalog),
        sticky=_is_sticky(wanted, group),
        routes=routes,
    )


def _unused_fallbacks(wanted: PlannedCall, outcome: DryRun, group: Group, catalog: Catalog) -> list[UnusedFallback]:
    """Returns the fallbacks that can never answer this token, then those that its remaining money cannot pay for."""
    token = wanted.token
    return [
        *unused_fallbacks(wanted.model, token, group, catalog),
        *(
            UnusedFallback(
                model=model,
                rule=f"too little is left for it: {error.state}",
                fix=advice(error, token=token.name, group=group.name),
            )
            for model, error in outcome.unaffordable.items()
        ),
    ]


def _with_conversion(engine: Engine, wanted: PlannedCall, routes: list[RouteView]) -> list[RouteView]:
    """Returns the routes, each with whether the API's requests are translated there."""
    native = native_channels(wanted, engine.catalog, engine.now(), engine.pipeline.attempts.is_native)
    return [
        msgspec.structs.replace(route, conversion=conversion(wanted.api.name, native=route.channel in native))
        for route in routes
    ]


def _unset_error(engine: Engine, routes: list[RouteView]) -> GatewayError | None:
    """Returns the error of a call if no channel is usable and at least one lacks an environment variable."""
    tried = [route for route in routes if route.place]
    if all(route.passed for route in tried):
        for route in tried:
            if missing := engine.upstreams.variables.blocking(engine.catalog.channel(route.channel)):
                msg = f"channel '{plain(route.channel)}': {unset_text(missing)}"
                details = {"setting": "key", "variable": missing[0]}
                return UpstreamError(msg, code="upstream_auth_failed", details=details)
    return None


def _message(error: GatewayError) -> str:
    """Returns the error's message without the advice to run ``why``."""
    return error.message.partition("; 'tollkeeper why ")[0]


def _store_error(engine: Engine) -> GatewayError | None:
    """Returns the error if the store has failed. A real call would try to write again; a dry run does not."""
    if engine.store.books.healthy:
        return None
    text = f"the store has failed, and calls are rejected: {engine.store.books.trouble.text}"
    return Unavailable(text, code="store_unavailable")


def _is_sticky(wanted: PlannedCall, group: Group) -> bool:
    """Returns whether a conversation stays at the channel that answered it."""
    return group.sticky or wanted.api.sticky


def _success_text(outcome: DryRun, *, sticky: bool) -> str:
    """Returns which channel would be tried first, or what the call would wait for."""
    if outcome.admission is not None and (full := outcome.admission.full) is not None:
        return f"it would wait for a free slot: {plain(full.label)} has {full.limit} {full.name}"
    if outcome.choice is None or outcome.choice.route is None:
        return "it would wait for a free slot: all its channels are at their limit of concurrent calls"
    stays = "; a conversation stays on the channel that answered it before" if sticky else ""
    return f"channel '{plain(outcome.choice.route.channel.name)}' would be tried first: {outcome.choice.why}{stays}"


def _fix(error: GatewayError, visibility: Visibility, wanted: PlannedCall, routes: list[RouteView]) -> str:
    """Returns what to do about an error."""
    if error.code == "model_not_found":
        return visibility.fix
    first = routes[0].channel if routes else ""
    if isinstance(error, NoChannel) and first:
        test = f"'tollkeeper channel test {word(first)}'"
        if routes[0].state == "attention":
            return f"fix channel '{plain(first)}', then {test}: if that succeeds, it accepts calls again"
        real = f"'tollkeeper channel test {word(first)} --model {word(wanted.model)}' tries it"
        return f"{real}, 'tollkeeper channel models {word(first)}' shows what it has"
    return advice(error, token=wanted.token.name, group=wanted.token.group, model=wanted.model, channel=first)


def _next_obstacle(error: GatewayError | None, wanted: PlannedCall) -> Obstacle | None:
    if error is None:
        return None
    fix = advice(error, token=wanted.token.name, group=wanted.token.group, model=wanted.model)
    return Obstacle(status=error.http_status, code=error.code, message=_message(error), fix=fix)


def _price(outcome: DryRun, entry: ModelEntry | None, model: str, catalog: Catalog) -> Price | None:
    """Returns the price of the model that would be tried first: a fallback has its own."""
    if outcome.choice is not None and outcome.choice.route is not None:
        return outcome.choice.route.served.price
    return catalog.price_shown(entry) if entry is not None else catalog.price(model)


def _different_prices(entry: ModelEntry | None, now: Millis) -> list[Price]:
    prices = answering(entry).effects.prices if entry is not None else ()
    return different_prices([in_force(price, now) for price in prices], None)


def _price_state(price: Price | None) -> str:
    if price is None:
        return "unpriced"
    return "free" if price.free else "priced"


def _parties(engine: Engine, token: Token, group: Group) -> Iterator[PartyView]:
    bounds = {bound.key[0]: bound for bound in engine.catalog.parties(token)}
    account = engine.catalog.registry.account
    yield PartyView(
        kind="account", name="", budgets=list(budget_views(engine, ("account", ""), account.budgets)), limits=[]
    )
    for kind, name, views in (
        ("group", group.name, budget_views(engine, ("group", group.id), group.budgets)),
        ("token", token.name, budget_views(engine, ("token", token.id), token.budgets)),
    ):
        limits = list(_limits(engine, bounds[kind])) if kind in bounds else []
        yield PartyView(kind=kind, name=name, budgets=list(views), limits=limits)


def _limits(engine: Engine, bound: RateScope) -> Iterator[LimitView]:
    readings = engine.limiter.readings([bound])
    for name, reading in zip(("requests", "tokens"), readings, strict=True):
        if reading is not None:
            whole = Millis(round(reading.reset_s * 1000))
            yield LimitView(name=name, limit=reading.limit, left=reading.left, whole_in_ms=whole)
    for name, gate in (("concurrent", bound.gate), ("streams", bound.stream_gate)):
        if gate is not None:
            left = max(0, gate.limit - engine.limiter.lines.taken(gate.key))
            yield LimitView(name=name, limit=gate.limit, left=left, whole_in_ms=Millis(0))


def _without_unset(engine: Engine, entry: ModelEntry) -> ModelEntry:
    """Returns the model without the channels whose variables are not set, unless no others are left.

    A call to such a channel sends nothing, and tries another one.
    """

    def usable(routes: Iterable[Route]) -> tuple[Route, ...]:
        return tuple(route for route in routes if not engine.upstreams.variables.blocking(route.channel))

    rest = [msgspec.structs.replace(fallback, routes=usable(fallback.routes)) for fallback in entry.fallbacks]
    routes, fallbacks = usable(entry.routes), tuple(fallback for fallback in rest if fallback.routes)
    if not (routes or fallbacks):
        return entry
    first_tier = usable(entry.first_tier) if len(routes) == len(entry.routes) else ()
    return msgspec.structs.replace(entry, routes=routes, fallbacks=fallbacks, first_tier=first_tier)


def _routes(engine: Engine, entry: ModelEntry, outcome: DryRun, tickets: ChannelTickets) -> Iterator[RouteView]:
    """Yields the channels for a model, then for its fallbacks, with the reasons for passing them over."""
    first = outcome.choice.route.served.name if outcome.choice is not None and outcome.choice.route is not None else ""
    for candidate in (entry, *entry.fallbacks):
        usable = _without_unset(engine, candidate).routes
        choice = choose(usable, NOTHING_TRIED, engine.health, lambda _: 0, tickets)
        skip_reasons = {skipped.channel: skipped.reason for skipped in choice.passed}
        chances = choice.chances() if candidate.name == first else {}
        for route in candidate.routes:
            passed = skip_reasons.get(route.channel.name, "")
            view = _route(engine, route.channel, candidate.name, route.served.upstream_name, passed)
            chance = round(chances.get(route.channel.id, 0.0), 4)
            last_resort = bool(chance and view.passed)
            yield msgspec.structs.replace(
                view, place=place(route, engine.health.pace), chance=chance, last_resort=last_resort
            )


def _unused_routes(engine: Engine, wanted: PlannedCall, listed: set[str]) -> Iterator[RouteView]:
    """Yields the other channels of the group, and those that offer the model to other groups."""
    model, token = wanted.model, wanted.token
    for channel in sorted(engine.catalog.registry.channels.values(), key=lambda c: (-c.priority, c.name)):
        offered = next((served.upstream_name for served in channel.models if served.name == model), "")
        if channel.name not in listed and (offered or token.group in channel.groups):
            yield _route(engine, channel, model, offered, _exclusion_reason(channel, offered, wanted))


def _exclusion_reason(channel: Channel, offered: str, wanted: PlannedCall) -> str:
    """Returns why a channel is not among the model's routes."""
    if wanted.token.group not in channel.groups:
        return f"not in group '{plain(wanted.token.group)}'"
    if not channel.enabled:
        return "disabled"
    if not offered:
        return "does not offer the model"
    return f"cannot answer {wanted.api.name}" if wanted.api.selective else "the model is hidden from the token"


def _route(engine: Engine, channel: Channel, model: str, offered: str, passed: str) -> RouteView:
    state = engine.channel_state(channel)
    served = ServedModel(name=model, upstream=offered)
    return RouteView(
        channel=channel.name,
        model=model,
        upstream_model=offered,
        priority=channel.priority,
        weight=channel.weight,
        place="",
        chance=0.0,
        state=state.name,
        reason=state.reason,
        until_ms=until_ms(engine, state),
        in_flight=engine.health.in_flight(channel.id),
        passed=passed or unset_text(engine.upstreams.variables.blocking(channel)),
        cache_marks=marks_cache(channel, engine.lessons.of(channel.id, served, engine.now())),
        conversion="",
        last_resort=False,
    )
