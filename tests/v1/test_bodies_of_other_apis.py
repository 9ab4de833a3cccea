"""A body that belongs to another API than its path: served if programs send it, else rejected with the right path."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, speak_messages
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, choice, reply, tool_call, usage, whole
from tests.v1.test_messages import post

PATH = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
FLAT: Doc = {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA}
NESTED: Doc = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}
CURSOR: Doc = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Read a.txt"}]},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a.txt"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "abc"},
    ],
    "tools": [FLAT, {"type": "custom", "name": "ApplyPatch", "description": "Patches."}],
    "tool_choice": "auto",
    "reasoning": {"effort": "low"},
    "max_output_tokens": 77,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
}


@pytest.mark.parametrize("more", [{}, {"messages": []}, {"messages": None}])
async def test_a_responses_body_becomes_a_chat(gateway: Gateway, provider: Provider, more: Doc) -> None:
    provider.on("m", reply(whole("m", choice("Done."), spent=usage())))
    answer = await post(gateway, {**CURSOR, **more}, path=PATH)
    assert (answer.status, answer.json["object"], answer.text) == (200, "chat.completion", "Done.")
    sent = provider.last.json
    assert provider.last.path == "/v1/chat/completions"
    assert [turn["role"] for turn in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert (sent["messages"][1]["content"], sent["messages"][3]["content"]) == ("Read a.txt", "abc")
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["read", "ApplyPatch"]
    assert (sent["max_completion_tokens"], sent["reasoning_effort"], sent["tool_choice"]) == (77, "low", "auto")
    assert not {"input", "instructions", "store", "include", "max_output_tokens"} & sent.keys()
    assert gateway.record.api == "chat"


async def test_its_stream_is_that_of_a_chat(gateway: Gateway, provider: Provider) -> None:
    body = {**CURSOR, "stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}}
    answer = await post(gateway, body, path=PATH)
    lines = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    docs = [json.loads(line) for line in lines if line != "[DONE]"]
    assert {doc["object"] for doc in docs} == {"chat.completion.chunk"}
    assert "".join(one["delta"].get("content") or "" for doc in docs for one in doc["choices"]) == "Hello"
    assert (docs[-1]["usage"]["completion_tokens"], lines[-1]) == (12, "[DONE]")


async def test_it_is_translated_for_other_dialects_too(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages(message({"type": "tool_use", "id": "t", "name": "read", "input": {}})))
    answer = await post(gateway, CURSOR, path=PATH)
    (call,) = answer.json["choices"][0]["message"]["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "read")
    assert [turn["role"] for turn in provider.last.json["messages"]] == ["user", "assistant", "user"]


async def test_fields_of_chats_beside_it_count(gateway: Gateway, provider: Provider) -> None:
    body = {"model": "m", "input": "Hi", "max_tokens": 9, "stop": ["x"], "temperature": 0.5, "seed": 7}
    assert (await post(gateway, body, path=PATH)).status == 200
    sent = provider.last.json
    assert {name: sent.get(name) for name in ("max_tokens", "stop", "temperature", "seed")} == {
        "max_tokens": 9,
        "stop": ["x"],
        "temperature": 0.5,
        "seed": 7,
    }


async def test_what_a_chat_has_no_place_for_is_named(gateway: Gateway, provider: Provider) -> None:
    body = {"model": "m", "input": "Hi", "max_tool_calls": 3, "tools": [{"type": "web_search"}]}
    answer = await post(gateway, body, path=PATH)
    assert answer.head.get("x-gateway-dropped-params") == "max_tool_calls,tools[].web_search"


async def test_a_conversation_that_is_kept_elsewhere_is_refused(gateway: Gateway) -> None:
    body = {"model": "m", "input": "Hi", "previous_response_id": "resp_1"}
    answer = await post(gateway, body, path=PATH)
    assert answer.refusal == (400, "previous_response_not_found", "previous_response_id")


CALLING = {"type": "object", "properties": {"function": {"type": "string"}, "type": {"enum": ["function"]}}}
"""The parameters of a tool that has the word for tools in its own schema."""


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([FLAT], [NESTED]),
        ([NESTED, FLAT], [NESTED, NESTED]),
        ([{"type": "function", "name": "read", "description": "Reads.", "input_schema": SCHEMA}], [NESTED]),
        ([{"name": "read", "description": "Reads.", "input_schema": SCHEMA}], [NESTED]),
        (
            [{"type": "custom", "name": "read", "description": "Reads.", "input_schema": SCHEMA, "cache_control": {}}],
            [{**NESTED, "cache_control": {}}],
        ),
        ([{"type": "custom", "name": "p"}, FLAT], [{"type": "custom", "custom": {"name": "p"}}, NESTED]),
        ([{"type": "custom", "name": "p"}], [{"type": "custom", "custom": {"name": "p"}}]),
        (
            [{**FLAT, "parameters": CALLING}],
            [{"type": "function", "function": {**NESTED["function"], "parameters": CALLING}}],
        ),
        ([NESTED], [NESTED]),
    ],
)
async def test_flat_tools_and_choices_are_nested(
    gateway: Gateway, provider: Provider, given: list[Any], sent: list[Any]
) -> None:
    calls = choice(None, finish="tool_calls", tool_calls=[tool_call(0, "c", "read", "{}")])
    provider.on("m", reply(whole("m", calls, spent=usage())))
    turns = [{"role": "user", "content": 'say "function":"x" and {"type":"function"}'}]
    body = {"model": "m", "messages": turns, "tools": given, "tool_choice": {"type": "function", "name": "read"}}
    assert (await post(gateway, body, path=PATH)).status == 200
    assert (provider.last.json["tools"], provider.last.json["messages"]) == (sent, turns)
    nested = {"type": "function", "function": {"name": "read"}}
    assert given == sent or provider.last.json["tool_choice"] == nested


@pytest.mark.parametrize("tools", [None, [], [5], [{"type": ["function"], "name": "f"}]])
async def test_what_is_not_a_list_of_tools_passes_as_it_is(gateway: Gateway, provider: Provider, tools: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    assert (await post(gateway, body, path=PATH)).status == 200
    assert provider.last.json["tools"] == tools


TURNS = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/responses", {"messages": TURNS}, "the request has no input, and looks like one for chat completions: "),
        ("/v1/responses", {"messages": TURNS}, "send it to POST /v1/chat/completions"),
        ("/v1/completions", {"messages": TURNS}, "send it to POST /v1/chat/completions"),
        ("/v1/embeddings", {"messages": TURNS}, "send it to POST /v1/chat/completions"),
        ("/v1/chat/completions", {"prompt": "Hi"}, "send it to POST /v1/completions"),
        ("/v1/messages", {"input": "Hi", "max_tokens": 9}, "send it to POST /v1/responses"),
        ("/v1/responses", {}, "the request has no input"),
        ("/v1/chat/completions", {}, "the request has no messages"),
    ],
)
async def test_other_mistakes_name_the_right_path(gateway: Gateway, path: str, body: Doc, words: str) -> None:
    answer = await post(gateway, {"model": "m", **body}, path=path)
    assert (answer.status, answer.error["code"]) == (400, "missing_required_parameter")
    assert words in answer.error["message"]


MARK = {"cache_control": {"type": "ephemeral"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
BLOCKS: Doc = {
    "model": "m",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Read a.txt", **MARK}, PICTURE]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "abc"}]},
    ],
    "tools": [{"name": "read", "input_schema": SCHEMA}],
}
"""What Cursor sends for models of Claude."""


@pytest.mark.parametrize(
    ("choice", "sent_choice"),
    [({"type": "auto"}, "auto"), ({"type": "any"}, "required"), ({"type": "tool", "name": "read"}, "named")],
)
async def test_blocks_of_anthropic_become_messages_of_a_chat(
    gateway: Gateway, provider: Provider, choice: Doc, sent_choice: str
) -> None:
    assert (await post(gateway, {**BLOCKS, "tool_choice": choice}, path=PATH)).status == 200
    sent, named = provider.last.json, {"type": "function", "function": {"name": "read"}}
    function = {"name": "read", "arguments": '{"path":"a"}'}
    assert sent["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Read a.txt", **MARK},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "t1", "content": "abc"},
    ]
    assert sent["tool_choice"] == (named if sent_choice == "named" else sent_choice)


async def test_a_call_that_is_among_the_blocks_and_beside_them_is_one(gateway: Gateway, provider: Provider) -> None:
    asked, made, answered = BLOCKS["messages"]
    call = {"id": "t1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    body = {**BLOCKS, "messages": [asked, {**made, "tool_calls": [call]}, answered]}
    assert (await post(gateway, body, path=PATH)).status == 200
    assert [len(turn.get("tool_calls", ())) for turn in provider.last.json["messages"]] == [0, 1, 0]
