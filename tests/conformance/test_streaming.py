"""The bytes of a stream and its usage, and how it keeps a client waiting. The cases of ``tests.cases`` are in
``test_strict_types``.
"""

import asyncio

import pytest

from gateway.core.live_calls import CallDeadlines
from tests.conformance.sdk import openai
from tests.conformance.shapes import stream_faults
from tests.fakes.client import read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, Doc, event, in_steps, speak, story


async def test_each_chunk_arrives_before_the_next_is_sent(gateway: Gateway, provider: Provider) -> None:
    taken = asyncio.Semaphore(0)

    async def step_by_step(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for doc in story("a", "b", "c", "d"):
            await exchange.piece(event(doc))
            await taken.acquire()
        await exchange.piece(DONE)
        await exchange.finish()

    provider.on("m", step_by_step)
    async with gateway.client.streaming() as answer, asyncio.timeout(30):
        for _ in range(6):
            assert (await answer.event()).startswith(b"data: {")
            taken.release()
        assert (await answer.rest()).endswith(b"\n\n" + DONE)


async def test_after_done_the_client_does_not_wait_for_the_upstream(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", in_steps(b"".join(map(event, story("Hel", "lo"))) + DONE, hangs=True))
    peer = await gateway.client.connect()
    for _ in range(2):
        await peer.write(gateway.client.chat_bytes(stream=True))
        assert (await read_answer(peer)).text == "Hello"
        assert not provider.last.gone.is_set()
    peer.close()


async def test_the_sdks_own_accumulator_has_the_usage(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("a", "b", prompt=9, completion=12))
    async with (
        openai(gateway) as client,
        client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "x"}], stream_options={"include_usage": True}
        ) as events,
    ):
        final = await events.get_final_completion()
    assert final.usage is not None
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (9, 12)
    assert (final.choices[0].message.content, final.choices[0].message.role) == ("ab", "assistant")


class TestSilence:
    """The gateway's patience is shortened: 45 s are 0.1 s here, 15 s are 0.15 s."""

    @pytest.fixture
    def patience(self) -> CallDeadlines:
        return CallDeadlines(first_event=0.1, keep_alive=0.15, tick=0.01)

    async def test_comments_keep_the_client_waiting_with_our_own(self, gateway: Gateway, provider: Provider) -> None:
        steps: list[Doc | bytes | float] = []
        for doc in story("Hel", "lo"):
            steps.append(doc)
            for _ in range(10):
                steps += [b": OPENROUTER PROCESSING\n\n", 0.02]
        provider.on("m", in_steps(*steps, DONE))
        answer = await gateway.client.chat(stream=True)
        assert answer.body.count(b": keep-alive\n\n") >= 2
        assert b"OPENROUTER" not in answer.body
        assert (stream_faults(answer.body), answer.text) == ([], "Hello")
