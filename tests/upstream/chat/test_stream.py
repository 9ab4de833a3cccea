"""A stream of another dialect is followed as one of ours is, whatever comes."""

import json
from typing import Any

import pytest

from gateway.domain.usage import Usage
from gateway.upstream.translate.response import TranslatedStream
from tests.cases.answers import Answer, said_in
from tests.upstream.chat.saying import Sayings, said
from tests.upstream.makers import channel, order

HI = Answer(text={0: "Hi"}, finish={0: "stop"})


def _stream(*, late: bool = False, **more: Any) -> TranslatedStream:
    decoder = Sayings(channel(), late=late)
    return TranslatedStream(order(**more), channel(), decoder, decoder.whole)


@pytest.mark.parametrize("late", [False, True])
def test_words_become_chunks(late: bool) -> None:
    stream = _stream(late=late)
    out = stream.feed(said("H", "i", ".")) + stream.end()
    assert (said_in(out), stream.started, stream.finished, stream.finish) == (HI, True, True, "stop")
    assert (stream.upstream_id, stream.events, stream.tally.chars) == ("s1", 3, 2)


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


def test_the_last_blank_line_may_be_missing() -> None:
    stream = _stream()
    out = stream.feed(said("Hi", ".").rstrip()) + stream.end()
    assert (said_in(out), stream.finished) == (HI, True)


def test_half_an_event_at_the_end_is_nothing() -> None:
    stream = _stream()
    out = stream.feed(said("Hi") + b'data: "the') + stream.end()
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
    monkeypatch.setattr("gateway.upstream.openai.stream.BODY_LIMIT", 5)
    stream = _stream()
    codes = [(stream.feed(data), stream.failure and stream.failure.code)[1] for data in (b"[   ", b"  ")]
    assert codes == [None, "upstream_bad_response"]


def test_an_event_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.sse.EVENT_LIMIT", 5)
    stream = _stream()
    stream.feed(b'data: "endless')
    assert (stream.failure and stream.failure.code) == "upstream_bad_response"


def test_the_tail_is_that_of_any_stream() -> None:
    stream = _stream(include_usage=True)
    stream.feed(said("Hi", "."))
    tail = stream.tail(Usage(input=1, output=2), estimated=True)
    assert (tail.count(b"data: "), tail.endswith(b"data: [DONE]\n\n"), b'"estimated":true' in tail) == (2, True, True)
    assert stream.reported is None
