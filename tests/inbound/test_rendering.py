"""A stream of a dialect is followed within bounds. The smallest dialect: an event is a word."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gateway.domain import rawjson
from gateway.domain.answer import AnswerFinished, AnswerPart, BlockKind, Medium, Piece
from gateway.domain.failure import AttemptFailed
from gateway.domain.sse import SSEEvent
from gateway.domain.usage import Usage
from gateway.inbound.chat.render import ChatRenderer
from gateway.inbound.completions.api import CompletionRenderer
from gateway.inbound.rendering import RenderedStream, WholeBlock
from gateway.upstream.adapter import AnswerReader, failing_attempt
from gateway.upstream.openai.request import OPENAI_TOOLS
from tests.cases.answers import Answer, said_in
from tests.upstream.makers import channel, error_of, order

HI = Answer(text={0: "Hi"}, finish={0: "stop"})


class Sayings(AnswerReader):
    """``.`` is the end, ``*`` an image; several words are an array, as a whole answer is."""

    tool_rules = OPENAI_TOOLS

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        word = json.loads(event.data)
        if word == ".":
            yield AnswerFinished("stop")
            self.done = True
        elif isinstance(word, list):
            yield from (Piece(BlockKind.TEXT, rawjson.encode(each)) for each in word)
        else:
            yield Medium("image/png", "aQ==") if word == "*" else Piece(BlockKind.TEXT, rawjson.encode(word))

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        yield from (Piece(BlockKind.TEXT, rawjson.encode(word)) for word in json.loads(body))
        yield AnswerFinished("stop")


def said(*words: str) -> bytes:
    """The events of the words."""
    return b"".join(b"data: " + json.dumps(word).encode() + b"\n\n" for word in words)


def _stream(**more: Any) -> RenderedStream:
    asked = order(**more)
    return RenderedStream(Sayings(), asked, channel(), ChatRenderer(asked))


def test_a_whole_answer_has_no_more_parts_than_the_loop_reads_at_once() -> None:
    stream = _stream()
    stream.read_whole(json.dumps(["Hi"] * 19_999).encode())  # with its end, as many parts as may be
    assert (stream.failure, stream.finished) == (None, True)
    beyond = _stream()
    beyond.read_whole(json.dumps(["Hi"] * 20_000).encode())
    assert beyond.failure is not None
    assert beyond.failure.code == "upstream_bad_response"


def test_an_event_has_no_more_parts_than_the_loop_reads_at_once() -> None:
    stream = _stream()
    stream.feed(b"data: %b\n\n" % json.dumps(["Hi"] * 4_000).encode())
    stream.feed(said("."))
    assert (stream.failure, stream.finished) == (None, True)
    beyond = _stream()
    out = beyond.feed(b"data: %b\n\n" % json.dumps(["Hi"] * 4_001).encode() + said("."))
    assert beyond.failure is not None
    assert error_of(beyond.failure).code == "upstream_bad_response"
    assert b'"finish_reason":"stop"' not in out


@pytest.mark.parametrize(("elements", "is_object"), [(1_000_000, True), (1_000_001, False)])
def test_arguments_of_too_many_elements_are_a_text(elements: int, *, is_object: bool) -> None:
    """Decoded, the 6 million lists of a call of 17 MB would take half a gigabyte."""
    text = '{"a":[' + "1," * elements + "1]}"
    found = WholeBlock(0, pieces=[rawjson.encode(text)]).arguments
    assert found == (msgspec.Raw(text.encode()) if is_object else {"invalid_arguments": text})


def test_a_whole_answer_is_streamed() -> None:
    stream = _stream()
    body = json.dumps(["H", "i"]).encode()
    out = b"".join(stream.feed(body[i : i + 1]) for i in range(len(body))) + stream.end()
    assert (said_in(out), stream.finished, stream.events) == (HI, True, 1)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.adapter.BODY_LIMIT", 5)
    stream = _stream()
    codes = [(stream.feed(data), stream.failure and stream.failure.code)[1] for data in (b"[   ", b"  ")]
    assert codes == [None, "upstream_bad_response"]


def test_the_tail_is_that_of_any_stream() -> None:
    stream = _stream(include_usage=True)
    stream.feed(said("Hi", "."))
    tail = stream.tail(Usage(input=1, output=2))
    assert (tail.count(b"data: "), tail.endswith(b"data: [DONE]\n\n"), b'"estimated"' in tail) == (2, True, False)
    assert stream.state.reported is None


def test_an_answer_that_is_nothing_but_an_image_fails_where_there_is_no_place_for_it() -> None:
    asked = order()
    stream = RenderedStream(Sayings(), asked, channel(), CompletionRenderer(asked))
    stream.feed(said("*", "."))
    assert stream.failure is not None
    assert "no place for" in error_of(stream.failure).message
    with_text = RenderedStream(Sayings(), asked, channel(), CompletionRenderer(asked))
    with_text.feed(said("*", "Hi", "."))
    assert (with_text.finished, with_text.state.marks) == (True, ("medium_dropped",))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message":"hm"}', "it is not an answer: hm"),
        (b"<title>Oops</title>", "it is not valid JSON: Oops"),
        (b"", "an empty body"),
    ],
)
def test_invalid_answers_are_quoted(body: bytes, words: str) -> None:
    with pytest.raises(AttemptFailed) as failed, failing_attempt(body, channel()):
        raise ValueError("no answer")
    assert words in error_of(failed.value.failure).message
