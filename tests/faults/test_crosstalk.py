"""Nobody ever gets a word of another's answer, however many leave in the middle. TOLLKEEPER_FULL=1: 20,000 calls."""

import asyncio
import os
import random
from collections import Counter

import pytest

from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, usage, whole as completion
from tests.fakes.wire import Gone, Socket

CALLS = 20_000 if os.environ.get("TOLLKEEPER_FULL") else 600
CALLERS = 40


def echo(seed: int) -> "Echo":
    return Echo(random.Random(seed))


class Echo:
    """An upstream that repeats its prompt, in pieces, at its own pace; now and then it closes after an answer."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def __call__(self, exchange: Exchange) -> None:
        asked = exchange.json
        nonce = str(asked["messages"][-1]["content"])
        if asked.get("stream"):
            await self._stream(exchange, nonce)
        else:
            await self._pause()
            await exchange.answer(dumps(completion("m", choice(nonce), id=nonce, spent=usage())))
        if self._chance.random() < 0.05:
            exchange.socket.close()

    async def _stream(self, exchange: Exchange, nonce: str) -> None:
        await exchange.begin_stream()
        for word in nonce.split("-"):
            await self._pause()
            await exchange.piece(event(chunk(delta(word + "-"), id=nonce, model="m")))
        last = [chunk(delta(finish="stop"), id=nonce, model="m"), chunk(id=nonce, model="m", usage=usage())]
        await exchange.piece(b"".join(map(event, last)) + DONE)
        await exchange.finish()

    async def _pause(self) -> None:
        if self._chance.random() < 0.3:
            await asyncio.sleep(self._chance.random() * 0.01)


class Caller:
    """Calls one after the other, over one connection as long as it lasts, and often leaves before the end."""

    def __init__(self, gateway: Gateway, number: int, counts: Counter[str]) -> None:
        self._client = gateway.client
        self._number = number
        self._chance = random.Random(number)
        self._counts = counts
        self._peer: Socket | None = None

    async def work(self, calls: int) -> None:
        for call in range(calls):
            parts = [f"{self._number:03}x{call:05}x{part}" for part in range(self._chance.randint(1, 6))]
            await self._call("-".join(parts), stream=self._chance.random() < 0.6, leaves=self._chance.random() < 0.4)
        if self._peer is not None:
            self._peer.close()

    async def _call(self, nonce: str, *, stream: bool, leaves: bool) -> None:
        peer = self._peer or await self._client.connect()
        self._peer = None
        messages = [{"role": "user", "content": nonce}]
        await peer.write(self._client.chat_bytes(messages=messages, stream=stream))
        if leaves:
            await asyncio.sleep(self._chance.random() * 0.02)
            got = bytes(peer.buffer)
            peer.reset()
            self._counts["left"] += 1
            self._counts["cross-talk"] += self._foreign(got, nonce)
            return
        try:
            answer = await read_answer(peer)
        except Gone:
            self._counts["gone"] += 1
            return
        self._peer = peer
        self._counts[self._verdict(answer, nonce, stream=stream)] += 1

    def _verdict(self, answer: Answer, nonce: str, *, stream: bool) -> str:
        if answer.status != 200:
            return f"status {answer.status}"
        good = answer.text == (nonce + "-" if stream else nonce) and not self._foreign(answer.body, nonce)
        return "own" if good else "cross-talk"

    def _foreign(self, body: bytes, nonce: str) -> bool:
        """Whether a part of another call's nonce is in what came."""
        mark = nonce[:9].encode()
        return any(body[at - 3 : at + 6] != mark for at in _marks(body))


def _marks(body: bytes) -> list[int]:
    """Where parts of nonces stand: three digits, x, five digits, x."""
    spots = []
    for at in range(3, len(body) - 7):
        if body[at : at + 1] == b"x" and body[at + 6 : at + 7] == b"x" and body[at - 3 : at].isdigit():
            spots += [at] if body[at + 1 : at + 6].isdigit() else []
    return spots


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_every_caller_hears_its_own_words_alone(gateway: Gateway, provider: Provider) -> None:
    gateway.grant(10**13)
    provider.on("m", echo(1))
    counts: Counter[str] = Counter()
    await asyncio.gather(*(Caller(gateway, n, counts).work(CALLS // CALLERS) for n in range(CALLERS)))
    await gateway.settled()
    assert counts["cross-talk"] == 0
    assert counts["own"] + counts["left"] + counts["gone"] == CALLS, counts
    assert counts["gone"] == 0
    assert min(counts["own"], counts["left"]) > CALLS // 5
