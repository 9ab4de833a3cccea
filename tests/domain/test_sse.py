"""Events come out the same however the bytes were split, in linear time."""

import time

import pytest
from hypothesis import given, strategies as st

from gateway.domain.sse import Framer, SSEEvent, event_end, has_comment, parse, with_line_feeds

DECODED = [
    (b"data: a\n\n", [SSEEvent(b"a")]),
    (b"data:a\n\n", [SSEEvent(b"a")]),
    (b"data:  a\n\n", [SSEEvent(b" a")]),
    (b"data\n\n", [SSEEvent(b"")]),
    (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [SSEEvent(b"a"), SSEEvent(b"b"), SSEEvent(b"c")]),
    (b"data: a\ndata: b\n\n", [SSEEvent(b"a\nb")]),
    (b"event: error\ndata: a\nid: 1\nretry: 2\nodd\n\n", [SSEEvent(b"a", b"error")]),
    (b": note\n\n:\n\ndata: a\n\n", [SSEEvent(b"a")]),
    (b"data: \xef\xbb\xbfa\n\n", [SSEEvent(b"\xef\xbb\xbfa")]),
    (b"\n\n\n\ndata: a\n\n\n\ndata: b\n\n", [SSEEvent(b"a"), SSEEvent(b"b")]),
    (b"event: x\n\ndata: a\n\n", [SSEEvent(b"a")]),
    (b"data: a\n\r\ndata: b\r\n\n", [SSEEvent(b"a"), SSEEvent(b"b")]),
    ("data: \u2028\u0085\n\n".encode(), [SSEEvent("\u2028\u0085".encode())]),
    (b"data: never ended\n", []),
    (b'error: {"message":"x"}\n\n', [SSEEvent(b'{"message":"x"}', b"error")]),
]


def _events(*pieces: bytes) -> list[SSEEvent]:
    framer = Framer()
    blocks = b"".join(with_line_feeds(framer.feed(piece)) for piece in pieces).split(b"\n\n")
    return [event for event in map(parse, blocks) if event]


@pytest.mark.parametrize(("data", "events"), DECODED)
def test_decodes_at_every_split(data: bytes, events: list[SSEEvent]) -> None:
    assert _events(data) == events
    for cut in range(len(data)):
        assert _events(data[:cut], data[cut:]) == events
    assert _events(*(data[i : i + 1] for i in range(len(data)))) == events


@given(st.lists(st.sampled_from([b"data: a", b"\r", b"\n", b"\r\n", b":c", b"event: e", b"\xef\xbb\xbf"]), max_size=20))
def test_random_lines_decode_the_same_in_single_bytes(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert _events(*(data[i : i + 1] for i in range(len(data)))) == _events(data)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
def test_an_event_is_complete_with_its_last_byte(end: bytes) -> None:
    framer = Framer()
    for event in (b"data: a" + end, b"data: b" + end):
        fed = [framer.feed(event[place : place + 1]) for place in range(len(event))]
        assert (b"".join(fed[:-1]), fed[-1]) == (b"", event)


def test_what_is_left_at_the_end_is_reported() -> None:
    framer = Framer()
    framer.feed(b"data: a\n\ndata: b\n")
    assert (framer.end(), framer.end()) == (b"data: b\n", b"")


def test_time_is_linear_in_the_size_of_an_event() -> None:
    small, large = (min(_seconds(size) for _ in range(6)) for size in (1_000_000, 16_000_000))
    assert (
        large < 160 * small
    )  # 16 times the work, with colder caches; were it quadratic, it would be 256 times as much


def _seconds(size: int) -> float:
    data = b"data: " + b"x" * size + b"\n\n"
    framer, began = Framer(), time.thread_time()
    for start in range(0, len(data), 4096):
        framer.feed(data[start : start + 4096])
    return time.thread_time() - began


@pytest.mark.parametrize(("block", "found"), [(b": x", True), (b"data: a\n: x", True), (b"data: :x", False)])
def test_comments_are_seen(block: bytes, *, found: bool) -> None:
    assert has_comment(block) is found


def test_json_over_several_lines_of_data_is_one_line_afterwards() -> None:
    """A break between tokens is white space; inside a string it is a fault, which stays one."""
    assert parse(b'data: {"usage": {\ndata: "a": 1}}') == SSEEvent(b'{"usage": { "a": 1}}')
    assert parse(b'data: {"a":"x\ndata: y"}') == SSEEvent(b'{"a":"x\ny"}')
    assert parse(b"data: a\ndata: b") == SSEEvent(b"a\nb")


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_thousands_of_blank_lines_are_one_event_without_data(line_end: bytes) -> None:
    events = line_end * 5000 + b"data: a" + line_end * 3
    assert event_end(events, 0, has_returns=line_end != b"\n") == len(line_end) * 5000
    assert event_end(events, len(line_end) * 5000, has_returns=line_end != b"\n") == len(events)
