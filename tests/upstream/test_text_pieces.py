"""A long text in pieces is the same text, whatever stands where it is cut."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.framing import PIECE, pieces


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
