"""Calls have the client's names; the thoughts before a call are kept under its id."""

from typing import Any

from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.anthropic.response import AnswerToolCalls
from gateway.upstream.translate.tool_names import Signatures
from tests.upstream.makers import order

THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}


def _calls(signatures: Signatures | None = None, **fields: Any) -> AnswerToolCalls:
    return AnswerToolCalls(order({"messages": [], **fields}), signatures or Signatures())


def test_a_changed_name_is_changed_back() -> None:
    calls = _calls(tools=[{"type": "function", "function": {"name": "dot.ted"}}])
    assert (calls.open("t", TOOLS.sent("dot.ted")), calls.count) == ("dot.ted", 1)


def test_thoughts_belong_to_the_call_after_them() -> None:
    signatures = Signatures()
    calls = _calls(signatures)
    calls.think(THOUGHT)
    calls.open("a", "f")
    calls.open("b", "f")
    assert (bool(signatures.recall("a")), signatures.recall("b")) == (True, b"")


def test_the_answer_by_tool_is_no_call() -> None:
    calls = _calls(response_format={"type": "json_schema", "json_schema": {"schema": {}}})
    assert (calls.open("t", "json_response"), calls.count) == ("", 0)


def test_a_tool_of_that_name_is_one() -> None:
    assert _calls().open("t", "json_response") == "json_response"
