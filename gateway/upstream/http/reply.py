"""An answer whose head has come over HTTP, and its body, within the deadlines.

It ends in one of three ways: read to its end, released, or aborted. Its connection is kept only after the first, or if
the rest comes at once after the second. One timer serves all answers of a pool that are waited for: setting and
cancelling a timer costs more than all else a connection does for a call, noting a moment costs nothing.

A stream may be silent for too long. Data events are progress. Comments show that somebody is there, so they hold off
the idle deadline, but not for ever. Fragments of an event that does not get finished are neither.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from io import BytesIO
from typing import Generic, Protocol, TypeVar

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.upstream import failures
from gateway.upstream.adapter import Memory, StreamProgress
from gateway.upstream.http.parser import ConnectionBroken, Inflater, WireAnswer

STREAM_LIMIT = 256 * 1024 * 1024
"""The most bytes of one streamed answer, decompressed."""
LINGER_S = 0.5
"""Seconds that the rest of an unwanted answer may take before its connection is closed."""


class ReplyPool(Protocol):
    """The pool that an answer comes from."""

    channel: Channel
    busy: int
    """The number of answers in progress."""


class HttpReply:
    """An answer whose head has arrived. Implements ``adapter.Reply``."""

    __slots__ = ("_answer", "_began", "_ended", "_inflater", "_pool", "_timer", "channel", "headers", "status")

    def __init__(self, pool: ReplyPool, answer: WireAnswer, began: float) -> None:
        """Raises AttemptFailed if the body is packed in a way that was not requested."""
        self.channel = pool.channel
        self._pool = pool
        self._ended = False
        self._answer = answer
        self._began = began
        self._timer: asyncio.TimerHandle | None = None
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        coding = answer.headers.get("content-encoding", "")
        self._inflater = self._unpacking(coding.strip().lower()) if coding else None

    async def read(self, limit: int, memory: Memory) -> bytes:
        data = b""
        if self._answer.complete and self._inflater is None:  # the usual case: it came with its head
            data = self._answer.read_nowait()
            if len(data) <= limit and memory.take(len(data)):
                self._end()
                return data
        return await self._gather(data, limit, memory)

    async def _gather(self, data: bytes, limit: int, memory: Memory) -> bytes:
        """The whole body, of which ``data`` has come. It grows in one place: its parts are not copied again."""
        gathered = BytesIO()
        seconds = self.channel.timeouts.total
        self.arm(self._began + seconds, self.expire, "total", seconds)
        while data or (data := await self.receive()):
            if gathered.tell() + len(data) > limit:
                self.abort()
                raise AttemptFailed(failures.bad_response(self.channel, f"it is longer than {limit} bytes"))
            if not memory.take(len(data)):
                seconds += await self._wait(memory, len(data))
                self.arm(self._began + seconds, self.expire, "total", self.channel.timeouts.total)
            gathered.write(data)
            data = b""
        self.release()
        return gathered.getvalue()

    async def _wait(self, memory: Memory, size: int) -> float:
        """Waits for memory. Returns the seconds it took: the upstream waits too, and they do not count against it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._disarm()
        await memory.wait(size)
        return loop.time() - began

    def chunks(self, progress: StreamProgress) -> AsyncIterator[bytes]:
        return Incoming(self, progress, self._began)

    async def receive(self) -> bytes:
        """Returns the next bytes; empty at the end. Raises AttemptFailed."""
        try:
            if self._inflater is None:
                return await self._answer.receive()
            return await self._unpacked(self._inflater)
        except (ConnectionBroken, ValueError) as exc:
            self.abort()
            raise AttemptFailed(failures.bad_response(self.channel, f"it was cut off: {exc}")) from exc

    async def _unpacked(self, inflater: Inflater) -> bytes:
        """Unpacks. Raises ValueError when the compressed body is damaged, or ends too early."""
        while True:
            if inflater.pending and (data := inflater.feed(b"")):
                return data
            packed = await self._answer.receive()
            if not packed:
                inflater.end()
                return b""
            if data := inflater.feed(packed):
                return data

    def _unpacking(self, coding: str) -> Inflater | None:
        if coding in ("identity", ""):
            return None
        try:
            return Inflater(coding)
        except ValueError as exc:
            self._answer.abort()
            raise AttemptFailed(failures.bad_response(self.channel, str(exc))) from exc

    def arm(self, at: float, callback: Callable[..., None], *args: object) -> None:
        """Replace the timer, which ends with the reply."""
        self._disarm()
        self._timer = asyncio.get_running_loop().call_at(at, callback, *args)

    def expire(self, deadline: str, seconds: float) -> None:
        """A deadline has passed: the reader gets an error that names it."""
        self._answer.fail(AttemptFailed(failures.too_slow(self.channel, deadline, seconds, sent=True)))
        self._end()

    def release(self) -> None:
        self._end()
        if not self._answer.complete:
            self._answer.discard(LINGER_S)

    def abort(self) -> None:
        self._answer.abort()
        self._end()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self._timer is not None:
            self._disarm()
        if not self._ended:
            self._ended = True
            self._pool.busy -= 1


