"""Call: the state of one running call. The pipeline writes it, the settlement reads it.

``CallContext`` is what it begins with. ``AttemptState`` is the current attempt, ``CallLimits`` the rates and slots of
the call, ``Delivery`` what was sent to the client, and ``CallResult`` what the record is made of. Nothing is stored on
the framework's request.

To report one more fact about an answer, add a line to ``Call.answer_headers`` and a row to the table in
``docs/http.md``. A fact that is not known when the headers are sent follows in a comment at the end of the stream.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import msgspec

from gateway.core.answer_memory import AnswerShare
from gateway.core.auth import current_token
from gateway.core.catalog import Catalog
from gateway.core.model_entry import Route
from gateway.core.quota import CallNeed, HoldPlan, ModelNeed
from gateway.core.rate_scopes import GateKey
from gateway.core.ratelimit import CountedCall
from gateway.domain.advice import advice
from gateway.domain.answer import Buffer
from gateway.domain.call import Attempt, Outcome, Record, Running
from gateway.domain.errors import GatewayError, InternalError, QuotaExceeded, Unavailable, UpstreamTimeout
from gateway.domain.group import Group
from gateway.domain.money import number
from gateway.domain.price import Price
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import CallId, ChannelId, Millis
from gateway.domain.usage import COUNTED_HERE, NOTHING, Usage
from gateway.inbound.api import InboundApi, InboundRequest
from gateway.upstream.adapter import AnswerStream


class Client(Protocol):
    """The client that waits for the answer: all that the pipeline sees of the web framework."""

    gone: bool
    begun: bool
    """Whether the response head is set, so that the status can no longer change."""
    on_gone: Callable[[], None] | None

    @property
    def may_wait(self) -> bool:
        """Whether a whole answer may be sent in the loop's next turn, together with others."""

    def begin(self, headers: dict[str, str]) -> None:
        """Set the head of a streamed answer, once. It is sent with the first write, even one of no bytes."""

    def answer(self, headers: dict[str, str], parts: tuple[Buffer, ...], *, soon: bool = False) -> None:
        """Send the whole answer to a plain call, now or in the loop's next turn. A client that is gone gets none."""

    def withhold(self, error: GatewayError) -> None:
        """Send an error instead of the whole answer that would be sent in the loop's next turn."""
        return  # by default nothing: a client of streams gets no whole answer

    async def wait_until_sent(self) -> None:
        """Wait until a large answer is sent to the last byte, or the client is gone."""
        return

    async def write(self, data: Buffer, *, last: bool = False) -> None:
        """Send bytes of a stream, the ``last`` ones too. Returns when more can be sent. Raises ConnectionError."""

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        """End a begun stream with ``before`` and an error event, but no ``[DONE]``. ``stream`` is the begun answer."""


class CallOrigin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who made the call, when, and through what API."""

    id: CallId
    api: InboundApi
    keyless_token: str = ""
    """The name of the token that pays for requests without a key; empty if a key is required."""
    path: str = ""
    """The request's path in the table of endpoints."""
    model: str = ""
    """The model named in the path, as in Azure's API; it overrides the body's."""
    request: str = ""
    """Method and path, for the record of a failed request that is not a call."""
    key: str
    """The client's key; empty if it sent none."""
    app: str
    bundled: bool = False
    """Whether the SDK is part of a bundled program, because a bundler shortened its name in the User-Agent."""
    retry: int
    ts: Millis
    """Wall-clock time."""
    began: float
    """Monotonic seconds."""


class CallContext(msgspec.Struct, frozen=True):
    """What a call begins with. It changes only while the call waits for a slot."""

    origin: CallOrigin
    request: InboundRequest
    client: Client
    catalog: Catalog
    """The configuration when the call was admitted. An edit does not change running calls."""
    token: Token
    group: Group


class AttemptState(msgspec.Struct):
    """The current or last attempt."""

    price: Price | None = None
    """The price of the model that is called: of the fallback, if one is called."""
    route: Route | None = None
    route_reason: str = ""
    """Why this route was taken, for the answer's headers."""
    began: float = 0.0
    """Monotonic seconds."""
    stream: AnswerStream | None = None
    """The answer, if it is streamed."""
    reply_headers: Mapping[str, str] = {}
    """Headers of the upstream's answer that may be passed on; see ``Screen.headers``."""
    counted_calls: Sequence[CountedCall] = ()
    """What the attempt adds to its channel's rates."""
    dropped: str = ""
    """The client's names of the parameters that were left out, with commas between them."""
    lowered_cap: int | None = None
    """The output limit that was sent, if it is not the client's: model or hold allow no more, or the vendor no less."""
    repairs: tuple[str, ...] = ()
    """Marks for what was repaired in the client's request."""
    parts: int = 0
    """How many parts of a request in parts have been answered; 0 once all have."""


