"""The rules of streams: what the gateway writes keeps them, and every way to break them is found."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from tests.cases import streams as chat
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.fakes import stream_rules
from tests.fakes.messages import message, message_events, text_block
from tests.fakes.responses import events_of, function_call, response
from tests.fakes.responses import message as item
from tests.fakes.stream_rules import MessagesRules, ResponsesRules
from tests.inbound.responses.rendering import of_dialect, rendered

Doc = dict[str, Any]
RECORDED = [
    *((Dialect.OPENAI, case) for case in chat.STREAMS),
    *((Dialect.ANTHROPIC, case) for case in anthropic.STREAMS),
    *((Dialect.GEMINI, case) for case in gemini.STREAMS),
]
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "s"}
MESSAGE = message_events(message(THOUGHT, text_block("Hello")))
RESPONSE = events_of(response(item("Hello"), function_call("f", "{}")))


def faults(api: str, *events: bytes, size: int = 0) -> list[str]:
    return stream_rules.faults(api, b"".join(events), size=size)


def changed(event: bytes, **fields: Any) -> bytes:
    """The event with other fields."""
    name, _, data = event.partition(b"\ndata: ")
    return name + b"\ndata: " + json.dumps({**json.loads(data), **fields}).encode() + b"\n\n"


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize(
    ("api", "events"), [("messages", MESSAGE), ("responses", RESPONSE)], ids=["messages", "responses"]
)
def test_a_good_stream_has_no_faults(api: str, events: list[bytes], size: int) -> None:
    assert faults(api, *events, size=size) == []
    assert faults(api, *(event.replace(b"\n", b"\r\n") for event in events), size=size) == []
    assert faults(api, b": keep-alive\n\n", *events, size=size) == []


def test_pings_may_come_at_any_time() -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    assert faults("messages", *(ping + event for event in MESSAGE)) == []


def test_an_error_ends_a_stream_wherever_it_comes() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"x"}}\n\n'
    for count in range(len(MESSAGE) - 1):
        assert faults("messages", *MESSAGE[:count], error) == []


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("dialect", "case"), RECORDED, ids=lambda value: getattr(value, "name", None) or str(value))
def test_every_recorded_stream_as_a_response_keeps_them(dialect: Dialect, case: chat.Case) -> None:
    found = rendered(case.came, 0, of_dialect(dialect))
    if not case.error:
        assert faults("responses", found.ended) == []


BROKEN_MESSAGES: dict[str, tuple[list[bytes], str]] = {
    "no beginning": (MESSAGE[1:], "content_block_start comes before message_start"),
    "two beginnings": ([MESSAGE[0], *MESSAGE], "a second message_start"),
    "no end": (MESSAGE[:-1], "it ends without its last event"),
    "more behind the end": ([*MESSAGE, MESSAGE[1]], "ping comes after the last event"),
    "a gap": (
        [changed(event, index=3) if b"index" in event else event for event in MESSAGE],
        "block 3 begins out of turn; 0 came before",
    ),
    "not closed": (
        [event for event in MESSAGE if b"block_stop" not in event],
        "block 1 begins out of turn; 1 came before",
    ),
    "the last not closed": (
        [event for event in MESSAGE if b"block_stop" not in event or b'"index":1' not in event],
        "message_stop comes while block 1 is open",
    ),
    "no block": (
        [event for event in MESSAGE if b"block_start" not in event],
        "content_block_delta of block 0, which is not open",
    ),
    "a delta of another kind": (
        [event.replace(b"thinking_delta", b"text_delta") for event in MESSAGE],
        "text_delta in a block of type thinking",
    ),
    "no usage": (
        [changed(event, usage=None) if b"message_delta" in event else event for event in MESSAGE],
        "message_delta has no usage",
    ),
    "no name": (
        [event.replace(b"event: message_stop\n", b"") for event in MESSAGE],
        "message_stop has another name in its event line",
    ),
    "no JSON": ([*MESSAGE[:1], b"event: x\ndata: {\n\n", *MESSAGE[1:]], "an event is not a JSON object with a type"),
    "a torn event": ([*MESSAGE, b"event: x"], "the last event is not complete"),
}
BROKEN_RESPONSES: dict[str, tuple[list[bytes], str]] = {
    "no beginning": (RESPONSE[1:], "response.in_progress has the sequence_number 1 and is event 0"),
    "a number is left out": (
        [*RESPONSE[:3], *RESPONSE[4:]],
        "response.output_text.delta has the sequence_number 4 and is event 3",
    ),
    "no end": (RESPONSE[:-1], "it ends without its last event"),
    "an item that never began": (
        [event for event in RESPONSE if b"output_item.added" not in event],
        "response.content_part.added belongs to no open item",
    ),
    "an item that does not end": (
        [event for event in RESPONSE if b"output_item.done" not in event],
        "an item begins while another is open",
    ),
    "another id": (
        [changed(event, item_id="x") if b"output_text.delta" in event else event for event in RESPONSE],
        "response.output_text.delta has another id than its item",
    ),
    "another place": (
        [changed(event, output_index=7) if b"output_text.delta" in event else event for event in RESPONSE],
        "response.output_text.delta has the output_index 7 in item 0",
    ),
    "items that were never streamed": (
        [*RESPONSE[:-1], changed(RESPONSE[-1], response=response(item("Hello")))],
        "the items of response.completed are not those that were streamed",
    ),
    "another status": (
        [
            *RESPONSE[:-1],
            changed(
                RESPONSE[-1],
                response={**json.loads(RESPONSE[-1].partition(b"data: ")[2])["response"], "status": "failed"},
            ),
        ],
        "response.completed with the status failed",
    ),
}


@pytest.mark.parametrize("name", BROKEN_MESSAGES)
def test_every_broken_message_is_found(name: str) -> None:
    events, fault = BROKEN_MESSAGES[name]
    assert fault in faults("messages", *events)


@pytest.mark.parametrize("name", BROKEN_RESPONSES)
def test_every_broken_response_is_found(name: str) -> None:
    events, fault = BROKEN_RESPONSES[name]
    assert fault in faults("responses", *events)


def test_faults_are_bounded_and_quote_nothing() -> None:
    events = [changed(event, sequence_number="sk-canary") for event in RESPONSE]
    found = faults("responses", *events)
    assert len(found) == 5
    hostile = b'event: \x1b[2J\ndata: {"type":"\\u001b[2J","sequence_number":0}\n\n'
    assert "\x1b" not in str(faults("responses", hostile, *RESPONSE))


@pytest.mark.parametrize("rules", [MessagesRules, ResponsesRules])
@pytest.mark.parametrize("odd", [1, None, "x", [], {}])
def test_odd_values_are_faults_and_no_exceptions(rules: type[MessagesRules | ResponsesRules], odd: Any) -> None:
    names = ("index", "delta", "content_block", "message", "usage", "output_index", "item", "response", "item_id")
    kinds = [json.loads(event.partition(b"data: ")[2])["type"] for event in [*MESSAGE, *RESPONSE]]
    made, found = rules(), list[str]()
    for kind in kinds:
        made.take({"type": kind, **dict.fromkeys(names, odd)}, found.append)
    assert found
