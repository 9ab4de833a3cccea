"""What a WebSocket's client gets for an event, and what of an answer is to be remembered."""

import json

import pytest

from gateway.inbound.responses.socket_turn import TurnEvents, error_frame, read_turn, steering_failed
from tests.fakes.replies import Doc, dumps
from tests.fakes.responses import event

SAID: Doc = {"type": "message", "role": "assistant", "content": []}


def text_of(frame: bytes) -> bytes:
    """The text of a frame of less than 126 bytes."""
    assert frame[:2] == bytes([0x81, len(frame) - 2])
    return frame[2:]


@pytest.mark.parametrize("named", [True, False])
def test_the_last_event_and_the_items_are_kept(*, named: bool) -> None:
    """Some upstreams name no events, some leave the output of the last one empty."""
    item = event("response.output_item.done", 0, item=SAID)
    last = event("response.completed", 1, response={"id": "resp_1", "output": []})
    made = TurnEvents("")
    for one in (item, last):
        made.feed(one if named else one[one.index(b"data:") :])
    assert [json.loads(found)["item"] for found in made.items] == [SAID]
    assert json.loads(made.last)["response"]["id"] == "resp_1"


@pytest.mark.parametrize("kind", ["response.failed", "error"])
def test_a_failure_is_not_kept(kind: str) -> None:
    made = TurnEvents("")
    made.feed(event("response.completed", 0, response={}) + event(kind, 1))
    assert made.last == b""


FRAMES: dict[bytes, bytes] = {
    b"data: [DONE]\n\n": b"",
    b'data: {"t":"\xc3\xa9"}\n\n': b'{"t":"\xc3\xa9"}',
    b'event: x\ndata: {"t":"\xff"}\n\n': b'{"t":"\xef\xbf\xbd"}',
    b"data: odd\n\n": b"odd",
    b'event: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\n': b'{"a": 1}',
    b'data: {"a":1}\nevent: x\n\n': b'{"a":1}',
    b": a comment\n\n": b"",
}


@pytest.mark.parametrize("data", FRAMES)
def test_a_frame_is_the_data_of_an_event_in_utf8(data: bytes) -> None:
    frame = TurnEvents("").feed(data)
    assert (text_of(frame) if frame else b"") == FRAMES[data]


@pytest.mark.parametrize(("size", "head"), [(125, "817d"), (126, "817e007e"), (65_535, "817effff"), (70_000, "")])
def test_the_size_of_a_frame_is_in_its_head(size: int, head: str) -> None:
    data = b'{"t":"%b"}' % (b"x" * (size - 8))
    frame = TurnEvents("").feed(b"event: x\ndata: %b\n\n" % data)
    assert frame == bytes.fromhex(head or "817f0000000000011170") + data


def test_every_frame_repeats_the_name_of_its_stream() -> None:
    assert text_of(TurnEvents("a").feed(b'event: x\ndata: {"t":1}\n\n')) == b'{"stream_id":"a","t":1}'


def test_events_make_the_same_frames_alone_and_together() -> None:
    texts = [event("response.output_text.delta", number, delta=f"word{number} ") for number in range(3)]
    other = event("response.reasoning_text.delta", 3, delta="x")
    odd = [
        b"event: response.output_text.delta\ndata: 1\n\n",
        b"event: response.output_text.delta\ndata: {\ndata: }\n\n",
    ]
    ends = [event("response.output_item.done", 4, item=SAID), event("response.completed", 5, response={"id": "resp_1"})]
    events = [*texts, other, texts[0], *odd, texts[1], *ends]
    alone, together = TurnEvents(""), TurnEvents("")
    assert b"".join(map(alone.feed, events)) == together.feed(b"".join(events))
    assert (alone.items, alone.last) == (together.items, together.last)
    assert json.loads(alone.last)["response"] == {"id": "resp_1"}


@pytest.mark.parametrize("given", ["[ ]", "[]", "null"])
def test_a_turn_may_bring_nothing(given: str) -> None:
    data = f'{{"type":"response.create","model":"m","input":{given},"previous_response_id":"resp_0"}}'
    turn = read_turn(data.encode())
    assert turn.previous == "resp_0"
    asked = {"model": "m", "input": json.loads(given), "previous_response_id": "resp_0", "stream": True}
    assert json.loads(turn.body) == asked


def test_an_error_that_is_not_json_is_its_message() -> None:
    found = json.loads(error_frame(502, {}, b"<html>", ""))
    assert (found["type"], found["status"], found["error"]["message"]) == ("error", 502, "<html>")


def test_input_for_a_running_response_is_returned_with_the_code_on_which_clients_send_it_later() -> None:
    frame = {"type": "response.steer", "previous_response_id": "resp_1", "input": [{"role": "user", "content": "x"}]}
    found = json.loads(steering_failed(dumps(frame)))
    assert (found["type"], found["error"]["code"]) == ("response.steer.failed", "steering_not_supported")
    assert found["steer"] == {"previous_response_id": "resp_1", "input": frame["input"]}


@pytest.mark.parametrize("frame", [b"{", b'{"type":"response.create","input":"\\"response.steer\\""}', b"[]"])
def test_other_frames_are_requests(frame: bytes) -> None:
    assert steering_failed(frame) == b""
