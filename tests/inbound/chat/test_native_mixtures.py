"""Any mixture of regular and odd events, however it is split, gives the same answer by a template as without one."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway.domain.usage import Usage
from gateway.inbound import event_stream
from gateway.inbound.chat.render import WholeChatRenderer
from gateway.inbound.event_stream import Template, template_of
from gateway.inbound.messages.render import MessagesRenderer
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.answers import said_in
from tests.cases.streams import ROLE, STOP
from tests.fakes.replies import DONE, chunk, delta, event, tool_call, usage
from tests.upstream.makers import TWO_CHOICES, channel, native_stream, order


def _text(text: str, **more: Any) -> bytes:
    return event(chunk(delta(text), **more))


def _call(index: int, arguments: str, **more: Any) -> bytes:
    return event(chunk(delta(tool_calls=[{"index": index, "function": {"arguments": arguments}, **more}])))


EVENTS = st.one_of(
    st.text(alphabet='a"\\{}]:,é\u2028 \n', max_size=8).map(_text),
    st.sampled_from(
        [
            _text("Hi", system_fingerprint="fp_1"),
            _text("Hi", usage=usage(9, 2)),
            _text("Hi", id="other", model="other"),
            _text("Hi").replace(b'":', b'" : '),
            _text("Hi").replace(b"data: ", b"event: message\ndata: "),
            _text("Hi").replace(b'"Hi"', rb'"\ud83d"'),
            event(chunk(delta("Hi", role="assistant"))),
            event(chunk(delta("Hi", odd=[1, 2.50]))),
            event(chunk({**delta("Hi"), "logprobs": {"content": [{"token": "Hi"}]}})),
            event(chunk({**delta("Hi"), "finish_reason": "stop"})),
            _text("Hi", error={"message": "no"}),
            event(chunk(delta("Hi", index=1))),
            event(chunk(delta("a"), delta("b", index=1))),
            event(chunk(delta(reasoning="hm"))),
            event(chunk(delta(reasoning_content="hm"))),
            event(chunk(delta(reasoning_content="hm", reasoning="hm"))),
            event(chunk({"index": 0, "delta": {"content": [{"type": "text", "text": "Hi"}]}})),
            event(chunk(delta(refusal="no"))),
            event(chunk(delta(tool_calls=[tool_call(0, "a", "f", '{"x"')]))),
            event(chunk(delta(tool_calls=[tool_call(1, "b", "g", "{}")]))),
            event(chunk(delta(tool_calls=[tool_call(0, "c", "f", "{}")]))),
            _call(0, ":1}"),
            _call(0, "}", id="a"),
            _call(1, " "),
            event(chunk()),
            b": a comment\n\n",
            b'data: {"id": \n\n',
            b"data: [1]\n\n",
        ]
    ),
)
"""Regular pieces of text, and what comes between them."""

Outcome = tuple[bytes, bool, str, tuple[str, ...], int, int, int, Usage | None]


def rendered_stream() -> AnswerStream:
    """A stream of chat completions that is written as Messages."""
    adapter = RenderingAdapter(OpenAIDialect(), MessagesRenderer, WholeChatRenderer)
    return adapter.stream(order(TWO_CHOICES), channel())


_BETWEEN_TEXTS = re.compile(
    rb'"}}\n\nevent: content_block_delta\n'
    rb'data: {"type":"content_block_delta","index":\d+,"delta":{"type":"text_delta","text":"'
)
"""Matches what is between two texts of a block in Messages: those that came together are one."""


def _outcome(data: bytes, sizes: Iterator[int], start: Callable[[], AnswerStream]) -> Outcome:
    stream, out = start(), b""
    while data:
        size = next(sizes, len(data))
        out += stream.feed(data[:size])
        data = data[size:]
    out += stream.end()
    failed = "" if stream.failure is None else stream.failure.code
    tally = stream.state.tally
    return (
        _BETWEEN_TEXTS.sub(b"", out),
        stream.finished,
        failed,
        stream.state.marks,
        stream.events,
        tally.chars,
        tally.calls,
        stream.state.reported,
    )


@given(
    st.lists(EVENTS, max_size=25),
    st.lists(st.integers(1, 400), max_size=40),
    st.sampled_from([native_stream, rendered_stream]),
)
def test_a_template_changes_nothing(parts: list[bytes], sizes: list[int], start: Callable[[], AnswerStream]) -> None:
    data = b"".join([ROLE, *parts, STOP, event(chunk(delta(index=1, finish="stop"))), DONE])
    found = _outcome(data, iter(sizes), start)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_stream, "MAX_TEMPLATES", 0)
        assert _outcome(data, iter(()), start) == found
    if found[1] and start is native_stream:
        said_in(found[0])


@given(st.lists(st.text(alphabet='a"\\é\n', min_size=1, max_size=6), min_size=2, max_size=30))
def test_a_run_of_regular_events_is_learned_once_and_says_all(texts: list[str]) -> None:
    stream = native_stream()
    out = b"".join(stream.feed(part) for part in (ROLE, *map(_text, texts), STOP, DONE))
    assert said_in(out).text == {0: "".join(texts)}
    assert stream.state.tally.chars == len("".join(texts))


@pytest.mark.parametrize("between", [b": a comment\n\n", event(chunk(delta())), event(chunk(usage=usage(9, 2)))])
def test_events_without_content_do_not_end_a_run(between: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[bytes] = []

    def learn(event: bytes, out: bytes, text: bytes) -> Template | None:
        learned.append(text)
        return template_of(event, out, text)

    monkeypatch.setattr(event_stream, "template_of", learn)
    native_stream().feed(b"".join([ROLE, *(_text(f"word {number}") + between for number in range(5))]))
    assert learned == [b'"word 0"']
