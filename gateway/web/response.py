"""A whole answer, sent with its head in one write, and the closing of a connection on which a client still sends.

aiohttp's own response costs three times as much: for each call it builds a case-insensitive dictionary of headers,
completes it and turns it into bytes. Here the head is text. What RFC 9110 requires for an answer of known length is
done: Date, Content-Length, Connection as the request's version wants it, and no body to HEAD or with 204.

Closing a socket with unread bytes resets the connection, and the reset takes the answer from a client that has not read
it yet. So the rest is read and dropped, within bounds of time and size, while our own direction is already closed.
"""

import asyncio
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_protocol import RequestHandler

from gateway.domain.answer import Buffer

LINGER_S = 30.0
"""Seconds that the rest of a body may take in total."""
QUIET_S = 5.0
"""Seconds of silence after which the client has stopped sending."""
LINGER_BYTES = 256 << 20
"""The most bytes that are read and dropped."""


async def linger(connection: RequestHandler) -> None:
    """Drop what still comes until the client closes, stops or exceeds the bounds; then close the connection."""
    transport = connection.transport
    if transport is None or transport.is_closing():
        return
    rest = _Rest(connection)
    transport.set_protocol(rest)
    with suppress(OSError, RuntimeError, NotImplementedError):  # the client may be gone in this very moment
        transport.write_eof()
        transport.resume_reading()
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while not rest.over.done():
                before = rest.size
                await asyncio.wait([rest.over], timeout=QUIET_S)
                if rest.size == before:
                    break
    connection.force_close()


class _Rest(asyncio.Protocol):
    """Reads instead of the connection. Everything else stays the connection's."""

    def __init__(self, connection: RequestHandler) -> None:
        self._connection = connection
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.size = 0

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self.size += len(data)
        if self.size > LINGER_BYTES:
            self._end()

    def eof_received(self) -> None:
        """See asyncio: the client has read its answer, or will send no more."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._end()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._connection.resume_writing()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


JSON: Final = "application/json"
JOINED: Final = 64 << 10
"""Bytes of a body that are copied after their head to go out in one write; a longer body goes in pieces of this size.
``writelines`` is not used: in Python 3.12.1 it continues although the client does not read (CVE-2024-12254)."""


_ENDLESS: Final = frozenset({"CONNECT", "UNKNOWN"})
"""What follows a CONNECT is neither its body nor a request: its tunnel is never opened. UNKNOWN is aiohttp's name for
bytes that are not HTTP."""
_NO_CONTENT: Final = HTTPStatus.NO_CONTENT.value
_REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Response:
    """What a handler returns to aiohttp, which uses only these three members.

    Names and values of ``headers`` must be printable ASCII: text from outside has passed ``text.plain`` before.
    """

    __slots__ = ("_body", "_due", "_request", "_size", "_start", "_status", "headers", "keep_alive", "sent")

    def __init__(
        self,
        *body: bytes | memoryview,
        status: int = 200,
        headers: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> None:
        self.headers = {} if headers is None else headers
        self.keep_alive: bool | None = None
        """None: as the request wants it. False closes the connection after the answer."""
        self.sent = False
        self._size = sum(map(len, body))
        self._start = _start(status, content_type if self._size else "")
        self._status = status
        self._body = body
        """The part of the body that is still to be sent."""
        self._due = b""
        """What goes out in the loop's next turn: the head, and the body unless it is long."""
        self._request: web.BaseRequest | None = None

    def send(self, request: web.BaseRequest, *, soon: bool = False) -> None:
        """Send it now, except for a long body, which is left to ``deliver``. Raises ConnectionResetError.

        ``soon``: in the loop's next turn with other answers, so that a receiver is woken once for all of them. Not for
        an answer after which the connection closes. Until then ``replace`` can exchange it.
        """
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        if self.keep_alive is None:
            self.keep_alive = request.keep_alive and not _has_more(request)
        if soon:
            self._due = self._begin(request)
            asyncio.get_running_loop().call_soon(self._flush, transport)
        else:
            transport.write(self._begin(request))
        self.sent = True
        request.writer.output_size += self._size or 1  # so that nothing else goes out before it

    def replace(self, request: web.BaseRequest, body: bytes, *, status: int, headers: dict[str, str]) -> None:
        """Send this in the loop's next turn, in one piece, instead of what was to be sent then."""
        self.headers, self._status, self._size, self._start = headers, status, len(body), _start(status, JSON)
        self._body = ()
        self._due = self._begin(request) + body

    async def deliver(self, request: web.BaseRequest) -> None:
        """Send the rest piece by piece, as the client takes it: the transport never holds the whole.

        Raises ConnectionResetError if the client is gone.
        """
        if self._due:  # the head goes out in the loop's next turn
            await asyncio.sleep(0)
        body, self._body = self._body, ()
        for part in body:
            for start in range(0, len(part), JOINED):
                transport = request.transport
                if transport is None or transport.is_closing():
                    raise ConnectionResetError("the client is gone")
                transport.write(bytes(part[start : start + JOINED]))
                await request.writer.drain()

    def _flush(self, transport: asyncio.WriteTransport) -> None:
        due, self._due = self._due, b""
        transport.write(due)

    def _begin(self, request: web.BaseRequest) -> bytes:
        """Returns the head, and the body after it unless it is long."""
        old = request.version < (1, 1)
        connection = "" if old is not self.keep_alive else f"Connection: {'keep-alive' if old else 'close'}\r\n"
        fields = "\r\n".join([*map(": ".join, self.headers.items()), ""])
        length = "" if self._status == _NO_CONTENT else f"Content-Length: {self._size}\r\n"
        head = (
            f"HTTP/1.{0 if old else 1}{self._start}{length}Server: tollkeeper\r\nDate: {rfc822_formatted_time()}\r\n"
            f"{connection}{fields}\r\n"
        ).encode()
        if request.method == "HEAD":
            self._body = ()
        if self._size > JOINED:
            return head
        body, self._body = self._body, ()  # aiohttp keeps us until the next request: the transport alone has it now
        return b"".join((head, *body))

    async def prepare(self, request: web.BaseRequest) -> None:
        """Aiohttp's hook: sets the request."""
        self._request = request

    async def write_eof(self) -> None:
        """Aiohttp's hook: send, unless done, and wait while the client reads more slowly than we write."""
        request, self._request = self._request, None
        if request is not None:
            if not self.sent:
                self.send(request)
            if self._body:
                await self.deliver(request)
            await request.writer.drain()
            if not self.keep_alive and _has_more(request):
                await linger(request.protocol)


