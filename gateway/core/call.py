"""Call: what the gateway knows of one running call. The pipeline writes it, the settlement reads it.

``CallContext`` is what it begins with, ``AttemptState`` the attempt that runs, ``CallLimits`` its rates and places,
``Delivery`` what the client has, ``CallResult`` what its record is made of. Nothing is stored on the web framework's
request.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

import msgspec

from gateway.core.catalog import Catalog, Route
from gateway.core.memory import AnswerShare
from gateway.core.quota import Need
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.core.ratelimit import Ticket
from gateway.domain.call import Attempt, Outcome, Running
from gateway.domain.errors import GatewayError
from gateway.domain.group import Group
from gateway.domain.long_strings import Buffer
from gateway.domain.price import Price
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.usage import NOTHING, Usage
from gateway.inbound.api import InboundApi, InboundRequest
from gateway.upstream.adapter import AnswerStream


class Client(Protocol):
    """The client that waits for the answer; all that the pipeline sees of the web framework."""

    gone: bool
    """The connection is lost."""
    begun: bool
    """The response head is on its way: the status can no longer change."""
    on_gone: Callable[[], None] | None
    """Called when the connection is lost."""

    @property
    def patient(self) -> bool:
        """Whether a whole answer may go out in the loop's next turn, with those of others: a lonely one should not."""

    async def begin(self, headers: dict[str, str]) -> None:
        """Send the head of a streamed answer, once. Raises ConnectionError if the client is gone."""

    def answer(self, headers: dict[str, str], parts: tuple[Buffer, ...], *, soon: bool = False) -> None:
        """Send the whole answer to a plain call, or in the loop's next turn; a client that is gone gets none."""

    def withhold(self, error: GatewayError) -> None:
        """Send an error instead of the whole answer that was to go out in the loop's next turn."""

    async def delivered(self) -> None:
        """Wait until a large answer is on its way to the last byte, or the client is gone."""

    async def write(self, data: Buffer) -> None:
        """Send bytes; returns when there is room for more. Raises ConnectionError if the client is gone."""

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        """End a begun stream with an error event, and without ``[DONE]``. ``before`` goes out before the event.

        ``stream`` is the answer, if something of it came.
        """

    def cut(self) -> None:
        """Break the connection off."""


class Visit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who calls, by which API, and when."""

    id: CallId
    api: InboundApi
    trusted: str = ""
    """Name of the token that is used where no key is sent; empty: one is required."""
    path: str = ""
    """The request's, as the table of endpoints spells it."""
    request: str = ""
    """Method and path, for the record of a request that reaches no API."""
    key: str
    app: str
    retry: int
    """The SDK's own retry count."""
    ts: Millis
    """Wall clock."""
    began: float
    """Monotonic seconds."""


class CallContext(msgspec.Struct, frozen=True):
    """What a call begins with. Nothing of it changes."""

    visit: Visit
    request: InboundRequest
    client: Client
    catalog: Catalog
    """The configuration as it was when the call came; an edit does not change running calls."""
    token: Token
    group: Group


class AttemptState(msgspec.Struct):
    """The attempt that runs, or ran last."""

    number: int = 0
    """From 1."""
    price: Price | None = None
    """Of the model that is requested, which is another one after a fallback."""
    route: Route | None = None
    route_reason: str = ""
    """Why this route: for the answer's headers."""
    stream: AnswerStream | None = None
    """The answer, if it is streamed."""
    reply_headers: Mapping[str, str] = {}
    """Headers of the upstream's answer that may be passed on; see ``Screen.headers``."""
    channel_ticket: Ticket | None = None
    """What it has taken of its channel's rates."""
    dropped: tuple[str, ...] = ()
    """Parameters that were left out of the request."""
    native: bool = False
    """The channel speaks the client's API: request and answer pass as they are, except for the model's name. False for
    chat completions, see ``Record.native``."""
    lowered: int | None = None
    """The model's own output limit, if the client's was higher and was lowered."""
    parts: int = 0
    """Parts of a request in several that have been answered, until the last is."""


class CallLimits(msgspec.Struct):
    """The rates and places of a call."""

    scopes: tuple[RateScope, ...] = ()
    """Whose rates the answer's headers tell."""
    headers: dict[str, str] = {}
    """``x-ratelimit-*`` of these."""
    read_headers: Callable[[], dict[str, str]] | None = None
    """Reads them, once for each attempt."""
    gates: tuple[ConcurrencyGate, ...] = ()
    """Where the call already has a place, because it had to wait."""
    channel_slot: ConcurrencyGate | None = None
    """The same at a channel, until its attempt begins."""
    budget_warning: str = ""
    """Of which budgets most is spent."""

    def read(self) -> None:
        """Read how the limits stand, unless that is done."""
        read, self.read_headers = self.read_headers, None
        if read is not None:
            self.headers = read()


class Delivery(msgspec.Struct):
    """What has been sent to the client, and when. Times are monotonic seconds."""

    last_write: float
    writing_since: float | None = None
    """Set while a write waits for the client."""
    deadline: float | None = None
    first_byte: float | None = None
    content_sent: bool = False
    facts_due: bool = False
    """The head went out before the facts of the answer were known."""
    reported_at: float = 0.0
    """When watchers last got a report of the call's progress."""


