"""Wire: one HTTP/1.1 connection to an upstream: requests out, one at a time, and the bytes that answer them in.

The parsing is httptools', the C parser of Node. What is kept here is when a connection may serve again: only after an
answer that came whole, that did not ask to close, and behind which nothing followed. Everything else is closed, so
that no answer can ever reach the wrong call.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

HEAD_LIMIT = 64 * 1024
"""Bytes of an answer's head."""
HEADERS_LIMIT = 200
INFORMATION_LIMIT = 10
"""Answers of status 1xx before the real one."""
HIGH_WATER = 64 * 1024
"""Bytes that may wait for their reader before the upstream is made to wait."""


class Broken(ConnectionError):
    """The connection ended, or what came over it is no HTTP. ``early``: before the answer's head was whole."""

    def __init__(self, text: str, *, early: bool, spoke: bool = False, malformed: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.early = early
        self.spoke = spoke
        """At least a byte of an answer had come."""
        self.malformed = malformed
        """It was no HTTP."""


class Answer:
    """One answer on its way over a wire: its head, then its body in pieces."""

    __slots__ = ("_dropped", "_error", "_parts", "_size", "_waiter", "_wire", "complete", "headers", "status")

    def __init__(self, wire: "Wire") -> None:
        self._wire: Wire | None = wire
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._dropped: asyncio.TimerHandle | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        """By lower-case name; repeated ones are joined with a comma (RFC 9110, 5.3)."""
        self.complete = False
        """The whole body has come, though perhaps it has not been read."""

    async def head(self) -> None:
        """Wait for status and headers. Raises Broken, or what ``fail`` was given."""
        while not self.status:
            await self._wait()

    async def receive(self) -> bytes:
        """The next bytes of the body as they came; none at the end. Raises Broken, or what ``fail`` was given."""
        while not self._parts:
            if self.complete:
                return b""
            await self._wait()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._wire is not None:
            self._wire.go_on()
        return data

    def fail(self, error: Exception) -> None:
        """Whoever reads gets this; the connection is closed at once."""
        if self._error is None:
            self._error = error
        if self._wire is not None:
            self._wire.abort()
        self._wake()

    def drop(self, seconds: float) -> None:
        """Nobody reads any more: the connection is kept if the rest comes within so many seconds."""
        if self._wire is not None:
            self._dropped = asyncio.get_running_loop().call_later(seconds, self.abort)
            self._wire.go_on()

    def abort(self) -> None:
        """Nobody reads any more: close the connection unless it has gone on already."""
        if self._wire is not None:
            self._wire.abort()

    def take_head(self, status: int, headers: dict[str, str]) -> None:
        """The wire's: the head is whole."""
        self.status, self.headers = status, headers
        self._wake()

    def take(self, data: bytes) -> bool:
        """The wire's: more of the body; True if the upstream should wait."""
        if self._dropped is not None:
            return False
        self._parts.append(data)
        self._size += len(data)
        self._wake()
        return self._size > HIGH_WATER

    def finish(self) -> None:
        """The wire's: the body is whole; the wire goes its own way."""
        self.complete = True
        self._leave()

    def lose(self, error: Exception) -> None:
        """The wire's: it broke."""
        if self._error is None:
            self._error = error
        self._leave()

    def _leave(self) -> None:
        self._wire = None
        if self._dropped is not None:
            self._dropped.cancel()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class Wire(asyncio.Protocol):
    """One connection. ``idle`` is called when it may serve again, ``gone`` once when it is lost."""

    def __init__(self, idle: Callable[["Wire"], None], gone: Callable[["Wire"], None]) -> None:
        self._idle = idle
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._informed = 0
        self._spoke = False
        self._paused = False
        self.used = False
        """It has served before."""
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        """Whether it is connected."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: tuple[bytes, bytes]) -> Answer:
        """Send a request, head and body. Raises Broken if the connection is closed."""
        if self._transport is None or self._transport.is_closing():
            raise Broken("it closed the connection", early=True)
        answer = self._answer = Answer(self)
        self._headers, self._head_size, self._informed, self._spoke = {}, 0, 0, False
        self._transport.writelines(request)
        return answer

    def go_on(self) -> None:
        """The reader has room again."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once; what was not sent is not sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio. Bytes that nobody asked for close the connection."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        self._spoke = True
        if not answer.status:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("it wants to speak another protocol", malformed=True)
        except httptools.HttpParserError as exc:
            cause = exc.__context__ if isinstance(exc.__context__, ValueError) else exc
            self._break(f"no valid HTTP: {cause}", malformed=True)
        else:
            if not answer.status and self._head_size > HEAD_LIMIT:
                self._break(f"the head of its answer is longer than {HEAD_LIMIT >> 10} KiB", malformed=True)

    def eof_received(self) -> bool:
        """See asyncio: close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. A body of unknown length ends with its connection; any other one was cut."""
        self._transport = None
        answer, self._answer = self._answer, None
        if answer is not None and not answer.complete:
            if exc is None and answer.status and self._ends_with_connection():
                answer.finish()
            else:
                answer.lose(self._loss(answer, exc))
        self._gone(self)

    def on_message_begin(self) -> None:
        """See httptools."""
        if self._answer is None:
            raise ValueError("it speaks unasked")

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if len(self._headers) >= HEADERS_LIMIT:
            raise ValueError("it has too many headers")
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """See httptools."""
        status = self._parser.get_status_code()
        if not 100 <= status < 600:
            msg = f"its status is {status}"
            raise ValueError(msg)
        if status < 200:
            self._informed += 1
            if self._informed > INFORMATION_LIMIT:
                raise ValueError("it has nothing to say but 1xx")
            self._headers = {}
        elif self._answer is not None:
            if self._answer.status:
                raise ValueError("it answers twice")
            self._answer.take_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        """See httptools."""
        if self._answer is not None and self._answer.take(data) and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """See httptools."""
        answer = self._answer
        if answer is None or not answer.status:  # a status of 1xx is a message, too
            return
        again = self._parser.should_keep_alive()
        self._answer = None
        answer.finish()
        self.go_on()
        if again and self._transport is not None and not self._transport.get_write_buffer_size():
            self.used = True
            self._idle(self)
        else:
            self.abort()

    def _ends_with_connection(self) -> bool:
        headers = self._headers
        return "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "")

    def _loss(self, answer: Answer, exc: Exception | None) -> Broken:
        early = not answer.status
        text = "it closed the connection without an answer" if early else "it broke off"
        if exc is not None:
            text = (isinstance(exc, OSError) and exc.strerror) or str(exc) or text
        return Broken(text, early=early, spoke=self._spoke)

    def _break(self, text: str, *, malformed: bool) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.lose(Broken(text, early=not answer.status, spoke=True, malformed=malformed))
        self.abort()
