"""A stream of another dialect is followed as one of ours is, whatever comes."""

import json
from typing import Any

import pytest

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import WholeAnswer
from gateway.upstream.framing import SSEEvent
from gateway.upstream.translate.response import (
    TranslatedStream,
    arguments_delta,
    chunk,
    completion,
    delta,
    message,
    no_answer,
    read_translated,
    report,
    tool_call,
    transcribe,
    transcribe_end,
)
from tests.cases.answers import Answer, said_in
from tests.conformance.shapes import completion_faults
from tests.upstream.makers import attempt_fails, channel, error_of, order
from tests.upstream.translate.saying import Sayings, said

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
    tail = stream.tail(Usage(input=1, output=2), estimated=True)
    assert (tail.count(b"data: "), tail.endswith(b"data: [DONE]\n\n"), b'"estimated"' in tail) == (2, True, False)
    assert stream.reported is None


def test_an_event_becomes_an_event() -> None:
    out = transcribe(Sayings(channel()), SSEEvent(b'"Hi"'))
    assert json.loads(out.removeprefix(b"data: "))["choices"][0]["delta"] == {"content": "Hi"}
    assert out.endswith(b"\n\n")


def test_the_end_becomes_the_end() -> None:
    assert transcribe(Sayings(channel()), SSEEvent(b'"."')).endswith(b"\n\ndata: [DONE]\n\n")
    assert transcribe_end(Sayings(channel(), late=True)).endswith(b"data: [DONE]\n\n")


def test_what_makes_no_sense_makes_none_there_either() -> None:
    out = transcribe(Sayings(channel()), SSEEvent(b"{\nsk-secret12345"))
    assert out.startswith(b"data: odd event: {")
    assert (out.count(b"\n"), b"secret" in out) == (2, False)


USAGE = Usage(input=9, cached=4, output=5, source=UsageSource.REPORTED)


def test_a_chunk() -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
    assert chunk("x", delta(content="a")) == {"id": "x", "choices": [choice]}
    assert chunk("x", usage=USAGE) == {"id": "x", "choices": [], "usage": report(USAGE)}


def test_a_call_in_a_stream_has_a_number() -> None:
    whole = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert (tool_call(None, "c", "f", "{}"), tool_call(1, "c", "f", "{}")) == (whole, {"index": 1, **whole})
    assert arguments_delta(1, "x") == {"index": 1, "function": {"arguments": "x"}}


def test_content_is_null_beside_calls_and_empty_without() -> None:
    call = tool_call(None, "c", "f", "{}")
    assert (message("", calls=[call])["content"], message("")["content"], message("a", calls=[call])["content"]) == (
        None,
        "",
        "a",
    )


def test_a_completion() -> None:
    said = message("a", reasoning="b")
    assert said == {"role": "assistant", "content": "a", "refusal": None, "reasoning_content": "b"}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
    assert completion("x", [(said, "stop")], None) == {"id": "x", "choices": [choice]}
    assert completion("x", [], USAGE)["usage"] == report(USAGE)


def test_an_output_count_that_is_missing_stays_missing() -> None:
    assert report(USAGE)["completion_tokens"] == 5
    partial = report(Usage(input=9, source=UsageSource.PARTIAL))
    assert (partial["prompt_tokens"], "completion_tokens" in partial, "total_tokens" in partial) == (9, False, False)


def _read(body: bytes) -> WholeAnswer:
    decoder = Sayings(channel(), late=True)
    return read_translated(body, order(), channel(), decoder, decoder.whole)


@pytest.mark.parametrize("body", [b'["H","i"]', said("H", "i"), said("H", "i").rstrip()])
def test_either_form_is_valid_to_the_letter(body: bytes) -> None:
    whole = _read(body)
    doc = json.loads(whole.body)
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"], whole.finish) == ([], "Hi", "stop")


@pytest.mark.parametrize("body", [b"{}", said("Hi", "!"), said("Hi") + b"data: {\n\ndata: {\n\n"])
def test_failures(body: bytes) -> None:
    with attempt_fails() as caught:
        _read(body)
    assert caught.value.code == "upstream_bad_response"


def test_an_event_of_a_plain_answer_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.framing.EVENT_LIMIT", 5)
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
    assert words in error_of(no_answer(body, channel()).failure).message
