"""Members that say nothing are left out where a server refuses them."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.null_values import without_nulls
from gateway.upstream.request_rules import rules_in

SCHEMA = {"type": ["string", "null"], "enum": [None, "a"], "default": None}


@pytest.mark.parametrize(
    "message",
    [
        "[] is too short - 'tools'",  # DashScope
        "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",  # vLLM
        "Invalid 'messages[3].tool_calls': empty array. Expected an array with minimum length 1",  # OpenAI, DeepSeek
        "body.tools.0.function.strict: Input should be a valid boolean",  # pydantic
        "tools: List should have at least 1 item after validation, not 0",
        "Invalid type for 'input[2].content': expected one of an array of objects or string, but got null instead.",
        "messages[1].tool_calls: invalid type: null, expected a sequence",  # serde
        "Expected array, received null",  # Zod
        "input[3].content must be a string or an array (was null)",
        "assistant.tool_calls must be an array when provided",
        "none is not an allowed value",
        "None is not of type 'array' - 'tools'",
    ],
)
def test_a_refusal_of_nulls_is_recognized(message: str) -> None:
    assert "null" in rules_in(message)


@pytest.mark.parametrize("message", ["the model must not be empty", "tool_choice none is unsupported", "unknown field"])
def test_other_refusals_are_about_something_else(message: str) -> None:
    assert rules_in(message) == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"tools": [], "tool_choice": "auto", "stop": [], "user": None, "n": 1}, {"n": 1}),
        ({"tools": [], "functions": [{}], "tool_choice": "auto"}, {"functions": [{}], "tool_choice": "auto"}),
        ({"tool_choice": "auto"}, {"tool_choice": "auto"}),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [], "name": None}]},
            {"messages": [{"role": "assistant", "content": ""}]},
        ),
        ({"messages": [{"role": "user", "content": []}]}, {"messages": [{"role": "user", "content": ""}]}),
        (
            {"input": [{"type": "reasoning", "content": None, "summary": []}, {"role": "user", "content": None}]},
            {"input": [{"type": "reasoning", "summary": []}, {"role": "user", "content": ""}]},
        ),
        (
            {"tools": [{"function": {"strict": None, "parameters": {"properties": {"a": SCHEMA}, "required": []}}}]},
            {"tools": [{"function": {"parameters": {"properties": {"a": SCHEMA}}}}]},
        ),
        (
            {"messages": [{"type": "tool_use", "input": {"a": None}}]},
            {"messages": [{"type": "tool_use", "input": {"a": None}}]},
        ),
    ],
)
def test_only_what_says_nothing_is_left_out(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    fields = without_nulls({name: rawjson.raw(value) for name, value in sent.items()})
    assert {name: rawjson.value(raw) for name, raw in fields.items()} == kept


def test_what_is_nested_too_deeply_is_left_to_the_upstream() -> None:
    deep = rawjson.raw([])
    for _ in range(5000):
        deep = type(deep)(b"[" + bytes(deep) + b"]")
    assert without_nulls({"messages": deep}) == {"messages": deep}
