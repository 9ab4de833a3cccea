"""Parser: reads HTTP responses from the bytes of one connection with httptools (Node's C parser), within limits.

Compressed bodies are decompressed in bounded pieces, so a decompression bomb cannot exhaust memory.
"""

import asyncio
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import httptools
import msgspec

HIGH_WATER = 32 * 1024
"""How many unread bytes are buffered before reading from the upstream is paused."""
LATE_S = 0.5
"""If a deadline is noticed so many seconds late, the process was stopped: what came meanwhile is read first."""
PATIENCE_S = 10.0
"""The maximum seconds by which a late deadline is extended."""


class ConnectionBroken(ConnectionError):
    """The connection failed before the whole answer arrived."""

    def __init__(self, text: str, *, sent: bool = True, malformed: bool = False) -> None:
        super().__init__(text)
        self.sent = sent
        """Whether the request may have reached the upstream."""
        self.malformed = malformed
        """Whether the bytes were not valid HTTP, or exceeded a limit."""


class ConnectionControl(Protocol):
    """The connection that an answer comes over."""

    def resume_reading(self) -> None:
        """Resume reading: the buffer has room again."""

    def abort(self) -> None:
        """Close the connection immediately."""


class WireAnswer(msgspec.Struct, eq=False):
    """One answer being received."""

    _connection: ConnectionControl | None
    status: int = 0
    """The status; 0 until the head is complete."""
    headers: dict[str, str] = {}
    """Headers by lower-case name; repeated ones are joined with a comma (RFC 9110, 5.3)."""
    complete: bool = False
    """Whether the whole body arrived, though perhaps unread."""
    timer: asyncio.TimerHandle | None = None
    """Its only timer. Another answer may be received over the connection before this one is read."""
    _unread: bytes = b""
    _waiter: asyncio.Future[None] | None = None
    _error: Exception | None = None
    _is_discarded: bool = False
    """Whether the rest of the body is of no use."""

    @property
    def full(self) -> bool:
        """Returns whether the buffer is so full that reading should pause."""
        return len(self._unread) > HIGH_WATER

    def arm(self, at: float, callback: Callable[..., None], *args: object) -> None:
        """Set the timer of the next deadline. If the process was stopped meanwhile, it is extended once."""
        self.disarm()
        self.timer = asyncio.get_running_loop().call_at(at, self._ring, at, callback, *args)

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _ring(self, at: float, callback: Callable[..., None], *args: object) -> None:
        loop = asyncio.get_running_loop()
        if (late_s := loop.time() - at) > LATE_S:
            self.timer = loop.call_later(min(late_s, PATIENCE_S), callback, *args)
        else:
            callback(*args)

    def read_nowait(self) -> bytes:
        """Returns the buffered bytes without waiting. For a complete answer, they are the rest of the body."""
        data, self._unread = self._unread, b""
        if self._connection is not None:
            self._connection.resume_reading()
        return data

    async def receive(self) -> bytes:
        """Returns the next bytes of the body; empty at the end. Raises ConnectionBroken or ``fail``'s error."""
        while not (self._unread or self.complete):
            await self.wait()
        return self.read_nowait()

    def fail(self, error: Exception) -> None:
        """Raise this error in the reader, and close the connection at once."""
        self._error = self._error or error
        self.abort()
        self.wake()

    def discard(self, seconds: float) -> None:
        """Discard the rest of the body. The connection is closed if the rest does not arrive within ``seconds``."""
        if self._connection is not None and not self._is_discarded:
            asyncio.get_running_loop().call_later(seconds, self.abort)
            self._is_discarded, self._unread = True, b""
            self._connection.resume_reading()

    def abort(self) -> None:
        """Stop reading, and close the connection unless it already serves another answer."""
        self.disarm()
        if self._connection is not None:
            self._unread = b""
            self._connection.abort()

    def feed_body(self, data: bytes) -> None:
        """Buffer a piece of the body. The parser calls it."""
        if not self._is_discarded:
            self._unread += data

    def finish(self) -> None:
        """Mark the body as complete, and release the connection. The parser calls it."""
        self.complete = True
        self._connection = None

    def connection_lost(self, error: Exception) -> None:
        """Raise this error in the reader. The connection calls it when it is lost."""
        self._error = self._error or error
        self._connection = None
        self.wake()

    def wake(self) -> None:
        """Wake the reader. The connection calls it after it has parsed bytes of the answer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until more of the answer may have arrived. Raises ConnectionBroken or ``fail``'s error."""
        if self._error is not None:
            # A raised error refers to its frames, and they refer to this answer and to what has been gathered of it. If
            # the error stayed here, only the garbage collector could free them.
            error, self._error = self._error, ConnectionBroken("it had failed before")
            try:
                raise error
            finally:
                del error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


HEAD_LIMIT = 64 * 1024
"""The maximum size of an answer's head, and of chunk framing and trailers without a body, in bytes."""
_LONG_HEAD = f"it has more than {HEAD_LIMIT >> 10} KiB in its head"


