"""What answers take of a real server's memory, as the system sees it, while they are held and afterwards.

TOLLKEEPER_FULL=1: as many of them as the goals say.
"""

import asyncio
import gzip
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pytest

from gateway.domain.channel import Dialect
from tests.cases.gemini import streams
from tests.fakes import messages
from tests.fakes.client import Client
from tests.fakes.gateway import running
from tests.fakes.provider import EVENTS, JSON, Exchange, Provider, Script
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, speak, story, usage, whole as message
from tests.fakes.wire import Socket
from tests.house import FULL
from tests.server import serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured, and given back, on Linux")

READERS = 200 if FULL else 40
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Server:
    """A server in a process of its own, whose channels lead to the test's provider."""

    process: psutil.Process
    client: Client

    @property
    def resident(self) -> int:
        return int(self.process.memory_info().rss)

    async def shrunk(self, most: int) -> bool:
        """Whether the process is at most that large within some seconds."""
        for _ in range(60):
            if self.resident <= most:
                return True
            await asyncio.sleep(0.1)
        return False


@asynccontextmanager
async def served(home: Path, provider: Provider, **settings: int) -> AsyncIterator[Server]:
    """Such a server, warm: it has answered a plain call and a stream."""
    async with running(home) as gateway:
        root = f"http://127.0.0.1:{provider.port}"
        gateway.channel(provider.base_url, "m", "events", "warm")
        gateway.channel(root, "anthropic-m", name="anthropic", dialect=Dialect.ANTHROPIC)
        gateway.channel(root + "/v1beta", "gemini-m", name="gemini", dialect=Dialect.GEMINI)
        gateway.settings(**{"token_streams": 0, "channel_calls": 0, "memory_mib": 0, **settings})
        key = gateway.client.key
    provider.on("warm", speak())
    async with serving(home, start=subprocess.Popen) as child:  # a fork shares memory with its parent
        client = Client(child.port, key)
        for stream in (False, True, False, True):
            assert (await client.chat("warm", stream=stream)).status == 200
        await asyncio.sleep(1.2)  # what the start needed has been given back
        yield Server(psutil.Process(child.process.pid), client)
        child.signal()
        assert await child.ended() == 0


@cache
def words(size: int, packed: bool) -> bytes:
    one = event(chunk(delta("word " * (size // 5))))
    body = event(story()[0]) + one * ((32 << 20) // len(one)) + event(story()[-1]) + DONE
    return gzip.compress(body, 6) if packed else body


def whole(body: bytes, kind: str = JSON, *, packed: bool = False, status: int = 200) -> Script:
    """An answer of this body."""
    coding = {"content-encoding": "gzip"} if packed else {}

    async def script(exchange: Exchange) -> None:
        await exchange.begin(status=status, kind=kind, headers={"content-length": str(len(body)), **coding})
        for start in range(0, len(body), 256 * KIB):
            if exchange.gone.is_set():
                break
            await exchange.write(body[start : start + 256 * KIB])

    return script


async def stalled(client: Client) -> Socket:
    """A reader of a stream who stops after its head."""
    peer = await client.send(client.chat_bytes(stream=True), window=4 * KIB)
    assert (await peer.read_head()).status == 200
    peer.stop_reading()
    return peer


async def settled(server: Server) -> int:
    """The size of the process once it has stopped growing."""
    size, same = 0, 0
    for _ in range(300):
        before, size = size, server.resident
        same = same + 1 if abs(size - before) < 200 * KIB else 0
        if same == 10:
            break
        await asyncio.sleep(0.1)
    return size


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("size", "packed"), [(40, False), (40, True), (200_000, False)])
async def test_stalled_readers_cost_half_a_mebibyte_each_and_nothing_afterwards(
    home: Path, provider: Provider, size: int, *, packed: bool
) -> None:
    """``size``: characters of an event."""
    provider.on("m", whole(words(size, packed), EVENTS, packed=packed))
    async with served(home, provider) as server:
        base = server.resident
        readers = [await stalled(server.client) for _ in range(READERS)]
        each = (await settled(server) - base) / len(readers)
        for reader in readers:
            reader.reset()
        assert each < 512 * KIB
        assert await server.shrunk(base + 8 * MIB)


SIZE, COUNT = (62_000_000, 24) if FULL else (12_000_000, 8)
LIMIT = 256 if FULL else 32
SPARE = 2 * SIZE + 32 * MIB
"""Beside the answers: what one of them takes while it is read, and what the server takes to work at all."""


def anthropic(text: bytes) -> bytes:
    return dumps(messages.message(messages.text_block("TEXT"))).replace(b"TEXT", text)


def gemini(text: bytes) -> bytes:
    return dumps(streams.response(streams.say("TEXT"), finish="STOP", **streams.spent(9, 12))).replace(b"TEXT", text)


def openai(text: bytes) -> bytes:
    return dumps(message("m", choice("TEXT"), spent=usage())).replace(b"TEXT", text)


def events(text: bytes) -> bytes:
    """Events nearly as large as they may be."""
    parts = [text[start : start + (15 << 20)] for start in range(0, len(text), 15 << 20)]
    large = [event(chunk(delta("TEXT"))).replace(b"TEXT", part) for part in parts]
    return event(story()[0]) + b"".join(large) + event(story()[-1]) + DONE


BODIES = {"m": (openai, JSON), "events": (events, EVENTS), "anthropic-m": (anthropic, JSON), "gemini-m": (gemini, JSON)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "stream"),
    [
        ("m", False),
        ("events", False),
        ("anthropic-m", False),
        ("gemini-m", False),
        ("m", True),
        ("events", True),
        ("anthropic-m", True),
        ("gemini-m", True),
    ],
)
async def test_answers_stay_within_their_memory(home: Path, provider: Provider, model: str, *, stream: bool) -> None:
    """They come packed, 60 kB for 62 MB, all at once; every one of them is delivered in the end."""
    make, kind = BODIES[model]
    provider.other = whole(gzip.compress(make(b"x" * SIZE), 6), kind, packed=True)
    async with served(home, provider, answers_mib=LIMIT) as server, peak(server) as highest:
        base = server.resident
        sizes = await asyncio.gather(*(delivered(server.client, model, stream=stream) for _ in range(COUNT)))
        assert min(sizes) >= SIZE
        assert highest() - base < LIMIT * MIB + SPARE
        assert await server.shrunk(base + 8 * MIB)


async def delivered(client: Client, model: str, *, stream: bool) -> int:
    """The size of the body of a good answer, which is not kept."""
    peer = await client.send(client.chat_bytes(model, stream=stream, max_tokens=10))
    head = await peer.read_head()
    assert head.status == 200
    size = sum([len(piece) async for piece in peer.pieces(head, answer=True)])
    peer.close()
    return size


@asynccontextmanager
async def peak(server: Server) -> AsyncIterator[Callable[[], int]]:
    """Yields the largest size the process has had in the block."""
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, server.resident)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(look())
    try:
        yield lambda: most
    finally:
        task.cancel()
