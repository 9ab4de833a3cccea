"""Answers of Anthropic's in the other form than requested: nothing of them is lost."""

import json

import pytest

from gateway.domain.failure import AttemptFailed
from gateway.domain.usage import NOTHING
from gateway.inbound.messages.native import MessagesRelay
from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.upstream.makers import channel, error_of, order

CONTENT = [
    {"type": "redacted_thinking", "data": "x"},
    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    {"type": "text", "text": "Hi"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
]
USAGE = {"input_tokens": 9, "output_tokens": 2}
WHOLE = {"id": "msg_1", "type": "message", "content": CONTENT, "stop_reason": "tool_use", "usage": USAGE}


def test_a_stream_instead_of_a_body_becomes_a_message() -> None:
    relay = MessagesRelay(AnthropicDialect())
    stream = relay.stream(order(), channel())
    came = stream.feed(json.dumps(WHOLE).encode()) + stream.end() + stream.tail(NOTHING)
    answer = relay.whole(came, order(), channel())
    (body,) = answer.parts(NOTHING)
    found = json.loads(bytes(body))
    assert (found["content"], found["stop_reason"]) == (CONTENT, "tool_use")
    assert "assembled" in answer.state.marks


def test_a_text_without_a_block_gets_one_and_is_counted() -> None:
    bare = {"id": "msg_1", "type": "message", "content": "Hello there", "stop_reason": "end_turn"}
    (body,) = MessagesRelay(AnthropicDialect()).whole(json.dumps(bare).encode(), order(), channel()).parts(NOTHING)
    found = json.loads(bytes(body))
    assert found["content"] == [{"type": "text", "text": "Hello there"}]
    assert found["usage"]["output_tokens"] == 2


def test_a_body_that_is_not_a_message_is_a_failure() -> None:
    stream = MessagesRelay(AnthropicDialect()).stream(order(), channel())
    assert stream.feed(b'{"id":"x"}') + stream.end() == b""
    assert (stream.finished, stream.failure is not None) == (False, True)


def test_a_body_of_too_many_elements_is_a_failure_in_both_forms() -> None:
    body = json.dumps({**WHOLE, "x": [1] * 1_000_001}).encode()
    relay = MessagesRelay(AnthropicDialect())
    with pytest.raises(AttemptFailed) as failed:
        relay.whole(body, order(), channel())
    stream = relay.stream(order(), channel())
    stream.feed(body)
    stream.end()
    for failure in (failed.value.failure, stream.failure):
        assert failure is not None
        assert "it has more than 1,000,000 elements" in error_of(failure).message
