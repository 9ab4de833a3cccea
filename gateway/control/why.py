"""Why: explains how a call with one token for one model would be handled, without contacting an upstream."""

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.control.views import budget_views, pause_end, price_view
from gateway.core.catalog import Catalog
from gateway.core.dry_run import DryRun, PlannedCall, dry_run
from gateway.core.engine import Engine
from gateway.core.model_entry import ModelEntry, Route, answering_model
from gateway.core.model_prices import different_prices
from gateway.core.rate_scopes import RateScope
from gateway.core.routing import NOTHING_TRIED, choose, place_text
from gateway.core.visibility import Visibility, unused_fallbacks, visibility_of
from gateway.domain.advice import advice
from gateway.domain.call import ACCOUNT, CHAT_API
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.diagnosis import LimitView, Obstacle, PartyView, RouteView, UnusedFallback, Why
from gateway.domain.errors import BadRequest, GatewayError, InvalidToken, NoChannel, Unavailable, UpstreamError
from gateway.domain.group import Group
from gateway.domain.human_values import unset_text
from gateway.domain.key_owners import digest, find_owner
from gateway.domain.output_limit import MAX_TOKEN_COUNT
from gateway.domain.price import Price, in_force
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX, Token
from gateway.domain.units import Millis
from gateway.domain.views import conversion
from gateway.upstream.anthropic.cache_marks import marks_cache


async def explain(edits: ConfigEdits, request: web.Request) -> Why:
    """GET /why?token&model[&api][&prompt_tokens][&max_tokens][&stream]. ``token`` is an id, a name or a key."""
    counts = dict.fromkeys(("prompt_tokens", "max_tokens"), range(1, MAX_TOKEN_COUNT + 1))
    apis = edits.engine.apis
    params = query(request.query, {"token": str, "model": str, "api": apis, "stream": bool, **counts})
    for name in ("token", "model"):
        if not params.get(name):
            raise BadRequest(f"'{name}' is missing", code="missing_required_parameter", param=name)
    call = PlannedCall(
        token=_token_of(edits.engine, params["token"]),
        model=params["model"],
        prompt_tokens=params.get("prompt_tokens", 1000),
        max_tokens=params.get("max_tokens"),
        stream=params.get("stream", False),
        api=apis[params.get("api", CHAT_API)],
    )
    return _why(edits.engine, call)


def _token_of(engine: Engine, ref: str) -> Token:
    """Returns the token. Raises InvalidToken for a former or unknown key, and NotFound for an unknown name."""
    owner = find_owner(engine.catalog.registry, ref)
    if owner is not None and owner.since is not None:
        raise InvalidToken(f"{owner.text(engine.now())}; calls with it are rejected", param="token")
    if owner is not None or not ref.startswith(PREFIX):
        return engine.catalog.token(ref)
    if (token := engine.catalog.token_by_digest(digest(ref))) is None:
        raise InvalidToken("no token has this key; 'tollkeeper token list' lists the tokens", param="token")
    return token


def _dry_run(engine: Engine, call: PlannedCall, now: Millis) -> DryRun:
    def check_open() -> None:
        engine.pressure.check(engine.clock.mono())
        if engine.pipeline.closed is not None:
            raise engine.pipeline.closed

    books, chooser = engine.store.books, engine.pipeline.attempts.chooser
    usable = partial(_without_unset, engine)
    return dry_run(call, engine.catalog, books, chooser, now, check_open=check_open, usable=usable)


