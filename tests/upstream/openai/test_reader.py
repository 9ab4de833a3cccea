"""Events that bring nothing but text are read together, and nothing else is among them."""

import json
from typing import Any

import pytest

from gateway.domain.sse import SSEEvent
from gateway.upstream.openai.reader import ChatReader
from tests.upstream import makers

DONE = b"data: [DONE]\n\n"


def _event(text: str | None, choice: dict[str, Any] | None = None, **more: Any) -> bytes:
    delta = {} if text is None else {"content": text}
    chunk = {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, **(choice or {})}], **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _texts(events: bytes, start: int = 0) -> tuple[list[bytes], str, int]:
    """The texts that are found after two events with text, which are read in full."""
    reader = ChatReader(makers.order(), makers.channel())
    for text in ("Well", "then"):
        reader.read(SSEEvent(_event(text)[6:-2]))
    return reader.texts(events, start)


def test_texts_of_events_that_are_alike_are_found_together() -> None:
    events = b"".join(map(_event, ("one", "\n", 'a "b"', "é")))
    assert _texts(events) == ([b'"one"', b'"\\n"', b'"a \\"b\\""', b'"\\u00e9"'], 'one\na "b"é', len(events))


def test_an_empty_text_brings_nothing() -> None:
    events = _event("a") + _event("") + _event("b")
    assert _texts(events) == ([b'"a"', b'"b"'], "ab", len(events))


def test_they_begin_at_the_given_place() -> None:
    events = _event(None, {"finish_reason": "stop"}) + _event("a") + _event("b")
    start = events.index(b'data: {"id"', 1)
    assert _texts(events, start) == ([b'"a"', b'"b"'], "ab", len(events))


@pytest.mark.parametrize(
    "other",
    [
        DONE,
        b": sign of life\n\n",
        _event(None, {"finish_reason": "stop"}),
        _event("x", {"index": 1}),
        _event("x", {"logprobs": {"content": [{"token": "x"}]}}),
        _event("x", {"finish_reason": "stop"}),
        _event("x", usage={"prompt_tokens": 1}),
        _event("x", object="error"),
        _event("x", error={"message": "no"}),
        b'data: {"choices":[{"index":0,"delta":{"content":"x","tool_calls":[]}}]}\n\n',
        b'data: {"choices":[]}\n\n',
    ],
)
def test_they_end_before_an_event_that_brings_something_else(other: bytes) -> None:
    before = _event("a") + _event("b")
    assert _texts(before + other + _event("c")) == ([b'"a"', b'"b"'], "ab", len(before))


def test_a_field_that_only_one_of_them_has_is_not_taken_for_text() -> None:
    odd = _event("x").replace(b'"x"', b'"x","tool_calls":[{"index":0,"id":"t"}],"refusal":"y"')
    before = _event("a") + _event("b")
    assert _texts(before + odd + _event("c")) == ([b'"a"', b'"b"'], "ab", len(before))
