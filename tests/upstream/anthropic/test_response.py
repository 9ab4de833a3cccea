"""Whole messages become chat completions that are valid to the letter."""

import json
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.estimate import OutputCounter
from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import WholeAnswer
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.usage_report import UsageReports
from tests.cases.anthropic.streams import block, end, start, text, tool
from tests.cases.conversations import function
from tests.conformance.shapes import completion_faults
from tests.fakes.replies import dumps
from tests.upstream.makers import as_chat, attempt_fails, body_of, channel, translated

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}
SPENT = {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 7}


def _whole(body: bytes, memory: CallMemory | None = None, **fields: Any) -> WholeAnswer:
    asked = translated({"messages": [], **fields}, model="mine")
    return as_chat(AnthropicDialect(memory)).whole(body, asked, channel())


def _answer(*blocks: Any, reason: str = "end_turn", **more: Any) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": blocks}
    return dumps({**message, "stop_reason": reason, "usage": SPENT, **more})


def _said(body: bytes, **fields: Any) -> tuple[Any, str]:
    whole = _whole(body, **fields)
    doc = json.loads(body_of(whole))
    assert completion_faults(doc) == []
    return doc["choices"][0]["message"], whole.finish


def test_text() -> None:
    whole = _whole(_answer({"type": "text", "text": "Hel"}, {"type": "odd"}, {"text": "lo"}))
    doc = json.loads(body_of(whole))
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"]) == ([], "Hello")
    assert doc["system_fingerprint"] is None  # OpenRouter's SDK wants the field
    assert (doc["id"], doc["model"], doc["created"], whole.upstream_id) == ("msg_1", "mine", 77, "msg_1")
    usage = doc["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (30, 7, 37)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 20, "audio_tokens": 0, "cache_write_tokens": 0}


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


def test_a_signature_that_comes_twice_is_one() -> None:
    memory = CallMemory()
    thought = block("thinking", {"type": "signature_delta", "signature": "S"}, thinking="Hm", signature="S")
    _whole(start() + thought + tool("t", "f", "{}") + end("tool_use"), memory)
    assert json.loads(memory.recall("", "t")) == [THOUGHT]


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


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (dumps({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), "upstream_overloaded"),
        (dumps({"type": "message"}), "upstream_bad_response"),
        (dumps({"content": [5]}), "upstream_bad_response"),
        (b"<html>Sorry</html>", "upstream_bad_response"),
        (b"", "upstream_bad_response"),
        (start() + text("Hi"), "upstream_stream_truncated"),
    ],
)
def test_what_is_not_an_answer_fails(body: bytes, code: str) -> None:
    with attempt_fails() as caught:
        _whole(body)
    assert (caught.value.code, caught.value.sent) == (code, True)


def test_an_error_inside_has_its_own_kind() -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key sk-ant-1"}}
    with attempt_fails() as caught:
        _whole(dumps(error))
    assert (caught.value.kind, "sk-ant" in caught.value.message) == (FailureKind.AUTH, False)


def test_thoughts_belong_to_the_call_after_them() -> None:
    memory = CallMemory()
    calls: list[Any] = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ("a", "b")]
    _whole(_answer(THOUGHT, *calls), memory)
    assert (bool(memory.recall("", "a")), memory.recall("", "b")) == (True, b"")


@pytest.mark.parametrize("fields", [{}, {"response_format": SCHEMA, "tools": [function("json_response")]}])
def test_a_tool_of_that_name_is_one(fields: Any) -> None:
    message, finish = _said(_answer({"type": "tool_use", "id": "t", "name": "json_response", "input": {}}), **fields)
    assert (message["tool_calls"][0]["id"], finish) == ("t", "tool_calls")


START = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 1}


def _seen(*reports: Any) -> tuple[Usage | None, bool]:
    seen = UsageReports({})
    for found in reports:
        seen.add({"usage": rawjson.raw(found)})
    return seen.usage(OutputCounter()), "suspect_usage" in seen.marks


def test_input_is_what_was_fresh_and_what_was_cached() -> None:
    usage = Usage(input=33, cached=20, cache_write=3, output=1, source=UsageSource.REPORTED)
    assert _seen(START) == (usage, False)


def test_later_numbers_replace_earlier_ones_and_nulls_do_not() -> None:
    usage = Usage(input=33, cached=20, cache_write=3, output=55, reasoning=30, source=UsageSource.REPORTED)
    later = {"input_tokens": None, "output_tokens": 55, "output_tokens_details": {"thinking_tokens": 30}}
    assert _seen(START, later) == (usage, False)


def test_odd_iterations_are_passed_over() -> None:
    assert _seen({"input_tokens": 5, "output_tokens": 2, "iterations": 3})[0] is not None


def test_without_an_input_count_there_is_no_report() -> None:
    assert _seen({"output_tokens": 4})[0] is None
    assert _seen(None) == (None, False)


def test_what_cannot_be_true_is_suspect() -> None:
    assert _seen({"input_tokens": -1}) == (None, True)
