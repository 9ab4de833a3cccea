"""Response: an answer that is sent with its head in one write; and the end of a connection whose client still sends.

aiohttp's own response costs three times as much: for each call it builds a case-insensitive dictionary of headers,
completes it and turns it into bytes. Here the head is text. It has what RFC 9110 requires for an answer of known
length: Date, Content-Length, and Connection if the request's version needs it. HEAD and 204 have no body.

Closing a socket with unread bytes resets the connection, and the reset takes the answer from a client that has not read
it yet. So what still comes is read and dropped, within bounds, while our own direction is already closed.
"""

import asyncio
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_protocol import RequestHandler

from gateway.domain.answer import Buffer

LINGER_S = 30.0
"""How long at most the rest of a request is read and dropped, in seconds."""
QUIET_S = 5.0
"""Seconds of silence after which the client counts as having stopped sending."""
LINGER_BYTES = 256 << 20
"""At most this many bytes are read and dropped."""


async def linger(connection: RequestHandler) -> None:
    """Drop what the client sends until it closes, stops or exceeds the bounds; then close the connection."""
    transport = connection.transport
    if transport is None or transport.is_closing():
        return
    reader = asyncio.StreamReader()
    reader.set_transport(transport)
    transport.set_protocol(asyncio.StreamReaderProtocol(reader))
    with suppress(OSError, RuntimeError, NotImplementedError):  # the client may be gone in this very moment
        transport.write_eof()
        transport.resume_reading()
    try:
        with suppress(TimeoutError, OSError):
            await asyncio.wait_for(_discard(reader), LINGER_S)
    finally:
        if transport.is_closing():
            connection.connection_lost(None)  # so far only the reader knows
        else:
            transport.set_protocol(connection)
            connection.force_close()


async def _discard(reader: asyncio.StreamReader) -> None:
    """Read and drop what the client sends. Raises TimeoutError if it is silent for too long."""
    size = 0
    while size <= LINGER_BYTES and (data := await asyncio.wait_for(reader.read(JOINED), QUIET_S)):
        size += len(data)


JSON: Final = "application/json"
JOINED: Final = 64 << 10
"""The maximum size of a body sent with its head in one write. A longer body is sent in pieces of this size.
``writelines`` is not used: in Python 3.12.1 it continues although the client does not read (CVE-2024-12254)."""

