"""Streams of Anthropic, in a form that clients accept to the letter; see ``test_every_stream`` too."""

from typing import Any

import pytest

from gateway.domain.usage import Usage
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.cases.anthropic.streams import HELLO, block, end, event, start, text
from tests.conformance.shapes import stream_faults
from tests.upstream.makers import as_chat, channel, translated


def _stream(**more: Any) -> AnswerStream:
    return as_chat(AnthropicDialect()).stream(translated(**more), channel())


@pytest.mark.parametrize(
    "lost",
    [
        block("text", {"type": "new_delta", "text": "x"}, index=1, text=""),
        event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"}),
    ],
)
def test_deltas_of_an_unknown_type_and_arguments_without_a_call_are_marked(lost: bytes) -> None:
    stream = _stream()
    stream.feed(start() + text("Hi") + lost + end())
    assert (stream.finished, stream.state.marks) == (True, ("block_dropped",))


def test_pings_are_signs_of_life() -> None:
    stream = _stream()
    stream.feed(b'event: ping\ndata: {"type":"ping"}\n\n: still here\n\n')
    assert (stream.events, stream.comments, stream.started) == (1, 1, False)


def test_it_can_be_cut_short() -> None:
    stream = _stream(include_usage=True)
    out = stream.feed(HELLO[: HELLO.index(b"event: content_block_stop")])
    out += stream.cut_short() + stream.tail(Usage(input=1, output=2))
    assert (stream.finished, stream.state.finish, stream_faults(out, usage="yes")) == (True, "length", [])


def test_nothing_is_held_back_after_the_start_of_the_message() -> None:
    stream = _stream()
    events = [event + b"\n\n" for event in HELLO.split(b"\n\n") if event]
    says = [bool(stream.feed(event)) for event in events]
    assert says == [False, False, True, True, False, False, True]


def test_a_thought_with_the_index_of_an_open_text_is_not_held_back() -> None:
    stream, thought = _stream(), block("thinking", {"type": "thinking_delta", "thinking": "Hm"}, thinking="")
    stream.feed(start() + text("Hi").partition(b"event: content_block_stop")[0])
    assert b'"Hm"' in stream.feed(thought.partition(b"event: content_block_stop")[0])
