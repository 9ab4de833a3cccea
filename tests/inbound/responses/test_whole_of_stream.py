"""Whole responses of upstreams that answered with a stream: all items and texts of the stream are in them."""

import json
from typing import Any

import pytest

from gateway.inbound.responses.relay import ResponsesRelay
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.fakes.responses import event, function_call, message, response
from tests.inbound.responses.rendering import order_of
from tests.upstream.makers import body_of, channel

BEGUN = event("response.created", 0, response={**response(), "status": "in_progress", "output": []}) + event(
    "response.output_text.delta", 1, delta="a", output_index=0, item_id="msg_1", content_index=0
)


def output_of(data: bytes) -> list[Any]:
    answer = ResponsesRelay(OpenAIDialect()).whole(data, order_of(), channel())
    found: list[Any] = json.loads(body_of(answer))["output"]
    return found


@pytest.mark.parametrize("listed", [[], [message("Hello")]])
@pytest.mark.parametrize("places", [(1, 0), (0, 0), (None, None)])
def test_a_whole_response_has_all_items_of_its_stream(listed: list[Any], places: tuple[int | None, ...]) -> None:
    items = (
        [function_call("f", "{}"), message("Hello")]
        if places == (1, 0)
        else [message("Hello"), function_call("f", "{}")]
    )
    ends = [
        event("response.output_item.done", 2 + number, item=item, output_index=place)
        for number, (item, place) in enumerate(zip(items, places, strict=True))
    ]
    last = event("response.completed", 4, response={**response(), "output": listed})
    assert [item["type"] for item in output_of(BEGUN + b"".join(ends) + last)] == ["message", "function_call"]


def test_a_text_without_the_end_of_its_item_is_made_of_its_pieces() -> None:
    events = [
        event("response.output_text.delta", 2, delta="nd", output_index=0, item_id="m1", content_index=0),
        event("response.output_item.done", 3, item=function_call("f", "{}"), output_index=1),
        event("response.output_item.done", 4, output_index=2),
        event("response.completed", 5, response={**response(), "output": []}),
    ]
    text, called = output_of(BEGUN + b"".join(events))
    assert (text["role"], text["content"][0]["text"]) == ("assistant", "and")
    assert (called["name"], called["arguments"], called["status"]) == ("f", "{}", "completed")


@pytest.mark.parametrize("name", ["content_index", "output_index"])
@pytest.mark.parametrize("index", [0, None, [], {}, "x", 1.5])
def test_the_number_of_a_part_or_an_item_may_be_anything(name: str, index: Any) -> None:
    piece = event(
        "response.output_text.delta", 1, **{"delta": "Hello", "output_index": 0, "content_index": 0, name: index}
    )
    end = event("response.output_item.done", 2, item=function_call("f", "{}"), output_index=1)
    last = event("response.completed", 3, response={**response(), "output": []})
    item, called = output_of(piece + end + last)
    assert (item["content"][0]["text"], called["name"]) == ("Hello", "f")


@pytest.mark.parametrize("listed", [[], [{**message(""), "content": []}]])
def test_items_that_are_empty_at_their_end_are_made_of_their_pieces(listed: list[Any]) -> None:
    events = [
        event("response.output_text.done", 2, text="a", output_index=0, content_index=0),  # too early
        event("response.output_text.delta", 3, delta="nd", output_index=0, content_index=0),
        event("response.output_item.done", 4, item={**message(""), "content": []}, output_index=0),
        event("response.completed", 5, response={**response(), "output": listed}),
    ]
    (text,) = output_of(BEGUN + b"".join(events))
    assert text["content"][0]["text"] == "and"


def test_odd_pieces_and_lists_in_a_stream_do_no_harm_to_a_whole_response() -> None:
    events = [
        event("response.output_text.delta", 2, output_index=0, item_id="m1", content_index=0),
        event("response.output_text.delta", 3, delta="nd", output_index=0, item_id="m1", content_index=0),
        event("response.completed", 4, response={**response(), "output": 5}),
    ]
    (text,) = output_of(BEGUN + b"".join(events))
    assert text["content"][0]["text"] == "and"
