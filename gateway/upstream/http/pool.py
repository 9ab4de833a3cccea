"""Pool: the connections of one channel. It follows no redirects, keeps no cookies, and uses no proxy but the channel's.

No client library is used, because aiohttp's client was two thirds of a call's cost, little of it is needed, and the
rules for reusing a connection should be visible (see ``connection``). A channel's owner decides how many calls run at
once, so a call that finds no idle connection gets a new one. All pools together have no more connections than the
system has open files for. When these are used up, an idle connection of any pool is closed for the new one.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from time import monotonic
from weakref import WeakSet

from gateway.domain.channel import Channel
from gateway.domain.errors import Unavailable
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.order import PreparedRequest
from gateway.domain.urls import Proxy
from gateway.upstream import failures
from gateway.upstream.http.connection import READ_SIZE, UpstreamConnection, header_lines, request_head
from gateway.upstream.http.dial import Dialer, Target, error_text, is_lasting, target_of
from gateway.upstream.http.parser import ConnectionBroken, WireAnswer
from gateway.upstream.http.reply import HttpReply

KEEP_ALIVE_S = 30.0
"""The seconds after which an idle connection is not used again."""
LOG_S = 60.0
"""The minimum time between two warnings about used up connections, in seconds."""

_log = logging.getLogger("tollkeeper")


class OpenConnections:
    """Counts the connections that all pools together have, or are about to open."""

    def __init__(self, limit: Callable[[], int] = lambda: 0) -> None:
        """``limit`` returns how many are allowed; 0 for any number."""
        self._limit = limit
        self._logged_at = -LOG_S
        self.count = 0
        self.pools: WeakSet[Pool] = WeakSet()

    def add(self) -> bool:
        """Count one more. Returns whether an idle one was closed for it. Raises Unavailable if all are in use."""
        limit = self._limit()
        is_full = limit > 0 and self.count >= limit
        if is_full and not any(pool.close_one() for pool in self.pools):
            connections = f"all {limit} upstream connections that the system's limit of open files allows"
            raise self.no_connection_error(f"{connections} are in use")
        self.count += 1
        return is_full

    def no_connection_error(self, reason: str) -> Unavailable:
        """Returns the error of a call that cannot get a connection, and logs it. No channel is at fault."""
        if (now := monotonic()) - self._logged_at >= LOG_S:
            self._logged_at = now
            _log.warning("no upstream can be reached: %s", reason)
        return Unavailable(f"{reason}; try again when other calls have ended", retry_after_s=1)


class Pool:
    """The connections of one channel."""

    def __init__(
        self,
        channel: Channel,
        headers: Mapping[str, str],
        proxy: Proxy | None = None,
        total: OpenConnections | None = None,
    ) -> None:
        self.channel = channel
        self._header_lines = lru_cache(maxsize=64)(partial(header_lines, headers))
        """Returns the lines of a request's headers, cached because sets of them repeat."""
        self._dialer = Dialer(proxy)
        self._total = total or OpenConnections()
        self._total.pools.add(self)
        self._open: set[UpstreamConnection] = set()
        self._idle: list[UpstreamConnection] = []
        """Idle connections. The one that became idle last is used first."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._retired = False
        """Whether connections are closed once they are idle."""
        self._closed = False
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._loop = asyncio.get_running_loop()

    @property
    def busy(self) -> int:
        """Returns the number of connections that serve a call."""
        return len(self._open) - len(self._idle)

    def can_serve(self, channel: Channel) -> bool:
        """Returns whether these connections can be used for a channel as it is now."""
        own = self.channel
        used = ("base_url", "key", "headers", "preset", "timeouts", "name", "proxy")
        return own is channel or all(getattr(own, name) == getattr(channel, name) for name in used)

    def retire(self) -> None:
        """Close each connection as soon as it is idle, because the channel was changed or removed."""
        self._retired = True
        for connection in list(self._idle):
            connection.abort()

    async def close(self) -> None:
        """Close all connections, even if they are in use."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort()
        for _ in range(10):  # connection_lost is called some turns of the loop later, with TLS the most
            if not self._open:
                break
            await asyncio.sleep(0)

    def close_one(self) -> bool:
        """Close the connection that has been idle for longest. Returns False if none is idle."""
        if not self._idle:
            return False
        connection = self._idle[0]
        connection.abort()
        self._forget(connection)
        return True

    async def send(self, method: str, prepared: PreparedRequest, head_s: float) -> HttpReply:
        """Send a request. Returns the answer once its head has arrived. Raises AttemptFailed."""
        began, target = self._loop.time(), target_of(prepared.url)
        try:
            head = request_head(method, target, self._header_lines(tuple(prepared.headers.items())), prepared.body)
        except ValueError as exc:
            raise AttemptFailed(failures.unreachable(self.channel, str(exc), sent=False)) from exc
        connection = self._take_idle()
        while True:
            if connection is None:
                connection = await self._dial(target)
            try:
                answer = await self._exchange(connection, head, prepared.body, head_s)
            except ConnectionBroken as exc:
                if not connection.may_be_stale:
                    raise AttemptFailed(_exchange_failure(self.channel, exc)) from exc
                connection = None
            else:
                return HttpReply(self.channel, answer, began)

    async def _exchange(self, connection: UpstreamConnection, head: bytes, body: bytes, head_s: float) -> WireAnswer:
        answer = connection.send(head, body, soon=self.busy > 1)
        closing_s = min(connection.closing_s, head_s)
        answer.timer = self._loop.call_later(closing_s, self._wait_longer, connection, answer, closing_s, head_s)
        try:
            while not answer.status:
                await answer.wait()
        except BaseException:
            answer.abort()
            raise
        finally:
            answer.disarm()
        return answer

    def _wait_longer(self, connection: UpstreamConnection, answer: WireAnswer, waited_s: float, head_s: float) -> None:
        """Wait for the rest of ``head_s``. A stale connection would have failed by now, within a round trip.

        If this runs late, only the system may know of the loss: the loop reads once more before the connection counts
        as good.
        """
        self._loop.call_soon(self._loop.call_soon, _confirm, connection, answer)
        slow = failures.too_slow(self.channel, "response head", head_s, sent=True)
        answer.arm(self._loop.time() + head_s - waited_s, answer.fail, AttemptFailed(slow))

    def _take_idle(self) -> UpstreamConnection | None:
        oldest = monotonic() - KEEP_ALIVE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.alive and connection.idle_since > oldest:  # after unexpected bytes it is not
                return connection
            connection.abort()
        return None

    async def _dial(self, target: Target) -> UpstreamConnection:
        """Open a connection. Raises AttemptFailed, or Unavailable if no open file is left for it."""
        seconds = self.channel.timeouts.connect
        way = "on the way to " if self.channel.proxy else ""
        place = f" ({way}{target.host}:{target.port})"
        try:
            async with asyncio.timeout(seconds):
                return await self._connect(target)
        except OSError as exc:
            if exc.errno in (errno.EMFILE, errno.ENFILE):
                raise self._total.no_connection_error(f"the system allows no more open files: {exc.strerror}") from exc
            if isinstance(exc, TimeoutError) and not exc.strerror:  # the deadline, and not the system's own
                slow = failures.too_slow(self.channel, "connect", seconds, sent=False, place=place)
                raise AttemptFailed(slow) from exc
            text, lasting = error_text(exc) + place, is_lasting(exc)
            raise AttemptFailed(failures.unreachable(self.channel, text, sent=False, lasting=lasting)) from exc

    async def _connect(self, target: Target) -> UpstreamConnection:
        """Open a connection and add it to the pool. Raises OSError and Unavailable."""
        make = partial(UpstreamConnection, self._add_idle, self._forget, self._buffer)
        closed_another, began = self._total.add(), self._loop.time()
        try:
            if closed_another:  # its file is free in the loop's next turn
                await asyncio.sleep(0)
            _, connection = await self._dialer.dial(target, make)
        except BaseException:
            self._total.count -= 1
            raise
        connection.closing_s = min(max(connection.closing_s, self._loop.time() - began), 1.0)
        self._open.add(connection)
        if not connection.alive:  # it is lost by now
            self._forget(connection)
        elif self._closed:
            connection.abort()
        return connection

    def _add_idle(self, connection: UpstreamConnection) -> None:
        """Keep a connection for other calls. The connection calls it when it has served one."""
        if self._retired:
            connection.abort()
            return
        connection.idle_since = monotonic()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEEP_ALIVE_S, self._sweep)

    def _forget(self, connection: UpstreamConnection) -> None:
        """Forget a connection that is lost, or about to be."""
        if connection in self._idle:
            self._idle.remove(connection)
        if connection in self._open:
            self._open.remove(connection)
            self._total.count -= 1

    def _sweep(self) -> None:
        oldest = monotonic() - KEEP_ALIVE_S
        for connection in [connection for connection in self._idle if connection.idle_since <= oldest]:
            connection.abort()
        self._sweeping = self._loop.call_later(KEEP_ALIVE_S, self._sweep) if self._idle else None


def _confirm(connection: UpstreamConnection, answer: WireAnswer) -> None:
    """Note that the upstream may have the request that waits for this answer, and may charge for it."""
    if not answer.status and connection.alive:
        connection.may_be_stale = False


def _exchange_failure(channel: Channel, exc: ConnectionBroken) -> Failure:
    """Returns the failure of a request without an answer."""
    if exc.malformed:
        return failures.bad_response(channel, str(exc))
    return failures.unreachable(channel, str(exc), sent=exc.sent)