class Parser:
    """Parses one answer at a time. httptools calls the methods named ``on_``."""

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self.on_body = self._body.append
        """Called for every chunk, hundreds of times in one read: a built-in method costs a fraction of a Python one."""
        self._http = httptools.HttpResponseParser(self)
        self.answer: WireAnswer | None = None
        self._headers: dict[str, str] = {}
        self._no_body = 0
        """The number of bytes received since the last byte of a body."""
        self._informational = 0
        """The number of 1xx responses before the answer."""
        self.reusable = False
        """Whether the answer is complete and its sender keeps the connection."""

    def begin(self, answer: WireAnswer) -> None:
        self.answer = answer
        self._headers, self._no_body, self._informational = {}, 0, 0
        self.reusable = False

    def close(self) -> None:
        """Release httptools' parser: the cycle with it would keep an unread answer until the garbage collector runs."""
        del self._http
        self.answer = None
        self._body.clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes. Raises ConnectionBroken if they are not HTTP, exceed a limit, or belong to a second answer."""
        self._no_body += len(data)
        try:
            self._http.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            raise ConnectionBroken("it switches to another protocol", malformed=True) from exc
        except httptools.HttpParserError as exc:
            own_error = exc.__context__ if isinstance(exc.__context__, ValueError) else None  # raised in a callback
            raise ConnectionBroken(str(own_error or f"not valid HTTP: {exc}"), malformed=True) from exc
        finally:
            if self._body:
                self._pass_on()
        if self._no_body > HEAD_LIMIT and self.answer is not None:
            place = "between its parts" if self.answer.status else "in its head"
            raise ConnectionBroken(f"it has more than {HEAD_LIMIT >> 10} KiB {place}", malformed=True)

    def ends_at_close(self) -> bool:
        """Returns whether the answer ends when the connection closes, because it has neither a length nor chunks."""
        if self.answer is None or not self.answer.status:
            return False
        return self.answer.headers.keys().isdisjoint(("content-length", "transfer-encoding"))

    def on_message_begin(self) -> None:
        if self.answer is None:
            raise ValueError("it sent more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header of the head. Trailers come too, into a dictionary that is not used (RFC 9110, 6.5.1)."""
        headers, key, text = self._headers, _key(name), value.decode("latin-1").rstrip()
        if key in headers:
            text = f"{headers[key]}, {text}"
            if len(text) > HEAD_LIMIT:
                raise ValueError(_LONG_HEAD)
        headers[key] = text

    def on_headers_complete(self) -> None:
        """Check the head, and give it to the answer unless it belongs to a 1xx response."""
        status, headers = self._http.get_status_code(), self._headers
        if not 100 <= status < 600:
            raise ValueError(f"its status is {status}")
        if len(headers) > 200:
            raise ValueError("it has too many headers")
        if sum(map(len, headers.values())) > HEAD_LIMIT:
            raise ValueError(_LONG_HEAD)
        self._headers = {}
        if status < 200:
            self._informational += 1
            if self._informational > 10:
                raise ValueError("it sends only 1xx responses")
        elif self.answer is not None:
            coding = headers.get("transfer-encoding", "chunked")
            if coding.lower() not in ("chunked", "chunked, chunked"):  # some proxies say it twice
                raise ValueError(f"its transfer coding is '{coding[:20]}', which was not requested")
            self.answer.status, self.answer.headers = status, headers

    def on_message_complete(self) -> None:
        """Finish the answer. A 1xx response before it is a message too."""
        if self.answer is not None and self.answer.status:
            self.reusable = self._http.should_keep_alive()
            if self._body:
                self._pass_on()
            self.answer.finish()
            self.answer = None

    def _pass_on(self) -> None:
        """Pass the body in the bytes of this read to the answer, as one piece."""
        self._no_body = 0
        body = self._body
        if self.answer is not None:
            self.answer.feed_body(body[0] if len(body) == 1 else b"".join(body))
        body.clear()


@lru_cache(maxsize=512)
def _key(name: bytes) -> str:
    """Returns a header's name in lower case. Cached, because upstreams send the same few names."""
    return name.decode("latin-1").lower()


_GZIP_OR_ZLIB, _PLAIN = 32 + zlib.MAX_WBITS, -1
_STARTS = b"\x1f\x08\x18\x28\x38\x48\x58\x68\x78"
"""The first bytes of gzip and zlib."""


class Inflater:
    """Decompresses one body, which may have several members.

    Many servers send deflate without zlib's header, and relays may name ``gzip`` for a body that they decompressed.
    """

    def __init__(self, coding: str) -> None:
        """Raises ValueError for a coding that was not requested."""
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise ValueError(f"its content coding is '{coding[:20]}', which was not requested")
        self._other_start = _PLAIN if coding.endswith("gzip") else -zlib.MAX_WBITS
        """The compression of a body that does not begin like gzip or zlib."""
        self._wbits = 0
        """How this body is packed; 0 until its first byte came."""
        self.pending = b""
        """Bytes that are not decompressed yet."""
        self._member: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Returns the next decompressed piece; empty if more bytes are needed. Raises ValueError for a damaged body."""
        self.pending += data
        if self.pending and not self._wbits:
            self._wbits = _GZIP_OR_ZLIB if self.pending[0] in _STARTS else self._other_start
        if self._wbits == _PLAIN:
            piece, self.pending = self.pending, b""
            return piece
        try:
            while self.pending:
                member = self._member or zlib.decompressobj(wbits=self._wbits)
                piece = member.decompress(self.pending, 32 * 1024)
                self.pending = member.unused_data if member.eof else member.unconsumed_tail
                self._member = None if member.eof else member  # another member may follow
                if piece:
                    return piece
        except zlib.error as exc:
            raise ValueError("its compressed body is damaged") from exc
        return b""

    def end(self) -> None:
        """Check that the body is complete. Raises ValueError if it is not."""
        if self.pending or self._member is not None:
            raise ValueError("its compressed body ends too early")
