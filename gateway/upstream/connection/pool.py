"""Pool: the connections of one channel. No redirects, no cookies, no proxies but the channel's own.

Why not a client library: of all that a call costs, aiohttp's client was two thirds. What is needed here is little, and
the rules of what may be reused are better seen than trusted (see ``wire``).
"""

import asyncio
import errno
from collections.abc import Mapping, Sequence

from gateway.domain.channel import Channel
from gateway.domain.long_strings import Buffer
from gateway.domain.urls import Proxy
from gateway.upstream import failures
from gateway.upstream.adapter import AttemptFailed, Prepared
from gateway.upstream.connection.answer import Answer
from gateway.upstream.connection.broken import Broken
from gateway.upstream.connection.deadlines import Deadlines
from gateway.upstream.connection.dial import Dialer
from gateway.upstream.connection.errors import connect_failure, exchange_failure
from gateway.upstream.connection.heads import Heads, Target, target_of
from gateway.upstream.connection.places import Places, Total
from gateway.upstream.connection.reply import HttpReply
from gateway.upstream.connection.wire import READ_SIZE, Wire

CONNECTIONS = 256
"""Open ones of one channel; what more there is to do waits, within the connect deadline."""
STALE_S = 1.0
"""A used connection that breaks within this time after a request was broken before: the request is sent again."""


class Pool:
    """The connections of one channel."""

    def __init__(
        self, channel: Channel, headers: Mapping[str, str], proxy: Proxy | None = None, total: Total | None = None
    ) -> None:
        self._channel = channel
        self._heads = Heads(headers)
        self._dialer = Dialer(proxy)
        self._places = Places(CONNECTIONS, total)
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop, self._expire)
        self.busy = 0
        """Answers under way."""

    def fits(self, channel: Channel) -> bool:
        """Whether these connections are as the channel wants them."""
        mine = self._channel
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

    async def send(self, method: str, prepared: Prepared, head_s: float) -> HttpReply:
        """The answer's head. Raises AttemptFailed."""
        began = self._loop.time()
        self.busy += 1
        try:
            target = target_of(prepared.url)
            request = self._head(method, target, prepared), *prepared.content
            answer = await self._ask_living(target, request, head_s, began)
            return HttpReply(self._channel, answer, self._ended, began)
        except BaseException:
            self.busy -= 1
            raise

    def _ended(self) -> None:
        self.busy -= 1

    def _head(self, method: str, target: Target, prepared: Prepared) -> bytes:
        try:
            return self._heads.head(method, target, prepared)
        except ValueError as exc:
            raise AttemptFailed(failures.unreachable(self._channel, str(exc), sent=False)) from exc

    async def _ask_living(self, target: Target, request: Sequence[Buffer], head_s: float, began: float) -> Answer:
        """Asks, and over another connection if the first had been broken while it rested."""
        wire = self._places.rested()
        while True:
            if wire is None:
                wire = await self._dial(target)
            try:
                return await self._ask(wire, request, head_s)
            except Broken as exc:
                late = self._loop.time() - began > STALE_S
                if not wire.used or late or exc.spoke:
                    raise AttemptFailed(exchange_failure(self._channel, exc)) from exc
            wire = None

    async def _ask(self, wire: Wire, request: Sequence[Buffer], head_s: float) -> Answer:
        answer = wire.ask(request, together=self.busy > 1)
        self._deadlines.note(answer, head_s)
        try:
            await answer.head()
        except BaseException:
            answer.abort()
            raise
        finally:
            self._deadlines.strike(answer)
        return answer

    def _expire(self, answer: Answer, seconds: float) -> None:
        answer.fail(AttemptFailed(failures.too_slow(self._channel, "response head", seconds, sent=True)))

    async def _dial(self, target: Target) -> Wire:
        """A new connection, or one that came free while waiting for a place.

        Raises AttemptFailed, or Unavailable when there is no open file for it.
        """
        seconds = self._channel.timeouts.connect
        try:
            async with asyncio.timeout(seconds):
                return await self._places.take() or await self._new_wire(target)
        except OSError as exc:
            if exc.errno in (errno.EMFILE, errno.ENFILE):
                raise self._places.total.used_up(f"the system gives no more open files: {exc.strerror}") from exc
            address = f"{target.place.host}:{target.place.port}"
            raise AttemptFailed(connect_failure(self._channel, exc, seconds, address)) from exc

    async def _new_wire(self, target: Target) -> Wire:
        try:
            wire = await self._dialer.dial(target.place, self._make)
        except BaseException:
            self._places.give_back()
            raise
        self._places.settle(wire)
        return wire

    def _make(self) -> Wire:
        return Wire(self._places.rest, self._places.gone, self._buffer)