class CallLimits(msgspec.Struct):
    """The rates and slots of a call."""

    headers: Callable[[], dict[str, str]] = dict
    """Returns the ``x-ratelimit-*`` headers."""
    gates: tuple[GateKey, ...] = ()
    """The keys of the gates of its token and group where the call has a slot."""
    counted_calls: Sequence[CountedCall] = ()
    """What the call adds to the rates of its token and group."""
    channel_slot: GateKey | None = None
    """The key of the channel's gate where the call has a slot, until its attempt ends."""
    unaffordable: Mapping[str, QuotaExceeded] = {}
    """Fallbacks that may not answer, because what is left does not pay for them, with their errors."""
    marks: tuple[str, ...] = ()
    """Marks for the record: a budget warning, a wait for a slot, a conversation that stayed at its channel."""


class Delivery(msgspec.Struct):
    """What was sent to the client, and when. Times are monotonic seconds."""

    last_write: float
    """When the last write began; before the first one, when the call began."""
    writing: bool = False
    """Whether a write waits for the client."""
    deadline: float | None = None
    """When a plain call ends; None for a stream."""
    first_byte: float | None = None
    """When the upstream's answer began to arrive, or a whole one had arrived."""
    content_sent: bool = False
    facts_due: bool = False
    """Whether the head was sent before the facts of the answer were known, so that they must still be sent."""
    reported_at: float = 0.0
    """When watchers last got a report on the call."""


