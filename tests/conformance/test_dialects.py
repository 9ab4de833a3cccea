"""One conversation with tools and an image means the same through every dialect, on the way there and back."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.domain.units import Nanos
from tests.cases.conversations import PIXEL, TOOLS_AND_IMAGE
from tests.cases.same import PLAIN, STREAMED
from tests.conformance.meaning import HEARD, Said
from tests.conformance.sdk import openai
from tests.conformance.shapes import completion_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Bill, Exchange, Provider, Script
from tests.fakes.replies import reply, stream_bytes
from tests.house import amount

MODEL = {Dialect.OPENAI: "gpt-4o", Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-3.8-flash"}
DIALECTS = pytest.mark.parametrize("dialect", MODEL)
KEY_HEADERS = {
    Dialect.OPENAI: ("authorization", "Bearer sk-upstream-canary"),
    Dialect.ANTHROPIC: ("x-api-key", "sk-upstream-canary"),
    Dialect.GEMINI: ("x-goog-api-key", "sk-upstream-canary"),
}
MEANING: list[Said] = [
    ("system", "Be brief."),
    ("system", "Use the tools."),
    ("user", "Where is this, and how warm?"),
    ("user", "image/png", PIXEL),
    ("call", "locate", '{"hint": "sea"}'),
    ("call", "weather", '{"city": "Oslo"}'),
    ("result", "call_1", "Oslo harbour"),
    ("result", "call_2", '{"celsius": 4}'),
    ("user", "And tomorrow?"),
    ("tool", "locate", "hint"),
    ("tool", "weather", "city"),
    ("choice", "auto"),
    ("limit", "500"),
]
CALLS = [("locate", '{"hint":"a"}'), ("weather", '{"city":"b"}')]


def _answers(body: bytes, *, stream: bool) -> Script:
    async def script(exchange: Exchange) -> None:
        await (stream_bytes(body, size=100) if stream else reply(body))(exchange)
        exchange.bill = Bill("x1", 30, 7)

    return script


def _channel(gateway: Gateway, provider: Provider, dialect: Dialect, **more: Any) -> None:
    gateway.channel(provider.root(dialect), f"m={MODEL[dialect]}", dialect=dialect, **more)


@DIALECTS
async def test_a_plain_call_means_the_same(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _channel(gateway, provider, dialect)
    provider.other = _answers(PLAIN[dialect], stream=False)
    async with openai(gateway) as client:
        raw = await client.chat.completions.with_raw_response.create(**TOOLS_AND_IMAGE)
    assert completion_faults(raw.http_response.json(), lax=dialect is Dialect.OPENAI) == []
    choice = raw.parse().choices[0]
    made = [call.to_dict()["function"] for call in choice.message.tool_calls or ()]
    assert HEARD[dialect](provider.last) == MEANING
    assert provider.last.head.get(KEY_HEADERS[dialect][0]) == KEY_HEADERS[dialect][1]
    assert [(call["name"], call["arguments"]) for call in made] == CALLS
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert (gateway.record.input, gateway.record.output, gateway.record.upstream_id) == (30, 7, "x1")


@DIALECTS
async def test_a_stream_means_the_same(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _channel(gateway, provider, dialect)
    provider.other = _answers(STREAMED[dialect], stream=True)
    asked = {**TOOLS_AND_IMAGE, "stream_options": {"include_usage": True}}
    async with openai(gateway) as client, client.chat.completions.stream(**asked) as stream:
        whole = await stream.get_final_completion()
    choice = whole.choices[0]
    made = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    assert HEARD[dialect](provider.last) == MEANING
    assert (choice.message.content, made, choice.finish_reason) == ("I look.", CALLS, "tool_calls")
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (30, 7)
    assert gateway.record.cost == 30 * 2_500 + 7 * 10_000


@DIALECTS
async def test_a_large_image_arrives_everywhere_as_it_was_sent(
    gateway: Gateway, provider: Provider, dialect: Dialect, stream: bool
) -> None:
    """With tools and their results beside it. The fake provider takes its time: 4 MiB, or 16 with TOLLKEEPER_FULL=1."""
    _channel(gateway, provider, dialect)
    provider.other = _answers((STREAMED if stream else PLAIN)[dialect], stream=stream)
    image = PIXEL[:60] + "QUJD" * amount(1 << 20, 4 << 20)
    request = json.loads(json.dumps({**TOOLS_AND_IMAGE, "stream": stream}).replace(PIXEL, image))
    answer = await gateway.client.post(request)
    assert (answer.status, gateway.record.status) == (200, 200)
    assert HEARD[dialect](provider.last) == [(*said[:2], image) if PIXEL in said else said for said in MEANING]


async def test_the_hold_pays_for_the_whole_prompt_written_to_the_cache(gateway: Gateway, provider: Provider) -> None:
    """What the vendor asks for that is a quarter more than for plain input."""
    _channel(gateway, provider, Dialect.ANTHROPIC, preset="anthropic")
    gateway.price("m", Nanos(4_000_000_000), Nanos(20_000_000_000), cache_write=Nanos(5_000_000_000))
    talk = [{"role": "system", "content": "word " * 1000}, {"role": "user", "content": "Hi"}]
    written = {"input_tokens": 3, "cache_creation_input_tokens": 1200, "output_tokens": 4}
    answer = {"id": "x1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    provider.on(MODEL[Dialect.ANTHROPIC], reply({**answer, "stop_reason": "end_turn", "usage": written}))
    assert (await gateway.client.chat("m", messages=talk, max_tokens=4)).status == 200
    assert provider.last.json["system"][-1]["cache_control"] == {"type": "ephemeral"}
    record = gateway.record
    assert (record.input, record.cache_write, record.cost) == (1203, 1200, 3 * 4000 + 1200 * 5000 + 4 * 20_000)
    assert record.held >= record.cost


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.GEMINI])
async def test_a_client_that_offers_functions_gets_a_function_call(
    gateway: Gateway, provider: Provider, dialect: Dialect, *, stream: bool
) -> None:
    """The field has a place for one call: no parallel calls are asked for, and a second one stays in the list."""
    _channel(gateway, provider, dialect)
    provider.other = _answers((STREAMED if stream else PLAIN)[dialect], stream=stream)
    offered: Any = [tool["function"] for tool in TOOLS_AND_IMAGE["tools"]]
    async with openai(gateway) as client:
        chat = client.chat.completions
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "functions": offered}
        if stream:
            parts = [chunk.choices[0] async for chunk in await chat.create(**asked, stream=True)]
            pieces = [part.delta.function_call for part in parts if part.delta.function_call]
            called = ("".join(piece.name or "" for piece in pieces), "".join(piece.arguments or "" for piece in pieces))
            others = [call.function for part in parts for call in part.delta.tool_calls or () if call.function]
            finish: str | None = parts[-1].finish_reason
        else:
            (choice,) = (await chat.create(**asked)).choices
            assert choice.message.function_call
            called = choice.message.function_call.name, choice.message.function_call.arguments
            others = [call.function for call in choice.message.tool_calls or () if call.type == "function"]
            finish = choice.finish_reason
    assert (called, finish, [call.name for call in others if call.name]) == (CALLS[0], "function_call", ["weather"])
    if dialect is Dialect.ANTHROPIC:
        assert provider.last.json["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
