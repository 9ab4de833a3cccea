"""Streams of Gemini, in a form that clients accept to the letter; see ``test_every_stream`` too."""

import pytest

from gateway.upstream.adapter import AnswerStream
from gateway.upstream.gemini.dialect import GeminiDialect
from tests.cases.gemini.streams import TWO_CALLS, event, response, say
from tests.upstream.makers import as_chat, channel, translated


def _stream() -> AnswerStream:
    return as_chat(GeminiDialect()).stream(translated(), channel())


def test_words_are_not_held_back() -> None:
    stream = _stream()
    assert [bool(stream.feed(part + b"\r\n\r\n")) for part in TWO_CALLS.split(b"\r\n\r\n")[:-1]] == [True] * 4 + [False]


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
