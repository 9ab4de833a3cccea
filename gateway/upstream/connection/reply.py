"""Reply: an answer whose head has come over HTTP, and its body, within the deadlines.

It ends in one of three ways: read to its end, released, or aborted. Its connection is kept only after the first, or if
the rest comes at once after the second.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.upstream import failures
from gateway.upstream.adapter import AttemptFailed, Signs
from gateway.upstream.connection.errors import FOREIGN, text_of
from gateway.upstream.watch import Watch

STREAM_LIMIT = 256 * 1024 * 1024
"""Bytes of one streamed answer, decompressed."""
LINGER_S = 0.5
"""How long the rest of an answer that nobody wants may take before its connection is given up."""


class HttpReply:
    """An answer whose head has come. Implements ``adapter.Reply``."""

    __slots__ = ("_began", "_late", "_on_end", "_response", "_timer", "channel", "content_type", "headers", "status")

    def __init__(
        self, channel: Channel, response: aiohttp.ClientResponse, on_end: Callable[[], None], began: float
    ) -> None:
        self.channel = channel
        self._response = response
        self._on_end: Callable[[], None] | None = on_end
        self._began = began
        self._late: tuple[str, float] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    async def read(self, limit: int) -> bytes:
        """See ``adapter.Reply``."""
        content = self._response.content
        parts: list[bytes] = []
        size = 0
        if not content.is_eof():
            seconds = self.channel.timeouts.total
            self.arm(self._began + seconds, self.expire, "total", seconds)
        while size <= limit:
            data = await self.receive()
            if not data:
                self.release()
                return b"".join(parts)
            parts.append(data)
            size += len(data)
        self.abort()
        raise AttemptFailed(failures.bad_response(self.channel, f"it is longer than {limit} bytes"))

    def chunks(self, signs: Signs | None = None) -> AsyncIterator[bytes]:
        """See ``adapter.Reply``."""
        return Incoming(self, signs, self._began)

    async def receive(self) -> bytes:
        """The next bytes; none at the end. Raises AttemptFailed."""
        try:
            return await self._response.content.readany()
        except FOREIGN as exc:
            self.abort()
            if self._late:
                raise AttemptFailed(failures.too_slow(self.channel, *self._late, sent=True)) from exc
            raise AttemptFailed(failures.bad_response(self.channel, f"it broke off: {text_of(exc)}")) from exc

    def arm(self, at: float, callback: Callable[..., None], *args: object) -> None:
        """Replaces the timer; it ends with the reply."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, callback, *args)

    def expire(self, deadline: str, seconds: float) -> None:
        """A deadline passed: who waits for bytes gets an error that names it."""
        self._late = (deadline, seconds)
        self.abort()

    def release(self) -> None:
        """See ``adapter.Reply``."""
        content = self._response.content
        self._end()
        if not content.is_eof():
            rest = asyncio.get_running_loop().call_later(LINGER_S, self._response.close)
            content.on_eof(rest.cancel)

    def abort(self) -> None:
        """See ``adapter.Reply``."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._on_end is not None:
            self._on_end()
            self._on_end = None


class Reads:
    """Signs of life of a body nobody understands: every read is one."""

    def __init__(self) -> None:
        self.events = 0
        self.comments = 0


class Incoming:
    """The bytes of a stream as they come, within the deadlines of ``watch``. An iterator, so that it needs no end."""

    __slots__ = ("_reads", "_reply", "_signs", "_size", "_waiting", "_watch")

    def __init__(self, reply: HttpReply, signs: Signs | None, began: float) -> None:
        self._reply = reply
        self._reads = Reads()
        self._signs = signs or self._reads
        self._watch = Watch(self._signs, reply.channel.timeouts, began)
        self._size = 0
        self._waiting = False
        reply.arm(self._watch.due().at, self._check)

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> bytes:
        """A connection that breaks in the middle of the events ends them: what they were tells what that means."""
        self._watch.look(asyncio.get_running_loop().time())
        self._waiting = True
        try:
            data = await self._reply.receive()
        except AttemptFailed as failed:
            if self._signs.events and failed.kind is not FailureKind.SLOW:
                raise StopAsyncIteration from failed
            raise
        finally:
            self._waiting = False
        if not data:
            raise StopAsyncIteration
        self._reads.events += 1
        self._size += len(data)
        if self._size > STREAM_LIMIT:
            self._reply.abort()
            raise AttemptFailed(
                failures.bad_response(self._reply.channel, f"it is longer than {STREAM_LIMIT >> 20} MiB")
            )
        return data

    def _check(self) -> None:
        """The timer's: a deadline has passed, or was put off meanwhile. Time the client takes is not counted."""
        now = asyncio.get_running_loop().time()
        self._watch.look(now)
        due = self._watch.due()
        if not self._waiting:
            self._reply.arm(now + due.seconds, self._check)
        elif now < due.at:
            self._reply.arm(due.at, self._check)
        else:
            self._reply.expire(due.name, due.seconds)
