"""Parser: the answers in the bytes of one connection, parsed by httptools (Node's C parser) within our limits.

Compressed bodies are unpacked in bounded pieces, so that a bomb is noticed before it explodes.
"""

import asyncio
import zlib
from functools import lru_cache
from typing import Protocol

import httptools
import msgspec

HIGH_WATER = 32 * 1024
"""How many bytes may wait for their reader before the upstream has to wait."""


class ConnectionBroken(ConnectionError):
    """Why an answer will not come, or not completely."""

    def __init__(self, text: str, *, sent: bool = True, spoke: bool = False, malformed: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.sent = sent
        """Whether the request may have reached the upstream."""
        self.spoke = spoke
        """Whether at least a byte of an answer came."""
        self.malformed = malformed
        """Whether it was not HTTP."""


class WireLine(Protocol):
    """The connection that an answer comes over."""

    def go_on(self) -> None:
        """The reader has room for more."""

    def abort(self) -> None:
        """Close it at once."""


class WireAnswer(msgspec.Struct, eq=False):
    """One answer being received."""

    _line: WireLine | None
    status: int = 0
    """The status; 0: the head is not complete."""
    headers: dict[str, str] = {}
    """Headers by lower-case name; repeated ones are joined with a comma (RFC 9110, 5.3)."""
    complete: bool = False
    """Whether the whole body arrived, though perhaps unread."""
    _parts: list[bytes] = []
    _size: int = 0
    _waiter: asyncio.Future[None] | None = None
    _error: Exception | None = None
    _dropped: asyncio.TimerHandle | None = None

    @property
    def full(self) -> bool:
        """Returns whether so much waits for its reader that the upstream should wait too."""
        return self._size > HIGH_WATER

    def rest(self) -> bytes:
        """Returns what has arrived, without waiting; of a complete answer that is everything."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._line is not None:
            self._line.go_on()
        return data

    async def receive(self) -> bytes:
        """Returns the next bytes of the body; empty at the end. Raises ConnectionBroken or ``fail``'s error."""
        while not self._parts:
            if self.complete:
                return b""
            await self.wait()
        if not self.full or len(self._parts) == 1:
            return self.rest()
        part = self._parts.pop(0)
        self._size -= len(part)
        if self._line is not None and self._size <= HIGH_WATER:
            self._line.go_on()
        return part

    def fail(self, error: Exception) -> None:
        """Raise this error in the reader, and close the connection at once."""
        if self._error is None:
            self._error = error
        self.abort()
        self.wake()

    def drop(self, seconds: float) -> None:
        """Stop reading. The connection is kept if the rest comes within so many seconds."""
        if self._line is not None and self._dropped is None:
            self._dropped = asyncio.get_running_loop().call_later(seconds, self.abort)
            self._parts.clear()
            self._size = 0
            self._line.go_on()

    def abort(self) -> None:
        """Stop reading, and close the connection unless it already serves another answer."""
        if self._line is not None:
            self._parts.clear()
            self._size = 0
            self._line.abort()

    def take(self, data: bytes) -> None:
        """Called by the parser: more of the body."""
        if self._dropped is None:
            self._parts.append(data)
            self._size += len(data)

    def finish(self) -> None:
        """Called by the parser: the body is complete, and the connection is released."""
        self.complete = True
        self._line = None
        if self._dropped is not None:
            self._dropped.cancel()

    def lose(self, error: Exception) -> None:
        """Called by the connection: it broke."""
        if self._error is None:
            self._error = error
        self._line = None
        if self._dropped is not None:
            self._dropped.cancel()
        self.wake()

    def wake(self) -> None:
        """Called by the connection after it parsed bytes of the answer: wakes the reader."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until more of the answer may have arrived. Raises ConnectionBroken or ``fail``'s error."""
        if self._error is not None:
            # An error leads to the frames that it was raised in, and these to this answer and all that was gathered of
            # it: if the error stayed in either place, nothing of that would be free before the garbage collector looks.
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
"""The most bytes of an answer's head, and of framing and trailers in a row."""


class Parser:
    """Parses one answer at a time. httptools calls the methods named ``on_``."""

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self.on_body = self._body.append
        """Called for every chunk, hundreds in one read of a stream: a built-in costs a fraction of a method."""
        self._http = httptools.HttpResponseParser(self)
        self._answer: WireAnswer | None = None
        self._headers: dict[str, str] = {}
        self._no_body = 0
        """Bytes since the last one of a body."""
        self._informed = 0
        self.spoke = False
        """Whether anything of this answer has come."""
        self.reusable = False
        """Whether the answer is complete and its sender keeps the connection."""

    def begin(self, answer: WireAnswer) -> None:
        """Begin the next answer."""
        self._answer = answer
        self._headers, self._no_body, self._informed = {}, 0, 0
        self.spoke = self.reusable = False

    def close(self) -> None:
        """Release the parser. httptools keeps our methods: otherwise the two would keep each other alive, and with them
        an unread answer, until the garbage collector runs.
        """
        del self._http
        self._answer = None
        self._body.clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes. Raises ConnectionBroken if they are not HTTP, more than an answer, or beyond a limit."""
        self.spoke = True
        self._no_body += len(data)
        try:
            self._http.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            raise _malformed_error("it switches to another protocol") from exc
        except httptools.HttpParserError as exc:
            ours = exc.__context__ if isinstance(exc.__context__, ValueError) else None
            raise _malformed_error(str(ours or f"not valid HTTP: {exc}")) from exc
        finally:
            if self._body:
                self._pass_on()
        if self._no_body > HEAD_LIMIT and self._answer is not None:
            where = "between its parts" if self._answer.status else "in its head"
            raise _malformed_error(f"it has more than {HEAD_LIMIT >> 10} KiB {where}")

    def ends(self) -> bool:
        """Returns whether the end of the connection ends the answer: it has neither a length nor chunks."""
        headers = self._headers
        whole_head = self._answer is not None and self._answer.status > 0
        return whole_head and "content-length" not in headers and "transfer-encoding" not in headers

    def on_message_begin(self) -> None:
        if self._answer is None:
            raise ValueError("it sent more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header of the head; trailers are ignored (RFC 9110, 6.5.1)."""
        answer, headers, key = self._answer, self._headers, _key(name)
        if answer is None or answer.status:
            return
        text = value.decode("latin-1").rstrip()
        if key in headers:
            text = f"{headers[key]}, {text}"
            if len(text) > HEAD_LIMIT:
                raise _too_long_error()
        headers[key] = text

    def on_headers_complete(self) -> None:
        status, headers = self._http.get_status_code(), self._headers
        if not 100 <= status < 600:
            raise ValueError(f"its status is {status}")
        if len(headers) > 200:
            raise ValueError("it has too many headers")
        if sum(map(len, headers.values())) > HEAD_LIMIT:
            raise _too_long_error()
        if status < 200:
            self._informed += 1
            if self._informed > 10:
                raise ValueError("it sends only 1xx responses")
            self._headers = {}
        elif self._answer is not None:
            coding = headers.get("transfer-encoding", "chunked")
            if coding.lower() != "chunked":
                raise ValueError(f"it comes with the transfer coding '{coding[:20]}', which was not requested")
            self._answer.status, self._answer.headers = status, headers

    def on_message_complete(self) -> None:
        """Takes the end of a message; a status of 1xx is one too."""
        if self._answer is not None and self._answer.status:
            self.reusable = self._http.should_keep_alive()
            if self._body:
                self._pass_on()
            self._answer.finish()
            self._answer = None

    def _pass_on(self) -> None:
        """Passes on the pieces of the body in this read, as one."""
        self._no_body = 0
        body = self._body
        if self._answer is not None:
            self._answer.take(body[0] if len(body) == 1 else b"".join(body))
        body.clear()


def _too_long_error() -> ValueError:
    return ValueError(f"it has more than {HEAD_LIMIT >> 10} KiB in its head")


def _malformed_error(text: str) -> ConnectionBroken:
    return ConnectionBroken(text, spoke=True, malformed=True)


@lru_cache(maxsize=512)
def _key(name: bytes) -> str:
    """Returns a header's name. Cached, because upstreams send the same few names."""
    return name.decode("latin-1").lower()


class Inflater:
    """One compressed body. ``gzip`` may have several members; ``deflate`` comes with or without zlib's frame."""

    def __init__(self, coding: str) -> None:
        """Raises ValueError for a coding that was not requested."""
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise ValueError(f"it is packed as '{coding[:20]}', which was not requested")
        self._gzip = coding != "deflate"
        self.pending = b""
        """What has arrived and is not unpacked."""
        self._unpacker: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Unpack at most one piece. Raises ValueError when it is damaged."""
        self.pending += data
        try:
            while self.pending:
                if out := self._unpack():
                    return out
        except zlib.error as exc:
            raise ValueError("its packed body is damaged") from exc
        return b""

    def end(self) -> None:
        """Take the end of the bytes. Raises ValueError if something is missing."""
        if self.pending or self._unpacker is not None:
            raise ValueError("its packed body ends too early")

    def _unpack(self) -> bytes:
        """Returns the next piece, which may be empty."""
        if self._unpacker is None:
            self._unpacker = zlib.decompressobj(self._window(self.pending[0]))
        out = self._unpacker.decompress(self.pending, 32 * 1024)
        if self._unpacker.eof:  # another member may follow
            self.pending, self._unpacker = self._unpacker.unused_data, None
        else:
            self.pending = self._unpacker.unconsumed_tail
        return out

    def _window(self, first: int) -> int:
        """Returns zlib's window: its frame begins with a byte whose low half is 8; without one the data is raw (RFC
        9110, 8.4.1.2).
        """
        if self._gzip:
            return 16 + zlib.MAX_WBITS
        return zlib.MAX_WBITS if first & 0x0F == 8 else -zlib.MAX_WBITS