_ENDLESS: Final = frozenset({"CONNECT", "UNKNOWN"})
"""Methods after which nothing on the connection can be read: what follows a CONNECT is neither its body nor a request,
because its tunnel is never opened, and UNKNOWN is aiohttp's name for bytes that are not HTTP."""
_REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Response:
    """What a handler returns to aiohttp, which uses only ``prepare``, ``write_eof`` and ``keep_alive``.

    Names and values of ``headers`` must be printable ASCII: text from outside has passed ``text.plain`` before.
    """

    __slots__ = ("_body", "_head_start", "_request", "_size", "_status", "_unsent", "headers", "keep_alive", "sent")

    def __init__(
        self,
        *body: bytes | memoryview,
        status: int = 200,
        headers: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> None:
        self.headers = {} if headers is None else headers
        self.keep_alive: bool | None = None
        """Whether the connection stays open after the answer; None if the request decides."""
        self.sent = False
        self._size = sum(map(len, body))
        self._head_start = _head_start(status, content_type if self._size else "")
        self._status = status
        self._body = body
        """The part of the body that is still to be sent."""
        self._unsent = b""
        """What will be sent in the loop's next turn: the head, and the body unless it is long."""
        self._request: web.BaseRequest | None = None

    def send(self, request: web.BaseRequest, *, soon: bool = False) -> None:
        """Send the answer now, except for a long body, which is left to ``deliver``. Raises ConnectionResetError.

        ``soon``: send it in the loop's next turn with other answers, so that a receiver is woken once for all of them.
        Until then ``replace`` can exchange it. Not for an answer after which the connection closes.
        """
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        if self.keep_alive is None:
            self.keep_alive = request.keep_alive and not _may_send_more(request)
        if soon:
            self._unsent = self._head_and_body(request)
            asyncio.get_running_loop().call_soon(self._flush, transport)
        else:
            transport.write(self._head_and_body(request))
        self.sent = True
        request.writer.output_size += self._size or 1  # so that nothing else is sent before it

    def replace(self, request: web.BaseRequest, body: bytes, *, status: int, headers: dict[str, str]) -> None:
        """Send this answer in the loop's next turn, in one piece, instead of the one that would be sent then."""
        self.headers, self._status, self._size, self._head_start = headers, status, len(body), _head_start(status, JSON)
        self._body = ()
        self._unsent = self._head_and_body(request) + body

    async def deliver(self, request: web.BaseRequest) -> None:
        """Send a long body as fast as the client reads it, never buffered whole. Raises ConnectionResetError."""
        if self._unsent:  # the head is sent in the loop's next turn
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
        unsent, self._unsent = self._unsent, b""
        transport.write(unsent)

    def _head_and_body(self, request: web.BaseRequest) -> bytes:
        """Returns the head, and the body after it unless it is long."""
        is_1_0 = request.version < (1, 1)
        connection = "" if is_1_0 != self.keep_alive else f"Connection: {'keep-alive' if is_1_0 else 'close'}\r\n"
        fields = "\r\n".join([*map(": ".join, self.headers.items()), ""])
        length = "" if self._status == 204 or self._size < 0 else f"Content-Length: {self._size}\r\n"
        date = rfc822_formatted_time()
        head = (
            f"HTTP/1.{0 if is_1_0 else 1}{self._head_start}{length}Server: tollkeeper\r\nDate: {date}\r\n"
            f"{connection}{fields}\r\n"
        ).encode()
        if request.method == "HEAD":
            self._body = ()
        if self._size > JOINED:
            return head
        body, self._body = self._body, ()  # aiohttp keeps this object until the next request, but not the body
        return b"".join((head, *body))

    async def prepare(self, request: web.BaseRequest) -> None:
        """See aiohttp: called before ``write_eof``, with the request."""
        self._request = request

    async def write_eof(self) -> None:
        """See aiohttp: sends the answer, unless that was done, and waits until the client has read most of it."""
        request, self._request = self._request, None
        if request is not None:
            if not self.sent:
                self.send(request)
            if self._body:
                await self.deliver(request)
            await request.writer.drain()
            if not self.keep_alive and _may_send_more(request):
                await linger(request.protocol)


class StreamedResponse(Response):
    """An answer whose length is not known before its end. Its head is sent with the first bytes, in one write."""

    __slots__ = ("_chunked",)

    def __init__(self, headers: dict[str, str], request: web.BaseRequest) -> None:
        super().__init__(headers=headers)
        self.sent = True
        self._request = request
        self._size = -1  # unknown
        self._chunked = request.version >= (1, 1)  # HTTP/1.0 has no chunks: the answer ends when the connection closes
        self.keep_alive = request.keep_alive and self._chunked
        if self._chunked:
            request.writer.enable_chunking()
            self.headers["Transfer-Encoding"] = "chunked"
        self._unsent = self._head_and_body(request)

    def write(self, data: Buffer) -> None:
        """Send bytes. Without bytes, only the head is sent. Raises ConnectionResetError."""
        if self._request is not None:
            self._write(self._request, data)

    async def prepare(self, request: web.BaseRequest) -> None:
        """See aiohttp: nothing is left to do, because the answer has begun."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the last bytes and the end in one write, once. Aiohttp calls it too."""
        request, self._request = self._request, None
        if request is not None:
            self._write(request, data, b"0\r\n\r\n" if self._chunked else b"")
            await request.writer.drain()

    def _write(self, request: web.BaseRequest, data: Buffer, end: bytes = b"") -> None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        if self._chunked and data:  # an empty chunk would end the answer
            data = b"".join((b"%x\r\n" % len(data), data, b"\r\n"))
        if self._unsent or end:
            data, self._unsent = b"".join((self._unsent, data, end)), b""
        request.writer.output_size += len(data)
        transport.write(data)


@lru_cache(maxsize=256)
def _head_start(status: int, content_type: str) -> str:
    """Returns the head after the HTTP version: the rest of the status line, and the content type."""
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f" {_REASONS.get(status, str(status))}\r\n{kind}"


def _may_send_more(request: web.BaseRequest) -> bool:
    """Returns whether so much of the request may still come that the connection is closed after the answer.

    A short rest of a body is read instead, so that the connection can serve again.
    """
    if request.method in _ENDLESS:
        return True
    return not request.content.is_eof() and not 0 <= (request.content_length or -1) <= 64 << 10
