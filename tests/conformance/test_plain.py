"""Answers that are not streamed."""

import json

from gateway.domain.usage import UsageSource
from tests.conformance.sdk import MESSAGES, openai
from tests.conformance.shapes import completion_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import choice, speak, usage, whole


async def test_a_completion_passes_as_the_upstream_sent_it(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(prompt=9, completion=12))
    async with openai(gateway) as client:
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    got = json.loads(raw.content)
    assert got == whole("m", choice("Hello"), id="chatcmpl-fake1", spent=usage(9, 12))
    assert completion_faults(got) == []
    assert raw.parse().choices[0].message.content == "Hello"
    record = gateway.record
    assert (record.input, record.output, record.source) == (9, 12, UsageSource.REPORTED)
    assert record.cost == 9 * 2_500 + 12 * 10_000
    assert raw.headers["x-gateway-cost"] == "0.0001425"


async def test_the_answer_names_the_requested_model(gateway: Gateway, provider: Provider) -> None:
    # Not the name at the upstream: clients compare it with the one they asked for.
    gateway.channel(provider.base_url, "m=real-m-2024")
    provider.on("real-m-2024", speak())
    for stream in (False, True):
        answer = await gateway.client.chat(stream=stream)
        assert {doc["model"] for doc in (answer.chunks if stream else [answer.json])} == {"m"}
        assert answer.head.get("x-gateway-model") == "real-m-2024"
        assert answer.head.get("x-gateway-channel") == "up"
