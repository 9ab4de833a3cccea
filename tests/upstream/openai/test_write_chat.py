"""A conversation as a chat completion request: one text where that is possible, and only what a vendor reads."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.conversation import (
    Block,
    CallPart,
    Conversation,
    MediaPart,
    ResultPart,
    TextPart,
    ThoughtPart,
    ToolChoice,
    ToolOffer,
    Turn,
)
from gateway.domain.order import Order
from gateway.upstream.openai.request import write_chat
from gateway.upstream.vendors import OPENAI, OPENROUTER, PLAIN, PRESETS, Vendor
from tests.refusals import refusal_of

MARK = rawjson.raw({"type": "ephemeral"})


def _text(said: str, **more: Any) -> TextPart:
    return TextPart(raw=rawjson.raw(said), **more)


def _order(*turns: tuple[str, tuple[Block, ...]], fields: dict[str, Any] | None = None, **more: Any) -> Order:
    conversation = Conversation(turns=tuple(Turn(role=role, blocks=blocks) for role, blocks in turns), **more)
    given = {name: rawjson.raw(value) for name, value in (fields or {}).items()}
    return Order(fields=given, model="m", conversation=conversation)


def _messages(*turns: tuple[str, tuple[Block, ...]], vendor: Vendor = PLAIN) -> Any:
    return json.loads(bytes(write_chat(_order(*turns), vendor).fields["messages"]))


CALL = CallPart(id="c", name="f", arguments=msgspec.Raw(b'{ "x": 1.0 }'), signature="sig")


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (
            MediaPart(type="image/png", data="AA", detail="low", param="x"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        ),
        (MediaPart(url="http://h/a.png", param="x"), {"type": "image_url", "image_url": {"url": "http://h/a.png"}}),
        (
            MediaPart(type="audio/wav", data="AA", param="x"),
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
        (
            MediaPart(type="application/pdf", data="AA", name="a.pdf", param="x"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
        ),
        (_text("No.", is_refusal=True), {"type": "refusal", "refusal": "No."}),
    ],
)
def test_parts_that_are_not_texts(part: Any, written: Any) -> None:
    assert _messages(("user", (part,)))[0]["content"] == [written]


@pytest.mark.parametrize(
    ("vendor", "lengths"), [(OPENAI, [40] * 3), (PRESETS["azure"], [40] * 3), (PLAIN, [40, 41, 10_000])]
)
def test_a_long_id_of_a_call_is_one_that_openai_takes(vendor: Vendor, lengths: list[int]) -> None:
    image = MediaPart(type="image/png", data="AA", param="x")
    ids = ["a" * 40, "b" * 41, "b" * 10_000]
    calls = tuple(CallPart(id=id, name="f", arguments=msgspec.Raw(b"{}")) for id in ids)
    results = tuple(ResultPart(call_id=id, parts=(image,)) for id in ids)
    called, *found, _ = _messages(("assistant", calls), ("tool", results), vendor=vendor)
    written = [call["id"] for call in called["tool_calls"]]
    assert [result["tool_call_id"] for result in found] == written
    assert [result["content"] for result in found] == [f"[image of tool result {id[:64]}]" for id in written]
    assert (written[0], [len(id) for id in written], len(set(written))) == (ids[0], lengths, 3)


def test_results_come_before_what_they_show() -> None:
    image = MediaPart(type="image/png", data="AA", param="x")
    results = ResultPart(call_id="a", parts=(image,)), ResultPart(call_id="b", parts=(_text("no"),), failed=True)
    found = _messages(("tool", results), ("user", (_text("so"),)))
    assert [(one["role"], one["content"]) for one in found[:2]] == [
        ("tool", "[image of tool result a]"),
        ("tool", "Error: no"),
    ]
    assert [part["type"] for part in found[2]["content"]] == ["image_url", "text"]
    assert [one["role"] for one in _messages(("tool", results), ("assistant", (_text("x"),)))] == [
        "tool",
        "tool",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("vendor", "reasoning", "signature"),
    [
        (PLAIN, True, False),
        (PRESETS["deepseek"], True, False),
        (OPENAI, False, False),
        (PRESETS["gemini-openai"], False, True),
    ],
)
def test_reasoning_and_signatures_go_to_who_reads_them(vendor: Vendor, reasoning: bool, signature: bool) -> None:
    thought = ThoughtPart(text=rawjson.raw("Hm"), signed=(rawjson.raw({"type": "thinking"}),), name="thinking")
    (message,) = _messages(("assistant", (thought, CALL)), vendor=vendor)
    assert ("reasoning_content" in message, "extra_content" in message["tool_calls"][0]) == (reasoning, signature)
    assert write_chat(_order(("assistant", (thought, CALL))), vendor).removed == (() if reasoning else ("thinking",))
    assert _messages(("assistant", (thought,)), vendor=vendor) == []
    assert write_chat(_order(("assistant", (thought,))), vendor).removed == ("thinking",)  # as of a turn that broke off


def test_cache_marks_go_to_openrouter_and_are_named_elsewhere() -> None:
    marked = _order(("user", (_text("a", cache=MARK),)))
    content = json.loads(bytes(write_chat(marked, OPENROUTER).fields["messages"]))[0]["content"]
    assert content == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    assert (write_chat(marked, OPENROUTER).removed, write_chat(marked).removed) == ((), ("cache_control",))


def test_tools_and_choices() -> None:
    tools = (ToolOffer(name="f", description="d", strict=True), ToolOffer(name="g"))
    allowed = ToolChoice(mode="required", allowed=("g",))
    found = write_chat(_order(tools=tools, choice=allowed), OPENAI).fields
    named = [{"type": "function", "function": {"name": "g"}}]
    assert json.loads(bytes(found["tool_choice"])) == {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": named},
    }
    assert [tool["function"] for tool in json.loads(bytes(found["tools"]))] == [
        {"name": "f", "description": "d", "strict": True},
        {"name": "g"},
    ]
    others = write_chat(_order(tools=tools, choice=allowed)).fields
    assert (bytes(others["tool_choice"]), json.loads(bytes(others["tools"]))) == (b'"required"', named)
    assert "tool_choice" not in write_chat(_order(choice=ToolChoice(mode="auto"))).fields


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": None, "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None, "required": None}, {"type": "object", "properties": {}}),
    ],
)
def test_a_schema_says_that_arguments_are_an_object(schema: dict[str, Any], written: dict[str, Any]) -> None:
    """LM Studio, DeepSeek and OpenAI refuse others."""
    tool = ToolOffer(name="f", parameters=rawjson.raw(schema))
    found = json.loads(bytes(write_chat(_order(tools=(tool,))).fields["tools"]))
    assert found[0]["function"]["parameters"] == written


def test_what_a_vendor_has_no_place_for_is_named_in_the_clients_words() -> None:
    words = {"safety_identifier": "metadata", "stop": "stop_sequences"}
    fields = {"safety_identifier": "u", "stop": list("abcde"), "top_k": 3, "seed": None}
    written = write_chat(_order(fields=fields, param_names=words, extras=("thread",)))
    assert (set(written.fields), written.removed) == ({"stop", "top_k", "messages"}, ("metadata", "thread"))
    strict = write_chat(_order(fields=fields, param_names=words), OPENAI)
    assert (json.loads(bytes(strict.fields["stop"])), strict.removed) == (list("abcd"), ("top_k", "stop_sequences"))


def test_only_openrouter_fetches_documents() -> None:
    document = MediaPart(type="application/pdf", url="https://h/a.pdf", param="here")
    (turn,) = _messages(("user", (document,)), vendor=OPENROUTER)
    assert turn["content"] == [{"type": "file", "file": {"file_data": "https://h/a.pdf"}}]
    assert refusal_of(_messages, ("user", (document,))).param == "here"


def test_a_picture_of_the_assistant_alone_is_shown_by_the_user() -> None:
    picture = MediaPart(type="image/png", data="AA", param="x")
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert _messages(("assistant", (picture,)), ("assistant", (_text("a"),))) == [
        {"role": "user", "content": [shown]},
        {"role": "assistant", "content": "a"},
    ]


@pytest.mark.parametrize("stop", ["HALT!", True, 5, ["a"]])
def test_a_stop_that_is_not_a_long_list_stays_as_it_is(stop: Any) -> None:
    written = write_chat(_order(("user", (_text("a"),)), fields={"stop": stop}), OPENAI)
    assert (rawjson.value(written.fields["stop"]), written.removed) == (stop, ())


@pytest.mark.parametrize("vendor", [PLAIN, PRESETS["ollama"]])
def test_an_empty_system_message_is_left_out(vendor: Vendor) -> None:
    turns: list[tuple[str, tuple[Block, ...]]] = [("system", (_text(""),)), ("user", (_text("u"),))]
    assert _messages(*turns, vendor=vendor) == [{"role": "user", "content": "u"}]


def test_a_local_server_gets_one_system_message_even_with_a_picture() -> None:
    picture = MediaPart(type="image/png", data="AA", param="x")
    turns: list[tuple[str, tuple[Block, ...]]] = [("system", (_text("a"), picture)), ("user", (_text("u"),))]
    first, second = _messages(*turns, ("system", (_text("b"),)), vendor=PRESETS["ollama"])
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert first == {"role": "system", "content": [{"type": "text", "text": "a"}, shown, {"type": "text", "text": "b"}]}
    assert second["role"] == "user"
