"""What a call has used, whether an upstream reports it or not."""

from typing import Any

import pytest

from tests.conformance.shapes import stream_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import choice, reply, story, stream, usage, whole

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
