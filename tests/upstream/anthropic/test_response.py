"""Whole messages become chat completions that are valid to the letter."""

import json
from typing import Any

import pytest

from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, body_of, channel, translated

SPENT = {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 7}


def _answer(*blocks: Any, reason: str = "end_turn", **more: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": blocks}
    return dumps({**message, "stop_reason": reason, "usage": SPENT, **more})


def _said(body: bytes, **fields: Any) -> tuple[Any, str]:
    whole = as_chat(AnthropicDialect()).whole(body, translated({"messages": [], **fields}), channel())
    doc = json.loads(body_of(whole))
    assert completion_faults(doc) == []
    return doc["choices"][0]["message"], whole.finish


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("pause_turn", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("new", "stop"),
    ],
)
def test_every_stop_reason(reason: str, finish: str) -> None:
    assert _said(_answer({"type": "text", "text": "Hi"}, reason=reason))[1] == finish


def test_a_refusal_may_say_nothing() -> None:
    assert _said(_answer(reason="refusal")) == ({"role": "assistant", "content": "", "refusal": None}, "content_filter")


def test_a_refusal_may_explain_itself() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    message, finish = _said(_answer(reason="refusal", stop_details=details))
    assert (message["refusal"], finish) == ("Not this.", "content_filter")


SCHEMA = {"type": "json_schema", "json_schema": {"schema": {}}}


def test_a_schema_answered_by_the_tool_is_text() -> None:
    use = {"type": "tool_use", "id": "t", "name": "json_response", "input": {"a": 1}}
    message, finish = _said(_answer(use, reason="tool_use"), response_format=SCHEMA)
    assert (message["content"], "tool_calls" in message, finish) == ('{"a":1}', False, "stop")