class CallResult(msgspec.Struct):
    """The result of a call so far. Its record is made from it."""

    attempts: list[Attempt] = []
    billed: list[tuple[ChannelId, Price | None]] = []
    """For each attempt that an upstream may have billed: the channel, and the price of the model that was tried."""
    usage: Usage = NOTHING
    outcome: Outcome = Outcome.DONE
    ended_by: Outcome | None = None
    """The outcome of a call that is ended from outside, set before its task is cancelled."""
    error: GatewayError | None = None
    finish: str = ""
    upstream_id: str = ""
    marks: tuple[str, ...] = ()
    overhead_us: int = 0
    """Microseconds until the request was ready for the first upstream."""
    resends: int = 0
    """How often the request was sent to the same channel again, because the upstream had refused it as it was."""
    after_break: bool = False
    """Whether a stream of the same call broke a moment ago; see ``BrokenStreams``."""
    settled: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """One running call."""

    context: CallContext
    delivery: Delivery = field(init=False)
    attempt: AttemptState = field(default_factory=AttemptState)
    limits: CallLimits = field(default_factory=CallLimits)
    result: CallResult = field(default_factory=CallResult)
    needs: tuple[ModelNeed, ...] = ()
    """The most that it may use at each model, if computed before admission because the request is large."""
    need: CallNeed = field(init=False)
    """The most that it may use, whichever model answers. Set at admission."""
    hold: HoldPlan = field(default_factory=HoldPlan)
    running: Running = field(init=False)
    share: AnswerShare = field(init=False)
    """The memory that its answer uses. Set after admission."""
    conversation: bytes = b""
    """The id of its conversation, if it should stay at its channel."""
    task: asyncio.Task[object] | None = None

    def __post_init__(self) -> None:
        context, origin = self.context, self.context.origin
        token, request = context.token, context.request
        self.delivery = Delivery(origin.began)
        self.running = Running(
            id=origin.id,
            ts=origin.ts,
            token=token.id,
            token_name=token.name,
            group=context.group.id,
            group_name=context.group.changed_name,
            model=request.model,
            app=origin.app,
            api=origin.api.name,
            stream=request.stream,
        )
        context.client.on_gone = self._on_client_gone

    def update(self, catalog: Catalog, now: Millis) -> None:
        """Use the configuration as it is after a wait. Raises InvalidToken if the token is not usable any more."""
        token = current_token(self.context.token, catalog, now)
        if catalog is not self.context.catalog:
            group = catalog.registry.groups[token.group]
            names = {"token_name": token.name, "group": group.id, "group_name": group.changed_name}
            self.context = msgspec.structs.replace(self.context, catalog=catalog, token=token, group=group)
            self.running = msgspec.structs.replace(self.running, **names)
            self.needs = ()

    def _on_client_gone(self) -> None:
        """End the call when its client leaves. A plain one is finished and charged instead if its channel allows it."""
        route = self.attempt.route
        if self.context.request.stream or (route is not None and not route.channel.finish_abandoned):
            self.end(Outcome.CLIENT_CLOSED)

    def begin_attempt(self, route: Route, reason: str) -> None:
        attempt = self.attempt
        if attempt.route is not None:  # forget the answer of the attempt before
            attempt.stream, attempt.reply_headers, attempt.parts = None, {}, 0
        attempt.route, attempt.route_reason = route, reason
        model, price = route.served.name, route.served.price
        if price is not None and price.rules:
            (price,) = self.context.catalog.prices_at((price,), self.context.origin.ts)
        attempt.price = price
        self.running = msgspec.structs.replace(
            self.running,
            held=self.hold.nanos,
            held_tokens=self.hold.tokens,
            channel=route.channel.id,
            channel_name=route.channel.name,
            upstream_model=route.served.upstream or model,
            fallback=model if model != self.running.model else "",
            attempt=self.running.attempt + 1,
            native=False,
            waits_for="",
        )

    def answer_headers(self, record: Record | None = None) -> dict[str, str]:
        """Returns the ``x-gateway-*`` headers of an answer or an error whose values are known now.

        ``record`` is the record of a whole answer: it is written, so its cost is known.
        """
        attempt, limits = self.attempt, self.limits
        headers = {name: _header(value) for name, value in attempt.reply_headers.items()}
        headers |= limits.headers()
        if attempt.route is not None:
            headers["x-gateway-channel"] = _header(attempt.route.channel.name)
            headers["x-gateway-model"] = _header(attempt.route.served.upstream or attempt.route.served.name)
            headers["x-gateway-route"] = _header(attempt.route_reason)
            if attempt.price is None:
                headers["x-gateway-price"] = "unpriced"
        headers["x-gateway-attempts"] = str(max(1, self.running.attempt))
        headers["x-gateway-overhead-ms"] = f"{self.result.overhead_us / 1000:.2f}"
        if self.hold.warning:
            headers["x-gateway-budget-warning"] = _header(self.hold.warning)
        if attempt.dropped:
            headers["x-gateway-dropped-params"] = _header(attempt.dropped)
        if attempt.lowered_cap is not None:
            headers["x-gateway-output-limit"] = str(attempt.lowered_cap)
        if record is None:
            return headers
        headers["x-gateway-cost"] = number(record.cost)
        if record.source in COUNTED_HERE:
            headers["x-gateway-usage"] = record.source.value
        if record.balance is not None:
            headers["x-gateway-balance"] = number(record.balance)
        return headers

    def with_call_headers(self, error: GatewayError) -> GatewayError:
        """Returns the error with the headers that an answer would have."""
        error.call_headers = self.answer_headers()
        return error

    def take_error(self) -> GatewayError:
        """Returns the call's error, and removes it there: otherwise each would keep the other and the answer alive."""
        error, self.result.error = self.result.error, None
        return self.with_call_headers(error or InternalError("the call failed without an error"))

    def late_facts(self) -> bytes:
        """Returns the facts that an early head left out, as a comment that clients ignore; empty if it had them."""
        if not self.delivery.facts_due:
            return b""
        self.delivery.facts_due = False
        return self.context.origin.api.comment(self.answer_headers())

    async def send(self, data: Buffer, now: float, *, last: bool = False) -> None:
        """Send bytes to the client, after the head unless it was sent. ``last``: they end the answer.

        Raises ConnectionError if the client is gone, or stops reading.
        """
        client, delivery = self.context.client, self.delivery
        delivery.writing, delivery.last_write = True, now
        if not client.begun:
            client.begin(self.answer_headers())
        await client.write(data, last=last)
        delivery.writing = False

    def end(self, outcome: Outcome) -> None:
        """End the call from outside, with this outcome: its task is cancelled."""
        result = self.result
        if result.ended_by is None and not result.settled and self.task is not None:
            result.ended_by = outcome
            self.task.cancel()

    def error_of_cancellation(self) -> GatewayError:
        """Returns the client's error if the call's task was cancelled. Raises CancelledError if the client is gone."""
        task, ended_by = asyncio.current_task(), self.result.ended_by
        if ended_by in (None, Outcome.CLIENT_CLOSED) or task is None:
            raise asyncio.CancelledError
        task.uncancel()
        if ended_by is Outcome.TIMEOUT and self.attempt.route is not None:
            limit_s = (self.delivery.deadline or 0) - self.context.origin.began
            channel = self.attempt.route.channel.name
            msg = f"channel '{plain(channel)}': the call took longer than its total limit of {limit_s:.0f} s"
            error = UpstreamTimeout(msg, details={"channel": channel, "timeout": "total"})
            error.add(f"; {advice(error)}")
            return error
        if ended_by is Outcome.CANCELLED:
            return Unavailable("the call was cancelled by the gateway's owner", code="call_cancelled")
        msg = "the gateway was stopped before the call could end"
        return Unavailable(msg, code="gateway_stopping", retry_after_s=5)


@lru_cache(maxsize=1024)
def _header(value: str) -> str:
    """Returns a header value that any client can read: printable ASCII."""
    return plain(value).encode("ascii", "replace").decode()
