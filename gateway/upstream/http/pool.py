"""The connections of one channel. No redirects, no cookies, no proxies but the channel's own.

Why not a client library: aiohttp's client was two thirds of all that a call costs. Little is needed here, and the rules
for reusing a connection are better seen than trusted (see ``connection``).

A slot is taken before a connection is made and given back when the connection is gone. A slot that becomes free while
somebody waits is handed over at once, so that nobody who comes later can take it; a waiter that has left hands it on.
All pools together have no more slots than there are open files for. When these are used up, an idle connection of any
pool is closed for the one that is needed.
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from weakref import WeakSet

from gateway.domain.channel import Channel
from gateway.domain.errors import Unavailable
from gateway.domain.urls import Proxy
from gateway.upstream import failures
from gateway.upstream.adapter import AttemptFailed, Buffer, PreparedRequest
from gateway.upstream.http.connection import READ_SIZE, RequestHeads, Target, UpstreamConnection, target_of
from gateway.upstream.http.dial import Dialer
from gateway.upstream.http.errors import ConnectionBroken, connect_failure, exchange_failure
from gateway.upstream.http.parser import WireAnswer
from gateway.upstream.http.reply import DeadlineTimer, HttpReply

KEEP_ALIVE_S = 30.0
"""A connection that has been idle for longer is not used again."""
LOG_S = 60.0
"""Between two lines in the log that say the same."""

_log = logging.getLogger("tollkeeper")


class TotalSlots:
    """The places of all pools together."""

    def __init__(self, most: Callable[[], int] = lambda: 0) -> None:
        """``most`` says how many there may be; 0: any number."""
        self._most = most
        self._open = 0
        self._closing = 0
        """Of these, those that are about to be gone."""
        self._logged = -LOG_S
        self.pools: WeakSet[ConnectionSlots] = WeakSet()

    def take(self) -> bool:
        """Take one more place; False if that of an idle connection will soon be free.

        Raises Unavailable when all are in use.
        """
        most = self._most()
        if not most or self._open < most:
            self._open += 1
            return True
        if self._open - self._closing >= most:
            if not any(pool.close_one() for pool in self.pools):
                raise self.used_up(
                    f"all {most} upstream connections that the system's limit of open files allows are in use"
                )
            self._closing += 1
        return False

    def give_back(self) -> None:
        """A place is free again."""
        self._open -= 1
        self._closing = max(0, self._closing - 1)

    def used_up(self, why: str) -> Unavailable:
        """The error of a call that needs a connection and can have none. No channel is at fault."""
        if (now := monotonic()) - self._logged >= LOG_S:
            self._logged = now
            _log.warning("no upstream can be reached: %s", why)
        return Unavailable(f"{why}; try again when other calls have ended", retry_after_s=1)


class ConnectionSlots:
    """The places of one pool."""

    def __init__(self, limit: int, total: TotalSlots | None = None) -> None:
        self._free = limit
        self.total = total or TotalSlots()
        self.total.pools.add(self)
        self._open: set[UpstreamConnection] = set()
        self._resting: list[UpstreamConnection] = []
        self._waiting: deque[asyncio.Future[UpstreamConnection | None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self.closed = False

    def take_idle(self) -> UpstreamConnection | None:
        """The connection that became idle last, if it is still alive."""
        oldest = monotonic() - KEEP_ALIVE_S
        while self._resting:
            wire = self._resting.pop()
            if wire.alive and wire.idle_since > oldest:
                return wire
            wire.abort()
        return None

    async def take(self) -> UpstreamConnection | None:
        """Wait for a place, or for a connection that comes free before there is one.

        Raises OSError when closed, Unavailable when all pools together have no place left.
        """
        if self.closed:
            raise _closed_error()
        while self._free:
            if self.total.take():
                self._free -= 1
                return None
            await asyncio.sleep(0)
        turn: asyncio.Future[UpstreamConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            self._leave(turn)
            raise

    def give_back(self) -> None:
        """The place of a connection that did not come about, or is gone."""
        if (turn := self._next()) is not None:
            turn.set_result(None)
        else:
            self._free += 1
            self.total.give_back()

    def settle(self, wire: UpstreamConnection) -> None:
        """A connection was made for a place that had been taken. It may be lost already."""
        if not wire.alive:
            self.give_back()
            return
        self._open.add(wire)
        if self.closed:
            wire.abort()

    def rest(self, wire: UpstreamConnection) -> None:
        """A connection may serve again."""
        wire.idle_since = monotonic()
        if self._waiting and (turn := self._next()) is not None:
            turn.set_result(wire)
            return
        self._resting.append(wire)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._sweep)

    def close_one(self) -> bool:
        """Close the connection that has been idle for longest; False if none is idle."""
        if not self._resting:
            return False
        self._resting.pop(0).abort()
        return True

    def gone(self, wire: UpstreamConnection) -> None:
        """A connection is lost."""
        if wire in self._resting:
            self._resting.remove(wire)
        if wire in self._open:
            self._open.remove(wire)
            self.give_back()

    async def close(self) -> None:
        """Break all connections; calls that wait for one get an error."""
        self.closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        while (turn := self._next()) is not None:
            turn.set_exception(_closed_error())
        for wire in list(self._open):
            wire.abort()
        for _ in range(10):  # connections tell a few turns of the loop later that they are lost, TLS the latest
            if not self._open:
                return
            await asyncio.sleep(0)

    def _next(self) -> asyncio.Future[UpstreamConnection | None] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None

    def _leave(self, turn: asyncio.Future[UpstreamConnection | None]) -> None:
        """Whoever waited is cancelled, perhaps in the moment it was given something."""
        if turn.cancelled():
            self._waiting = deque(other for other in self._waiting if other is not turn)
        elif turn.exception() is None:
            wire = turn.result()
            self.give_back() if wire is None else self.rest(wire)

    def _sweep(self) -> None:
        """Close what has been idle for too long."""
        loop, oldest = asyncio.get_running_loop(), monotonic() - KEEP_ALIVE_S
        for wire in [wire for wire in self._resting if wire.idle_since <= oldest]:
            wire.abort()
        self._sweeping = loop.call_later(KEEP_ALIVE_S, self._sweep) if self._resting else None


def _closed_error() -> OSError:
    return OSError(None, "the channel's connections were closed")


CONNECTIONS = 256
"""Open ones of one channel; what more there is to do waits, within the connect deadline."""
STALE_S = 1.0
"""A used connection that breaks within this time after a request was broken before: the request is sent again."""


class Pool:
    """The connections of one channel."""

    def __init__(
        self, channel: Channel, headers: Mapping[str, str], proxy: Proxy | None = None, total: TotalSlots | None = None
    ) -> None:
        self.channel = channel
        self._heads = RequestHeads(headers)
        self._dialer = Dialer(proxy)
        self._places = ConnectionSlots(CONNECTIONS, total)
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._loop = asyncio.get_running_loop()
        self._deadlines = DeadlineTimer(self._loop, self._expire)
        self.head_s = {stream: channel.timeouts.head_s(stream=stream) for stream in (False, True)}
        """How long the head of an answer may take, by whether it is streamed."""
        self.busy = 0
        """Answers under way."""

    def fits(self, channel: Channel) -> bool:
        """Whether these connections are as the channel wants them."""
        mine = self.channel
        return mine is channel or (
            mine.base_url == channel.base_url
            and mine.key == channel.key
            and mine.headers == channel.headers
            and mine.preset == channel.preset
            and mine.timeouts == channel.timeouts
            and mine.name == channel.name
            and mine.proxy == channel.proxy
        )

    async def close(self) -> None:
        """Breaks what is under way."""
        await self._places.close()
        self._deadlines.close()

    async def send(self, method: str, prepared: PreparedRequest, head_s: float) -> HttpReply:
        """The answer's head. Raises AttemptFailed."""
        began = self._loop.time()
        self.busy += 1
        try:
            target = target_of(prepared.url)
            try:
                head = self._heads.head(method, target, prepared)
            except ValueError as exc:
                raise AttemptFailed(failures.unreachable(self.channel, str(exc), sent=False)) from exc
            request = (head, prepared.body)
            wire = self._places.take_idle()
            while True:
                if wire is None:
                    wire = await self._dial(target)
                try:
                    answer = await self._ask(wire, request, head_s)
                except ConnectionBroken as exc:
                    late = self._loop.time() - began > STALE_S
                    if not wire.used or late or exc.spoke:
                        raise AttemptFailed(exchange_failure(self.channel, exc)) from exc
                    wire = None  # it had been broken while it was idle
                else:
                    return HttpReply(self, answer, began)
        except BaseException:
            self.busy -= 1
            raise

    async def _ask(self, wire: UpstreamConnection, request: Sequence[Buffer], head_s: float) -> WireAnswer:
        answer = wire.ask(request, together=self.busy > 1)
        self._deadlines.note(answer, head_s)
        try:
            while not answer.status:
                await answer.wait()
        except BaseException:
            answer.abort()
            raise
        finally:
            self._deadlines.due.pop(answer, None)
        return answer

    def _expire(self, answer: WireAnswer, seconds: float) -> None:
        answer.fail(AttemptFailed(failures.too_slow(self.channel, "response head", seconds, sent=True)))

    async def _dial(self, target: Target) -> UpstreamConnection:
        """A new connection, or one that came free while waiting for a place.

        Raises AttemptFailed, or Unavailable when there is no open file for it.
        """
        seconds = self.channel.timeouts.connect
        try:
            async with asyncio.timeout(seconds):
                return await self._places.take() or await self._new_wire(target)
        except OSError as exc:
            if exc.errno in (errno.EMFILE, errno.ENFILE):
                raise self._places.total.used_up(f"the system gives no more open files: {exc.strerror}") from exc
            address = f"{target.place.host}:{target.place.port}"
            raise AttemptFailed(connect_failure(self.channel, exc, seconds, address)) from exc

    async def _new_wire(self, target: Target) -> UpstreamConnection:
        try:
            wire = await self._dialer.dial(target.place, self._make)
        except BaseException:
            self._places.give_back()
            raise
        self._places.settle(wire)
        return wire

    def _make(self) -> UpstreamConnection:
        return UpstreamConnection(self._places.rest, self._places.gone, self._buffer)
