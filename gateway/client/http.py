"""Http: a small HTTP/1.1 client over a Unix socket or TCP, so that front ends need not import a web framework.

It opens a connection for each request, and talks only to our own server: no redirects, no compression, no TLS.
"""

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest, GatewayError, TooLarge, Unavailable, error_class
from gateway.runfile import Address

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 256 << 20
"""The maximum size of an answer, or of a line of a stream, in bytes; a year of calls as JSON is smaller."""


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``path`` is percent-encoded."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer. Header names are in lower case."""

    headers: dict[str, str]
    body: bytes


class Stream:
    """An answer whose head has arrived."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
        self.headers = headers
        self._address = address
        self._reader = reader

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yields the body as it arrives. Raises Unavailable if it is incomplete."""
        async with _translate_errors(self._address):
            async for part in _body(self._reader, self.headers):
                yield part

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yields the lines of the body without line ends, each as soon as it is complete. Empty lines are left out."""
        line = bytearray()
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                *ends, begin = chunk.split(b"\n")
                for end in ends:
                    line += end
                    if line:
                        yield bytes(line)
                        line.clear()
                line += begin
                if len(line) > BODY_LIMIT:
                    raise TooLarge(f"a line of the answer has more than {BODY_LIMIT} bytes")
        if line:
            yield bytes(line)

    async def read(self) -> bytes:
        """Returns the whole body. Raises TooLarge."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > BODY_LIMIT:
                raise TooLarge(f"the answer has more than {BODY_LIMIT} bytes")
        return bytes(body)


@asynccontextmanager
async def exchange(address: Address, message: ClientRequest, *, timeout_s: float = 30.0) -> AsyncIterator[Stream]:
    """Send a request, and yield the answer as soon as its head has arrived. The connection is closed after the block.

    ``timeout_s`` limits the time until the head arrives, but not the body. Raises the server's error, and Unavailable
    with the code ``server_gone`` if no server listens, or if the connection is lost.
    """
    async with _translate_errors(address):
        reader, writer = await _connect(address)
    try:
        async with _translate_errors(address), asyncio.timeout(timeout_s):
            writer.write(_head_of(address, message) + message.body)
            await writer.drain()
            status, headers = await _read_head(reader)
            stream = Stream(address, reader, headers)
            if not 200 <= status < 300:
                raise error_of(status, await stream.read(), headers.get("retry-after", ""))
        yield stream  # outside, because errors of the block are not the connection's
    finally:
        writer.transport.abort()


async def request(address: Address, message: ClientRequest, *, timeout_s: float = 30.0) -> HttpAnswer:
    """Returns the complete answer to a request, which may take ``timeout_s`` seconds. Raises what ``exchange`` does."""
    async with (
        _translate_errors(address),
        asyncio.timeout(timeout_s),
        exchange(address, message, timeout_s=timeout_s) as stream,
    ):
        return HttpAnswer(headers=stream.headers, body=await stream.read())


def error_of(status: int, body: bytes, retry_after: str = "") -> GatewayError:
    """Returns the exception for an error response. Its class depends on the code, or else on the status.

    ``retry_after`` is the header with that name; if it has seconds, the message says when to try again.
    """
    error = rawjson.at(rawjson.maybe(body), "error")
    message = rawjson.text_at(error, "message") or f"the server answered with status {status}"
    if retry_after.isdecimal() and "again in" not in message:
        message += f"; try again in {retry_after} s"
    code, param = rawjson.text_at(error, "code"), rawjson.text_at(error, "param") or None
    kind = error_class(status, code)
    return kind(message, code=code, param=param, details=rawjson.at(error, "gateway") or {})


@asynccontextmanager
async def _translate_errors(address: Address) -> AsyncIterator[None]:
    try:
        yield
    except TimeoutError as exc:
        raise Unavailable(f"the server at {address} does not answer in time", code="server_slow") from exc
    except EOFError as exc:
        raise Unavailable(f"the server at {address} is gone: the connection was lost", code="server_gone") from exc
    except (ValueError, asyncio.LimitOverrunError) as exc:
        raise Unavailable(f"the answer is not from a Tollkeeper server: {exc}", code="server_strange") from exc
    except OSError as exc:
        if exc.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(exc) from exc
        reason = exc.strerror or str(exc) or type(exc).__name__
        raise Unavailable(f"the server at {address} is gone ({reason})", code="server_gone") from exc


async def is_listening(address: Address) -> bool:
    """Returns whether any process listens there. Raises Unavailable if that cannot be determined."""
    try:
        async with _translate_errors(address):
            _, writer = await _connect(address)
    except Unavailable as error:
        if error.code == "server_gone":
            return False
        raise
    writer.transport.abort()
    return True


def too_many_files(exc: OSError) -> Unavailable:
    """Returns the error if this process can open no more files, so that it learns nothing about the server."""
    text = f"this process cannot open another file ({exc.strerror}); close some, or raise the limit with 'ulimit -n'"
    return Unavailable(text, code="too_many_files")


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(5.0):
        if address.socket:
            return await asyncio.open_unix_connection(address.socket, limit=HEAD_LIMIT)
        return await asyncio.open_connection(address.host, address.port, limit=HEAD_LIMIT)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Returns the status and headers of the final answer, after 1xx answers. Raises ValueError and EOFError."""
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
        if not status_line.startswith("HTTP/1."):
            raise ValueError("it does not begin with a version of HTTP")
        if (status := int(status_line.partition(" ")[2][:3])) >= 200:
            pairs = (field.partition(":") for field in fields)
            return status, {name.lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises ValueError, and EOFError if it is incomplete."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # skip a trailer
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        while part := await reader.read(HEAD_LIMIT):
            yield part


def _head_of(address: Address, message: ClientRequest) -> bytes:
    """Returns the head of a request. Raises BadRequest for a header with a line break."""
    lines = [f"{message.method} {message.path} HTTP/1.1", f"Host: {address.host_header}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in message.headers.items()]
    if message.body or message.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(message.body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise BadRequest("a header of the request has a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
