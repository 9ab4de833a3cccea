"""Admission: every check that a call must pass before anything is committed. It raises or returns what to commit.

The order is part of the contract: a wrong model name never uses up a rate limit, and a call over its rate limit never
holds money. A new rule is a check in ``admit`` or ``entry_for``, which the queue and ``dry_run`` call too. A new error
code also needs a row in ``docs/error_codes.py``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil

import msgspec

from gateway.core.call import Call
from gateway.core.call_extras import other_models
from gateway.core.catalog import Catalog
from gateway.core.channel_effects import ChannelEffects
from gateway.core.model_entry import ModelEntry
from gateway.core.model_prices import upstream_model_price
from gateway.core.quota import (
    CallNeed,
    HoldPlan,
    ModelNeed,
    MoneyBooks,
    Recall,
    call_need,
    need_of,
    plan_hold,
)
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.core.ratelimit import Limiter, Today
from gateway.domain import rawjson
from gateway.domain.budget import Window, window_end, window_start
from gateway.domain.call import RequestSize, Scope
from gateway.domain.errors import BadRequest, GatewayError, NotFound, QuotaExceeded
from gateway.domain.human_values import count_text
from gateway.domain.output_limit import MIN_OUTPUT
from gateway.domain.patterns import matches, near_names
from gateway.domain.price import Price
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.inbound.api import InboundApi, InboundRequest

NAMED_MODELS = 12
"""How many visible models an error lists."""


class Admission(msgspec.Struct, frozen=True, gc=False):
    """What is committed together when a call is admitted."""

    entry: ModelEntry
    scopes: tuple[RateScope, ...]
    hold_plan: HoldPlan
    gates: tuple[ConcurrencyGate, ...]
    full: ConcurrencyGate | None
    """The first full gate: the call may wait there."""


def admit(call: Call, limiter: Limiter, books: MoneyBooks, recall: Recall = lambda _: 0) -> Admission:
    """Returns what to commit. Raises GatewayError if visibility, price, rate limits or quota do not allow the call.

    Changes nothing but the call: its need, output limit and unaffordable fallbacks. Gates where it already has a slot
    are skipped. If too little is left for the call, its output limit is lowered if its token wants that.
    """
    errors: list[QuotaExceeded] = []
    while True:
        try:
            return _admit(call, limiter, books, recall)
        except QuotaExceeded as error:
            errors.append(error.with_traceback(None))  # its frames refer to the call
        # lowered twice at most, the second time for output that the limit did not bound, such as thinking
        if len(errors) > 2 or not _lower_output(errors[-1], call):
            raise errors[0]


def _lower_output(error: QuotaExceeded, call: Call) -> bool:
    """Lower the output limit to what is left, if its token allows and a useful answer fits. Returns whether it did."""
    context, request = call.context, call.context.request
    cap, choices = request.output_cap, request.choices
    if not context.token.fit_output or cap is None:
        return False
    unbounded = 0 if request.lowered_cap is None else max(0, call.need.output.expected // choices - cap)
    limit = error.affordable_output // choices - unbounded
    lowered = context.origin.api.with_limit(request, limit) if MIN_OUTPUT <= limit < cap else None
    if lowered is None:
        return False
    call.context, call.needs = msgspec.structs.replace(context, request=lowered), ()
    return True


def _admit(call: Call, limiter: Limiter, books: MoneyBooks, recall: Recall) -> Admission:
    """Returns what to commit for the call with its current output limit. Raises GatewayError."""
    context, catalog = call.context, call.context.catalog
    entry = entry_for(call)
    if entry.routes and not entry.effects.prices and catalog.registry.settings.refuse_unpriced:
        raise _no_price(context.request.model)
    scopes = catalog.call_scopes(context.token)
    needs = call.needs or needs_by_model(call, entry, recall)
    call.need = call_need(needs, context.group.multiplier)
    try:
        if scopes.rated_scopes:
            limiter.check(scopes.rated_scopes, call.need.rate_tokens)
        hold_plan = affordable_hold(call, needs, books)
    except GatewayError as error:
        request = context.request
        output = call.need.output.capped if request.output_cap is None else request.choices * request.output_cap
        error.marks.append(RequestSize(input=request.bound.tokens, max_output=output or None).mark())
        raise
    if unaffordable := call.limits.unaffordable:
        affordable = tuple(other for other in entry.fallbacks if other.name not in unaffordable)
        entry = msgspec.structs.replace(entry, fallbacks=affordable)
    gates = scopes.stream_gates if context.request.stream else scopes.gates
    full = limiter.concurrency.full(gates, call.limits.gates) if gates else None
    return Admission(entry, scopes.rated_scopes, hold_plan, gates, full)


def _no_price(model: str) -> BadRequest:
    msg = (
        f"model '{plain(model)}' has no price and this gateway refuses unpriced models; "
        f"'tollkeeper price set {word(model)} --input DOLLARS --output DOLLARS' (per million tokens)"
    )
    return BadRequest(msg, code="model_price_missing", param="model")


def affordable_hold(call: Call, needs: Sequence[ModelNeed], books: MoneyBooks) -> HoldPlan:
    """Returns the hold for a call. Notes the fallbacks that are too expensive for what is left, with their errors.

    ``call.need`` is then the need without them. Raises QuotaExceeded if too little is left for the requested model, or,
    if it has no channels of its own, for every fallback.
    """
    call.limits.unaffordable = {}
    try:
        return _hold_for(call, needs[0], call.need, books)
    except QuotaExceeded:
        if len(needs) == 1:
            raise
    hold: HoldPlan | None = None
    affordable: list[ModelNeed] = []
    unaffordable: dict[str, QuotaExceeded] = {}
    for model in needs:
        need = call_need([*affordable, model], call.context.group.multiplier)
        try:
            hold = _hold_for(call, model, need, books)
        except QuotaExceeded as error:
            unaffordable[model.model] = error.with_traceback(None)  # its frames refer to the call
            if model.model == call.context.request.model:
                break
        else:
            call.need = need
            affordable.append(model)
    if hold is None:
        call.need = call_need(needs[:1], call.context.group.multiplier)
        raise unaffordable[needs[0].model]
    call.limits.unaffordable = unaffordable
    return hold


def _hold_for(call: Call, model: ModelNeed, need: CallNeed, books: MoneyBooks) -> HoldPlan:
    """Returns the hold for the most that a call may need. Raises QuotaExceeded, which names the limit to send."""
    context = call.context
    try:
        return plan_hold(books, context.group, context.token, need, model.prices, now=context.origin.ts)
    except QuotaExceeded as error:
        limit = error.affordable_output
        if limit and context.request.choices == 1 and _can_limit(call, model.effects, limit):
            error.message += f"; or send it with an output limit of at most {count_text(limit, 'token')}"
        raise


def _can_limit(call: Call, effects: ChannelEffects, limit: int) -> bool:
    """Returns whether an output limit that the client sets would bound the hold."""
    request, caps = call.context.request, call.context.origin.api.caps
    sent = [name for name in caps if name in request.fields] or caps[-1:]
    fields = {**request.fields, **dict.fromkeys(sent, rawjson.raw(limit))}
    return bool(sent) and effects.output_need(msgspec.structs.replace(request, fields=fields)).expected <= limit


def needs_by_model(call: Call, entry: ModelEntry, recall: Recall = lambda _: 0) -> tuple[ModelNeed, ...]:
    """Returns the most that a call may use at each model that may answer it. The requested one comes first."""
    if not entry.fallbacks:
        return (_need_at(call, entry, recall),)
    return tuple(_need_at(call, model, recall) for model in (entry, *entry.fallbacks) if model.effects.offers)


def _need_at(call: Call, model: ModelEntry, recall: Recall) -> ModelNeed:
    context, effects = call.context, model.effects
    prices = context.catalog.prices_at(effects.prices, context.origin.ts)

    def prices_of(name: str) -> list[Price]:
        """Returns the prices of another model at these channels, and the requested model's if one lacks it."""
        registry, ts = context.catalog.registry, context.origin.ts
        others = [upstream_model_price(channel, name, registry, ts) for channel, _ in effects.offers]
        return [*filter(None, others), *(prices if None in others else ())]

    hold_output = context.token.hold_output
    return need_of(
        context.request, effects, prices, recall, model=model.name, hold_output=hold_output, prices_of=prices_of
    )


