"""Streams of Gemini, in a form that clients accept to the letter; see ``test_every_stream`` too."""

from typing import Any

import pytest

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.gemini.dialect import GeminiDialect
from tests.cases.answers import said_in
from tests.cases.gemini.streams import TWO_CALLS, event, response, say, spent, use
from tests.upstream.makers import as_chat, channel, translated


def _stream(memory: CallMemory | None = None, **more: Any) -> AnswerStream:
    return as_chat(GeminiDialect(memory)).stream(translated(**more), channel())


def test_what_cannot_be_true_is_marked() -> None:
    stream = _stream()
    stream.feed(event(response(say("Hi"), finish="STOP", **spent(-1))))
    stream.end()
    assert (stream.state.reported, stream.state.marks) == (None, ("suspect_usage",))


def test_words_are_not_held_back() -> None:
    stream = _stream()
    assert [bool(stream.feed(part + b"\r\n\r\n")) for part in TWO_CALLS.split(b"\r\n\r\n")[:-1]] == [True] * 4 + [False]


def test_calls_without_an_id_get_one_that_differs_from_answer_to_answer() -> None:
    data = event(response(use("f"), use("f"), finish="STOP"))
    calls = said_in(_stream().feed(data)).calls[0]
    assert len({id for id, _, _ in calls}) == 2
    assert all(id.startswith("call_") and len(id) == 29 for id, _, _ in calls)


def _used(*reports: dict[str, Any]) -> AnswerStream:
    stream = _stream()
    for number, report in enumerate(reports, 1):
        finish: dict[str, Any] = {"finish": "STOP"} if number == len(reports) else {}
        stream.feed(event(response(say("a"), usageMetadata=report, **finish)))
    stream.end()
    return stream


def test_the_last_report_counts_although_it_is_lower() -> None:
    first = {"promptTokenCount": 10, "candidatesTokenCount": 30, "totalTokenCount": 40}
    last = {"promptTokenCount": 10, "candidatesTokenCount": 20, "thoughtsTokenCount": 5, "totalTokenCount": 35}
    stream = _used(first, last)
    assert stream.state.reported == Usage(input=10, output=25, reasoning=5, source=UsageSource.REPORTED)
    assert stream.state.marks == ()


def test_zeros_at_the_end_lower_nothing_and_are_marked() -> None:
    first = {"promptTokenCount": 10, "candidatesTokenCount": 30, "totalTokenCount": 40}
    stream = _used(first, dict.fromkeys(first, 0))
    assert stream.state.reported == Usage(input=10, output=30, source=UsageSource.REPORTED)
    assert stream.state.marks == ("suspect_usage",)


def test_a_part_is_never_more_than_the_lower_whole() -> None:
    first = {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 3, "totalTokenCount": 103}
    stream = _used(first, {"promptTokenCount": 50, "candidatesTokenCount": 2, "totalTokenCount": 52})
    assert stream.state.reported == Usage(input=50, cached=50, output=2, source=UsageSource.REPORTED)


@pytest.mark.parametrize(
    ("model", "searches"), [("gemini-3-flash-preview", 3), ("gemini-2.5-flash", 1), ("gemini-pro", 1), ("", 3)]
)
def test_searches_of_a_grounded_answer_are_counted_as_they_are_billed(model: str, searches: int) -> None:
    """Each query once, empty ones not at all; before Gemini 3 the answer, however many queries it took."""
    spent = {"promptTokenCount": 10, "candidatesTokenCount": 3, "totalTokenCount": 13}
    stream, chunks = _stream(), [response(say("a")), response(say("b"), finish="STOP")]
    for doc, queries in zip(chunks, (["a", "", "b"], ["a", "b", "c"]), strict=True):
        doc.update(usageMetadata=spent, **({"modelVersion": model} if model else {}))
        doc["candidates"][0]["groundingMetadata"] = {"webSearchQueries": queries}
        stream.feed(event(doc))
    stream.end()
    assert stream.state.reported is not None
    assert (dict(stream.state.reported.parts), stream.state.reported.input) == ({"searches": searches}, 10)