class StreamedResponse(Response):
    """An answer whose length is not known before its end. Its head goes out with the first bytes, in one write."""

    __slots__ = ("_writer",)

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(headers=headers)
        self.sent = True
        self._writer: AbstractStreamWriter | None = None

    async def begin(self, request: web.BaseRequest) -> None:
        """Prepare the head."""
        writer = self._writer = request.writer
        old = request.version < (1, 1)  # without chunks the end is that of the connection
        self.keep_alive = request.keep_alive and not old
        headers = {**self.headers, "Server": "tollkeeper", "Date": rfc822_formatted_time()}
        if not old:
            writer.enable_chunking()
            headers["Transfer-Encoding"] = "chunked"
            if not self.keep_alive:
                headers["Connection"] = "close"
        line = f"HTTP/1.{0 if old else 1} 200 OK"
        await writer.write_headers(line, headers)  # type: ignore[arg-type] # it takes any mapping

    async def write(self, data: Buffer) -> None:
        """Send bytes. Waits while the client reads more slowly. Raises ConnectionResetError."""
        if self._writer is not None:
            await self._writer.write(data)

    async def prepare(self, request: web.BaseRequest) -> None:
        """Aiohttp's hook: it has begun."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the last bytes and the end in one write, once. It is also aiohttp's hook."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.write_eof(data)


@lru_cache(maxsize=256)
def _start(status: int, content_type: str) -> str:
    """Returns the head from after the version up to its length."""
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f" {_REASONS.get(status, str(status))}\r\n{kind}"


def _has_more(request: web.BaseRequest) -> bool:
    """Returns whether so much of the request may still come that the connection is better closed after the answer."""
    if request.method in _ENDLESS:
        return True
    # worth reading, so that the connection can serve again
    return not request.content.is_eof() and not 0 <= (request.content_length or -1) <= 64 << 10