def entry_for(call: Call) -> ModelEntry:
    """Returns the model as the call's API reaches it. Raises NotFound, and BadRequest if no channel can answer."""
    context, api = call.context, call.context.origin.api
    entry = visible_entry(context.request.model, context.token, context.catalog)
    if context.token.models and not {"models", "fallbacks", "tools"}.isdisjoint(context.request.fields):
        _check_other_models(context.token, context.request, context.catalog.visible(context.token))
    if not api.selects(context.request):
        return entry
    obstacles = {route.channel.name: api.obstacle(context.request, route.channel) for route in entry.routes}
    routes = [route for route in entry.routes if not obstacles[route.channel.name]]
    fallbacks = [_for_api(call, other) for other in entry.fallbacks] if api.falls_back else []
    fallbacks = [other for other in fallbacks if other.routes]
    if routes or fallbacks:
        return context.catalog.narrow(entry, api.name, routes, fallbacks)
    reasons = "; ".join(f"channel '{plain(name)}' {reason}" for name, reason in obstacles.items())
    reasons = reasons or "it is a name for fallbacks, and none may answer"
    msg = f"model '{plain(entry.name)}' cannot answer {api.name}: {reasons}"
    raise BadRequest(msg, code=api.obstacle_code, param=api.obstacle_param)


