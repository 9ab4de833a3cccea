"""Regular choices are recognised; everything else is left to be mended."""

from typing import Any

import msgspec
import pytest

from gateway.upstream.openai.completion import finish_of_regular
from gateway.upstream.output_counter import OutputCounter
from gateway.upstream.redaction.answers import NO_SCREEN
from tests.fakes.replies import choice, dumps


def _finish(*choices: object, tally: OutputCounter | None = None) -> str:
    return finish_of_regular(msgspec.Raw(dumps(list(choices))), tally or OutputCounter(), NO_SCREEN)


@pytest.mark.parametrize(
    "choices",
    [
        [choice("Hi")],
        [choice("Hi", finish="length"), choice("x", index=1)],
        [choice("", odd=1)],
        [choice(None, refusal="no")],
        [choice("Hi", reasoning_content="hm")],
        [choice("Hi", reasoning="hm")],
    ],
)
def test_regular(choices: list[dict[str, Any]]) -> None:
    assert _finish(*choices) == choices[0]["finish_reason"]


@pytest.mark.parametrize(
    "doc",
    [
        choice("Hi", index=1),
        choice("Hi", role="user"),
        choice("Hi", finish="eos"),
        choice("Hi", finish=None),
        choice("Hi", tool_calls=[]),
        choice("Hi", tool_calls=None),
        choice("Hi", function_call={}),
        choice("Hi", reasoning_content="a", reasoning="a"),
        {"index": 0, "message": {"role": "assistant"}, "finish_reason": "stop"},
        {"index": 0, "message": {"role": "assistant", "content": [1]}, "finish_reason": "stop"},
        {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"},
        5,
    ],
)
def test_not_regular(doc: object) -> None:
    tally = OutputCounter()
    assert _finish(doc, tally=tally) == ""
    assert tally.empty


@pytest.mark.parametrize("raw", [b"[]", b"null", b'[{"index":0,"message":{"role":"assistant","content":"\\ud83d"}}]'])
def test_odd_lists_are_not_regular(raw: bytes) -> None:
    assert finish_of_regular(msgspec.Raw(raw), OutputCounter(), NO_SCREEN) == ""


def test_texts_are_counted() -> None:
    tally = OutputCounter()
    _finish(choice("Hello", reasoning="hm"), choice("you", index=1), tally=tally)
    assert tally.chars == len("Hello") + len("hm") + len("you")
