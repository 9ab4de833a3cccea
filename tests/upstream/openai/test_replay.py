"""A whole answer, told as a stream, says the same."""

import json
from itertools import chain

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.openai.chunks import Chunks
from gateway.upstream.openai.replay import chunks_of
from gateway.upstream.text_pieces import PIECE, pieces
from tests.cases.answers import Answer, said_in
from tests.fakes.replies import choice, dumps, tool_call, usage, whole
from tests.upstream.makers import order

CALL = {name: value for name, value in tool_call(0, "a", "f", '{"x":1}').items() if name != "index"}


def _told(answer: object) -> tuple[Answer, Chunks]:
    chunks = Chunks(order())
    out = [chunks.take(chunk).out for chunk in chunks_of(dumps(answer))]
    return said_in(b"".join(b"data: " + chunk + b"\n\n" for chunk in out)), chunks


def test_text_calls_and_end() -> None:
    said, chunks = _told(whole("m", choice("Hi", reasoning_content="hm", tool_calls=[CALL], finish="tool_calls")))
    assert said == Answer({0: "Hi"}, {0: "hm"}, {0: [("a", "f", '{"x":1}')]}, {0: "tool_calls"})
    assert chunks.complete


def test_several_choices_and_usage() -> None:
    said, chunks = _told(whole("m", choice("a"), choice("b", index=1, finish="length"), spent=usage(9, 2)))
    assert (said.text, said.finish) == ({0: "a", 1: "b"}, {0: "stop", 1: "length"})
    reported = chunks.reports.usage(chunks.tally)
    assert (reported and reported.total) == 11


def test_unknown_fields_come_along() -> None:
    first = next(chunks_of(dumps(whole("m", {**choice("a", odd=1), "logprobs": {"content": []}}, service_tier="x"))))
    (told,) = json.loads(bytes(first["choices"]))
    assert (bytes(first["service_tier"]), told["delta"]["odd"], told["logprobs"]) == (b'"x"', 1, {"content": []})


@given(
    before=st.integers(PIECE - 14, PIECE),
    text=st.lists(st.sampled_from(["a", "é", "語", "😀", "\\", '"', "\n"])),
    escaped=st.booleans(),
)
def test_a_long_text_in_pieces_is_the_same_text(before: int, text: list[str], *, escaped: bool) -> None:
    """Whatever stands where it is cut: each piece by itself is valid, too."""
    said = "x" * before + "".join(text) + "y" * 20
    parts = list(pieces(msgspec.Raw(json.dumps(said, ensure_ascii=escaped).encode())))
    assert "".join(json.loads(bytes(part).decode()) for part in parts) == said
    assert all(len(bytes(part)) <= PIECE + 2 for part in parts)
    for part in parts:
        json.loads(bytes(part)).encode()  # no half of a pair


@pytest.mark.parametrize("piece", ["\\", "\\u00e9", "\\ud83d\\ude00", '\\"', "\\\\", "é", "語", "😀"])
@pytest.mark.parametrize("offset", range(12))
def test_nothing_is_torn_in_a_text_of_one_kind(piece: str, offset: int) -> None:
    if piece == "\\":
        piece = "\\n"
    raw = b'"%b"' % (b"x" * offset + piece.encode() * (3 * PIECE // len(piece)))
    parts = list(pieces(msgspec.Raw(raw)))
    assert b"".join(bytes(part)[1:-1] for part in parts) == raw[1:-1]
    assert "".join(msgspec.json.decode(bytes(part), type=str) for part in parts) == json.loads(raw)


def test_a_long_answer_is_sent_in_pieces() -> None:
    thought, spoken = "t" * (2 * PIECE + 5), "s" * (3 * PIECE)
    answer = whole("m", choice(spoken, reasoning_content=thought, tool_calls=[CALL], finish="tool_calls"))
    said, chunks = _told(answer)
    assert said == Answer({0: spoken}, {0: thought}, {0: [("a", "f", '{"x":1}')]}, {0: "tool_calls"})
    assert chunks.complete
    assert max(len(bytes(value)) for value in chain(*(c.values() for c in chunks_of(dumps(answer))))) < PIECE + 200
