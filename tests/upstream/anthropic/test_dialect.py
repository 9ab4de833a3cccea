"""The dialect does what an adapter does, with one memory for requests and answers."""

import json

from gateway.domain.call import FailureKind
from gateway.domain.channel import Served
from gateway.upstream.adapter import Adapter
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.translate.tool_names import Signatures
from tests.cases.anthropic.streams import HELLO, TWO_TOOLS
from tests.cases.conversations import call
from tests.upstream.makers import channel, order

NEXT = {
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("toolu_1", "look", "{}")]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "x"},
    ],
    "reasoning_effort": "high",
}


def test_it_is_an_adapter() -> None:
    dialect: Adapter = AnthropicDialect(Signatures())
    assert dialect.failure(channel(), 529, {}, b"").kind is FailureKind.RATE


def test_thoughts_of_an_answer_come_back_in_the_next_request() -> None:
    dialect = AnthropicDialect(Signatures())
    dialect.stream(order(), channel()).feed(TWO_TOOLS)
    prepared = dialect.prepare(order(NEXT), channel(), Served(name="m", upstream="claude-sonnet-4-5"), NOTHING)
    body = json.loads(prepared.body)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": "SIG=="}
    assert body["thinking"]["type"] == "enabled"


def test_without_them_there_is_no_thinking_either() -> None:
    dialect = AnthropicDialect(Signatures())
    prepared = dialect.prepare(order(NEXT), channel(), Served(name="m", upstream="claude-sonnet-4-5"), NOTHING)
    assert (b"thinking" in prepared.body, prepared.dropped) == (False, ("reasoning_effort",))


def test_an_answer_is_taken_in_either_form() -> None:
    assert AnthropicDialect(Signatures()).whole(HELLO, order(), channel()).finish == "stop"
