"""Events that are pieces of an answer are decoded together, but only those that are nothing else."""

from typing import Literal

import msgspec
import pytest

from gateway.domain.sse import SMALL_NUMBER, WINDOW, PieceDecoder


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["word"]
    text: str
    number: SMALL_NUMBER = 0


DECODER = PieceDecoder(("word", "other"), Word)


def word(text: str = '"a"', more: str = "", name: str = "word") -> bytes:
    return f'event: {name}\ndata: {{"type":"word","text":{text}{more}}}\n\n'.encode()


def read(events: bytes, start: int = 0) -> tuple[list[str], int]:
    found, end = DECODER.read(events, start)
    return [piece.text for piece in found], end


def test_pieces_of_one_kind_are_read_together() -> None:
    three = word('"a"') + word(r'"b\n"') + word('"ü"', ',"number":7')
    assert read(three) == (["a", "b\n", "ü"], len(three))
    assert read(b"xy" + three, 2) == (["a", "b\n", "ü"], len(three) + 2)


OTHERS = [
    word(name="other"),
    word(name="unknown"),
    word('"x"', ',"more":1'),
    word('"x"', ',"number":12345678'),
    word("1"),
    word(r'"\ud83d"'),
    b": comment\n\n",
    b"\n\n",
    b"\n",
    b"data: [DONE]\n\n",
    b'id: 7\nevent: word\ndata: {"type":"word","text":"x"}\n\n',
    b'event: word\ndata: {"type":"word","text":"x"}\nid: 7\n\n',
    b'event: word\ndata: {"type":"word",\ndata: "text":"x"}\n\n',
    b'event: word\ndata: {"type":"word",\n"text":"x"}\n\n',
    b'event: word\ndata: {"type":"word","text":"x"},{"type":"word","text":"y"}\n\n',
    b'event: word\ndata: {"type":"word","text":"x"}{"type":"word","text":"y"}\n\n',
    b'event: word\ndata: {"type":"word","text":"x\n\n',
    b'event: word\ndata: {"type":"word","text":"\xff"}\n\n',
    b'event: word\ndata: {"type":"word","text":"x"}',
]


@pytest.mark.parametrize("other", [other for other in OTHERS if other != b"\n"])
def test_they_end_before_an_event_that_is_something_else(other: bytes) -> None:
    two = word('"a"') + word('"b"')
    texts: list[str] = []
    end, events = 0, two + other + two
    while end < len(two):
        more, end = read(events, end)
        assert more
        texts += more
    assert (texts, end) == (["a", "b"], len(two))
    assert read(two + other)[1] <= len(two)


@pytest.mark.parametrize("other", [other for other in OTHERS if other != word(name="other")])
def test_what_is_something_else_is_not_a_piece(other: bytes) -> None:
    assert read(other + word()) == ([], 0)


def test_no_event_reaches_into_the_next() -> None:
    """Broken events that would be good ones together, and one that would make up for the number."""
    broken = b'event: word\ndata: {"type":"word","text":"x\n\n'
    rest = b'event: word\ndata: {","number":1}\n\n'
    double = b'event: word\ndata: {"type":"word","text":"x"},{"type":"word","text":"y"}\n\n'
    assert read(double + broken + rest) == read(broken + rest + double) == ([], 0)


def test_all_of_a_long_run_is_read_step_by_step() -> None:
    events = word('"word"') * (3 * WINDOW // len(word('"word"')))
    steps = texts = end = 0
    while end < len(events):
        more, end = read(events, end)
        steps, texts = steps + 1, texts + len(more)
    assert (steps < 6, texts * len(word('"word"'))) == (True, len(events))


def test_an_event_above_the_window_is_not_read_here() -> None:
    assert read(word('"' + "x" * WINDOW + '"')) == ([], 0)
