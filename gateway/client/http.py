"""Http: a small HTTP/1.1 client over a Unix socket or TCP, so that front ends start without a web framework.

One connection a request. It speaks to our own server only: no redirects, no compression, no TLS. Bodies come by length,
in chunks (RFC 9112, section 7.1) or until the connection ends; lines of a stream are given as they are complete.
"""

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec

from gateway.domain.errors import BadRequest, GatewayError, TooLarge, Unavailable

CONNECT_S = 5.0
TIMEOUT_S = 30.0
"""For a whole exchange, by default."""

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 256 << 20
"""Bytes of an answer or of one line of a stream; a year's calls as JSON stay below it."""

FULL_TABLE = (errno.EMFILE, errno.ENFILE)
"""What the system says to a process that may not open another file, a socket included."""

_READ = 64 * 1024


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens: at the path of a Unix socket, or at a host and port."""

    socket: str = ""
    host: str = "127.0.0.1"
    port: int = 0

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """A Unix socket has no name of its own; ``localhost`` is what the server expects there."""
        if self.socket:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``path`` is already percent-encoded."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer; header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Stream:
    """An answer whose head has come."""

    def __init__(self, place: Address, status: int, headers: dict[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.headers = headers
        self._place = place
        self._reader = reader

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises Unavailable when it ends early."""
        async with _turned(self._place):
            async for part in self._parts():
                yield part

    async def _parts(self) -> AsyncIterator[bytes]:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            async for part in self._chunked():
                yield part
        elif (length := self.headers.get("content-length")) is not None:
            async for part in self._exactly(_number(length, 10)):
                yield part
        else:
            while part := await self._reader.read(_READ):
                yield part

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines of the body without their ends, each as soon as it is whole; empty ones are left out."""
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
        """The whole body."""
        body = bytearray()
        async for part in self.chunks():
            body += part
            if len(body) > BODY_LIMIT:
                raise TooLarge(f"the answer has more than {BODY_LIMIT} bytes")
        return bytes(body)

    async def _chunked(self) -> AsyncIterator[bytes]:
        while size := _number((await self._line()).partition(b";")[0].decode("latin-1").strip(), 16):
            async for part in self._exactly(size):
                yield part
            await self._line()
        while await self._line():
            pass

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        left = size
        while left:
            part = await self._reader.read(min(left, _READ))
            if not part:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(part)
            yield part

    async def _line(self) -> bytes:
        return (await self._reader.readuntil(b"\n")).strip(b"\r\n")


@asynccontextmanager
async def exchange(place: Address, ask: HttpRequest, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Stream]:
    """Ask, and give the answer once its head has come; the connection ends with the block.

    ``timeout_s`` is how long the head may take; the body of a stream may take as long as the caller likes.
    Raises Unavailable (code ``server_gone``) when nobody listens or the connection breaks.
    """
    async with _turned(place):
        reader, writer = await _connect(place)
    try:
        async with _turned(place), asyncio.timeout(timeout_s):
            writer.write(_head_of(place, ask) + ask.body)
            await writer.drain()
            status, headers = await _read_head(reader)
        yield Stream(place, status, headers, reader)  # what its user fails at is not the connection's fault
    finally:
        writer.transport.abort()


async def request(place: Address, ask: HttpRequest, *, timeout_s: float = TIMEOUT_S) -> HttpAnswer:
    """One whole exchange within ``timeout_s`` seconds. Raises Unavailable."""
    async with _turned(place), asyncio.timeout(timeout_s), exchange(place, ask, timeout_s=timeout_s) as stream:
        return HttpAnswer(status=stream.status, headers=stream.headers, body=await stream.read())


@asynccontextmanager
async def _turned(place: Address) -> AsyncIterator[None]:
    """Turns what a connection may raise into our errors."""
    try:
        yield
    except TimeoutError as exc:
        raise Unavailable(f"the server at {place} does not answer in time", code="server_slow") from exc
    except EOFError as exc:
        raise Unavailable(f"the server at {place} is gone: the connection was lost", code="server_gone") from exc
    except OSError as exc:
        if exc.errno in FULL_TABLE:
            raise too_many_files(exc) from exc
        reason = exc.strerror or str(exc) or type(exc).__name__
        raise Unavailable(f"the server at {place} is gone ({reason})", code="server_gone") from exc
    except asyncio.LimitOverrunError as exc:
        raise _strange("a line is too long") from exc


async def listens(place: Address) -> bool:
    """Whether a process listens there, whatever it would answer. Raises Unavailable if that cannot be found out."""
    try:
        async with _turned(place):
            _, writer = await _connect(place)
    except Unavailable as error:
        if error.code == "server_gone":
            return False
        raise
    writer.transport.abort()
    return True


def too_many_files(exc: OSError) -> Unavailable:
    """It is this process that can open no more; nothing is known of the server."""
    text = f"this process cannot open another file ({exc.strerror}); close some, or raise the limit with 'ulimit -n'"
    return Unavailable(text, code="too_many_files")


async def _connect(place: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(CONNECT_S):
        if place.socket:
            return await asyncio.open_unix_connection(place.socket, limit=HEAD_LIMIT)
        return await asyncio.open_connection(place.host, place.port, limit=HEAD_LIMIT)


def _head_of(place: Address, ask: HttpRequest) -> bytes:
    lines = [f"{ask.method} {ask.path} HTTP/1.1", f"Host: {place.host_header}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in ask.headers.items()]
    if ask.body or ask.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(ask.body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise BadRequest("a header of the request holds a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise _strange("it does not speak HTTP")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return _number(rest[:3], 10), headers


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError as exc:
        raise _strange(f"{text[:20]!r} is not a number") from exc


def _strange(why: str) -> GatewayError:
    return Unavailable(f"this answer is not from a Tollkeeper server: {why}", code="server_strange")
