"""Tool calls are numbered from 0, introduced once, and kept apart however the upstream separates them."""

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


def test_a_good_call_passes_unchanged(calls: NativeChatStream) -> None:
    assert _take(calls, tool_call(0, "a", "f", "")) == [tool_call(0, "a", "f", "")]
    assert _take(calls, _later("{}")) == [_later("{}")]


def test_it_is_introduced_once(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, tool_call(0, "a", "f", '{"x":1}')) == [_later('{"x":1}')]


def test_an_empty_object_waits_for_the_arguments_that_may_follow(calls: NativeChatStream) -> None:
    assert _take(calls, tool_call(0, "a", "f", "{}")) == [tool_call(0, "a", "f", "")]
    assert _take(calls, _later('{"x":1}')) == [_later('{"x":1}')]
    _take(calls, tool_call(1, "b", "g", "{}"))
    ended = event(chunk(delta(tool_calls=[tool_call(2, "c", "h", "{}")], finish="tool_calls"))) + DONE
    _, last = chunks_in(calls.feed(ended))
    assert last["choices"][0]["delta"]["tool_calls"] == [_later("{}", 1), _later("{}", 2)]


def test_an_empty_object_is_added_beside_a_part_of_another_kind(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", "{}"))
    other = {"index": 0, "custom": {}, "mood": 1}
    (last,) = chunks_in(calls.feed(event(chunk(delta(tool_calls=[other], finish="tool_calls")))))
    assert last["choices"][0]["delta"]["tool_calls"] == [other, _later("{}")]


@pytest.mark.parametrize(("sent", "got"), [("{}", "{}"), ("", ""), ({"x": 1}, '{"x":1}'), ({}, "{}")])
def test_the_arguments_of_an_older_function_call_are_a_text(calls: NativeChatStream, sent: object, got: str) -> None:
    """GigaChat writes the object itself, which clients cannot parse."""
    old = event(chunk(delta(function_call={"name": "f", "arguments": sent})))
    docs = chunks_in(calls.feed(old + event(chunk(delta(finish="function_call")))))
    assert [doc["choices"][0]["delta"] for doc in docs] == [{"function_call": {"name": "f", "arguments": got}}, {}]


def test_an_older_function_call_that_says_nothing_is_left_out(calls: NativeChatStream) -> None:
    """OpenAI's Node SDK fails at the end of an answer with one."""
    empty = {"name": "", "arguments": ""}
    (doc,) = chunks_in(calls.feed(event(chunk(delta("Hi", function_call=empty)))))
    assert doc["choices"][0]["delta"] == {"content": "Hi"}
    called = [tool_call(0, "a", "f", "")]
    (doc,) = chunks_in(calls.feed(event(chunk(delta(tool_calls=called, function_call=empty)))))
    assert doc["choices"][0]["delta"] == {"tool_calls": called}


def test_numbers_have_no_gaps(calls: NativeChatStream) -> None:
    assert [c["index"] for c in _take(calls, tool_call(3, "a", "f", ""), tool_call(7, "b", "g", ""))] == [0, 1]
    assert [c["index"] for c in _take(calls, _later("x", 7), _later("y", 3))] == [1, 0]


def test_another_id_under_a_used_index_is_another_call(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, tool_call(0, "b", "f", '{"x":1}')) == [tool_call(1, "b", "f", '{"x":1}')]
    assert _take(calls, _later("x"))[0]["index"] == 1


def test_without_an_index_the_id_tells(calls: NativeChatStream) -> None:
    _take(calls, {"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}})
    assert _take(calls, {"id": "a", "function": {"arguments": "x"}})[0]["index"] == 0


def test_without_either_a_name_opens_and_the_rest_continues(calls: NativeChatStream) -> None:
    opened = _take(calls, {"function": {"name": "f", "arguments": "{"}}, {"function": {"arguments": "}"}})
    assert [c["index"] for c in [*opened, *_take(calls, {"function": {"name": "f"}})]] == [0, 0, 1]


def test_a_missing_id_is_made_and_stays(calls: NativeChatStream) -> None:
    (first,) = _take(calls, {"index": 0, "function": {"name": "f"}})
    assert (first["id"], first["type"]) == (made_id("chatcmpl-ours/0", 0), "function")
    assert _take(calls, _later("x", id="late")) == [_later("x")]
    assert _take(calls, _later("y", id="late")) == [_later("y")]


def test_a_name_that_comes_late_is_reported(calls: NativeChatStream) -> None:
    assert _take(calls, {"index": 0, "id": "a", "function": {}}) == []
    assert _take(calls, {"index": 0, "function": {"name": "f"}})[0]["function"]["name"] == "f"
    assert "name" not in _take(calls, {"index": 0, "function": {"name": "f", "arguments": "x"}})[0]["function"]


def test_an_empty_delta_is_left_out(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, {"index": 0, "id": None, "function": {"name": None, "arguments": None}}) == []


def test_extras_come_along(calls: NativeChatStream) -> None:
    extra = {"extra_content": {"google": {"thought_signature": "x"}}}
    call = {**tool_call(0, "a", "f", '{"x":1}'), **extra}
    assert _take(calls, call) == [call]


def test_custom_tools_have_input(calls: NativeChatStream) -> None:
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert _take(calls, custom) == [custom]
    assert _take(calls, {"index": 0, "custom": {"input": "y"}}) == [{"index": 0, "custom": {"input": "y"}}]


def test_calls_are_counted(calls: NativeChatStream) -> None:
    _take(calls, tool_call(0, "a", "find", '{"x":1}'), _later("more"))
    assert (calls.state.tally.calls, calls.state.tally.chars) == (1, len('find{"x":1}more'))


@pytest.mark.parametrize("call", [{"index": 0, "function": 5}, {"index": 0, "function": []}])
def test_what_is_not_a_call_is_refused(calls: NativeChatStream, call: Doc) -> None:
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
