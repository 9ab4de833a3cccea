"""What a call would get, found out without making it. Pure; it changes nothing.

It takes the path of a real call through the same functions: the token as it is now, admission, the first choice of a
channel. Only the hold is not written and no upstream is called.
"""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Protocol, cast

import msgspec

from gateway.core.admission import Admission, admit, affordable_hold, entry_for, group_of, needs_by_model
from gateway.core.auth import current_token, usable
from gateway.core.call import Call, CallContext, CallOrigin, Client
from gateway.core.catalog import Catalog, ModelEntry
from gateway.core.quota import CallNeed, MoneyBooks, most_of
from gateway.core.ratelimit import Limiter
from gateway.core.routing import RouteChoice
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError, QuotaExceeded, RateLimited
from gateway.domain.token import Token
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.chat.api import CHAT


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call that is planned."""

    token: Token
    model: str
    prompt_tokens: int
    max_tokens: int | None
    """The request's output limit; None: it sets none."""
    stream: bool = False
    api: InboundApi = CHAT


class RouteLookup(Protocol):
    """Returns the first channel of an admitted call, or where it may wait for one. Raises NoChannel and others."""

    def __call__(self, call: Call, entry: ModelEntry, *, waited: bool = False) -> RouteChoice: ...


class DryRunState(msgspec.Struct, frozen=True, kw_only=True):
    """What a real call goes through."""

    catalog: Catalog
    limiter: Limiter
    books: MoneyBooks
    look: RouteLookup
    closed: GatewayError | None
    """The error while no calls are accepted."""
    pressed: Callable[[], None]
    """Raises Unavailable while memory lacks for one more call."""


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """How far the call would get."""

    error: GatewayError | None
    """The error it would be refused with; None: a channel would be called."""
    admission: Admission | None
    """What admission decided; None: the call would not be admitted."""
    choice: RouteChoice | None
    """The choice of a channel; None: no channel would be called. Without a route the call would wait for one."""
    need: CallNeed | None = None
    """The most that the call may use; None if it does not get so far."""
    quota_error: QuotaExceeded | None = None
    """The error that too little is left, if another error hides it."""
    unaffordable: Mapping[str, QuotaExceeded] = {}
    """The fallbacks left out because what is left does not pay for them."""


def dry_run(wanted: PlannedCall, state: DryRunState, now: Millis) -> DryRun:
    """Follow the path of a call up to the point at which its hold would be written."""
    admission: Admission | None = None
    call: Call | None = None
    try:
        usable(current_token(wanted.token, state.catalog, now), now)
        state.pressed()
        if state.closed is not None:
            raise state.closed
        call = _call(wanted, state.catalog, now)
        admission = admit(call, state.limiter, state.books)
        if admission.full is not None:
            state.limiter.lines.open_ones((admission.full,))
        choice = _first(call, admission, state)
    except GatewayError as error:
        if call is not None and admission is not None:
            left_out = admission.unaffordable
            return DryRun(error=error, admission=admission, choice=None, need=call.need, unaffordable=left_out)
        return _refusal(error, wanted, state, now)
    left_out = admission.unaffordable
    return DryRun(error=None, admission=admission, choice=choice, need=call.need, unaffordable=left_out)


def _refusal(error: GatewayError, wanted: PlannedCall, state: DryRunState, now: Millis) -> DryRun:
    """Returns what is known of a call that is not admitted, and whether too little money is left for it."""
    refused = DryRun(error=error, admission=None, choice=None)
    try:
        call = _call(wanted, state.catalog, now)
        needs = needs_by_model(call, entry_for(call))
    except GatewayError:
        return refused
    call.need = most_of(needs, call.context.group.multiplier)
    try:
        _, left_out = affordable_hold(call, needs, state.books)
    except QuotaExceeded as quota_error:
        return msgspec.structs.replace(
            refused, need=call.need, quota_error=None if isinstance(error, QuotaExceeded) else quota_error
        )
    return msgspec.structs.replace(refused, need=call.need, unaffordable=left_out)


def _first(call: Call, admission: Admission, state: DryRunState) -> RouteChoice:
    """Returns the first channel, or None if the call may wait for it."""
    choice = state.look(call, admission.entry)
    if choice.route is None:
        try:
            state.limiter.lines.open_ones(choice.gates)
        except RateLimited:
            return state.look(call, admission.entry, waited=True)
    return choice


def native_channels(
    wanted: PlannedCall, catalog: Catalog, now: Millis, is_native: Callable[[Call, Channel], bool]
) -> frozenset[str]:
    """Returns the names of the channels that speak the call's API natively, as far as is known."""
    try:
        call = _call(wanted, catalog, now)
    except GatewayError:
        return frozenset()
    return frozenset(channel.name for channel in catalog.registry.channels.values() if is_native(call, channel))


def _call(wanted: PlannedCall, catalog: Catalog, now: Millis) -> Call:
    """Returns the call as the pipeline would make it from a request. Raises GatewayError."""
    received = HttpRequest(body=msgspec.json.encode(_body(wanted)), target="", headers={})
    request = msgspec.structs.replace(wanted.api.parse(received), input_bound=wanted.prompt_tokens)
    token = current_token(wanted.token, catalog, now)
    origin = CallOrigin(id=CallId("req_why"), api=wanted.api, key="", app="", retry=0, ts=now, began=0.0)
    client = cast("Client", SimpleNamespace(gone=True, begun=False, may_wait=False, on_gone=None))  # nobody waits
    return Call(CallContext(origin, request, client, catalog, token, group_of(token, catalog)))


def _body(wanted: PlannedCall) -> dict[str, object]:
    """Returns a minimal request with the fields of every API: each reads its own and ignores the others."""
    body: dict[str, object] = {"model": wanted.model, "messages": [{"role": "user", "content": "Hi"}]}
    if wanted.api.name == CHAT.name:
        return {**body, "max_tokens": wanted.max_tokens, "stream": wanted.stream}
    # some APIs require a limit
    body |= {"input": "Hi", "prompt": "Hi", "max_tokens": wanted.max_tokens or 4096, "stream": wanted.stream}
    return body if wanted.max_tokens is None else {**body, "max_output_tokens": wanted.max_tokens}
