"""A choice of a whole answer is mended only where it must be."""

from typing import Any

import pytest

from gateway.upstream import rawjson
from gateway.upstream.openai.completion import Mended, mend
from gateway.upstream.output_counter import OutputCounter
from tests.fakes.replies import choice, dumps, tool_call
from tests.upstream.makers import attempt_fails, channel

CALL = {name: value for name, value in tool_call(0, "a", "f", "{}").items() if name != "index"}


def _mend(doc: dict[str, Any], tally: OutputCounter | None = None) -> tuple[Mended, dict[str, Any]]:
    fields = rawjson.fields(dumps(doc))
    mended = mend(fields, 0, "seed", tally or OutputCounter(), channel())
    found = rawjson.value(rawjson.encode(fields))
    assert isinstance(found, dict)
    return mended, found


@pytest.mark.parametrize(
    "doc", [choice("Hi"), choice(None, tool_calls=[CALL], finish="tool_calls"), choice("", refusal="no")]
)
def test_a_good_one_is_left_alone(doc: dict[str, Any]) -> None:
    mended, found = _mend(doc)
    assert (mended, found) == (Mended(doc["finish_reason"], changed=False), doc)


def test_missing_parts_are_filled_in() -> None:
    mended, found = _mend({"message": {"content": "Hi"}})
    assert mended == Mended("stop", changed=True)
    assert found == {"message": {"content": "Hi", "role": "assistant"}, "finish_reason": "stop", "index": 0}


def test_what_was_said_is_counted() -> None:
    tally = OutputCounter()
    _mend(choice("Hello", reasoning="hm", tool_calls=[CALL]), tally)
    assert (tally.chars, tally.tools) == (len("Hello") + len("hm") + len("f{}"), 1)


def test_a_legacy_call_is_counted() -> None:
    tally = OutputCounter()
    _mend(choice(None, function_call={"name": "f", "arguments": "{}"}), tally)
    assert tally.chars > 2


def test_a_failing_end_is_a_failure() -> None:
    with attempt_fails("insufficient_system_resource"):
        _mend(choice("x", finish="insufficient_system_resource"))


@pytest.mark.parametrize("doc", [{}, {"message": None}, {"message": "x"}, {"message": {"tool_calls": 5}}])
def test_what_is_no_choice_is_refused(doc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        _mend(doc)
