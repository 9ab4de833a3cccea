"""What all streamed answers have in common: events are kept apart from bodies, and a body is gathered up to a limit."""

import json

import pytest

from gateway.domain.sse import is_stream
from gateway.upstream.adapter import EVENT_LIMIT, on_one_line
from tests.cases.streams import GOOD
from tests.fakes.replies import chunk, delta, usage
from tests.upstream.makers import error_of, native_stream


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'\xef\xbb\xbf{\r\n  "a": "x\\n",\n  "b": 1e500\n}\n', b'{"a":"x\\n","b":1e500}'),
        (b'{"a": "x\ny"}', b'{"a": "x\ny"}'),
        (b"<html>\n", b"<html>\n"),
    ],
)
def test_a_body_of_several_lines_is_put_on_one(data: bytes, found: bytes) -> None:
    """A line break inside a string is invalid, and stays in it."""
    assert on_one_line(data) == found


def test_an_endless_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.adapter.BODY_LIMIT", 10)
    stream = native_stream()
    stream.feed(b"{" + b"x" * 9)
    assert (stream.held, stream.failure) == (10, None)
    stream.feed(b"x")
    assert stream.failure is not None
    assert "longer than" in error_of(stream.failure).message


@pytest.mark.parametrize(("data", "held"), [(b"  ", 2), (b" {", 2), (b"\n\n[1", 4), (b"<p>", 3), (b"data: x", 7)])
def test_incomplete_events_are_held(data: bytes, held: int) -> None:
    stream = native_stream()
    assert (stream.feed(data), stream.held, stream.failure) == (b"", held, None)


@pytest.mark.parametrize("size", [1 << 16, 1 << 30])
def test_an_event_that_is_too_long_is_a_bad_answer(size: int) -> None:
    stream, event = native_stream(), b"data: " + b"x" * EVENT_LIMIT
    assert b"".join(stream.feed(event[start : start + size]) for start in range(0, len(event), size)) == b""
    assert stream.failure is not None
    assert "longer than" in error_of(stream.failure).message
    assert (stream.feed(b"data: [DONE]\n\n"), stream.end()) == (b"", b"")


@pytest.mark.parametrize(
    "body", [GOOD, b"\n" + GOOD, b": x\n\n", b"event: x\ndata: {}", b"error: {}", b"\xef\xbb\xbfdata: x"]
)
def test_events_are_recognised(body: bytes) -> None:
    assert is_stream(body)


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"data"])
def test_other_bodies_are_not_events(body: bytes) -> None:
    assert not is_stream(body)


def test_parts_that_are_passed_on_as_they_are_have_no_line_breaks() -> None:
    """The client reads a line of the answer as a whole event."""
    doc = chunk(delta("hi", role="assistant", finish="stop"), x_extra={"a": 1, "b": 2}, usage=usage(5, 6))
    event = "".join(f"data: {line}\n" for line in json.dumps(doc, indent=1).splitlines()) + "\n"
    stream = native_stream()
    lines = (stream.feed(event.encode()) + stream.feed(b"data: [DONE]\n\n") + stream.end()).splitlines()
    assert b"hi" in b"".join(lines)
    assert [line for line in lines if not line.startswith((b"data: ", b":")) and line] == []
