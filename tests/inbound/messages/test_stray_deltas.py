"""Texts that come in the block of a tool call get blocks of their own, after all others: SDKs fail otherwise."""

from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.domain.usage import Usage
from tests.cases.vendor_answers import SPENT, Row, began, block, ended, named
from tests.inbound.test_vendor_answers import Said, fed, read_messages

CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
OTHER = {**CALL, "id": "t2"}
BEGUN, HALF, REST = ({"type": "input_json_delta", "partial_json": text} for text in ('{"a":1}', '{"a":', "1}"))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


THOUGHT = {"type": "thinking_delta", "thinking": "Hm"}
LATER = block(1, OTHER, BEGUN) + ended("tool_use")
CALLS = [["f", '{"a":1}'], ["f", '{"a":1}']]
CASES = {
    "after the arguments": (block(0, CALL, BEGUN, _text("H"), _text("i")) + LATER, Said("Hi", "", CALLS, "tool_use")),
    "within them": (block(0, CALL, HALF, _text("Hi"), REST) + LATER, Said("Hi", "", CALLS, "tool_use")),
    "of two types": (block(0, CALL, BEGUN, THOUGHT, _text("Hi")) + LATER, Said("Hi", "Hm", CALLS, "tool_use")),
    "before pings": (block(0, CALL, BEGUN, _text("Hi")) + named("ping") + LATER, Said("Hi", "", CALLS, "tool_use")),
    "without an end": (
        block(0, CALL, BEGUN, _text("Hi"), stop=False) + ended("tool_use"),
        Said("Hi", "", CALLS[:1], "tool_use"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_text_in_a_call_gets_its_own_block(name: str) -> None:
    stream, said = CASES[name]
    for sizes in ((), (400,), (500, 60, 60, 60, 60, 60, 60)):
        answer, out, _ = fed(Row(name, Dialect.ANTHROPIC, began(**SPENT) + stream), "messages", *sizes)
        out += answer.tail(Usage())
        assert (answer.failure, read_messages(out, streamed=True)) == (None, said)
        assert b'"index":0' in out


def test_a_text_at_the_limit_of_money_is_kept() -> None:
    answer, out, _ = fed(
        Row("", Dialect.ANTHROPIC, began(**SPENT) + block(0, CALL, BEGUN, _text("Hi"), stop=False)), "messages"
    )
    assert read_messages(out + answer.cut_short(), streamed=True) == Said("Hi", "", CALLS[:1], "max_tokens")