class CallResult(msgspec.Struct):
    """How a call ended, as far as that is known: what its record is made of."""

    attempts: list[Attempt] = []
    usage: Usage = NOTHING
    outcome: Outcome = Outcome.DONE
    ended_by: Outcome | None = None
    """Set by whoever ends the call from outside, before its task is cancelled."""
    error: GatewayError | None = None
    finish: str = ""
    upstream_id: str = ""
    marks: tuple[str, ...] = ()
    overhead_us: int = 0
    """The time until the request was ready for the first upstream."""
    after_break: bool = False
    """The same call had a stream that broke a moment ago; see ``BrokenStreams``."""
    settled: bool = False


class Call:
    """One running call."""

    __slots__ = (
        "attempt",
        "context",
        "conversation",
        "delivery",
        "demand",
        "held",
        "held_tokens",
        "limits",
        "need",
        "result",
        "running",
        "share",
        "task",
    )

    demand: Need | None
    """What it may use at most, if that was found out early: for a large request, because it takes a while."""
    need: Need
    """What it may use at most. Set when it is checked for admission."""
    running: Running
    """What the books and the watchers know of it. Set when it has a route."""
    share: AnswerShare
    """The memory that its answer takes. Set while it runs."""

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self.attempt = AttemptState()
        self.limits = CallLimits()
        self.delivery = Delivery(context.visit.began)
        self.result = CallResult()
        self.demand = None
        self.held = Nanos(0)
        self.held_tokens = 0
        self.conversation = b""
        """A short name of its conversation, if that should stay where it was."""
        self.task: asyncio.Task[object] | None = None
        context.client.on_gone = self._client_gone

    def _client_gone(self) -> None:
        """A stream ends with its client. A plain call is finished and booked, unless its channel says otherwise."""
        route = self.attempt.route
        if self.context.request.stream or (route is not None and not route.channel.finish_abandoned):
            self.end(Outcome.CLIENT_CLOSED)

    def begin_attempt(self, route: Route, reason: str, number: int) -> None:
        """The next attempt goes to this channel."""
        context, attempt = self.context, self.attempt
        attempt.route, attempt.route_reason, attempt.number = route, reason, number
        attempt.stream, attempt.reply_headers, attempt.parts, attempt.native = None, {}, 0, False
        self.running = Running(
            id=context.visit.id,
            ts=context.visit.ts,
            token=context.token.id,
            token_name=context.token.name,
            group=context.group.name,
            model=context.request.model,
            app=context.visit.app,
            api=context.visit.api.name,
            stream=context.request.stream,
            held=self.held,
            held_tokens=self.held_tokens,
            channel=route.channel.id,
            channel_name=route.channel.name,
            upstream_model=route.served.upstream or route.served.name,
            attempt=number,
        )

    def described(self) -> Running:
        """What is known of it before it has a channel."""
        context = self.context
        return Running(
            id=context.visit.id,
            ts=context.visit.ts,
            token=context.token.id,
            token_name=context.token.name,
            group=context.group.name,
            model=context.request.model,
            app=context.visit.app,
            api=context.visit.api.name,
            stream=context.request.stream,
        )

    def note_native(self, *, native: bool) -> None:
        """The attempt that runs passes request and answer on as they are, or it does not any more."""
        self.attempt.native = native
        self.running = msgspec.structs.replace(self.running, native=native)

    def headers(self) -> dict[str, str]:
        """The answer's headers, as far as they are known now (``features.md`` 2.10, ``wire.md`` X8)."""
        attempt, limits = self.attempt, self.limits
        if limits.read_headers is not None:
            limits.read()
        out = dict(zip(attempt.reply_headers, map(_header, attempt.reply_headers.values()), strict=True))
        out.update(limits.headers)
        if attempt.route is not None:
            out["x-gateway-channel"] = _header(attempt.route.channel.name)
            out["x-gateway-model"] = _header(attempt.route.served.upstream or attempt.route.served.name)
            out["x-gateway-route"] = _header(attempt.route_reason)
            if attempt.price is None:
                out["x-gateway-price"] = "unpriced"
        out["x-gateway-attempts"] = str(max(1, attempt.number))
        out["x-gateway-overhead-ms"] = f"{self.result.overhead_us / 1000:.2f}"
        if limits.budget_warning:
            out["x-gateway-budget-warning"] = _header(limits.budget_warning)
        if attempt.dropped:
            out["x-gateway-dropped-params"] = _header(",".join(attempt.dropped))
        if attempt.lowered is not None:
            out["x-gateway-output-limit"] = str(attempt.lowered)
        return out

    async def begin_early(self) -> None:
        """Send the head of a stream whose first event is late, without facts that may still change.

        Raises ConnectionError if the client is gone.
        """
        self.delivery.facts_due = True
        await self.context.client.begin({})

    def late_facts(self) -> bytes:
        """What an early head left out, as a comment that clients ignore; empty if the head had it."""
        if not self.delivery.facts_due:
            return b""
        self.delivery.facts_due = False
        return self.context.visit.api.comment(self.headers())

    async def send(self, data: Buffer, now: float) -> None:
        """Send bytes to the client, after the head. ``LiveCalls`` ends the call if the client does not read them.

        Raises ConnectionError if the client is gone.
        """
        client, delivery = self.context.client, self.delivery
        delivery.writing_since = delivery.last_write = now
        if not client.begun:
            await client.begin(self.headers())
        await client.write(data)
        delivery.writing_since = None

    def end(self, outcome: Outcome) -> None:
        """End the call from outside: its task is cancelled and finds the reason in its result."""
        result = self.result
        if result.ended_by is None and not result.settled and self.task is not None:
            result.ended_by = outcome
            self.task.cancel()


@lru_cache(maxsize=1024)
def _header(value: str) -> str:
    """A header value any client can read: printable ASCII."""
    return plain(value).encode("ascii", "replace").decode()
