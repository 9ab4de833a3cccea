"""Parts of tool calls are passed on, held for their arguments, left out or refused; see ``test_dialects`` too."""

import time
from typing import Any

import pytest

from gateway.inbound.chat.native import NativeChatStream
from gateway.upstream.tool_call_tracker import made_id
from tests.cases.answers import chunks_in
from tests.cases.streams import ROLE
from tests.fakes.replies import DONE, chunk, delta, event, tool_call
from tests.upstream.makers import error_of, native_stream

Doc = dict[str, Any]


@pytest.fixture
def calls() -> NativeChatStream:
    stream = native_stream()
    stream.feed(ROLE)
    return stream


def _take(calls: NativeChatStream, *deltas: Doc) -> list[Doc]:
    out = chunks_in(calls.feed(event(chunk(delta(tool_calls=list(deltas))))))
    return [call for doc in out for choice in doc["choices"] for call in choice["delta"].get("tool_calls", [])]


def _later(arguments: str, index: int = 0, **more: Any) -> Doc:
    return {"index": index, "function": {"arguments": arguments}, **more}


def test_an_empty_object_waits_for_the_arguments_that_may_follow(calls: NativeChatStream) -> None:
    assert _take(calls, tool_call(0, "a", "f", "{}")) == [tool_call(0, "a", "f", "")]
    assert _take(calls, _later('{"x":1}')) == [_later('{"x":1}')]
    _take(calls, tool_call(1, "b", "g", "{}"))
    ended = event(chunk(delta(tool_calls=[tool_call(2, "c", "h", "{}")], finish="tool_calls"))) + DONE
    _, last = chunks_in(calls.feed(ended))
    assert last["choices"][0]["delta"]["tool_calls"] == [_later("{}", 1), _later("{}", 2)]


def test_a_value_that_begins_as_the_arguments_do_repeats_nothing(calls: NativeChatStream) -> None:
    assert _take(calls, tool_call(0, "a", "f", '{"a":')) == [tool_call(0, "a", "f", '{"a":')]
    assert _take(calls, _later('{"a":1}}')) == [_later('{"a":1}}')]


def test_an_empty_object_is_added_beside_a_part_of_another_kind(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", "{}"))
    other = {"index": 0, "custom": {}, "mood": 1}
    (last,) = chunks_in(calls.feed(event(chunk(delta(tool_calls=[other], finish="tool_calls")))))
    assert last["choices"][0]["delta"]["tool_calls"] == [other, _later("{}")]


@pytest.mark.parametrize(("sent", "got"), [("{}", "{}"), ("", ""), ({"x": 1}, '{"x":1}'), ({}, "{}")])
def test_the_arguments_of_an_older_function_call_are_a_text(calls: NativeChatStream, sent: object, got: str) -> None:
    """GigaChat writes the object itself, which clients cannot parse. LiteLLM writes ``tool_calls: null`` next to it."""
    old = event(chunk(delta(function_call={"name": "f", "arguments": sent}, tool_calls=None)))
    docs = chunks_in(calls.feed(old + event(chunk(delta(finish="function_call")))))
    assert [doc["choices"][0]["delta"] for doc in docs] == [{"function_call": {"name": "f", "arguments": got}}, {}]


def test_without_either_a_name_opens_and_the_rest_continues(calls: NativeChatStream) -> None:
    opened = _take(calls, {"function": {"name": "f", "arguments": "{"}}, {"function": {"arguments": "}"}})
    assert [c["index"] for c in [*opened, *_take(calls, {"function": {"name": "f"}})]] == [0, 0, 1]


def test_a_missing_id_is_made_and_stays(calls: NativeChatStream) -> None:
    (first,) = _take(calls, {"index": 0, "function": {"name": "f"}})
    assert (first["id"], first["type"]) == (made_id("chatcmpl-ours/0", 0), "function")
    assert _take(calls, _later("x", id="late")) == [_later("x")]
    assert _take(calls, _later("y", id="late")) == [_later("y")]


def test_an_empty_delta_is_left_out(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, {"index": 0, "id": None, "function": {"name": None, "arguments": None}}) == []


def test_custom_tools_have_input(calls: NativeChatStream) -> None:
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert _take(calls, custom) == [custom]
    assert _take(calls, {"index": 0, "custom": {"input": "y"}}) == [{"index": 0, "custom": {"input": "y"}}]


@pytest.mark.parametrize("call", [{"index": 0, "function": 5}, {"index": 0, "function": []}])
def test_invalid_calls_are_refused(calls: NativeChatStream, call: Doc) -> None:
    assert (_take(calls, call), calls.state.marks) == ([], ("bad_chunks=1",))


def test_a_call_for_which_there_is_no_room_fails_the_answer(calls: NativeChatStream) -> None:
    for number in range(600):
        calls.feed(event(chunk(delta(tool_calls=[tool_call(number, f"c{number}", "f", "{}")]))))
    assert calls.failure is not None
    assert "too_many_tool_calls" in error_of(calls.failure).message


@pytest.mark.parametrize("call", [{"function": {"arguments": "", "name": "f"}}, {"function": {"arguments": ""}}, {}])
def test_an_event_of_thousands_of_calls_fails_the_answer_at_once(calls: NativeChatStream, call: Doc) -> None:
    data, begin = event(chunk(delta(tool_calls=[call] * 200_000))), time.process_time()
    assert calls.feed(data) == b""
    assert time.process_time() - begin < 0.5
    assert calls.failure is not None
    assert "too_many_tool_calls" in error_of(calls.failure).message


def test_calls_that_never_get_a_name_are_bounded(calls: NativeChatStream) -> None:
    for number in range(600):
        calls.feed(event(chunk(delta(tool_calls=[{"index": number, "id": f"c{number}", "function": {}}]))))
    assert calls.failure is not None
