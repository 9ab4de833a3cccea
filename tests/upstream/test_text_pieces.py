"""A long text in pieces is the same text."""

import json

import msgspec
import pytest

from gateway.upstream.framing import pieces

PIECE = 32 * 1024


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("sign", ["\\", '"', "\n", "é", "語", "😀", "\ud83d"])
def test_a_long_text_in_pieces_is_the_same_text(sign: str, *, escaped: bool) -> None:
    text = "x" * (PIECE - 1) + 3 * sign + "y" * PIECE
    raw = json.dumps(text, ensure_ascii=escaped or sign == "\ud83d")
    found = [json.loads(piece) for piece in pieces(msgspec.Raw(raw.encode()))]
    assert [len(piece) for piece in found] == [PIECE, PIECE, 2]
    assert "".join(found) == text
