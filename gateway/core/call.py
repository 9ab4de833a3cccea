"""Call: what the gateway knows of one running call. The pipeline writes it, the settlement reads it.

It is the only request context there is: nothing is stored on the web framework's request, there is no bag of keys.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

import msgspec

from gateway.core.allowance import Need
from gateway.core.catalog import Catalog, Route
from gateway.core.memory import AnswerShare
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
    """Who waits for the answer. The pipeline sees no more of the web framework than this."""

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
        """Send an error in place of the whole answer that was to go out in the loop's next turn."""

    async def delivered(self) -> None:
        """Wait until a large answer is on its way to the last byte, or the client is gone."""

    async def write(self, data: Buffer) -> None:
        """Send bytes; returns when there is room for more. Raises ConnectionError if the client is gone."""

    async def fail(self, error: GatewayError, before: bytes = b"") -> None:
        """End a begun stream with an error event, and without ``[DONE]``. ``before`` goes out before the event."""

    def cut(self) -> None:
        """Break the connection off."""


class Visit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who asks, by which API, and when."""

    id: CallId
    api: InboundApi
    key: str
    app: str
    retry: int
    """The SDK's own retry count."""
    ts: Millis
    """Wall clock."""
    began: float
    """Monotonic seconds."""


class Call:
    """One call on its way. Times are monotonic seconds."""

    __slots__ = (
        "answer",
        "asked",
        "attempt",
        "attempts",
        "binding",
        "catalog",
        "client",
        "content_sent",
        "deadline",
        "demand",
        "dropped",
        "error",
        "facts_due",
        "finish",
        "first_byte",
        "gates",
        "group",
        "held",
        "held_tokens",
        "last_write",
        "limit_headers",
        "lowered",
        "marks",
        "need",
        "outcome",
        "overhead_us",
        "pin",
        "place",
        "price",
        "read_limits",
        "reply_headers",
        "room",
        "route",
        "running",
        "settled",
        "share",
        "task",
        "token",
        "told",
        "upstream_id",
        "usage",
        "visit",
        "way",
        "why",
        "writing_since",
    )

    demand: Need | None
    """What it may use at most, if that was found out already: of a large request, for it takes a while."""
    lowered: int | None
    """The output limit that the upstream was sent, if it is lower than the request's or the usual one."""
    need: Need
    """What it may use at most, since it was checked for admission."""
    running: Running
    """What the books and the watchers know of it, since it has a route."""
    share: AnswerShare
    """What its answer takes of the memory of all, while it runs."""

    def __init__(
        self, visit: Visit, asked: InboundRequest, client: Client, catalog: Catalog, token: Token, group: Group
    ) -> None:
        self.visit = visit
        self.asked = asked
        self.client = client
        self.catalog = catalog
        self.token = token
        self.group = group
        self.price: Price | None = None
        self.held = Nanos(0)
        self.held_tokens = self.overhead_us = self.attempt = 0
        self.task: asyncio.Task[object] | None = None
        self.route: Route | None = None
        self.way = ""
        """Why this route: for the answer's headers."""
        self.answer: AnswerStream | None = None
        """The stream of the attempt that runs."""
        self.reply_headers: Mapping[str, str] = {}
        """What of the headers of the upstream's answer may go on; see ``Screen.headers``."""
        self.limit_headers: dict[str, str] = {}
        """``x-ratelimit-*`` of this gateway's own limits."""
        self.read_limits: Callable[[], dict[str, str]] | None = None
        """Gives them, once for each attempt."""
        self.binding: tuple[RateScope, ...] = ()
        """Whose rates those are."""
        self.gates: tuple[ConcurrencyGate, ...] = ()
        """Where the call has its place already, for it had to wait."""
        self.place: ConcurrencyGate | None = None
        """The same at a channel, until its attempt begins."""
        self.room: Ticket | None = None
        """What the latest attempt has taken of its channel's rates."""
        self.attempts: list[Attempt] = []
        self.usage: Usage = NOTHING
        self.outcome = Outcome.DONE
        self.error: GatewayError | None = None
        self.why: Outcome | None = None
        """Set by whoever ends the call from outside, before its task is cancelled."""
        self.finish = self.upstream_id = ""
        self.dropped: tuple[str, ...] = ()
        self.lowered = self.demand = None
        self.marks: tuple[str, ...] = ()
        self.pin = b""
        """Its conversation, if that should stay where it was."""
        self.first_byte: float | None = None
        self.content_sent = self.settled = self.facts_due = False
        self.last_write = visit.began
        self.writing_since: float | None = None
        self.deadline: float | None = None
        self.told = 0.0
        """When watchers were last told of its progress."""
        client.on_gone = self._client_gone

    def _client_gone(self) -> None:
        """A stream ends with its client. A plain call is finished and booked, unless its channel says otherwise."""
        if self.asked.stream or (self.route is not None and not self.route.channel.finish_abandoned):
            self.end(Outcome.CLIENT_CLOSED)

    def take_route(self, route: Route, way: str, attempt: int) -> None:
        """The channel that is asked next."""
        self.route, self.way, self.attempt, self.answer, self.reply_headers = route, way, attempt, None, {}
        self.running = Running(
            id=self.visit.id,
            ts=self.visit.ts,
            token=self.token.id,
            token_name=self.token.name,
            group=self.group.name,
            model=self.asked.model,
            app=self.visit.app,
            stream=self.asked.stream,
            held=self.held,
            held_tokens=self.held_tokens,
            channel=route.channel.id,
            channel_name=route.channel.name,
            upstream_model=route.served.upstream_name,
            attempt=attempt,
        )

    def look_at_limits(self) -> None:
        """Read how this gateway's own limits stand, if that is not done."""
        read, self.read_limits = self.read_limits, None
        if read is not None:
            self.limit_headers = read()

    def headers(self) -> dict[str, str]:
        """The answer's headers, as far as they are known now (``features.md`` 2.10, ``wire.md`` X8)."""
        self.look_at_limits()
        out = {name: _header(value) for name, value in self.reply_headers.items()}
        out.update(self.limit_headers)
        if self.route is not None:
            out["x-gateway-channel"] = _header(self.route.channel.name)
            out["x-gateway-model"] = _header(self.route.served.upstream_name)
            out["x-gateway-route"] = _header(self.way)
        out["x-gateway-attempts"] = str(max(1, self.attempt))
        out["x-gateway-overhead-ms"] = f"{self.overhead_us / 1000:.2f}"
        if self.dropped:
            out["x-gateway-dropped-params"] = _header(",".join(self.dropped))
        if self.lowered is not None:
            out["x-gateway-output-limit"] = str(self.lowered)
        return out

    async def begin_early(self) -> None:
        """Send the head of a stream whose first event is late. It holds no fact that may still change.

        Raises ConnectionError if the client is gone.
        """
        self.facts_due = True
        await self.client.begin({})

    def late_facts(self) -> bytes:
        """What an early head left out, as a comment that clients ignore; nothing if the head told it."""
        if not self.facts_due:
            return b""
        self.facts_due = False
        return self.visit.api.comment(self.headers())

    async def send(self, data: Buffer, now: float) -> None:
        """Bytes for the client, the head before them; who looks after the call sees if they do not get through.

        Raises ConnectionError if the client is gone.
        """
        self.writing_since = self.last_write = now
        if not self.client.begun:
            await self.client.begin(self.headers())
        await self.client.write(data)
        self.writing_since = None

    def end(self, why: Outcome) -> None:
        """End the call from outside: its task is cancelled and finds here why."""
        if self.why is None and not self.settled and self.task is not None:
            self.why = why
            self.task.cancel()


@lru_cache(maxsize=1024)
def _header(value: str) -> str:
    """A header value any client can read: printable ASCII."""
    return plain(value).encode("ascii", "replace").decode()
