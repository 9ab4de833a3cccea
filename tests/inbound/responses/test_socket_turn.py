"""What a WebSocket's client gets for an event, and what is remembered of an answer."""

import json
from typing import Any

import pytest

from gateway.domain.errors import BadRequest, TooLarge
from gateway.inbound.responses.socket_turn import (
    SocketTurn,
    TurnEvents,
    TurnHistories,
    TurnHistory,
    error_frame,
    read_turn,
)
from gateway.upstream.framing import SSEEvent
from tests.fakes.replies import dumps

Doc = dict[str, Any]


def turn(**fields: Any) -> SocketTurn:
    return read_turn(dumps({"type": "response.create", "model": "m", "input": "hi", **fields}))


def event(kind: str, **fields: Any) -> SSEEvent:
    return SSEEvent(dumps({"type": kind, **fields}), kind.encode())


def items(history: TurnHistory | None) -> list[Doc]:
    assert history is not None
    found: list[Doc] = json.loads(b"[%b]" % history.items)
    return found


SAID: Doc = {"type": "message", "role": "assistant", "content": []}
ASKED: Doc = {"type": "message", "role": "user", "content": "hi"}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("output", [[SAID], []])
def test_an_answer_is_remembered_by_its_last_event_or_by_its_items(*, named: bool, output: list[Doc]) -> None:
    """Some upstreams name no events, some leave the output of the last one empty."""
    heard = TurnEvents(turn(), TurnHistory())
    last = {"id": "resp_1", "output": output}
    for one in (event("response.output_item.done", item=SAID), event("response.completed", response=last)):
        assert heard.hear(one if named else SSEEvent(one.data)) == one.data
    assert heard.answered is not None
    assert (heard.answered[0], items(heard.answered[1])) == ("resp_1", [ASKED, SAID])


@pytest.mark.parametrize("kind", ["response.failed", "error"])
def test_a_failure_is_not_remembered(kind: str) -> None:
    heard = TurnEvents(turn(), TurnHistory())
    heard.hear(event("response.output_item.done", item=SAID))
    heard.hear(event(kind, response={"id": "resp_1", "output": []}))
    assert heard.answered is None


FRAMES: dict[bytes, bytes] = {
    b"[DONE]": b"",
    b'{"type":"x","t":"\xc3\xa9"}': b'{"type":"x","t":"\xc3\xa9"}',
    b'{"type":"x","t":"\xff"}': b'{"type":"x","t":"\xef\xbf\xbd"}',
    b"odd": b"odd",
}


@pytest.mark.parametrize("data", FRAMES)
def test_a_frame_is_the_data_of_an_event_in_utf8(data: bytes) -> None:
    assert TurnEvents(turn(), TurnHistory()).hear(SSEEvent(data)) == FRAMES[data]


def test_only_the_first_and_the_last_events_say_what_they_go_on_from() -> None:
    heard = TurnEvents(turn(previous_response_id="resp_0"), TurnHistory())
    null, named = b'"previous_response_id":null', b'"previous_response_id":"resp_0"'
    assert heard.hear(SSEEvent(b"{%b}" % null, b"response.created")) == b"{%b}" % named
    assert heard.hear(SSEEvent(b"{%b}" % null, b"response.output_text.delta")) == b"{%b}" % null


def test_a_conversation_that_is_too_large_is_refused() -> None:
    before = TurnHistory(b'{"type":"message","role":"user","content":"%b"}' % (b"x" * 200))
    later = turn(previous_response_id="resp_0")
    assert len(json.loads(later.body(before, 1000))["input"]) == 2
    with pytest.raises(TooLarge):
        later.body(before, 200)


@pytest.mark.parametrize("given", ["[ ]", "[]", "null"])
def test_a_turn_may_bring_nothing(given: str) -> None:
    data = f'{{"type":"response.create","model":"m","input":{given},"previous_response_id":"resp_0"}}'
    body = read_turn(data.encode()).body(TurnHistory(dumps(ASKED)), 1000)
    assert json.loads(body) == {"model": "m", "stream": True, "input": [ASKED]}


def test_the_oldest_conversation_is_forgotten_first() -> None:
    known = TurnHistories()
    for number in range(6):
        known.put(f"resp_{number}", TurnHistory(b"1"))
    later = [turn(previous_response_id=f"resp_{number}", store=False) for number in range(6)]
    assert known.before(later[2]) == TurnHistory(b"1")
    with pytest.raises(BadRequest, match="not kept on this connection"):
        known.before(later[1])
    assert known.before(turn(previous_response_id="resp_1")) is None


def test_a_conversation_that_is_larger_than_the_memory_is_not_kept() -> None:
    known = TurnHistories()
    known.put("resp_1", TurnHistory(bytes(17 << 20)))
    assert known.size == 0


def test_an_error_that_is_not_json_is_its_message() -> None:
    found = json.loads(error_frame(502, {}, b"<html>", ""))
    assert (found["type"], found["status"], found["error"]["message"]) == ("error", 502, "<html>")