def _why(engine: Engine, call: PlannedCall) -> Why:
    now, catalog, token = engine.now(), engine.catalog, call.token
    outcome = _dry_run(engine, call, now)
    admission, need, group = outcome.admission, outcome.need, catalog.registry.groups[token.group]
    entry = admission.entry if admission is not None else catalog.visible(token).get(call.model)
    visibility = visibility_of(call.model, token, group, catalog)
    hold_plan = admission.hold_plan if admission is not None else None
    price = _price(catalog, call, entry, outcome)
    prices = [in_force(other, now) for other in answering_model(entry).effects.prices] if entry is not None else []
    sticky = group.sticky or call.api.sticky
    routes = _all_routes(engine, call, entry, outcome)
    error = outcome.error or _store_error(engine) or _unset_error(engine, routes)
    return Why(
        token=token.name,
        group=group.name,
        model=call.model,
        prompt_tokens=call.prompt_tokens,
        max_tokens=call.max_tokens,
        stream=call.stream,
        api=call.api.name,
        works=error is None,
        status=200 if error is None else error.http_status,
        code="" if error is None else error.code,
        message=_success_text(outcome, sticky=sticky) if error is None else _message(error),
        fix="" if error is None else _fix(error, visibility, call, routes),
        retry_after_s=None if error is None else error.retry_after_s,
        then=_next_obstacle(outcome.quota_error, call),
        visible=not visibility.fix,
        rule=visibility.rule,
        refuses_unpriced=catalog.registry.settings.refuse_unpriced,
        price=price_view(in_force(price, now), now, call.model) if price is not None else None,
        prices=[price_view(price, now, call.model) for price in different_prices(prices, None)],
        multiplier=group.multiplier,
        hold_nanos=hold_plan.nanos if hold_plan is not None else None,
        hold_tokens=hold_plan.tokens if hold_plan is not None else None,
        holds_rest=hold_plan is not None and need is not None and hold_plan.nanos < need.nanos,
        hold_output=token.hold_output,
        available_nanos=engine.store.books.available(),
        parties=list(_parties(engine, token, group)),
        fallbacks=[other.name for other in entry.fallbacks if other.name not in outcome.unaffordable] if entry else [],
        unused_fallbacks=_unused_fallbacks(call, group, catalog, outcome),
        sticky=sticky,
        routes=routes,
    )


def _unused_fallbacks(call: PlannedCall, group: Group, catalog: Catalog, outcome: DryRun) -> list[UnusedFallback]:
    """Returns the fallbacks that can never answer a call of this token, then those that it cannot afford now."""
    unaffordable = [
        UnusedFallback(
            model=model,
            rule=f"what is left does not pay for it: {error.state}",
            fix=advice(error, token=call.token.name, group=group.name),
        )
        for model, error in outcome.unaffordable.items()
    ]
    return [*unused_fallbacks(call.model, call.token, group, catalog), *unaffordable]


def _unset_error(engine: Engine, routes: list[RouteView]) -> GatewayError | None:
    """Returns the error of a call whose channels are all passed over, one for a missing variable; else None."""
    tried = [route for route in routes if route.place]
    if all(route.passed for route in tried):
        for route in tried:
            if missing := engine.upstreams.variables.blocking(engine.catalog.channel(route.channel)):
                msg = f"channel '{plain(route.channel)}': {unset_text(missing)}"
                details = {"setting": "key", "variable": missing[0]}
                return UpstreamError(msg, code="upstream_auth_failed", details=details)
    return None


def _message(error: GatewayError) -> str:
    """Returns the error's message without its advice to run ``why``."""
    return error.message.partition("; 'tollkeeper why ")[0]


def _store_error(engine: Engine) -> GatewayError | None:
    """Returns the error of a failed store, else None. A real call would try to write again; a dry run does not."""
    if engine.store.books.healthy:
        return None
    text = f"the store has failed, and calls are rejected: {engine.store.books.disk_errors.text}"
    return Unavailable(text, code="store_unavailable")


def _success_text(outcome: DryRun, *, sticky: bool) -> str:
    admission, choice = outcome.admission, outcome.choice
    if admission is not None and (full := admission.full) is not None:
        return f"it would wait for a free slot: {plain(full.label)} has {full.limit} {full.name}"
    if choice is None or choice.route is None:
        return "it would wait for a free slot: all its channels are at their limit of concurrent calls"
    stays = "; a conversation stays on the channel that answered it before" if sticky else ""
    return f"channel '{plain(choice.route.channel.name)}' would be tried first: {choice.reason}{stays}"


