"""Every dialect reads every recorded stream as its case says, at every split, and takes whatever comes."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from gateway.domain.channel import Dialect
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.dialects import new_adapter
from gateway.upstream.gemini.dialect import GeminiDialect
from tests.cases import streams as chat
from tests.cases.answers import chunks_in, said_in
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.same import STREAMED
from tests.cases.streams import Case
from tests.fakes.replies import chunk, delta, event, story
from tests.house import amount
from tests.upstream.makers import TWO_CHOICES, as_chat, channel, native_stream, order, outcome, translated

DIALECTS = st.sampled_from([Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])


@settings(max_examples=amount(40, 300), deadline=None)
@given(DIALECTS, st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 20))
def test_a_damaged_stream_ends_well_or_as_a_failure(dialect: Dialect, at: int, dirt: bytes, gone: int) -> None:
    data = STREAMED[dialect]
    at %= len(data)
    stream = as_chat(new_adapter(dialect)).stream(order(), channel())
    out = stream.feed(data[:at] + dirt + data[at + gone :]) + stream.end()
    assert stream.finished is (stream.failure is None)
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks_in(out))


TEXT = "word " * 200_000
LARGE_EVENTS = {
    Dialect.OPENAI: [*map(event, story()[:1]), event(chunk(delta(TEXT)))],
    Dialect.ANTHROPIC: [anthropic.start(), anthropic.text(TEXT)],
    Dialect.GEMINI: [gemini.event(gemini.response(gemini.say(TEXT)))],
}


@pytest.mark.parametrize("dialect", LARGE_EVENTS)
@pytest.mark.parametrize("size", [1 << 30, 60_000])
def test_a_large_event_is_not_kept_once_it_was_passed_on(dialect: Dialect, size: int) -> None:
    """While a slow client reads it, no second copy waits beside it."""
    stream = as_chat(new_adapter(dialect)).stream(order(), channel(dialect=dialect))
    came = b"".join(LARGE_EVENTS[dialect])
    stream.feed(came[:10])
    tracemalloc.start()
    try:
        given = sum(len(stream.feed(came[start : start + size])) for start in range(10, len(came), size))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert given > len(TEXT)
    assert held < 100_000
    assert most / len(TEXT) < (8.5 if dialect is Dialect.OPENAI else 11.5)


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
