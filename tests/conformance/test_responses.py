"""openai-python calls ``responses`` through channels of every dialect, and decodes what it gets strictly."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from openai import NotFoundError
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from gateway.domain.channel import Dialect, Overrides
from gateway.domain.usage import UsageSource
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.same import PLAIN, STREAMED
from tests.conformance.sdk import openai
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message as anthropic_message, text_block
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import choice, dumps, reply, speak, stream_bytes, usage, whole
from tests.fakes.responses import either, message, respond, spent

MODEL = {Dialect.OPENAI: "gpt-4o", Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-3.8-flash"}
DIALECTS = pytest.mark.parametrize("dialect", MODEL)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOLS: Any = [
    {"type": "function", "name": "locate", "description": "d", "parameters": {"type": "object"}, "strict": None},
    {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}, "strict": False},
]
CONVERSATION: Any = [
    {"role": "developer", "content": "Use the tools."},
    {"role": "user", "content": [{"type": "input_text", "text": "Where is this, and how warm?"}]},
    {"type": "function_call", "call_id": "call_1", "name": "locate", "arguments": '{"hint": "sea"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "Oslo harbour"},
    {"role": "user", "content": "And tomorrow?"},
]


class Place(BaseModel):
    """What a schema asks for."""

    city: str


def _strict(made: BaseModel) -> None:
    """The object is what the SDK's types say, not only what it could make of it."""
    type(made).model_validate(made.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _at(gateway: Gateway, provider: Provider, dialect: Dialect, script: Script) -> None:
    """A channel of the dialect that does not have the Responses API itself."""
    preset = "cerebras" if dialect is Dialect.OPENAI else ""
    gateway.channel(provider.root(dialect), f"m={MODEL[dialect]}", dialect=dialect, preset=preset)
    provider.other = script
    provider.on(MODEL[dialect], script)


@DIALECTS
async def test_a_response_has_openais_types(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _at(gateway, provider, dialect, reply(PLAIN[dialect]))
    async with openai(gateway) as client:
        made = await client.responses.create(model="m", instructions="Be brief.", input=CONVERSATION, tools=TOOLS)
    _strict(made)
    assert made.output_text == "I look."
    calls = [(item.name, item.arguments) for item in made.output if item.type == "function_call"]
    assert calls == [("locate", '{"hint":"a"}'), ("weather", '{"city":"b"}')]
    record = gateway.record
    assert (record.input, record.output, record.source) == (30, 7, UsageSource.REPORTED)
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens) == (30, 7)


@DIALECTS
async def test_every_event_has_openais_type(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _at(gateway, provider, dialect, stream_bytes(STREAMED[dialect], size=100))
    async with openai(gateway) as client:
        stream = await client.responses.create(model="m", input=CONVERSATION, tools=TOOLS, stream=True)
        events = [found async for found in stream]
    for found in events:
        EVENT.validate_python(found.model_dump(mode="json", by_alias=True, exclude_unset=True))
    last = events[-1]
    assert last.type == "response.completed"
    assert [item.type for item in last.response.output] == ["message", "function_call", "function_call"]
    record = gateway.record
    assert (record.input, record.output, record.finish) == (30, 7, "tool_calls")


@DIALECTS
async def test_instructions_stay_first(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _at(gateway, provider, dialect, reply(PLAIN[dialect]))
    async with openai(gateway) as client:
        await client.responses.create(model="m", instructions="Be brief.", input=CONVERSATION)
    sent = provider.last.json
    match dialect:
        case Dialect.OPENAI:
            found = [message["content"] for message in sent["messages"] if message["role"] == "system"]
        case Dialect.ANTHROPIC:
            found = [block["text"] for block in sent["system"]]
        case _:
            found = [part["text"] for part in sent["systemInstruction"]["parts"]]
    assert found == ["Be brief.", "Use the tools."]


@DIALECTS
async def test_a_schema_reaches_every_dialect(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    """OpenAI's own form, Anthropic's ``output_config`` and Gemini's ``responseJsonSchema``."""
    said = '{"city":"Oslo"}'
    answers: dict[Dialect, Any] = {
        Dialect.OPENAI: whole("m", choice(said), spent=usage()),
        Dialect.ANTHROPIC: anthropic_message(text_block(said)),
        Dialect.GEMINI: gemini.response(gemini.say(said), finish="STOP", **gemini.spent(30, 7)),
    }
    _at(gateway, provider, dialect, reply(answers[dialect]))
    async with openai(gateway) as client:
        made = await client.responses.parse(model="m", input="where?", text_format=Place)
    assert made.output_parsed == Place(city="Oslo")
    sent = provider.last.json
    places: dict[Dialect, Callable[[], Any]] = {
        Dialect.OPENAI: lambda: sent["response_format"]["json_schema"]["schema"],
        Dialect.ANTHROPIC: lambda: sent["output_config"]["format"]["schema"],
        Dialect.GEMINI: lambda: sent["generationConfig"]["responseJsonSchema"],
    }
    assert places[dialect]()["properties"]["city"]["type"] == "string"


async def test_thinking_survives_the_client_and_a_restart(gateway: Gateway, provider: Provider) -> None:
    """Nothing of it is kept here: the next request brings it back."""
    data = (
        anthropic.start()
        + anthropic.thinking("Hm", "SIG==")
        + anthropic.tool("c1", "locate", "{}")
        + anthropic.end("tool_use")
    )
    _at(gateway, provider, Dialect.ANTHROPIC, stream_bytes(data))
    async with openai(gateway) as client:
        wanted: Any = {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"}}
        async with client.responses.stream(model="m", input="hi", tools=TOOLS, **wanted) as stream:
            made = await stream.get_final_response()
        kept = [item.model_dump(mode="json", exclude_unset=True) for item in made.output]
        assert [item["type"] for item in kept] == ["reasoning", "function_call"]
        provider.on(MODEL[Dialect.ANTHROPIC], reply(PLAIN[Dialect.ANTHROPIC]))
        result = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        turn = cast("Any", [{"role": "user", "content": "hi"}, *kept, result])
        await client.responses.create(model="m", input=turn, tools=TOOLS, include=["reasoning.encrypted_content"])
    assistant = provider.last.json["messages"][1]["content"]
    assert assistant[0] == {"type": "thinking", "thinking": "Hm", "signature": "SIG=="}
    assert assistant[1]["type"] == "tool_use"


@pytest.mark.parametrize("store", [None, True, False])
async def test_a_response_is_kept_unless_forbidden(gateway: Gateway, provider: Provider, store: bool | None) -> None:
    _at(gateway, provider, Dialect.OPENAI, reply(whole("m", choice("Hi"), spent=usage())))
    async with openai(gateway) as client:
        made = await client.responses.create(model="m", input="hi", store=store)
        assert cast("Any", made).store is (store is not False)
        if store is False:
            with pytest.raises(NotFoundError, match="not kept here"):
                await client.responses.retrieve(made.id)
            return
        found = await client.responses.retrieve(made.id)
        _strict(found)
        assert (found.id, found.output_text) == (made.id, "Hi")
        listed = await client.responses.input_items.list(made.id)
        assert [cast("Any", item).content[0].text for item in listed.data] == ["hi"]
        await client.responses.delete(made.id)


async def test_a_tool_of_the_vendor_is_left_out_and_marked(gateway: Gateway, provider: Provider) -> None:
    _at(gateway, provider, Dialect.OPENAI, reply(PLAIN[Dialect.OPENAI]))
    tools: Any = [{"type": "web_search"}, TOOLS[0], {**TOOLS[1], "allowed_callers": ["direct"]}]
    async with openai(gateway) as client:
        raw = await client.responses.with_raw_response.create(model="m", input="hi", tools=tools, truncation="auto")
    assert raw.headers["x-gateway-dropped-params"] == "truncation,tools[].web_search,tools[].allowed_callers"
    assert [tool["function"]["name"] for tool in provider.last.json["tools"]] == ["locate", "weather"]
    assert any("web_search" in mark for mark in gateway.record.marks)


async def test_overrides_of_the_owner_count_as_for_chat(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(
        provider.base_url,
        preset="cerebras",
        overrides=Overrides(set={"temperature": 0.5, "max_tokens": 7}, remove=("user",), system="Own."),
    )
    provider.on("m", reply(whole("m", choice("Hi"), spent=usage())))
    async with openai(gateway) as client:
        await client.responses.create(model="m", input="hi", temperature=1, max_output_tokens=99, user="u")
    sent = provider.last.json
    assert (sent["temperature"], sent["max_tokens"], "user" in sent) == (0.5, 7, False)
    assert sent["messages"][0] == {"role": "system", "content": "Own."}


async def test_without_a_limit_the_usual_output_is_held(gateway: Gateway, provider: Provider) -> None:
    _at(gateway, provider, Dialect.OPENAI, reply(whole("m", choice("Hi"), spent=usage())))
    async with openai(gateway) as client:
        await client.responses.create(model="m", input="hi")
        await client.responses.create(model="m", input="hi", max_output_tokens=10)
    free, capped = gateway.records
    assert free.held - capped.held == (4096 - 10) * 10_000
    assert provider.last.json.get("max_completion_tokens", provider.last.json.get("max_tokens")) == 10


async def test_the_mock_answers_too(gateway: Gateway) -> None:
    gateway.channel("", "demo-story", name="demo", dialect=Dialect.MOCK)
    async with openai(gateway) as client:
        made = await client.responses.create(model="demo-story", input="tell", max_output_tokens=20)
    assert made.status in ("completed", "incomplete")
    assert made.output_text


SPOKEN = either(respond(message("Hello"), usage=spent(9, 12)), speak())


@pytest.fixture(params=["vllm", "cerebras"], ids=["native", "translated"])
def preset(request: pytest.FixtureRequest, gateway: Gateway, provider: Provider) -> str:
    """Of a channel that speaks the API, or of one that does not."""
    gateway.channel(provider.base_url, preset=request.param)
    return str(request.param)


async def call(gateway: Gateway, **fields: Any) -> Answer:
    return await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": "hi", **fields}))


LONG = 'long text with \\ and " and \u00e9 \U0001f600 ' * 9000


async def test_a_large_request_arrives_whole(gateway: Gateway, provider: Provider, preset: str) -> None:
    provider.on("m", either(respond(), reply(whole("m", choice("Hi"), spent=usage(1_000_000, 5)))))
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": json.dumps({"text": LONG})},
        {"type": "function_call_output", "call_id": "a", "output": LONG + "!"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": LONG + "?"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "ok"}]},
    ]
    answer = await call(gateway, input=items, instructions=LONG)
    assert answer.status == 200
    sent = provider.last.json
    if preset == "vllm":
        assert (sent["input"], sent["instructions"]) == (items, LONG)
        return
    assert answer.json["instructions"] == LONG
    system, user, first, result, second, _ = sent["messages"]
    assert (system["content"], user["content"], result["content"]) == (LONG, LONG, LONG + "!")
    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"text": LONG}
    assert json.loads(second["tool_calls"][0]["function"]["arguments"]) == {"input": LONG + "?"}