def _fix(error: GatewayError, visibility: Visibility, call: PlannedCall, routes: list[RouteView]) -> str:
    first = routes[0].channel if routes else ""
    if error.code == "model_not_found":  # no token sees it, or no upstream has it any more
        own_name = f"'tollkeeper channel edit {word(first)} --map {word(call.model)}=NAME' calls one by this name"
        return visibility.fix or f"'tollkeeper channel models {word(first)} --refresh' lists what it has; {own_name}"
    if isinstance(error, NoChannel) and first:
        test = f"'tollkeeper channel test {word(first)}'"
        if routes[0].state == "attention":
            return f"fix channel '{plain(first)}', then {test}: if that succeeds, it accepts calls again"
        real = f"'tollkeeper channel test {word(first)} --model {word(call.model)}' makes a test call"
        return f"{real}; 'tollkeeper channel models {word(first)}' lists the models that it has"
    return advice(error, token=call.token.name, group=call.token.group, model=call.model, channel=first)


def _next_obstacle(error: GatewayError | None, call: PlannedCall) -> Obstacle | None:
    """Returns the error that would reject the call if the first one were fixed, or None."""
    if error is None:
        return None
    fix = advice(error, token=call.token.name, group=call.token.group, model=call.model)
    return Obstacle(status=error.http_status, code=error.code, message=_message(error), fix=fix)


def _price(catalog: Catalog, call: PlannedCall, entry: ModelEntry | None, outcome: DryRun) -> Price | None:
    """Returns the price of the model that would be tried first, which may be a fallback with its own price."""
    if outcome.choice is not None and outcome.choice.route is not None:
        return outcome.choice.route.served.price
    return catalog.price_shown(entry) if entry is not None else catalog.price(call.model)


def _parties(engine: Engine, token: Token, group: Group) -> Iterator[PartyView]:
    scopes = {scope.key[0]: scope for scope in engine.catalog.token_scopes(token)}
    for kind, name, views in (
        ("account", "", budget_views(engine, ACCOUNT, engine.catalog.registry.account.budgets)),
        ("group", group.name, budget_views(engine, ("group", group.id), group.budgets)),
        ("token", token.name, budget_views(engine, ("token", token.id), token.budgets)),
    ):
        limits = list(_limits(engine, scopes[kind])) if kind in scopes else []
        yield PartyView(kind=kind, name=name, budgets=list(views), limits=limits)


def _limits(engine: Engine, scope: RateScope) -> Iterator[LimitView]:
    for reading in engine.limiter.readings([scope]):
        reset_ms = Millis(round(reading.reset_s * 1000))
        yield LimitView(name=reading.kind, limit=reading.limit, left=reading.left, whole_in_ms=reset_ms)
    for name, gate in (("concurrent", scope.gate), ("streams", scope.stream_gate)):
        if gate is not None:
            left = max(0, gate.limit - engine.limiter.concurrency.slots_taken(gate.key))
            yield LimitView(name=name, limit=gate.limit, left=left, whole_in_ms=Millis(0))


def _all_routes(engine: Engine, call: PlannedCall, entry: ModelEntry | None, outcome: DryRun) -> list[RouteView]:
    """Returns the channels of the model, if it is visible, and of its fallbacks, then the unused ones."""
    routes = list(_routes(engine, entry, outcome)) if entry is not None else []
    routes += _unused_routes(engine, call, {route.channel for route in routes})
    channels, is_native = engine.catalog.registry.channels, engine.pipeline.attempts.preparer.is_native
    native = {other.name for other in channels.values() if outcome.call is not None and is_native(outcome.call, other)}
    api = call.api.name
    return [
        msgspec.structs.replace(route, conversion=conversion(api, native=route.channel in native)) for route in routes
    ]


