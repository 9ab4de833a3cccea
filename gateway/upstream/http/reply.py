"""HttpReply: an answer whose head has arrived over HTTP, and its body, within the deadlines.

It ends in one of three ways: it is read to its end, released, or aborted. Its connection is kept after the first, or if
the rest arrives at once after the second.

A stream may be silent for too long. Data events are progress. Comments show that the upstream is there, so they extend
the idle deadline, but not for ever. Fragments of an event that is never complete are neither.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from io import BytesIO

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.upstream import failures
from gateway.upstream.adapter import AnswerStream, Memory
from gateway.upstream.http.parser import ConnectionBroken, Inflater, WireAnswer

STREAM_LIMIT = 256 * 1024 * 1024
"""The maximum size of a streamed answer, in bytes, decompressed."""
TAIL_S = 10.0
"""The seconds between two checks whether a stream's answer is complete. If it was complete at the last check and has
not grown since, its last event will not come, although the connection is open."""
LINGER_S = 0.5
"""The seconds that the rest of a released answer may take before its connection is closed."""


class HttpReply:
    """An answer whose head has arrived. Implements ``adapter.Reply``."""

    def __init__(self, channel: Channel, answer: WireAnswer, began: float) -> None:
        """``began``: the loop's time of the request. Raises AttemptFailed for a compression that was not requested."""
        self.channel = channel
        self.answer = answer
        self._began = began
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._inflater: Inflater | None = None
        coding = answer.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity", "none", "utf-8", "utf8", "binary"):  # some write the character set there
            try:
                self._inflater = Inflater(coding)
            except ValueError as exc:
                answer.abort()
                raise AttemptFailed(failures.bad_response(channel, str(exc))) from exc

    async def read(self, limit: int, memory: Memory) -> bytes:
        data = b""
        if self.answer.complete and self._inflater is None:  # most bodies arrive together with the head
            data = self.answer.read_nowait()
            if len(data) <= limit and memory.take(len(data)):
                return data
        gathered, loop = BytesIO(), asyncio.get_running_loop()
        seconds = self.channel.timeouts.total
        self.answer.arm(self._began + seconds, self.expire, "total", seconds)
        while data or (data := await self.receive()):
            if gathered.tell() + len(data) > limit:
                self.abort()
                raise AttemptFailed(failures.bad_response(self.channel, f"it is longer than {limit} bytes"))
            if not memory.take(len(data)):
                self.answer.disarm()
                began = loop.time()
                await memory.wait(len(data))
                seconds += loop.time() - began  # the wait does not count against the upstream
                self.answer.arm(self._began + seconds, self.expire, "total", self.channel.timeouts.total)
            gathered.write(data)
            data = b""
        self.release()
        return gathered.getvalue()

    def chunks(self, stream: AnswerStream) -> AsyncIterator[bytes]:
        return Incoming(self, stream, self._began)

    async def receive(self) -> bytes:
        """Returns the next bytes, decompressed; empty at the end. Raises AttemptFailed."""
        inflater = self._inflater
        try:
            if inflater is None:
                return await self.answer.receive()
            data = inflater.feed(b"")
            if data:  # it came without waiting, and more may follow: others have their turn
                await asyncio.sleep(0)
            while not data and (compressed := await self.answer.receive()):
                data = inflater.feed(compressed)
            if not data:
                inflater.end()
            return data
        except (ConnectionBroken, ValueError) as exc:
            self.abort()
            raise AttemptFailed(failures.bad_response(self.channel, f"it was cut off: {exc}")) from exc

    def expire(self, deadline: str, seconds: float) -> None:
        """End the reply because a deadline has passed, and raise an error in its reader that names the deadline."""
        self.answer.fail(AttemptFailed(failures.too_slow(self.channel, deadline, seconds, sent=True)))

    def release(self) -> None:
        self.answer.disarm()
        if not self.answer.complete:
            self.answer.discard(LINGER_S)

    def abort(self) -> None:
        self.answer.abort()


class Incoming:
    """Iterates over a stream's bytes as they arrive, within its deadlines. A generator would have to be closed."""

    def __init__(self, reply: HttpReply, stream: AnswerStream, began: float) -> None:
        """``began``: when the request was sent. Until the first event, the head deadline counts from there."""
        self._reply = reply
        self._stream = stream
        self._events = self._stream.events
        self._comments = self._stream.comments
        self._event_at = self._sign_at = began
        """When the last event came, and the last event or comment. The client's time does not count."""
        self._size = 0
        self._final_size: int | None = None
        """The size of the answer at the last check, if it was complete."""
        self._waiting = False
        self._returned_at = asyncio.get_running_loop().time()
        self._set_alarm(self.next_deadline()[0])

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> bytes:
        """Returns the next bytes. After the first event, a broken or incomplete stream just ends."""
        loop = asyncio.get_running_loop()
        now, had_events = loop.time(), self._events
        self._event_at += now - self._returned_at
        self._sign_at += now - self._returned_at
        self.note_progress(now)
        if not had_events and (at := self.next_deadline()[0]) < self._alarm_at:  # idle may be less than is left of head
            self._set_alarm(at)
        self._waiting = True
        try:
            data = await self._reply.receive()
        except AttemptFailed as failed:
            if self._stream.events and (failed.failure.kind is not FailureKind.SLOW or self._final_size is not None):
                raise StopAsyncIteration from failed
            raise
        finally:
            self._waiting = False
            self._returned_at = loop.time()
        if not data:
            raise StopAsyncIteration
        self._size += len(data)
        if self._size > STREAM_LIMIT:
            self._reply.abort()
            reason = f"it is longer than {STREAM_LIMIT >> 20} MiB"
            raise AttemptFailed(failures.bad_response(self._reply.channel, reason))
        return data

    def note_progress(self, now: float) -> None:
        """Note the time if there was progress since the last check."""
        if self._stream.events != self._events:
            self._events = self._stream.events
            self._event_at = self._sign_at = now
        if self._stream.comments != self._comments:
            self._comments = self._stream.comments
            self._sign_at = now

    def next_deadline(self) -> tuple[float, float, str]:
        """Returns the time, the length in seconds and the name of the deadline that passes first if nothing comes."""
        timeouts = self._reply.channel.timeouts
        name, seconds = ("idle", timeouts.idle) if self._events else ("first event", timeouts.head)
        silence = self._sign_at + seconds, seconds, name
        comments_only = self._event_at + timeouts.comments, timeouts.comments, "comments only"
        return silence if silence[0] <= comments_only[0] else comments_only

    def _check_deadline(self) -> None:
        """Expire the reply, unless the deadline was extended, or the client is slow. The timer calls it."""
        now = asyncio.get_running_loop().time()
        self.note_progress(now)
        at, seconds, name = self.next_deadline()
        before, self._final_size = self._final_size, self._stream.final_size if self._waiting else None
        if not self._waiting:
            self._set_alarm(now + seconds)
        elif self._final_size is not None and self._final_size == before:
            self._reply.expire("end", TAIL_S)
        elif now < at:
            self._set_alarm(at)
        else:
            self._reply.expire(name, seconds)

    def _set_alarm(self, at: float) -> None:
        self._alarm_at = min(at, asyncio.get_running_loop().time() + TAIL_S)
        self._reply.answer.arm(self._alarm_at, self._check_deadline)
