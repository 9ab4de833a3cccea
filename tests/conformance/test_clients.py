"""Real clients, unchanged, with nothing but a base URL and a key.

LangChain is imported by the tests that use it: that takes a second, which every worker would spend at its start.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai as sdk
import pytest
from pydantic import BaseModel, SecretStr

from gateway.core.live_calls import CallDeadlines
from gateway.domain.channel import Dialect
from tests.cases.vendor_answers import CALLS
from tests.conformance import nodejs
from tests.conformance.sdk import MESSAGES, openai
from tests.conformance.shapes import stream_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import (
    choice,
    chunk,
    cut,
    delta,
    fail,
    reply,
    speak,
    speak_after,
    story,
    stream,
    stream_bytes,
    tool_call,
    usage,
    whole,
)

CALL = tool_call(0, "call_a", "add", '{"a":1,"b":2}')


class Sum(BaseModel):
    """What ``parse`` is to find in an answer."""

    a: int
    b: int


async def test_openais_async_client_gets_plain_and_streamed_answers(gateway: Gateway, provider: Provider) -> None:
    async with openai(gateway) as client:
        plain = await client.chat.completions.create(model="m", messages=MESSAGES)
        streamed = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in streamed])
    assert (plain.choices[0].message.content, text) == ("Hello", "Hello")
    assert plain._request_id == gateway.records[0].id  # noqa: SLF001 - the name that its documentation gives


@pytest.mark.parametrize("streamed", [False, True])
async def test_openais_client_parses_structured_outputs(gateway: Gateway, provider: Provider, streamed: bool) -> None:
    provider.on("m", speak('{"a":1,', '"b":2}'))
    async with openai(gateway) as client:
        if streamed:
            async with client.chat.completions.stream(model="m", messages=MESSAGES, response_format=Sum) as events:
                answer = await events.get_final_completion()
        else:
            answer = await client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Sum)
    assert answer.choices[0].message.parsed == Sum(a=1, b=2)
    assert provider.last.json["response_format"]["json_schema"]["name"] == "Sum"


@nodejs.may_wait
async def test_openais_node_client_works_and_notices_a_broken_stream(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "a/b:free", "cut")
    provider.on("cut", cut(*story("Hel")[:2]))
    models, entry, missing, plain, iterated, streamed, broken = await nodejs.run(
        gateway,
        {"do": "models"},
        {"do": "retrieve", "model": "a/b:free"},
        {"do": "retrieve", "model": "nope"},
        {"do": "create", "model": "m"},
        {"do": "iterate", "model": "m"},
        {"do": "stream", "model": "m"},
        {"do": "iterate", "model": "cut"},
    )
    assert (models["ids"], entry["id"]) == (["a/b:free", "cut", "m"], "a/b:free")
    assert (missing["error"], missing["code"]) == ("NotFoundError", "model_not_found")
    assert (plain["text"], plain["usage"]) == ("Hello", usage(9, 12))
    assert plain["id"] in {record.id for record in gateway.records}
    assert iterated["text"] == "Hello"
    assert (streamed["text"], streamed["role"], streamed["finish"]) == ("Hello", "assistant", "stop")
    assert streamed["usage"] == usage(9, 12)
    assert broken["error"] == "APIError"
    assert "before the answer was complete" in broken["message"]


class TestEarlyHead:
    """A stream whose head went out early has its facts in comments, and no client fails because of them."""

    @pytest.fixture
    def patience(self) -> CallDeadlines:
        return CallDeadlines(first_event=0.1, keep_alive=0.15, tick=0.01)

    @pytest.fixture(autouse=True)
    def channels(self, gateway: Gateway, provider: Provider) -> None:
        """The first one fails when the head is out; the other one answers."""
        gateway.channel(provider.base_url, "m=late", name="up", priority=1)
        gateway.channel(provider.base_url, "m=quick", name="other")
        provider.on("late", speak_after(0.3, fail(500, "it broke")))
        provider.on("quick", speak("Hel", "lo"))

    async def test_the_head_names_no_channel_and_the_end_does(self, gateway: Gateway) -> None:
        async with gateway.client.streaming() as answer:
            assert await answer.event() == b": keep-alive"
            body = await answer.rest()
        assert not [name for name, _ in answer.head.headers if name.startswith("x-gateway")]
        assert answer.head.get("x-request-id") == (await gateway.settled())[0].id
        assert stream_faults(body) == []
        facts, done = body.removesuffix(b"\n\n").split(b"\n\n")[-2:]
        assert {b": x-gateway-channel: other", b": x-gateway-model: quick", b": x-gateway-attempts: 2"} <= {
            *facts.splitlines()
        }
        assert done == b"data: [DONE]"

    async def test_openai(self, gateway: Gateway) -> None:
        async with openai(gateway) as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == "Hello"

    async def test_langchain(self, gateway: Gateway) -> None:
        chunks = await in_thread(gateway, lambda chat: list(chat.stream("Say hello.")))
        assert "".join(str(chunk.content) for chunk in chunks) == "Hello"

    @nodejs.may_wait
    async def test_openai_node_and_the_ai_sdk(self, gateway: Gateway) -> None:
        jobs = [{"do": do, "model": "m"} for do in ("iterate", "stream", "streamText")]
        assert [result.get("text", result) for result in await nodejs.run(gateway, *jobs)] == ["Hello"] * 3

    async def test_when_all_channels_fail_the_sdk_raises(self, gateway: Gateway, provider: Provider) -> None:
        provider.on("quick", fail(500, "it broke"))
        async with openai(gateway) as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            with pytest.raises(sdk.APIError, match="it broke"):
                _ = [chunk async for chunk in stream]


@nodejs.may_wait
async def test_node_clients_get_the_right_tool_calls(gateway: Gateway, provider: Provider) -> None:
    # They take one piece of a name that comes in pieces, and fail at the empty field of an older call.
    rough = re.compile(rb'"get|function_call"')
    good = [row for row in CALLS if row.dialect is Dialect.OPENAI and row.calls and not rough.search(row.stream)]
    rows = {f"t{number}": row for number, row in enumerate(good)}
    gateway.channel(provider.base_url, *rows)
    for model, row in rows.items():
        provider.on(model, stream_bytes(row.stream))
    finishes = {"stream": "tool_calls", "streamText": "tool-calls"}
    jobs = [{"do": job, "model": model} for job in finishes for model in rows]
    results = await nodejs.run(gateway, *jobs)
    wanted = [[[name, json.loads(arguments)] for name, arguments in row.calls] for row in rows.values()]
    assert [[call[1:] for call in result["calls"]] for result in results] == wanted * 2
    assert [result["finish"] for result in results] == [finishes[job["do"]] for job in jobs]


@nodejs.may_wait
async def test_the_ai_sdk_works_and_notices_a_broken_stream(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "cut", "reasoned")
    provider.on("cut", cut(*story("Hel")[:2]))
    provider.on("reasoned", stream(chunk(delta("", role="assistant", reasoning_content="hm")), *story("Hello")[1:]))
    plain, streamed, broken, reasoned = await nodejs.run(
        gateway,
        {"do": "generateText", "model": "m"},
        {"do": "streamText", "model": "m"},
        {"do": "streamText", "model": "cut"},
        {"do": "streamText", "model": "reasoned"},
    )
    for result in (plain, streamed):
        assert (result["text"], result["finish"]) == ("Hello", "stop")
        assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (9, 12)
    assert len(broken["errors"]) == 1
    assert reasoned["text"] == "Hello"


@nodejs.may_wait
@pytest.mark.slow
async def test_ai_sdk_attempts(gateway: Gateway, provider: Provider) -> None:
    # It ignores x-should-retry: what it takes for passing is tried three times, after 2 and 4 seconds.
    for status in (400, 500, 429):
        gateway.channel(provider.base_url, f"s{status}", name=f"c{status}")
        provider.on(f"s{status}", fail(status, "it broke", headers={"retry-after-ms": "10"}))
    results = await nodejs.run(gateway, *({"do": "generateText", "model": f"s{s}"} for s in (400, 500, 429)))
    assert [(result["error"], result["status"]) for result in results] == [
        ("APICallError", 400),
        ("APICallError", 502),
        ("APICallError", 429),
    ]
    models = [record.model for record in gateway.records]
    assert (models.count("s400"), models.count("s500"), models.count("s429")) == (1, 3, 3)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@contextmanager
def langchain(gateway: Gateway, **options: Any) -> Iterator[Any]:
    """LangChain's client, its connections closed at the end."""
    from langchain_openai import ChatOpenAI

    with sdk.DefaultHttpxClient() as http:
        yield ChatOpenAI(
            model="m", base_url=gateway.base_url, api_key=SecretStr(gateway.client.key), http_client=http, **options
        )


