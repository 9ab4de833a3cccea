"""Dry run: how far a call would get, without making it. Pure; it changes nothing.

It calls the same functions as a real call: the token as it is now, admission, and the choice of the first
channel. But no hold is written, and no upstream is called.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import msgspec

from gateway.core.admission import Admission, admit, affordable_hold, entry_for, needs_by_model
from gateway.core.auth import current_token, require_usable
from gateway.core.call import Call, CallContext, CallOrigin, Client
from gateway.core.catalog import Catalog
from gateway.core.chooser import Chooser
from gateway.core.model_entry import ModelEntry
from gateway.core.quota import CallNeed, MoneyBooks, call_need
from gateway.core.routing import RouteChoice
from gateway.domain.errors import GatewayError, QuotaExceeded, RateLimited
from gateway.domain.media_size import NO_MEDIA
from gateway.domain.prompt_size import InputBound
from gateway.domain.token import Token
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.chat.api import CHAT


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that might be made."""

    token: Token
    model: str
    prompt_tokens: int
    max_tokens: int | None
    """The request's output limit; None if it sets none."""
    stream: bool = False
    api: InboundApi = CHAT


class DryRun(msgspec.Struct):
    """How far the call would get."""

    call: Call | None = None
    """The call; None if its token is gone."""
    error: GatewayError | None = None
    """The error that would refuse it; None if a channel would be called."""
    admission: Admission | None = None
    """What would be committed; None if the call would not be admitted."""
    choice: RouteChoice | None = None
    """The choice of a channel; None if none would be called. Without a route, the call would wait for one."""
    need: CallNeed | None = None
    """The most that the call may use; None if it would be refused before that is known."""
    quota_error: QuotaExceeded | None = None
    """The error of too little money, if the call would be refused for another reason before that."""
    unaffordable: Mapping[str, QuotaExceeded] = {}
    """The fallbacks left out because what is left does not pay for them."""


def dry_run(
    planned: PlannedCall,
    catalog: Catalog,
    books: MoneyBooks,
    chooser: Chooser,
    now: Millis,
    *,
    check_open: Callable[[], None],
    usable: Callable[[ModelEntry], ModelEntry],
) -> DryRun:
    """Returns how far a call would get, up to the moment before its hold is written.

    ``check_open`` raises the error of calls while none are accepted. ``usable`` returns a model without the channels
    that cannot be called.
    """
    run = DryRun()
    limiter = chooser.channel_limits.limiter
    try:
        run.call = call = _call(planned, catalog, now)
        require_usable(call.context.token, now)
        check_open()
        run.admission = admission = admit(call, limiter, books)
        run.need = call.need
        run.unaffordable = call.limits.unaffordable
        if admission.full is not None:
            limiter.concurrency.gates_with_room((admission.full,))
        run.choice = _first_choice(call, usable(admission.entry), chooser)
    except GatewayError as error:
        run.error = error
        if run.admission is None and run.call is not None:
            _add_need(run, run.call, books)
    return run


def _add_need(run: DryRun, call: Call, books: MoneyBooks) -> None:
    """Add the need of a call that is not admitted, if it is known, and whether too little is left for it."""
    with suppress(GatewayError):
        needs = needs_by_model(call, entry_for(call))
        call.need = call_need(needs, call.context.group.multiplier)
        try:
            affordable_hold(call, needs, books)
            run.unaffordable = call.limits.unaffordable
        except QuotaExceeded as error:
            run.quota_error = None if isinstance(run.error, QuotaExceeded) else error
        run.need = call.need


def _first_choice(call: Call, entry: ModelEntry, chooser: Chooser) -> RouteChoice:
    """Returns the choice of the first channel; without a route if the call may wait for one."""
    choice = chooser.first(call, entry)
    if choice.route is None:
        try:
            chooser.channel_limits.limiter.concurrency.gates_with_room(choice.gates)
        except RateLimited:
            return chooser.first(call, entry, waited=True)
    return choice


def _call(planned: PlannedCall, catalog: Catalog, now: Millis) -> Call:
    """Returns the call as the pipeline would make it from a request. Raises GatewayError."""
    received = HttpRequest(body=msgspec.json.encode(_body(planned)), target="", headers={})
    request = msgspec.structs.replace(planned.api.parse(received), bound=InputBound(planned.prompt_tokens, NO_MEDIA))
    token = current_token(planned.token, catalog, now)
    origin = CallOrigin(id=CallId("req_why"), api=planned.api, key="", app="", retry=0, ts=now, began=0.0)
    client = cast("Client", SimpleNamespace(gone=True, begun=False, may_wait=False, on_gone=None))  # nobody waits
    return Call(CallContext(origin, request, client, catalog, token, catalog.registry.groups[token.group]))


def _body(planned: PlannedCall) -> dict[str, object]:
    """Returns a minimal request in the words of the call's API."""
    limit = planned.max_tokens
    messages: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}]}
    fields: dict[str, dict[str, object]] = {
        "completions": {"prompt": "Hi", "max_tokens": limit},
        "embeddings": {"input": "Hi"},
        "messages": messages | {"max_tokens": limit or 4096},  # required
        "ollama": messages | {"options": {"num_predict": limit}},
        "responses": {"input": "Hi", "max_output_tokens": limit},
    }
    others = fields.get(planned.api.name, messages | {"max_tokens": limit})
    return {"model": planned.model, "stream": planned.stream} | others
