"""Open Responses over HTTP: what its compliance tests ask, through a channel of every kind."""

from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.conformance.open_responses import faults
from tests.fakes import messages
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    Doc,
    choice,
    chunk,
    delta,
    dumps,
    in_steps,
    reply,
    story,
    stream,
    tool_call,
    usage,
    whole,
)
from tests.fakes.responses import function_call, message, parsed, respond

KINDS = ("chat", "anthropic", "gemini", "native")
DIALECTS = {"anthropic": Dialect.ANTHROPIC, "gemini": Dialect.GEMINI}
WEATHER: Doc = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
NATIVE: Doc = {
    "completed_at": 1_763_500_001,
    "previous_response_id": None,
    "instructions": None,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": {"effort": None, "summary": None},
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": False,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""What a native upstream has beside what every test needs."""


def user(content: Any) -> Doc:
    return {"type": "message", "role": "user", "content": content}


REQUESTS: dict[str, Doc] = {
    "a text": {"input": [user("Say hello in three words.")]},
    "phases of an assistant": {
        "input": [
            {"type": "message", "role": "assistant", "phase": "commentary", "content": "I answer with the number."},
            {"type": "message", "role": "assistant", "phase": "final_answer", "content": "The number is four."},
            user("Repeat only the number."),
        ]
    },
    "a system prompt": {
        "input": [{"type": "message", "role": "system", "content": "Speak like a pirate."}, user("Say hello.")]
    },
    "a tool": {"input": [user("What is the weather in Oslo?")], "tools": [WEATHER]},
    "an image": {
        "input": [user([{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}])]
    },
    "several turns": {
        "input": [
            user("My name is Alice."),
            {"type": "message", "role": "assistant", "content": "Hello Alice!"},
            user("What is my name?"),
        ]
    },
    "all that is repeated": {
        "input": "hi",
        "instructions": "Be brief.",
        "temperature": 0.2,
        "top_p": 0.5,
        "max_output_tokens": 400,
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "auto",
        "tools": [WEATHER],
        "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}]},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low"},
    },
}


async def _answer_chat(exchange: Exchange) -> None:
    asked = exchange.json
    call = tool_call(0, "c1", "get_weather", '{"location":"Oslo"}')
    if asked.get("tools"):
        plain, pieces = choice(None, finish="tool_calls", tool_calls=[call]), [chunk(delta(tool_calls=[call]))]
        pieces.append(chunk(delta(finish="tool_calls"), usage=usage()))
    else:
        plain, pieces = choice("Four"), story("Fo", "ur")
    script = stream(*pieces) if asked.get("stream") else reply(whole("m", plain, spent=usage()))
    await script(exchange)


async def _answer_messages(exchange: Exchange) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"location": "Oslo"}}
    called = bool(exchange.json.get("tools")) and exchange.json.get("tool_choice") != {"type": "none"}
    block = use if called else messages.text_block("Four")
    await messages.speak_messages(messages.message(block, stop="tool_use" if called else "end_turn"))(exchange)


async def _answer_gemini(exchange: Exchange) -> None:
    called = bool(exchange.json.get("tools"))
    part = gemini.use("get_weather", {"location": "Oslo"}) if called else gemini.say("Four")
    doc = gemini.response(part, finish="STOP", **gemini.spent(9, 7))
    await (in_steps(gemini.event(doc)) if "stream" in exchange.path else reply(doc))(exchange)


async def _answer_responses(exchange: Exchange) -> None:
    asked = exchange.json
    tools = [{"strict": False, **tool} for tool in asked.get("tools", ())]
    item = function_call("get_weather", '{"location":"Oslo"}') if tools else message("Four")
    await respond(item, **{**NATIVE, "tools": tools})(exchange)


SCRIPTS: dict[str, Script] = {
    "chat": _answer_chat,
    "anthropic": _answer_messages,
    "gemini": _answer_gemini,
    "native": _answer_responses,
}


def at(gateway: Gateway, provider: Provider, kind: str, script: Script | None = None) -> None:
    """A channel of this kind, the only one."""
    dialect = DIALECTS.get(kind, Dialect.OPENAI)
    preset = "cerebras" if kind == "chat" else ""
    gateway.channel(provider.root(dialect), "m=m-1", dialect=dialect, preset=preset)
    provider.other = script or SCRIPTS[kind]


async def ask(gateway: Gateway, path: str = "/v1/responses", **fields: Any) -> Answer:
    return await gateway.client.ask("POST", path, dumps({"model": "m", **fields}))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_response_is_as_specified(gateway: Gateway, provider: Provider, kind: str, name: str) -> None:
    at(gateway, provider, kind)
    answer = await ask(gateway, **REQUESTS[name])
    assert (answer.status, faults(answer.json, "Response")) == (200, [])
    assert answer.json["status"] == "completed"
    wanted = "function_call" if "tools" in REQUESTS[name] else "message"
    assert wanted in [item["type"] for item in answer.json["output"]]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REQUESTS)
async def test_events_are_as_specified(gateway: Gateway, provider: Provider, kind: str, name: str) -> None:
    at(gateway, provider, kind)
    events = parsed((await ask(gateway, **REQUESTS[name], stream=True)).body)
    assert [fault for event in events for fault in faults(event, "Event", event["type"])] == []
    assert events[-1]["response"]["status"] == "completed"
    assert faults(events[-1]["response"], "Response") == []


async def test_fields_that_the_request_leaves_out_have_the_defaults(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    before = gateway.engine.now() // 1000
    found = (await ask(gateway, input="hi", tools=[WEATHER])).json
    assert before <= found["created_at"] <= found["completed_at"] <= gateway.engine.now() // 1000
    assert [found[name] for name in ("temperature", "top_p")] == [1.0, 1.0]
    assert [found[name] for name in ("presence_penalty", "frequency_penalty", "top_logprobs")] == [0.0, 0.0, 0]
    assert found["max_tool_calls"] is None
    assert found["tools"] == [{**WEATHER, "strict": False}]
    assert found["text"] == {"format": {"type": "text"}, "verbosity": "medium"}


async def test_what_did_not_complete_has_no_time_of_completion(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat", reply(whole("m", choice("Fo", finish="length"), spent=usage())))
    found = (await ask(gateway, input="hi")).json
    assert (found["status"], found["completed_at"]) == ("incomplete", None)
    assert faults(found, "Response") == []


@pytest.mark.parametrize("reasoning", [{}, {"effort": "low"}, {"summary": "auto"}])
async def test_reasoning_comes_in_events_of_both_specs(gateway: Gateway, provider: Provider, reasoning: Doc) -> None:
    """OpenAI and Open Responses name the events of a summary alike, and those of a plain text not."""
    said = anthropic.thinking("Hm", "SIG==") + anthropic.text("Four", index=1) + anthropic.end()
    at(gateway, provider, "anthropic", in_steps(anthropic.start() + said))
    events = parsed((await ask(gateway, input="hi", stream=True, reasoning=reasoning)).body)
    assert [fault for event in events for fault in faults(event, "Event", event["type"])] == []
    assert [event["delta"] for event in events if event["type"] == "response.reasoning_summary_text.delta"] == ["Hm"]
    (item, _) = events[-1]["response"]["output"]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert item.get("content") == (None if "summary" in reasoning else [{"type": "reasoning_text", "text": "Hm"}])
