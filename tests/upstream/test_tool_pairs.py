"""Calls and results that do not fit together are put in order where a server refuses them."""

import time
from typing import Any

import pytest

from gateway.upstream.message_rules import PAIRS, with_rules
from gateway.upstream.tool_pairs import with_item_pairs

USER = {"role": "user", "content": "u"}


def _call(*ids: Any) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(id: Any, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _told(content: Any = "r") -> dict[str, Any]:
    return {"role": "user", "content": f"[tool result]\n\n{content}"}


def _use(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]}


def _answers(*ids: str, text: str = "") -> dict[str, Any]:
    results: list[Any] = [{"type": "tool_result", "tool_use_id": id, "content": "r"} for id in ids]
    return {"role": "user", "content": [*results, *([{"type": "text", "text": text}] if text else [])]}


_EMPTY = {"type": "tool_result", "content": "[no output]", "tool_use_id": "a"}
_LABEL, _TEXT = {"type": "text", "text": "[tool result]"}, {"type": "text", "text": "r"}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([USER, _call("a", "b"), _result("b"), _result("a")], [USER, _call("a", "b"), _result("a"), _result("b")]),
        ([_call("a"), USER], [_call("a"), _result("a", "[no output]"), USER]),
        ([_call("a"), USER, _result("a")], [_call("a"), _result("a"), USER]),
        ([USER, _result("x"), USER], [USER, _told(), USER]),
        ([_result("a"), _call("a")], [_told(), _call("a"), _result("a", "[no output]")]),
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
        # the same of Messages
        ([USER, _use("a", "b"), _answers("b", "a", text="t")], [USER, _use("a", "b"), _answers("a", "b", text="t")]),
        ([_use("a"), USER], [_use("a"), {"role": "user", "content": [_EMPTY, {"type": "text", "text": "u"}]}]),
        ([_use("a")], [_use("a"), {"role": "user", "content": [_EMPTY]}]),
        ([_use("a"), _use("b"), _answers("a", "b")], [_use("a"), _answers("a"), _use("b"), _answers("b")]),
        ([USER, _answers("x")], [USER, {"role": "user", "content": [_LABEL, _TEXT]}]),
        (
            [_use("a"), _answers("a", "a")],
            [_use("a"), {"role": "user", "content": [*_answers("a")["content"], _LABEL, _TEXT]}],
        ),
        (
            [_use("a"), _answers("a"), _use("a"), _answers("a")],
            [_use("a"), _answers("a"), _use("a_1"), _answers("a_1")],
        ),
    ],
)
def test_each_call_gets_its_result_and_no_text_is_lost(sent: list[Any], kept: list[Any]) -> None:
    assert with_rules(sent, [PAIRS]) == kept
    assert with_rules(kept, [PAIRS]) == kept


def _item(kind: str, id: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": id, **more}


def test_calls_among_items_get_their_outputs() -> None:
    call, output, said = "function_call", "function_call_output", {"type": "message", "role": "user", "content": "u"}
    sent = [_item(call, "a"), _item(call, "b"), said, _item(output, "b", output="1"), _item(output, "x", output="2")]
    sent += [_item(call, "a"), _item("custom_tool_call", "c"), _item(output, "c", output="3")]
    texts = [{"type": "input_text", "text": text} for text in ("[tool result]", "2")]
    nothing = {"output": "[no output]"}
    assert with_item_pairs(sent) == [
        *(_item(call, "a"), _item(call, "b"), _item(output, "a", **nothing), _item(output, "b", output="1"), said),
        {"type": "message", "role": "user", "content": texts},
        *(_item(call, "a_1"), _item("custom_tool_call", "c")),
        *(_item(output, "a_1", **nothing), _item("custom_tool_call_output", "c", output="3")),
    ]


def test_a_new_id_is_found_at_once_however_many_calls_have_the_same() -> None:
    """The 10,000 calls of 1 MB took six seconds."""
    began = time.process_time()
    kept = with_rules([message for _ in range(10_000) for message in (_call("a"), _result("a"))], [PAIRS])
    assert kept[-2:] == [_call("a_9999"), _result("a_9999")]
    assert time.process_time() - began < 3
