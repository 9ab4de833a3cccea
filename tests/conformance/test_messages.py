"""The official Anthropic SDK against the Messages API: strict typed decoding of answers, and the errors it raises.

The SDK is imported by the tests that use it: that takes two seconds, which every worker would spend at its start.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.domain.channel import Dialect
from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway
from tests.fakes.messages import SIGNATURE, message, speak_messages, text_block
from tests.fakes.provider import Provider
from tests.fakes.replies import chunk, cut, delta, fail, speak, stream, tool_call

ASK: Any = {"model": "m", "max_tokens": 100, "messages": HELLO}
TOOLS: Any = [{"name": "locate", "input_schema": {"type": "object", "properties": {"hint": {"type": "string"}}}}]


@asynccontextmanager
async def anthropic(gateway: Gateway, **options: Any) -> AsyncIterator[Any]:
    """The SDK's client with its own defaults, its retries too."""
    from anthropic import AsyncAnthropic

    base = f"http://127.0.0.1:{gateway.port}"
    async with AsyncAnthropic(base_url=base, api_key=gateway.client.key, **options) as client:
        yield client


def strict(doc: object) -> Any:
    """The message, every field of the declared type: the SDK's own decoding lets anything pass."""
    return adapter("Message").validate_json(json.dumps(doc), strict=True)


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """What decodes one of the SDK's types."""
    from anthropic import types

    return TypeAdapter(getattr(types, name))


def error(name: str) -> type[Exception]:
    """One of the SDK's classes of errors."""
    import anthropic as sdk

    kind: type[Exception] = getattr(sdk, name)
    return kind


def native(gateway: Gateway, provider: Provider, *blocks: Any) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages(message(*blocks)))


@pytest.mark.parametrize("path", ["native", "translated"])
async def test_an_answer_plain_and_streamed(gateway: Gateway, provider: Provider, path: str) -> None:
    if path == "native":
        native(gateway, provider)
    else:
        provider.on("m", speak("Hel", "lo"))
    async with anthropic(gateway) as client:
        plain = await client.messages.create(**ASK)
        assert plain._request_id == gateway.records[0].id  # noqa: SLF001 - the SDK documents it
        async with client.messages.stream(**ASK) as events:
            final = await events.get_final_message()
            assert events.response.headers["request-id"] == gateway.records[1].id
    assert [(found.content[0].text, found.usage.output_tokens) for found in (plain, final)] == [("Hello", 12)] * 2
    assert [(record.input, record.output) for record in gateway.records] == [(9, 12)] * 2


async def test_counting_and_models(gateway: Gateway) -> None:
    async with anthropic(gateway) as client:
        count = await client.messages.count_tokens(model="m", messages=ASK["messages"])
        models = [model async for model in client.models.list(limit=1)]
        one = await client.models.retrieve("m")
        with pytest.raises(error("NotFoundError")):
            await client.models.retrieve("none")
    assert (count.input_tokens > 0, [model.id for model in models], one.type) == (True, ["m"], "model")
    assert [record.request for record in gateway.records] == ["GET /v1/models/none"]


@pytest.mark.parametrize("path", ["native", "translated"])
async def test_a_tool_loop(gateway: Gateway, provider: Provider, path: str) -> None:
    if path == "native":
        call = {"type": "tool_use", "id": "toolu_1", "name": "locate", "input": {"hint": "a"}}
        thought = {"type": "thinking", "thinking": "Hm", "signature": SIGNATURE}
        native(gateway, provider, thought, text_block("I look."), call)
    else:
        pieces = [chunk(delta(reasoning_content="Hm")), chunk(delta("I look."))]
        call = tool_call(0, "c0", "locate", '{"hint":"a"}')
        provider.on("m", stream(*pieces, chunk(delta(tool_calls=[call])), chunk(delta(finish="tool_calls"))))
    async with anthropic(gateway) as client:
        async with client.messages.stream(**ASK, tools=TOOLS) as events:
            kinds: list[Any] = [event async for event in events]
            first = await events.get_final_message()
        assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
        assert kinds[-1].type == "message_stop"
        used = first.content[-1]
        assert used.type == "tool_use"
        assert used.input == {"hint": "a"}
        provider.on("m", speak_messages() if path == "native" else speak("Here."))
        turns = [*ASK["messages"], {"role": "assistant", "content": first.content}]
        turns.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": used.id, "content": "ok"}]})
        await client.messages.create(**{**ASK, "messages": turns}, tools=TOOLS)
    sent = provider.last.json["messages"]
    if path == "native":
        assert sent[1]["content"][0]["signature"] == SIGNATURE
    else:
        assert [turn["role"] for turn in sent] == ["user", "assistant", "tool"]


ERRORS = [
    (400, "BadRequestError", 1),
    (404, "NotFoundError", 1),
    (413, "RequestTooLargeError", 1),
    (422, "UnprocessableEntityError", 1),
    (401, "InternalServerError", 1),
    (429, "RateLimitError", 1),
    (500, "InternalServerError", 1),
    (529, "OverloadedError", 3),
]


@pytest.mark.parametrize("path", ["native", "translated"])
@pytest.mark.parametrize(("status", "kind", "attempts"), ERRORS)
async def test_an_upstreams_status_has_its_class_and_its_attempts(
    gateway: Gateway, provider: Provider, path: str, status: int, kind: str, attempts: int
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC if path == "native" else Dialect.OPENAI)
    provider.on("m", fail(status, "the model does not exist" if status == 404 else "it broke"))
    retries = 0 if status == 429 else 2  # it would wait ten seconds before each
    async with anthropic(gateway, max_retries=retries) as client:
        with pytest.raises(error(kind)):
            await client.messages.create(**ASK)
    assert len(gateway.records) == attempts


async def test_a_stream_that_breaks_raises(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", cut(chunk(delta("Hi"))))
    async with anthropic(gateway, max_retries=0) as client:
        with pytest.raises(error("APIError")):
            async with client.messages.stream(**ASK) as events:
                await events.get_final_message()
