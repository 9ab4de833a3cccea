"""Calls and results that do not fit together are put in order where a server refuses them."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.upstream.message_rules import PAIRS, rules_in, with_rules

USER = {"role": "user", "content": "u"}


def _call(*ids: Any) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(id: Any, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _told(content: Any = "r") -> dict[str, Any]:
    return {"role": "user", "content": f"[tool result]\n\n{content}"}


@pytest.mark.parametrize(
    "message",
    [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "(insufficient tool messages following tool_calls message)",
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        "Duplicate value for 'tool_call_id' of 'call_0' in message[6]",
        "Message has tool role, but there was no previous assistant message with a tool call!",
        "Invalid request: tool_call_id  is not found",
        "Not the same number of function calls and responses",
        "Unexpected role 'tool' after role 'user'",
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: a",
        "Expected toolResult blocks at messages.2.content for the following Ids: a",
    ],
)
def test_a_refusal_of_pairs_is_recognized(message: str) -> None:
    assert rules_in(message) == [PAIRS]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([USER, _call("a", "b"), _result("b"), _result("a")], [USER, _call("a", "b"), _result("a"), _result("b")]),
        ([_call("a"), USER], [_call("a"), _result("a", "[no output]"), USER]),
        ([_call("a"), USER, _result("a")], [_call("a"), _result("a"), USER]),
        ([USER, _result("x"), USER], [USER, _told(), USER]),
        ([_call("a"), _result("a"), _result("a", "s")], [_call("a"), _result("a"), _told("s")]),
        (
            [_call("a"), _result("a", "1"), _call("a"), _result("a", "2")],
            [_call("a"), _result("a", "1"), _call("a_1"), _result("a_1", "2")],
        ),
        ([_call("a", "a"), _result("a", "1")], [_call("a", "a_1"), _result("a", "1"), _result("a_1", "[no output]")]),
        ([_call(None), _result(None)], [_call("call_1"), _result("call_1")]),
        (
            [_result("x", [{"type": "text", "text": "r"}])],
            [{"role": "user", "content": [{"type": "text", "text": "[tool result]"}, {"type": "text", "text": "r"}]}],
        ),
    ],
)
def test_each_call_gets_its_result_and_no_text_is_lost(sent: list[Any], kept: list[Any]) -> None:
    messages = [{name: rawjson.raw(value) for name, value in message.items()} for message in sent]
    fitting = with_rules(messages, [PAIRS])
    assert [{name: rawjson.value(raw) for name, raw in message.items()} for message in fitting] == kept
    assert with_rules(fitting, [PAIRS]) == fitting
