"""Every recorded stream means what its case says, and the same at every split, whichever dialect it is in."""

from collections.abc import Callable

import pytest

from gateway.upstream.adapter import AnswerStream
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.gemini.dialect import GeminiDialect
from tests.cases import streams as chat
from tests.cases.answers import said_in
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.streams import Case
from tests.upstream.makers import TWO_CHOICES, as_chat, channel, native_stream, outcome, translated

Start = Callable[[], AnswerStream]


def _anthropic() -> AnswerStream:
    return as_chat(AnthropicDialect()).stream(translated(), channel())


def _gemini() -> AnswerStream:
    return as_chat(GeminiDialect()).stream(translated(TWO_CHOICES), channel())


RECORDED: list[tuple[str, Start, list[Case]]] = [
    ("chat", native_stream, chat.STREAMS),
    ("anthropic", _anthropic, anthropic.STREAMS),
    ("gemini", _gemini, gemini.STREAMS),
]
CASES = [pytest.param(start, case, id=f"{name}-{case.name}") for name, start, cases in RECORDED for case in cases]


@pytest.mark.parametrize(("start", "case"), CASES)
def test_a_stream_means_what_it_says(start: Start, case: Case) -> None:
    out, finished, error, reported, marks = outcome(start(), case.came)
    assert said_in(out) == case.said
    assert (finished, error, marks) == (not case.error, case.error, case.marks)
    assert (reported and (reported.input, reported.output)) == case.usage


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("start", "case"), CASES)
def test_split_in_two_anywhere_it_is_the_same(start: Start, case: Case) -> None:
    whole = outcome(start(), case.came)
    assert all(outcome(start(), case.came, cut) == whole for cut in range(len(case.came)))


@pytest.mark.parametrize(("start", "case"), CASES)
def test_split_into_pieces_it_is_the_same(start: Start, case: Case) -> None:
    whole, size = outcome(start(), case.came), len(case.came)
    assert [outcome(start(), case.came, *[piece] * (size // piece)) for piece in (1, 2, 3, 7, 64)] == [whole] * 5
