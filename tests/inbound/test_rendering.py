"""A stream of a dialect is followed as any other is, whatever comes. The smallest dialect: an event is a word."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.answer import AnswerId, AnswerPart, BlockKind, Medium, Piece, StopWord
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import Order
from gateway.domain.sse import SSEEvent
from gateway.domain.usage import Usage
from gateway.inbound.chat.render import ChatRenderer, WholeChatRenderer
from gateway.inbound.completions.api import CompletionRenderer
from gateway.inbound.rendering import RenderedStream, RenderingAdapter
from gateway.upstream.adapter import AnswerReader, DialectAdapter, WholeAnswer, not_an_answer
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.answers import Answer, said_in
from tests.conformance.shapes import completion_faults
from tests.upstream.makers import attempt_fails, body_of, channel, error_of, order

HI = Answer(text={0: "Hi"}, finish={0: "stop"})


class Sayings(AnswerReader):
    """``.`` is the end, ``!`` a failure; a whole answer is its words in an array."""

    def __init__(self, channel: Channel, *, late: bool = False) -> None:
        self._channel = channel
        self._late = late
        """Its end is that of the bytes."""

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        word = json.loads(event.data)
        if word == "!":
            self.failure = bad_response(self._channel, "it said !")
        elif word == "*":
            yield Medium("image/png", "aQ==")
        elif word != ".":
            yield AnswerId("s1")
            yield Piece(BlockKind.TEXT, rawjson.encode(word))
        elif not self._late:
            yield StopWord("stop")
            self.done = True

    def end(self) -> Iterator[AnswerPart]:
        yield StopWord("stop")
        self.done = True

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        words = rawjson.maybe(body)
        if not isinstance(words, list):
            raise AttemptFailed(bad_response(self._channel, "no array"))
        yield from (Piece(BlockKind.TEXT, rawjson.encode(word)) for word in words)
        yield StopWord("stop")


class SayingDialect(OpenAIDialect):
    """Its answers are sayings."""

    def reader(self, order: Order, channel: Channel) -> AnswerReader:  # type: ignore[override]
        return Sayings(channel, late=True)


def said(*words: str) -> bytes:
    """The events of the words."""
    return b"".join(b"data: " + json.dumps(word).encode() + b"\n\n" for word in words)


def _stream(*, late: bool = False, **more: Any) -> RenderedStream:
    asked = order(**more)
    return RenderedStream(Sayings(channel(), late=late), asked, channel(), ChatRenderer(asked))


@pytest.mark.parametrize("late", [False, True])
def test_words_become_chunks(late: bool) -> None:
    stream = _stream(late=late)
    out = stream.feed(said("H", "i", ".")) + stream.end()
    assert (said_in(out), stream.started, stream.finished, stream.finish) == (HI, True, True, "stop")
    assert (stream.upstream_id, stream.events, stream.tally.chars) == ("s1", 3, 2)


def test_a_whole_answer_has_no_more_parts_than_the_loop_reads_at_once() -> None:
    stream = _stream()
    stream.read_whole(json.dumps(["Hi"] * 19_999).encode())  # with its end, as many parts as may be
    assert (stream.failure, stream.finished) == (None, True)
    beyond = _stream()
    beyond.read_whole(json.dumps(["Hi"] * 20_000).encode())
    assert beyond.failure is not None
    assert beyond.failure.code == "upstream_bad_response"


def test_after_the_end_nothing_counts() -> None:
    stream = _stream()
    stream.feed(said("Hi", "."))
    assert (stream.feed(said("!")), stream.end(), stream.failure) == (b"", b"", None)


def test_a_failure_ends_it() -> None:
    stream = _stream()
    out = stream.feed(said("Hi", "!", "there"))
    assert (said_in(out).text, stream.finished) == ({0: "Hi"}, False)
    assert stream.failure is not None
    assert (stream.failure.code, stream.end()) == ("upstream_bad_response", b"")


@pytest.mark.parametrize("body", [said("Hi", ".").rstrip(), said("Hi") + b'data: "the'])
def test_the_end_of_the_last_event_or_half_an_event_may_be_missing(body: bytes) -> None:
    stream = _stream()
    out = stream.feed(body) + stream.end()
    assert (said_in(out), stream.finished) == (HI, True)


def test_a_whole_answer_is_streamed() -> None:
    stream = _stream()
    body = json.dumps(["H", "i"]).encode()
    out = b"".join(stream.feed(body[i : i + 1]) for i in range(len(body))) + stream.end()
    assert (said_in(out), stream.finished, stream.events) == (HI, True, 1)


def test_a_page_is_a_failure() -> None:
    stream = _stream()
    out = stream.feed(b"<html>") + stream.end()
    assert (out, stream.failure and stream.failure.code) == (b"", "upstream_bad_response")


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.framing.BODY_LIMIT", 5)
    stream = _stream()
    codes = [(stream.feed(data), stream.failure and stream.failure.code)[1] for data in (b"[   ", b"  ")]
    assert codes == [None, "upstream_bad_response"]


def test_an_event_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.framing.EVENT_LIMIT", 5)
    stream = _stream()
    stream.feed(b'data: "endless')
    assert (stream.failure and stream.failure.code) == "upstream_bad_response"


def test_the_tail_is_that_of_any_stream() -> None:
    stream = _stream(include_usage=True)
    stream.feed(said("Hi", "."))
    tail = stream.tail(Usage(input=1, output=2))
    assert (tail.count(b"data: "), tail.endswith(b"data: [DONE]\n\n"), b'"estimated"' in tail) == (2, True, False)
    assert stream.reported is None


def test_an_answer_that_is_nothing_but_an_image_fails_where_there_is_no_place_for_it() -> None:
    asked = order()
    stream = RenderedStream(Sayings(channel()), asked, channel(), CompletionRenderer(asked))
    stream.feed(said("*", "."))
    assert stream.failure is not None
    assert "no place for" in error_of(stream.failure).message
    beside = RenderedStream(Sayings(channel()), asked, channel(), CompletionRenderer(asked))
    beside.feed(said("*", "Hi", "."))
    assert (beside.finished, beside.marks) == (True, ("medium_dropped",))


def _read(body: bytes) -> WholeAnswer:
    dialect: DialectAdapter = SayingDialect()
    return RenderingAdapter(dialect, ChatRenderer, WholeChatRenderer).whole(body, order(), channel())


@pytest.mark.parametrize("body", [b'["H","i"]', said("H", "i"), said("H", "i").rstrip()])
def test_either_form_is_valid_to_the_letter(body: bytes) -> None:
    whole = _read(body)
    doc = json.loads(body_of(whole))
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"], whole.finish) == ([], "Hi", "stop")


@pytest.mark.parametrize("body", [b"{}", said("Hi", "!"), said("Hi") + b"data: {\n\ndata: {\n\n"])
def test_failures(body: bytes) -> None:
    with attempt_fails() as caught:
        _read(body)
    assert caught.value.code == "upstream_bad_response"


def test_an_event_of_a_plain_answer_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.framing.EVENT_LIMIT", 5)
    monkeypatch.setattr("gateway.inbound.rendering._SLICE", 4)
    with attempt_fails("longer than"):
        _read(said("Hello there"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message":"hm"}', "it is not an answer: hm"),
        (b"<title>Oops</title>", "it is not valid JSON: Oops"),
        (b"", "an empty body"),
    ],
)
def test_what_is_not_an_answer_is_quoted(body: bytes, words: str) -> None:
    assert words in error_of(not_an_answer(body, channel()).failure).message
