"""Answers of Anthropic's in the other form than requested: they are rendered, and thoughts keep their signature."""

import json

from gateway.domain.usage import NOTHING
from gateway.inbound.messages.native import MessagesRelay
from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.upstream.makers import channel, order

CONTENT = [
    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    {"type": "text", "text": "Hi"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
]
USAGE = {"input_tokens": 9, "output_tokens": 2}
WHOLE = {"id": "msg_1", "type": "message", "content": CONTENT, "stop_reason": "tool_use", "usage": USAGE}


def test_a_body_instead_of_a_stream_becomes_events() -> None:
    stream = MessagesRelay(AnthropicDialect()).stream(order(), channel())
    out = stream.feed(json.dumps(WHOLE).encode()) + stream.end() + stream.tail(NOTHING)
    events = [json.loads(part.partition(b"data: ")[2]) for part in out.split(b"\n\n")[:-1]]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "sig"},
        {"type": "text_delta", "text": "Hi"},
        {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    ]
    assert (stream.finish, events[-1]["type"]) == ("tool_calls", "message_stop")
    assert stream.reported is not None
    assert (stream.reported.input, stream.reported.output) == (9, 2)


def test_a_stream_instead_of_a_body_becomes_a_message() -> None:
    relay = MessagesRelay(AnthropicDialect())
    stream = relay.stream(order(), channel())
    came = stream.feed(json.dumps(WHOLE).encode()) + stream.end() + stream.tail(NOTHING)
    answer = relay.whole(came, order(), channel())
    (body,) = answer.parts(NOTHING)
    found = json.loads(bytes(body))
    assert (found["content"], found["stop_reason"]) == (CONTENT, "tool_use")
    assert "assembled" in answer.marks


def test_a_body_that_is_not_a_message_is_a_failure() -> None:
    stream = MessagesRelay(AnthropicDialect()).stream(order(), channel())
    assert stream.feed(b'{"id":"x"}') + stream.end() == b""
    assert (stream.finished, stream.failure is not None) == (False, True)
