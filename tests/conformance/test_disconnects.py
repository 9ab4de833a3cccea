"""Cases 49 to 52: clients that leave or dawdle, many at once, upstreams that never answer."""

import asyncio
import os

import psutil
import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import error_faults, stream_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, chunk, delta, event, silence, speak, story, usage

SOON_S = 1.0
"""Within this the upstream's connection must be closed once the client is gone; the goal on a quiet machine is 0.5."""


async def mumble(exchange: Exchange) -> None:
    """Two chunks of text, then silence."""
    await exchange.begin_stream()
    for doc in story("one two three", "four five six")[:3]:
        await exchange.piece(event(doc))
    await exchange.left()


async def test_49_leaving_in_mid_stream_ends_the_upstream_and_is_booked_once(
    gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", mumble)
    async with gateway.client.streaming() as answer:
        for _ in range(3):
            await answer.event()
    left_at = asyncio.get_running_loop().time()
    assert await provider.last.left() - left_at < SOON_S
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
    assert record.input > 0
    assert record.output > 0
    assert record.cost == record.input * 2_500 + record.output * 10_000


async def test_49_leaving_before_the_first_byte_costs_nothing(gateway: Gateway, provider: Provider) -> None:
    # The client is charged only for what it received (docs/money.md).
    provider.on("m", silence)
    peer = await gateway.client.connect()
    await peer.write(gateway.client.chat_bytes(stream=True))
    exchange = await provider.asked()
    peer.reset()
    left_at = asyncio.get_running_loop().time()
    assert await exchange.left() - left_at < SOON_S
    (record,) = await gateway.settled()
    assert (record.status, record.cost, record.outcome) == (499, 0, Outcome.CLIENT_CLOSED)
    assert record.possible == record.held > 0


async def test_49_an_abandoned_plain_call_is_finished_and_charged(gateway: Gateway, provider: Provider) -> None:
    # It is finished by default, and cancelled where the channel says so (next test).
    heard = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.until(heard)
        await speak(prompt=7, completion=5)(exchange)

    provider.on("m", slow)
    peer = await gateway.client.connect()
    await peer.write(gateway.client.chat_bytes())
    await provider.asked()
    peer.reset()
    await gateway.deserted()
    heard.set()
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.REPORTED)
    assert (record.input, record.output) == (7, 5)


async def test_49_an_abandoned_plain_call_is_cancelled_where_the_channel_wants_it(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, finish_abandoned=False)
    provider.on("m", silence)
    peer = await gateway.client.connect()
    await peer.write(gateway.client.chat_bytes())
    exchange = await provider.asked()
    peer.reset()
    left_at = asyncio.get_running_loop().time()
    assert await exchange.left() - left_at < SOON_S
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
    assert record.input > 0
    assert record.output == 0


async def test_50_a_slow_reader_slows_the_upstream_and_loses_nothing(gateway: Gateway, provider: Provider) -> None:
    size, sent = 64 << 20, 0
    block = "x" * 65_536

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin_stream()
        await exchange.piece(event(story()[0]))
        while sent < size:
            await exchange.piece(event(chunk(delta(block))))
            sent += len(block)
        await exchange.piece(event(story()[1]) + event(chunk(usage=usage(9, 12))) + DONE)
        await exchange.finish()

    provider.on("m", flood)
    base = psutil.Process(os.getpid()).memory_info().rss
    async with gateway.client.streaming(window=4096) as answer, asyncio.timeout(120):
        answer.socket.stop_reading()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < size // 2
        assert psutil.Process(os.getpid()).memory_info().rss - base < 48 << 20
        answer.socket.go_on_reading()
        taken, tail = 0, b""
        async for piece in answer.socket.pieces(answer.head, answer=True):
            taken += piece.count(b"x")
            tail = (tail + piece)[-len(DONE) :]
    assert taken >= size
    assert tail == DONE
    assert (await gateway.settled())[0].output == 12


async def test_51_fifty_streams_at_once_do_not_mix(gateway: Gateway, provider: Provider) -> None:
    names = [f"m{n}" for n in range(50)]
    gateway.channel(provider.base_url, *names)
    for n, name in enumerate(names):
        gateway.price(name)
        provider.on(name, speak(*(f"{name}:{i} " for i in range(20)), prompt=n + 1, completion=2 * n + 1))
    answers = await asyncio.gather(*(gateway.client.chat(name, stream=True) for name in names))
    for name, answer in zip(names, answers, strict=True):
        assert stream_faults(answer.body) == []
        assert answer.text == "".join(f"{name}:{i} " for i in range(20))
    ids = [answer.chunks[0]["id"] for answer in answers]
    assert len(set(ids)) == 50
    records = await gateway.settled(50)
    assert sum(record.input for record in records) == sum(range(51))
    assert sum(record.output for record in records) == 2 * sum(range(50)) + 50
    assert {record.upstream_id for record in records} == set(ids)


@pytest.mark.parametrize("stream", [False, True])
async def test_52_an_upstream_that_never_answers_is_abandoned(
    gateway: Gateway, provider: Provider, stream: bool
) -> None:
    gateway.channel(provider.base_url, timeouts=Timeouts(head=0.2))
    provider.on("m", silence)
    answer = await gateway.client.chat(stream=stream)
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert answer.head.get("x-should-retry") == "false"
    await provider.last.left()
    (record,) = await gateway.settled()
    assert (record.outcome, record.cost, record.possible) == (Outcome.TIMEOUT, 0, record.held)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:9/v1", "http://nowhere.invalid/v1", "https://127.0.0.1:9/v1"])
async def test_52_an_upstream_that_is_not_there_is_unreachable(gateway: Gateway, base_url: str) -> None:
    gateway.channel(base_url)
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert error_faults(answer.json) == []
    assert (gateway.record.cost, gateway.record.possible) == (0, 0)
