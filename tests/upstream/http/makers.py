"""Makers: a pool that asks a provider's scripts one after the other; peers that are written byte by byte."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trustme

from gateway.domain.channel import Timeouts
from gateway.domain.order import PreparedRequest
from gateway.inbound.chat.native import NativeChatStream
from gateway.upstream.http.parser import WireAnswer
from gateway.upstream.http.pool import Pool
from gateway.upstream.http.reply import HttpReply
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import Seen
from tests.fakes.wire import PATIENCE_S, Gone, Socket
from tests.upstream.makers import channel

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"

Talk = Callable[[Socket], Awaitable[None]]
"""What a peer does with one connection."""


async def head_of(answer: WireAnswer) -> None:
    """Wait until status and headers are there."""
    while not answer.status:
        await answer.wait()


class Asker:
    """Asks through one pool, whose deadlines are those of the first question."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._pool: Pool | None = None

    async def __call__(self, script: Script, **deadlines: float) -> HttpReply:
        self._provider.on("m", script)
        up = channel(self._provider.base_url)
        up = msgspec.structs.replace(up, timeouts=Timeouts(**deadlines))
        self._pool = self._pool or Pool(up, {})
        asked = PreparedRequest(url=f"{up.base_url}/chat/completions", headers={}, body=b'{"model":"m"}')
        return await self._pool.send("POST", asked, up.timeouts.head)

    @property
    def pool(self) -> Pool:
        assert self._pool is not None
        return self._pool

    @property
    def exchange(self) -> Exchange:
        """The last one."""
        return self._provider.last

    async def idle(self) -> None:
        """Until the exchange has ended and its bytes have been read."""
        await until(lambda: self.exchange.ended)
        await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


async def pieces_of(answer: HttpReply) -> AsyncIterator[bytes]:
    """All that comes, each read a sign of life."""
    seen: Any = Seen()
    async for data in answer.chunks(seen):
        seen.events += 1
        yield data


async def drain(answer: HttpReply, into: NativeChatStream) -> None:
    """Feed all that comes."""
    async for data in answer.chunks(into):
        into.feed(data)


async def until(true: Callable[[], object]) -> None:
    """For what tells nobody when it comes about."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.002)


@asynccontextmanager
async def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A peer that talks so; its port."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []
    server = await loop.create_server(partial(_Peer, talk, tasks), "127.0.0.1", 0, ssl=tls, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Peer(Socket):
    def __init__(self, talk: Talk, tasks: list[asyncio.Task[None]]) -> None:
        super().__init__()
        self._talk, self._tasks = talk, tasks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tasks.append(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        try:
            await self._talk(self)
        except Gone:
            pass
        finally:
            self.transport.abort()


def certified(authority: trustme.CA, name: str, expires: dt.datetime | None = None) -> ssl.SSLContext:
    """What a host of that name speaks TLS with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, not_after=expires).configure_cert(context)
    return context


OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def proxying(answer: bytes | Callable[[str], bytes], heard: list[str]) -> AsyncIterator[int]:
    """A proxy that notes its request, answers this, and then passes bytes on to the requested address.

    A function makes the answer of what shall open the proxy.
    """

    async def talk(peer: Socket) -> None:
        head = await peer.read_head()
        key = head.get("proxy-authorization")
        heard.extend([head.line, head.get("host"), key])
        said = answer if isinstance(answer, bytes) else answer(key)
        await peer.write(said)
        if said != OPEN:
            await peer.gone.wait()
            return
        host, _, port = head.line.split()[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        with_peer = asyncio.create_task(_pump(peer, writer))
        try:
            while data := await reader.read(65536):
                await peer.write(data)
        finally:
            with_peer.cancel()
            writer.transport.abort()

    async with listening(talk) as port:
        yield port


async def _pump(peer: Socket, writer: asyncio.StreamWriter) -> None:
    while True:
        if not peer.buffer:
            await peer.more()
        writer.write(peer.take(len(peer.buffer)))


def saying(*answers: bytes) -> Talk:
    """Each request of a connection gets the next answer; after the last one the peer waits to be left."""

    async def talk(peer: Socket) -> None:
        for answer in answers:
            await peer.read_body(await peer.read_head())
            await peer.write(answer)
        await peer.gone.wait()

    return talk


async def hang(peer: Socket) -> None:
    """Say nothing."""
    await peer.gone.wait()


def question(port: int, body: bytes = b"{}", *, scheme: str = "http") -> PreparedRequest:
    return PreparedRequest(url=f"{scheme}://127.0.0.1:{port}/v1/x", headers={}, body=body)


@asynccontextmanager
async def pooled() -> AsyncIterator[Pool]:
    """A pool, closed at the end, with nothing left over."""
    pool = Pool(channel(), {})
    yield pool
    await pool.close()
    assert pool.busy == 0
