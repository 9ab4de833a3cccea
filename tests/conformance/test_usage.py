"""What a call has used, whether an upstream reports it or not."""

import re
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.conformance.shapes import stream_faults
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, message_events
from tests.fakes.provider import EVENTS, JSON, Exchange, Provider
from tests.fakes.replies import choice, dumps, reply, story, stream, usage, whole
from tests.fakes.responses import message as item, parsed, respond

NUMBERS = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"}
"""All that a usage has: clients add up whatever else is in it."""

ENGLISH = (
    "The gateway stands between programs and the servers that answer them. It knows who asks, what may be asked, and "
    "what every answer costs. When a server falls silent it asks another one, and when the money is gone it says so. "
    "Nothing of this may be guessed, because people pay for it, and a wrong sum is worse than no sum at all."
)
ENGLISH_TOKENS = 73
"""By o200k, the vocabulary of OpenAI's newer models."""


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_estimate_is_near_and_marked(gateway: Gateway, provider: Provider, streamed: bool) -> None:
    provider.on("m", stream(*story(*ENGLISH.split(" "))) if streamed else reply(whole("m", choice(ENGLISH))))
    asked: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    messages = [{"role": "user", "content": ENGLISH}]
    answer = await gateway.client.post({"model": "m", "messages": messages, **asked})
    told = answer.chunks[-1]["usage"] if streamed else answer.json["usage"]
    if streamed:
        assert stream_faults(answer.body, usage="yes") == []
    assert set(told) == NUMBERS
    marked = b"\n: x-gateway-usage: estimated\n" in answer.body if streamed else answer.head.get("x-gateway-usage")
    assert marked
    record = gateway.record
    assert (told["prompt_tokens"], told["completion_tokens"]) == (record.input, record.output)
    assert abs(record.input - (ENGLISH_TOKENS + 7)) <= 0.25 * ENGLISH_TOKENS
    if not streamed:  # words without their blanks are other words
        assert abs(record.output - ENGLISH_TOKENS) <= 0.25 * ENGLISH_TOKENS


async def test_the_upstreams_own_cost_passes_untouched(gateway: Gateway, provider: Provider) -> None:
    # Deviation: the upstream's cost reaches the client; the record keeps ours, there is no field for theirs.
    spent = {**usage(9, 12), "cost": 0.0123, "cost_details": {"upstream_inference_cost": None}}
    provider.on("m", reply(whole("m", spent=spent)))
    assert (await gateway.client.chat()).json["usage"] == spent


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "counts",
    [
        {"input_tokens": 9, "output_tokens": 12},
        {"input_tokens": 9, "input_tokens_details": {}, "output_tokens": 12, "output_tokens_details": None},
        {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
    ],
)
async def test_a_native_response_has_every_count_that_codex_needs(
    gateway: Gateway, provider: Provider, counts: dict[str, Any], streamed: bool
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", respond(item("Hello"), usage=counts))
    answer = await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": "Hi", "stream": streamed}))
    told = next(doc["response"] for doc in parsed(answer.body)[::-1] if "response" in doc) if streamed else answer.json
    assert (told["usage"]["input_tokens"], told["usage"]["output_tokens"], told["usage"]["total_tokens"]) == (9, 12, 21)
    assert told["usage"]["input_tokens_details"]["cached_tokens"] == 0
    assert told["usage"]["output_tokens_details"]["reasoning_tokens"] == 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_native_message_without_a_usage_gets_one(gateway: Gateway, provider: Provider, streamed: bool) -> None:
    async def speak(exchange: Exchange) -> None:
        data = dumps({**message(), "usage": None})
        if streamed:
            events = b"".join(message_events(message()))
            data = re.sub(rb',"usage":\{[^}]*\}', b"", events)
        await exchange.answer(data, kind=EVENTS if streamed else JSON)

    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": streamed}
    answer = await gateway.client.ask("POST", "/v1/messages", dumps(asked))
    told = parsed(answer.body) if streamed else []
    first, last = (told[0]["message"], told[-2]) if streamed else (answer.json, answer.json)
    assert (first["usage"]["input_tokens"] > 0, last["usage"]["output_tokens"]) == (True, 1)
