"""Http: a small HTTP/1.1 client over a Unix socket or TCP, so that front ends start without a web framework.

It uses one connection for each request and speaks only to our own server: no redirects, no compression, no TLS. Lines
of a stream are yielded as they become complete.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec

from gateway.domain.errors import BadRequest, TooLarge, Unavailable

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 256 << 20
"""The most bytes of an answer or of a stream's line; a year's calls as JSON stay below it."""

FULL_TABLE = (errno.EMFILE, errno.ENFILE)
"""The system's errors for a process that may not open another file or socket."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens: at the path of a Unix socket, or at a host and port."""

    socket: str = ""
    host: str = "127.0.0.1"
    port: int = 0

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Returns the Host header. A Unix socket has no name; the server expects ``localhost`` there."""
        if self.socket:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``path`` is already percent-encoded."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. Header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Stream:
    """An answer whose head has arrived."""

    def __init__(self, place: Address, reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._place = place
        self._reader = reader

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yields the body as it arrives. Raises Unavailable when it ends early."""
        async with _translate_errors(self._place):
            async for part in _body(self._reader, self.headers):
                yield part

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yields the lines of the body without their ends, each as soon as it is complete; empty ones are left out."""
        rest = bytearray()
        async with aclosing(self.chunks()) as chunks:
            async for part in chunks:
                *whole, last = part.split(b"\n")
                for line in whole:
                    rest += line
                    if rest:
                        yield bytes(rest)
                        rest.clear()
                rest += last
                if len(rest) > BODY_LIMIT:
                    raise TooLarge(f"a line of the answer has more than {BODY_LIMIT} bytes")
        if rest:
            yield bytes(rest)

    async def read(self) -> bytes:
        """Returns the whole body."""
        body = bytearray()
        async for part in self.chunks():
            body += part
            if len(body) > BODY_LIMIT:
                raise TooLarge(f"the answer has more than {BODY_LIMIT} bytes")
        return bytes(body)


@asynccontextmanager
async def exchange(place: Address, ask: ClientRequest, *, timeout_s: float = 30.0) -> AsyncIterator[Stream]:
    """Send a request and yield the answer once its head arrived. The connection ends with the block.

    ``timeout_s`` is how long the head may take; the body of a stream may take as long as the caller likes. Raises
    Unavailable (code ``server_gone``) when nothing listens or the connection breaks.
    """
    async with _translate_errors(place):
        reader, writer = await _connect(place)
    try:
        async with _translate_errors(place), asyncio.timeout(timeout_s):
            writer.write(_head_of(place, ask) + ask.body)
            await writer.drain()
            status, headers = await _read_head(reader)
        yield Stream(place, reader, status, headers)  # errors of the block are not the connection's
    finally:
        writer.transport.abort()


async def request(place: Address, ask: ClientRequest, *, timeout_s: float = 30.0) -> HttpAnswer:
    """Returns the answer of one whole exchange within ``timeout_s`` seconds. Raises Unavailable."""
    async with (
        _translate_errors(place),
        asyncio.timeout(timeout_s),
        exchange(place, ask, timeout_s=timeout_s) as stream,
    ):
        return HttpAnswer(status=stream.status, headers=stream.headers, body=await stream.read())


@asynccontextmanager
async def _translate_errors(place: Address) -> AsyncIterator[None]:
    """Turns connection errors into ours."""
    try:
        yield
    except TimeoutError as exc:
        raise Unavailable(f"the server at {place} does not answer in time", code="server_slow") from exc
    except EOFError as exc:
        raise Unavailable(f"the server at {place} is gone: the connection was lost", code="server_gone") from exc
    except (ValueError, asyncio.LimitOverrunError) as exc:
        raise Unavailable(f"this answer is not from a Tollkeeper server: {exc}", code="server_strange") from exc
    except OSError as exc:
        if exc.errno in FULL_TABLE:
            raise too_many_files(exc) from exc
        reason = exc.strerror or str(exc) or type(exc).__name__
        raise Unavailable(f"the server at {place} is gone ({reason})", code="server_gone") from exc


async def listens(place: Address) -> bool:
    """Returns whether a process listens there, whatever it would answer. Raises Unavailable if that cannot be found
    out.
    """
    try:
        async with _translate_errors(place):
            _, writer = await _connect(place)
    except Unavailable as error:
        if error.code == "server_gone":
            return False
        raise
    writer.transport.abort()
    return True


def too_many_files(exc: OSError) -> Unavailable:
    """Returns the error that this process can open no more files; nothing is known about the server."""
    text = f"this process cannot open another file ({exc.strerror}); close some, or raise the limit with 'ulimit -n'"
    return Unavailable(text, code="too_many_files")


async def _connect(place: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(5.0):
        if place.socket:
            return await _connect_unix(place.socket)
        return await asyncio.open_connection(place.host, place.port, limit=HEAD_LIMIT)


async def _connect_unix(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect without the event loop if that works at once, as it usually does: the loop would load all of TLS."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except BlockingIOError:
            await asyncio.get_running_loop().sock_connect(connection, path)
        return await asyncio.open_unix_connection(sock=connection, limit=HEAD_LIMIT)
    except BaseException:
        connection.close()
        raise


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Returns status and headers of the answer itself, not of a preceding 1xx. Raises ValueError and EOFError."""
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
        if not line.startswith("HTTP/1."):
            raise ValueError("it does not begin with a version of HTTP")
        if (status := int(line.partition(" ")[2][:3])) >= 200:
            pairs = (field.partition(":") for field in fields)
            return status, {name.lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises ValueError, and EOFError if it ends early."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            async for part in _exactly(reader, size):
                yield part
            await reader.readexactly(2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # a trailer
    elif "content-length" in headers:
        async for part in _exactly(reader, int(headers["content-length"])):
            yield part
    else:
        while part := await reader.read(HEAD_LIMIT):
            yield part


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size > 0:
        part = await reader.read(min(size, HEAD_LIMIT))
        if not part:
            raise EOFError
        size -= len(part)
        yield part


def _head_of(place: Address, ask: ClientRequest) -> bytes:
    lines = [f"{ask.method} {ask.path} HTTP/1.1", f"Host: {place.host_header}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in ask.headers.items()]
    if ask.body or ask.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(ask.body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise BadRequest("a header of the request holds a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
