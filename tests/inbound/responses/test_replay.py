"""A whole response that came where a stream was requested: every text and input of it has the events of a stream."""

import json
from typing import Any

import pytest

from gateway.domain.usage import NOTHING
from tests.fakes.responses import event, function_call, message, response
from tests.inbound.responses.test_native_stream import stream
from tests.upstream.makers import error_of

Doc = dict[str, Any]
SOURCE = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}


def replayed(*items: Doc) -> list[Doc]:
    """The events, without the first two and the last."""
    made = stream()
    out = made.feed(json.dumps(response(*items), indent=2).encode()) + made.end() + made.tail(NOTHING)
    events = [json.loads(part.partition(b"data: ")[2]) for part in out.split(b"\n\n") if part]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events[2:-1]


def kinds(events: list[Doc]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_comes_as_a_delta() -> None:
    said = message("Hi")
    said["content"][0]["annotations"] = [SOURCE]
    events = replayed(said)
    added, _, delta, cited, done, _, last = events
    assert kinds(events) == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert (added["item"]["content"], added["item"]["status"], last["item"]) == ([], "in_progress", said)
    assert (delta["delta"], done["text"], cited["annotation"]) == ("Hi", "Hi", SOURCE)


def test_reasoning_and_inputs_of_tools_come_as_deltas() -> None:
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    own = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}
    events = replayed(thought, function_call("f", "{}"), own)
    assert [(event["type"].split(".")[1], event["delta"]) for event in events if "delta" in event] == [
        ("reasoning_summary_text", "Hm"),
        ("function_call_arguments", "{}"),
        ("custom_tool_call_input", "x"),
    ]
    assert [event["output_index"] for event in events] == sorted(event["output_index"] for event in events)


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "only in the last event"])
def test_items_of_more_events_than_any_answer_has_are_refused(is_whole: bool) -> None:
    """The loop wrote 600,000 events of 100,000 messages in six seconds."""
    last = response(*[message("Hi")] * 2_000)
    made = stream()
    out = made.feed(json.dumps(last, indent=2).encode() if is_whole else event("response.completed", 0, response=last))
    out += made.end()
    assert made.failure is not None
    assert error_of(made.failure).code == "upstream_bad_response"
    assert b"output_item.done" not in out


def test_other_items_and_parts_come_whole() -> None:
    searched = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    odd = {"id": "msg_1", "type": "message", "content": [{"type": "output_audio", "data": "x"}], "summary": None}
    events = replayed(searched, odd)
    assert kinds(events) == [
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "content_part.done",
        "output_item.done",
    ]
    assert [event["item"] for event in events if event["type"].endswith("item.done")] == [searched, odd]