def _without_unset(engine: Engine, entry: ModelEntry) -> ModelEntry:
    """Returns the model without the channels whose environment variables are not set, unless no others are left.

    A call skips such a channel without sending anything.
    """

    def usable(routes: Iterable[Route]) -> tuple[Route, ...]:
        return tuple(route for route in routes if not engine.upstreams.variables.blocking(route.channel))

    candidates = [msgspec.structs.replace(fallback, routes=usable(fallback.routes)) for fallback in entry.fallbacks]
    routes, fallbacks = usable(entry.routes), tuple(fallback for fallback in candidates if fallback.routes)
    if not (routes or fallbacks):
        return entry
    return msgspec.structs.replace(entry, routes=routes, fallbacks=fallbacks)


def _routes(engine: Engine, entry: ModelEntry, outcome: DryRun) -> Iterator[RouteView]:
    """Yields the channels of a model, then those of its fallbacks, with why a channel would be passed over."""
    need, first = outcome.need, outcome.choice.route if outcome.choice is not None else None
    channel_limits = engine.pipeline.attempts.channel_limits
    check = partial(channel_limits.check, need.rate_tokens if need is not None else 0, None)
    first_model = first.served.name if first is not None else ""
    for model in (entry, *entry.fallbacks):
        usable = _without_unset(engine, model).routes
        choice = choose(usable, NOTHING_TRIED, engine.health, lambda _: 0, check)
        skip_reasons = {skipped.channel: skipped.reason for skipped in choice.skipped}
        chances = choice.chances() if model.name == first_model else {}
        for route in model.routes:
            passed = skip_reasons.get(route.channel.name, "")
            view = _route(engine, route.channel, model.name, route.served.upstream_name, passed)
            chance = round(chances.get(route.channel.id, 0.0), 4)
            is_last_resort = bool(chance and view.passed)
            place = place_text(route, engine.health.latency)
            yield msgspec.structs.replace(view, place=place, chance=chance, last_resort=is_last_resort)


def _unused_routes(engine: Engine, call: PlannedCall, listed: set[str]) -> Iterator[RouteView]:
    """Yields the channels that are not ``listed``, if they are in the token's group or offer the model."""
    model, token = call.model, call.token
    for channel in sorted(engine.catalog.registry.channels.values(), key=lambda c: (-c.priority, c.name)):
        upstream_model = next((served.upstream_name for served in channel.models if served.name == model), "")
        if channel.name not in listed and (upstream_model or token.group in channel.groups):
            yield _route(engine, channel, model, upstream_model, _exclusion_reason(channel, upstream_model, call))


def _exclusion_reason(channel: Channel, upstream_model: str, call: PlannedCall) -> str:
    if call.token.group not in channel.groups:
        return f"not in group '{plain(call.token.group)}'"
    if not channel.enabled:
        return "disabled"
    if not upstream_model:
        return "does not offer the model"
    return f"cannot answer {call.api.name}" if call.api.selective else "the model is hidden from the token"


def _route(engine: Engine, channel: Channel, model: str, upstream_model: str, passed: str) -> RouteView:
    """Returns a channel's view without its place and chance. ``passed`` is why it is passed over, if it is."""
    state = engine.channel_state(channel)
    served = ServedModel(name=model, upstream=upstream_model)
    return RouteView(
        channel=channel.name,
        model=model,
        upstream_model=upstream_model,
        priority=channel.priority,
        weight=channel.weight,
        state=state.name,
        reason=state.reason,
        until_ms=pause_end(engine, state),
        in_flight=engine.health.in_flight(channel.id),
        passed=passed or unset_text(engine.upstreams.variables.blocking(channel)),
        cache_marks=marks_cache(channel, engine.learned.of(channel.id, served, engine.now())),
    )