class Incoming:
    """The bytes of a stream as they arrive, within its deadlines. An iterator, so that it needs no end."""

    __slots__ = (
        *("_armed", "_comments", "_event_at", "_events", "_left", "_reply", "_sign_at", "_progress", "_size"),
        *("_timeouts", "_waiting"),
    )

    def __init__(self, reply: HttpReply, progress: StreamProgress, began: float) -> None:
        """Until the first event the head deadline runs on, from ``began``."""
        self._reply = reply
        self._timeouts = reply.channel.timeouts
        self._progress = progress
        self._events = self._progress.events
        self._comments = self._progress.comments
        self._event_at = self._sign_at = began
        self._size = 0
        self._waiting = False
        self._left = asyncio.get_running_loop().time()
        """When the reader got the last bytes."""
        self._arm(self.due()[0])

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> bytes:
        """Returns the next bytes. A connection that breaks in the middle of the events ends them: they decide what that
        means.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._event_at += now - self._left  # the client's time does not count
        self._sign_at += now - self._left
        self.look(now)
        if (at := self.due()[0]) < self._armed:  # the idle deadline may be shorter than what is left for the head
            self._arm(at)
        self._waiting = True
        try:
            data = await self._reply.receive()
        except AttemptFailed as failed:
            if self._progress.events and failed.kind is not FailureKind.SLOW:
                raise StopAsyncIteration from failed
            raise
        finally:
            self._waiting = False
            self._left = loop.time()
        if not data:
            raise StopAsyncIteration
        self._size += len(data)
        if self._size > STREAM_LIMIT:
            self._reply.abort()
            raise AttemptFailed(
                failures.bad_response(self._reply.channel, f"it is longer than {STREAM_LIMIT >> 20} MiB")
            )
        return data

    def look(self, now: float) -> None:
        """Note whether there was progress since the last check."""
        if self._progress.events != self._events:
            self._events = self._progress.events
            self._event_at = self._sign_at = now
        if self._progress.comments != self._comments:
            self._comments = self._progress.comments
            self._sign_at = now

    def due(self) -> tuple[float, float, str]:
        """Returns the deadline that passes first if nothing more comes: its moment, its length in seconds, and its
        name.
        """
        timeouts = self._timeouts
        name, seconds = ("idle", timeouts.idle) if self._events else ("first event", timeouts.head)
        silent = self._sign_at + seconds, seconds, name
        chatting = self._event_at + timeouts.comments, timeouts.comments, "comments only"
        return silent if silent[0] <= chatting[0] else chatting

    def _check(self) -> None:
        """Called by the timer: a deadline has passed, or was extended meanwhile."""
        now = asyncio.get_running_loop().time()
        self.look(now)
        at, seconds, name = self.due()
        if not self._waiting:
            self._arm(now + seconds)
        elif now < at:
            self._arm(at)
        else:
            self._reply.expire(name, seconds)

    def _arm(self, at: float) -> None:
        self._armed = at
        self._reply.arm(at, self._check)


Item = TypeVar("Item")


class DeadlineTimer(Generic[Item]):
    """Calls ``expire`` for what is still noted when its time is over, at most a turn of the loop later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Item, float], None]) -> None:
        self._loop = loop
        self._expire = expire
        self.due: dict[Item, tuple[float, float]] = {}
        """The deadline of each item, and its seconds. Ended items are taken out."""
        self._next = 0.0
        """When the timer fires, if there is one."""
        self._timer: asyncio.TimerHandle | None = None

    def note(self, item: Item, seconds: float) -> None:
        """Note an item, which must be taken out of ``due`` within so many seconds."""
        at = self._loop.time() + seconds
        self.due[item] = at, seconds
        if self._timer is None or at < self._next:
            self._set(at)

    def close(self) -> None:
        """Stop the timer."""
        self.due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for item, (_, seconds) in [entry for entry in self.due.items() if entry[1][0] <= now]:
            del self.due[item]
            self._expire(item, seconds)
        if self.due:
            self._set(min(at for at, _ in self.due.values()))