def _check_other_models(token: Token, request: InboundRequest, visible: Mapping[str, ModelEntry]) -> None:
    """Raises NotFound if the upstream may use a model for the request that the token may not. It bills what it used."""
    others = [name for name in other_models(request.fields) if not matches(name, token.models)]
    if not others:
        return
    upstream_names = {route.served.upstream_name for entry in visible.values() for route in entry.routes}
    for name in others:
        if name not in upstream_names:
            raise _model_not_found(name, token, visible)


def _for_api(call: Call, entry: ModelEntry) -> ModelEntry:
    api, request = call.context.origin.api, call.context.request
    routes = [route for route in entry.routes if not api.obstacle(request, route.channel)]
    return call.context.catalog.narrow(entry, api.name, routes)


def visible_name(model: str, api: InboundApi, token: Token, catalog: Catalog) -> str:
    """Returns the model's name in this gateway's spelling, for APIs whose programs have other spellings."""
    if not (others := api.other_names(model)):
        return model
    visible = catalog.visible(token)
    return next((name for name in (model, *others) if name in visible), model)


def visible_entry(model: str, token: Token, catalog: Catalog) -> ModelEntry:
    """Returns the model if the token sees it. Else raises NotFound, the same for hidden and unknown names."""
    visible = catalog.visible(token)
    try:
        return visible[model]
    except KeyError:
        raise _model_not_found(model, token, visible) from None


def _model_not_found(model: str, token: Token, visible: Collection[str]) -> NotFound:
    names = [plain(name, 60) for name in list(visible)[:NAMED_MODELS]]
    more = f" … ({len(visible)} in all)" if len(visible) > NAMED_MODELS else ""
    listed = f"visible: {', '.join(names)}{more}" if names else "no model is visible to it"
    argument = word(model) if len(model) <= 80 else "MODEL"
    near = near_names(model, tuple(visible), 1) if len(model) <= 80 else ()
    suggestion = f"did you mean '{plain(near[0], 80)}'? " if near else ""
    msg = (
        f"model '{plain(model, 80)}' is not visible to token '{plain(token.name)}' (group '{plain(token.group)}'); "
        f"{suggestion}{listed}; 'tollkeeper why {word(token.name)} {argument}' shows the rule"
    )
    return NotFound(msg, code="model_not_found", param="model")


def today_of(books: MoneyBooks, wall: Callable[[], Millis]) -> Today:
    """Returns a function for what a scope used today. Running calls count with what they hold."""
    began, ends = Millis(0), Millis(0)

    def today(scope: Scope) -> tuple[int, int, float]:
        nonlocal began, ends
        now = wall()
        if not began <= now < ends:  # computing the limits of a day is slow
            began, ends = window_start(Window.DAY, now), window_end(Window.DAY, now) or now
        spent, held = books.spent(scope, began, ends), books.held(scope, began)
        return spent.calls + held.calls, spent.tokens + held.tokens, ceil((ends - now) / 1000)

    return today
