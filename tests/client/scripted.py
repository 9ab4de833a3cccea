"""A server that sends what a test gives it, byte by byte, and remembers its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.runfile import Address

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[Address]:
    """Listens on loopback; every connection is one talk."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address(port=server.sockets[0].getsockname()[1])


@asynccontextmanager
async def saying(*parts: bytes, seen: list[bytes] | None = None) -> AsyncIterator[Address]:
    """Reads a head, says the parts one by one, and hangs up properly."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        await reader.read()

    async with talking(talk) as place:
        yield place
