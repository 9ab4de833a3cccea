"""Provider: a scripted upstream on raw sockets, and the independent witness of its requests and its bills.

A script is a coroutine function that is given one Exchange and does to it what it likes: answer, dawdle, lie, cut.
Which script runs is chosen by the model the request names, then by how often that model was requested.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gateway.domain.channel import Dialect
from tests.fakes.wire import PATIENCE_S, Gone, Head, Socket, chunked, head_bytes

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"

Script = Callable[["Exchange"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bill:
    """What the provider would charge for one answer, and the id it gave that answer."""

    id: str
    input: int
    output: int


@dataclass(eq=False)
class Exchange:
    """One request as it arrived, and the means to answer it."""

    number: int
    """Counted from 1 over the life of the provider; completions are named by it."""
    head: Head
    body: bytes
    socket: Socket
    began: float
    """Loop time at which the request was complete."""
    reused: bool
    """It came over a connection that had served another before."""
    bill: Bill | None = None
    ended: bool = False
    """The script ran to its end."""
    streaming: bool = field(default=False, init=False)

    @property
    def path(self) -> str:
        return self.head.line.split(" ")[1]

    @property
    def json(self) -> dict[str, Any]:
        """The request's body. It is what the gateway sends, so it must parse."""
        doc = json.loads(self.body)
        assert isinstance(doc, dict)
        return doc

    @property
    def gone(self) -> asyncio.Event:
        """Set when the gateway has closed this connection."""
        return self.socket.gone

    async def left(self, patience_s: float = PATIENCE_S) -> float:
        """Wait until the gateway has closed the connection; the loop time at which it did."""
        async with asyncio.timeout(patience_s):
            await self.gone.wait()
        assert self.socket.gone_at is not None
        return self.socket.gone_at

    async def until(self, event: asyncio.Event) -> None:
        """Wait for what the test will set. Raises Gone if the gateway leaves before."""
        loop = asyncio.get_running_loop()
        waits = [loop.create_task(each.wait()) for each in (event, self.gone)]
        try:
            await asyncio.wait(waits, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not event.is_set():
            raise Gone

    async def write(self, data: bytes) -> None:
        await self.socket.write(data)

    async def answer(
        self, body: bytes, *, status: int = 200, kind: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer of known length."""
        await self.begin(status=status, kind=kind, headers={"content-length": str(len(body)), **(headers or {})})
        await self.write(body)

    async def begin(self, *, status: int = 200, kind: str = JSON, headers: Mapping[str, str] | None = None) -> None:
        """The answer's head alone; an empty ``kind`` names no content type."""
        pairs = {"content-type": kind, **(headers or {})}
        await self.write(head_bytes(f"HTTP/1.1 {status} Status", [pair for pair in pairs.items() if pair[1]]))

    async def begin_stream(self, headers: Mapping[str, str] | None = None) -> None:
        await self.begin(kind=EVENTS, headers={"transfer-encoding": "chunked", **(headers or {})})

    async def piece(self, data: bytes) -> None:
        if data:
            await self.write(chunked(data))

    async def finish(self) -> None:
        await self.write(chunked(b""))


class Provider:
    """An upstream at ``base_url``; scripts are set with ``on``."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.other: Script | None = None
        """Answers what no script was set for; None: 404."""
        self.usual: Script | None = None
        """Answers model ``m`` before any script was set."""
        self.faults: list[BaseException] = []
        """What went wrong in scripts: a test must not pass over it."""
        self._scripts: dict[str, list[Script]] = {}
        self._asked: dict[str, int] = {}
        self._arrived = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def root(self, dialect: Dialect) -> str:
        """The address that a channel of this dialect has."""
        return self.base_url if dialect is Dialect.OPENAI else self.base_url.removesuffix("/v1")

    def on(self, model: str, *scripts: Script) -> None:
        """The n-th call of the model is answered by the n-th script; the last one answers all that follow."""
        self._scripts[model] = list(scripts)
        self._asked[model] = 0

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    async def asked(self, count: int = 1) -> Exchange:
        """Wait until that many requests have arrived in all; the last of them."""
        async with asyncio.timeout(PATIENCE_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) >= count)
        return self.exchanges[count - 1]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Provider"]:
        """Listens on a free port of the loopback address."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(_Connection, self), "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in list(self._connections):
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def serve(self, socket: Socket) -> None:
        """One connection: requests one after the other until either side has had enough."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        served = 0
        try:
            while not socket.transport.is_closing():
                await self._answer(await self._receive(socket, reused=served > 0))
                served += 1
        except Gone:
            pass
        finally:
            socket.close()
            self._connections.discard(task)

    async def _receive(self, socket: Socket, *, reused: bool) -> Exchange:
        while not socket.buffer:
            await socket.more(3600)
        head = await socket.read_head()
        body = await socket.read_body(head)
        now = asyncio.get_running_loop().time()
        exchange = Exchange(len(self.exchanges) + 1, head, body, socket, now, reused)
        async with self._arrived:
            self.exchanges.append(exchange)
            self._arrived.notify_all()
        return exchange

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._script(exchange)(exchange)
        except Gone:
            raise
        except Exception as fault:  # noqa: BLE001 - kept, and raised by the fixture
            self.faults.append(fault)
            exchange.socket.reset()
        exchange.ended = True

    def _script(self, exchange: Exchange) -> Script:
        model = str(json.loads(exchange.body).get("model", "")) if exchange.body else exchange.path
        scripts = self._scripts.get(model)
        if not scripts:
            return self.other or (self.usual if model == "m" else None) or _unknown
        turn = self._asked[model]
        self._asked[model] = turn + 1
        return scripts[min(turn, len(scripts) - 1)]


class _Connection(Socket):
    """An accepted connection of a provider."""

    def __init__(self, provider: Provider) -> None:
        super().__init__()
        self._provider = provider
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._task = asyncio.get_running_loop().create_task(self._provider.serve(self), name="fake provider")


async def _unknown(exchange: Exchange) -> None:
    await exchange.answer(b'{"error":{"message":"no script for this","type":"invalid_request_error"}}', status=404)