async def in_thread(gateway: Gateway, work: Callable[[Any], Any], **options: Any) -> Any:
    """Use LangChain's synchronous client beside the gateway's loop."""

    def run() -> Any:
        with langchain(gateway, **options) as chat:
            return work(chat)

    return await asyncio.to_thread(run)


async def test_langchain_stream_adds_up_usage_once(gateway: Gateway, provider: Provider) -> None:
    docs = [{**doc, "usage": usage(9, n)} for doc, n in zip(story("Hel", "lo"), (1, 5, 9, 12), strict=True)]
    provider.on("m", stream(*docs, chunk(usage=usage(9, 12))))
    chunks = await in_thread(gateway, lambda chat: list(chat.stream("Say hello.")), stream_usage=True)
    total = chunks[0]
    for piece in chunks[1:]:
        total += piece
    assert total.content == "Hello"
    assert (total.usage_metadata["input_tokens"], total.usage_metadata["output_tokens"]) == (9, 12)


@pytest.mark.parametrize("streamed", [False, True])
async def test_langchain_gets_tool_calls(gateway: Gateway, provider: Provider, streamed: bool) -> None:
    if streamed:
        provider.on("m", stream(*story()[:1], chunk(delta(tool_calls=[CALL])), chunk(delta(finish="tool_calls"))))
    else:
        call = {key: value for key, value in CALL.items() if key != "index"}
        provider.on("m", reply(whole("m", choice(None, finish="tool_calls", tool_calls=[call]), spent=usage())))
    message = await in_thread(gateway, lambda chat: chat.bind_tools([add]).invoke("1 + 2"), streaming=streamed)
    assert [(c["name"], c["args"], c["id"]) for c in message.tool_calls] == [("add", {"a": 1, "b": 2}, "call_a")]
    assert provider.last.json["tools"][0]["function"]["name"] == "add"


async def test_langchain_raises_when_a_stream_breaks(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", cut(*story("Hel")[:2]))
    with pytest.raises(sdk.APIError, match="before the answer was complete"):
        await in_thread(gateway, lambda chat: list(chat.stream("Say hello.")))
