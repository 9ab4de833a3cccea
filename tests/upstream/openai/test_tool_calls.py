"""Tool calls are numbered from 0, introduced once, and kept apart however the upstream separates them."""

from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.call_book import made_id
from gateway.upstream.openai.tool_calls import ToolCalls
from tests.fakes.replies import dumps, tool_call

Doc = dict[str, Any]


def _take(calls: ToolCalls, *deltas: Doc, tally: OutputCounter | None = None) -> list[Doc]:
    out = calls.take(msgspec.Raw(dumps(list(deltas))), tally or OutputCounter())
    return [rawjson.value(rawjson.encode(delta)) for delta in out]


def _later(arguments: str, index: int = 0, **more: Any) -> Doc:
    return {"index": index, "function": {"arguments": arguments}, **more}


def test_a_good_call_passes_unchanged() -> None:
    calls = ToolCalls("s")
    assert _take(calls, tool_call(0, "a", "f", "")) == [tool_call(0, "a", "f", "")]
    assert _take(calls, _later("{}")) == [_later("{}")]


def test_it_is_introduced_once() -> None:
    calls = ToolCalls("s")
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, tool_call(0, "a", "f", "{}")) == [_later("{}")]


def test_numbers_have_no_gaps() -> None:
    calls = ToolCalls("s")
    assert [c["index"] for c in _take(calls, tool_call(3, "a", "f", ""), tool_call(7, "b", "g", ""))] == [0, 1]
    assert [c["index"] for c in _take(calls, _later("x", 7), _later("y", 3))] == [1, 0]


def test_another_id_under_a_used_index_is_another_call() -> None:
    calls = ToolCalls("s")
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, tool_call(0, "b", "f", "{}")) == [tool_call(1, "b", "f", "{}")]
    assert _take(calls, _later("x"))[0]["index"] == 1


def test_without_an_index_the_id_tells() -> None:
    calls = ToolCalls("s")
    _take(calls, {"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}})
    assert _take(calls, {"id": "a", "function": {"arguments": "x"}})[0]["index"] == 0


def test_without_either_a_name_opens_and_the_rest_continues() -> None:
    calls = ToolCalls("s")
    opened = _take(calls, {"function": {"name": "f", "arguments": "{"}}, {"function": {"arguments": "}"}})
    assert [c["index"] for c in [*opened, *_take(calls, {"function": {"name": "f"}})]] == [0, 0, 1]


def test_a_missing_id_is_made_and_stays() -> None:
    calls = ToolCalls("s")
    (first,) = _take(calls, {"index": 0, "function": {"name": "f"}})
    assert (first["id"], first["type"]) == (made_id("s", 0), "function")
    assert _take(calls, _later("x", id="late")) == [_later("x")]
    assert _take(calls, _later("y", id="late")) == [_later("y")]


def test_a_name_that_comes_late_is_reported() -> None:
    calls = ToolCalls("s")
    assert _take(calls, {"index": 0, "id": "a", "function": {}}) == []
    assert _take(calls, {"index": 0, "function": {"name": "f"}})[0]["function"]["name"] == "f"
    assert "name" not in _take(calls, {"index": 0, "function": {"name": "f", "arguments": "x"}})[0]["function"]


def test_an_empty_delta_is_left_out() -> None:
    calls = ToolCalls("s")
    _take(calls, tool_call(0, "a", "f", ""))
    assert _take(calls, {"index": 0, "id": None, "function": {"name": None, "arguments": None}}) == []


def test_extras_come_along() -> None:
    calls = ToolCalls("s")
    extra = {"extra_content": {"google": {"thought_signature": "x"}}}
    assert _take(calls, {**tool_call(0, "a", "f", "{}"), **extra}) == [{**tool_call(0, "a", "f", "{}"), **extra}]


def test_custom_tools_have_input() -> None:
    calls = ToolCalls("s")
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert _take(calls, custom) == [custom]
    assert _take(calls, {"index": 0, "custom": {"input": "y"}}) == [{"index": 0, "custom": {"input": "y"}}]


def test_calls_are_counted() -> None:
    tally = OutputCounter()
    _take(ToolCalls("s"), tool_call(0, "a", "find", '{"x":1}'), _later("more"), tally=tally)
    assert (tally.tools, tally.chars) == (1, len('find{"x":1}more'))


@pytest.mark.parametrize("delta", [{"index": 0, "function": 5}, {"index": 0, "function": []}])
def test_what_is_not_a_call_is_refused(delta: Doc) -> None:
    with pytest.raises(ValueError, match=r"."):
        _take(ToolCalls("s"), delta)
