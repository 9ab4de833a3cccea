"""How streams end, well and badly, and answers of the wrong kind."""

import asyncio
from typing import Any

import pytest

from gateway.domain.call import Outcome
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import stream_faults
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, chunk, cut, delta, event, story, stream

BEGUN = story("Hel", "lo")[:3]


async def streamed(gateway: Gateway, provider: Provider, script: Script, **fields: Any) -> Answer:
    provider.on("m", script)
    return await gateway.client.chat(stream=True, **fields)


async def ends_mid_air(exchange: Exchange) -> None:
    """Closes the connection without the end of the chunked body."""
    await exchange.begin_stream()
    await exchange.piece(b"".join(map(event, BEGUN)))
    exchange.socket.close()


async def breaks_chunking(exchange: Exchange) -> None:
    """Sends a chunk size that is none."""
    await exchange.begin_stream()
    await exchange.piece(b"".join(map(event, BEGUN)))
    await asyncio.sleep(0.02)  # what is in the same read is lost with it
    await exchange.write(b"zz\r\nnonsense\r\n")
    await exchange.left()


TRUNCATED = {
    "clean close": stream(*BEGUN, done=False),
    "done too early": stream(*BEGUN),
    "reset": cut(*BEGUN),
    "no last chunk": ends_mid_air,
    "broken chunking": breaks_chunking,
    "ollama's empty chunk": stream(*BEGUN, chunk(delta(""), model=""), done=False),
}


@pytest.mark.parametrize("name", TRUNCATED)
async def test_a_truncated_answer_ends_in_an_error(gateway: Gateway, provider: Provider, name: str) -> None:
    answer = await streamed(gateway, provider, TRUNCATED[name])
    assert stream_faults(answer.body, error=True) == []
    assert answer.chunks[-1]["error"]["code"] == "upstream_stream_truncated"
    record = gateway.record
    assert (record.outcome, record.source) == (Outcome.UPSTREAM_CUT, UsageSource.ESTIMATED)
    assert record.output > 0
    assert record.cost > 0


async def test_after_done_the_client_does_not_wait_for_the_upstream(gateway: Gateway, provider: Provider) -> None:
    async def lingers(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(b"".join(map(event, story("Hel", "lo"))) + DONE)
        await exchange.left()

    provider.on("m", lingers)
    peer = await gateway.client.connect()
    for _ in range(2):
        await peer.write(gateway.client.chat_bytes(stream=True))
        assert (await read_answer(peer)).text == "Hello"
        assert not provider.last.gone.is_set()
    peer.close()
