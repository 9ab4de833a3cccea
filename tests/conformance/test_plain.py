"""Cases 16 to 23: answers that are not streamed."""

import asyncio
import gc
import gzip
import json
import zlib
from typing import Any

import psutil
import pytest
from openai import InternalServerError, RateLimitError

from gateway.domain.usage import UsageSource
from tests.conformance.sdk import MESSAGES, openai, raised
from tests.conformance.shapes import completion_faults, error_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import EVENTS, Exchange, Provider
from tests.fakes.replies import DONE, choice, chunk, dumps, event, reply, speak, story, tool_call, usage, whole


async def test_16_a_completion_passes_as_the_upstream_sent_it(gateway: Gateway, provider: Provider) -> None:
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


async def test_16_the_answer_names_the_requested_model(gateway: Gateway, provider: Provider) -> None:
    # Not the name at the upstream: clients compare it with the one they asked for.
    gateway.channel(provider.base_url, "m=real-m-2024")
    provider.on("real-m-2024", speak())
    for stream in (False, True):
        answer = await gateway.client.chat(stream=stream)
        assert {doc["model"] for doc in (answer.chunks if stream else [answer.json])} == {"m"}
        assert answer.head.get("x-gateway-model") == "real-m-2024"
        assert answer.head.get("x-gateway-channel") == "up"


LOGPROBS: dict[str, Any] = {
    "content": [{"token": "a", "logprob": -0.1, "bytes": None, "top_logprobs": []}],
    "refusal": None,
}
CALL = {key: value for key, value in tool_call(0, "call_a", "f", "").items() if key != "index"}


@pytest.mark.parametrize(
    "choices",
    [
        [choice("")],
        [choice(None, finish="tool_calls", tool_calls=[CALL])],
        [choice(None, refusal="I will not")],
        [{**choice("a"), "logprobs": LOGPROBS}],
        [choice("a"), choice("b", index=1, finish="length"), choice("c", index=2)],
        [choice("a", reasoning_content="hm", annotations=[{"x": 1}])],
        [choice("a \U0001f642 \u2028", audio={"id": "au_1"})],
    ],
)
async def test_17_every_kind_of_message_arrives_as_sent(
    gateway: Gateway, provider: Provider, choices: list[dict[str, Any]]
) -> None:
    sent = whole("m", *choices, spent=usage(), system_fingerprint="fp", x_vendor={"a": [1.0]})
    provider.on("m", reply(sent))
    got = (await gateway.client.chat()).json
    assert got == sent
    assert completion_faults(got) == []


async def test_18_blank_lines_before_the_answer_are_not_part_of_it(gateway: Gateway, provider: Provider) -> None:
    async def blank(exchange: Exchange) -> None:
        body = dumps(whole("m", spent=usage()))
        await exchange.begin(headers={"content-length": str(len(body) + 6)})
        for _ in range(3):
            await exchange.write(b"\r\n")
            await asyncio.sleep(0.01)
        await exchange.write(body)

    provider.on("m", blank)
    assert completion_faults((await gateway.client.chat()).json) == []


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_19_compressed_answers_are_unpacked(gateway: Gateway, provider: Provider, coding: str) -> None:
    body = dumps(whole("m", choice("x" * 5000), spent=usage()))
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    provider.on("m", reply(packed, headers={"content-encoding": coding}))
    answer = await gateway.client.chat()
    assert answer.text == "x" * 5000
    assert answer.head.get("content-encoding") == ""


@pytest.mark.parametrize(("code", "kind"), [(502, InternalServerError), (429, RateLimitError)])
async def test_20_an_error_in_a_good_status_is_an_error(
    gateway: Gateway, provider: Provider, code: int, kind: type[Exception]
) -> None:
    provider.on("m", reply({"error": {"message": "late", "code": code}}))
    async with openai(gateway, max_retries=0) as client:
        error = await raised(client)
    assert isinstance(error, kind)
    assert "late" in error.message
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)


@pytest.mark.parametrize("body", [b"<html><title>Welcome</title></html>", b"", b'{"foo":1}', b"[]", b'{"choices":[]}'])
async def test_21_what_is_not_a_completion_is_a_bad_response(gateway: Gateway, provider: Provider, body: bytes) -> None:
    provider.on("m", reply(body, kind="text/html" if body.startswith(b"<") else "application/json"))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")
    assert error_faults(answer.json) == []
    assert b"<" not in answer.body
    assert answer.head.get("x-should-retry") == "false"


async def test_22_events_that_nobody_asked_for_become_one_answer_or_an_error(
    gateway: Gateway, provider: Provider
) -> None:
    events = b"".join(map(event, [*story("Hel", "lo"), chunk(usage=usage())])) + DONE
    provider.on("m", reply(events, kind=EVENTS))
    answer = await gateway.client.chat()
    assert answer.head.get("content-type").startswith("application/json")
    if answer.status == 200:
        assert completion_faults(answer.json, lax=True) == []
        assert answer.text == "Hello"
    else:
        assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")


@pytest.mark.slow
async def test_23_large_answers_pass_and_leave_nothing_behind(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", reply(whole("m", choice("x" * (10 << 20)), spent=usage())))
    process = psutil.Process()
    sizes = []
    for _ in range(2):
        for _ in range(8):
            assert len((await gateway.client.chat()).body) > 10 << 20
        gc.collect()
        sizes.append(process.memory_info().rss)
    assert sizes[1] - sizes[0] < 40 << 20  # keeping any one copy of the second eight would be 80 MB
