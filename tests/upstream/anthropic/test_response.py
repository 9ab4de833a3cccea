"""Messages become chat completions that are valid to the letter, whole and streamed."""

import json
from typing import Any

import pytest

from gateway.domain.usage import Usage
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.cases.anthropic.streams import HELLO, block, end, start, text
from tests.conformance.shapes import completion_faults, stream_faults
from tests.fakes.messages import event
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
    return doc["choices"][0]["message"], whole.state.finish


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


def _stream(**more: Any) -> AnswerStream:
    return as_chat(AnthropicDialect()).stream(translated(**more), channel())


@pytest.mark.parametrize(
    "lost",
    [
        block("text", {"type": "new_delta", "text": "x"}, index=1, text=""),
        event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"}),
    ],
)
def test_deltas_of_an_unknown_type_and_arguments_without_a_call_are_marked(lost: bytes) -> None:
    stream = _stream()
    stream.feed(start() + text("Hi") + lost + end())
    assert (stream.finished, stream.state.marks) == (True, ("block_dropped",))


def test_pings_are_signs_of_life() -> None:
    stream = _stream()
    stream.feed(b'event: ping\ndata: {"type":"ping"}\n\n: still here\n\n')
    assert (stream.events, stream.comments, stream.state.began) == (1, 1, False)


def test_a_stream_can_be_cut_short() -> None:
    stream = _stream(include_usage=True)
    out = stream.feed(HELLO[: HELLO.index(b"event: content_block_stop")])
    out += stream.cut_short() + stream.tail(Usage(input=1, output=2))
    assert (stream.finished, stream.state.finish, stream_faults(out, usage="yes")) == (True, "length", [])


def test_nothing_is_held_back_after_the_start_of_the_message() -> None:
    stream = _stream()
    events = [event + b"\n\n" for event in HELLO.split(b"\n\n") if event]
    says = [bool(stream.feed(event)) for event in events]
    assert says == [False, False, True, True, False, False, True]


def test_a_thought_with_the_index_of_an_open_text_is_not_held_back() -> None:
    stream, thought = _stream(), block("thinking", {"type": "thinking_delta", "thinking": "Hm"}, thinking="")
    stream.feed(start() + text("Hi").partition(b"event: content_block_stop")[0])
    assert b'"Hm"' in stream.feed(thought.partition(b"event: content_block_stop")[0])
