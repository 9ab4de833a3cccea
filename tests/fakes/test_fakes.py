"""The fakes themselves: client against provider, with no gateway between, or no other test could be trusted."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.fakes import replies
from tests.fakes.client import HELLO, Client
from tests.fakes.clock import HastyLoop
from tests.fakes.provider import Provider
from tests.fakes.wire import Gone


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider().running() as running:
        yield running


async def test_a_plain_call_is_answered_billed_and_logged(provider: Provider) -> None:
    provider.on("m", replies.speak(prompt=3, completion=4))
    answer = await Client(provider.port, "k").chat()
    assert (answer.status, answer.text) == (200, "Hello")
    bill = provider.last.bill
    assert bill is not None
    assert (bill.id, bill.input, bill.output) == (answer.json["id"], 3, 4)
    assert provider.last.json == {"model": "m", "messages": HELLO}
    assert provider.last.head.get("authorization") == "Bearer k"


async def test_scripts_of_a_model_take_turns_and_the_last_stays(provider: Provider) -> None:
    provider.on("m", replies.fail(500), replies.speak())
    client = Client(provider.port)
    assert [(await client.chat()).status for _ in range(3)] == [500, 200, 200]


async def test_a_stream_arrives_event_by_event(provider: Provider) -> None:
    provider.on("m", replies.speak("a", "b"))
    async with Client(provider.port).streaming() as stream:
        assert stream.head.status == 200
        first = json.loads((await stream.event()).removeprefix(b"data: "))
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert (await stream.rest()).endswith(replies.DONE)


async def test_a_cut_stream_ends_in_a_reset(provider: Provider) -> None:
    provider.on("m", replies.cut(*replies.story("a")))
    async with Client(provider.port).streaming() as stream:
        with pytest.raises(Gone):
            await stream.rest()
        assert stream.socket.reset_by_peer


async def test_the_provider_sees_its_caller_leave(provider: Provider) -> None:
    provider.on("m", replies.silence)
    client = Client(provider.port)
    peer = await client.connect()
    await peer.write(client.chat_bytes())
    exchange = await provider.asked()
    peer.reset()
    await exchange.left()


async def test_a_broken_script_is_remembered(provider: Provider) -> None:
    async def broken(_: object) -> None:
        raise ValueError("by intent")

    provider.on("m", broken)
    with pytest.raises(Gone):
        await Client(provider.port).chat()
    assert [str(fault) for fault in provider.faults] == ["by intent"]


def test_a_hasty_loop_sleeps_an_hour_in_a_moment() -> None:
    async def slept() -> float:
        start = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - start

    with asyncio.Runner(loop_factory=lambda: HastyLoop(36_000)) as runner:
        assert 3600 <= runner.run(slept()) < 36_000
