"""A long text in pieces is the same text."""

import json

import msgspec
import pytest

from gateway.upstream.framing import pieces

PIECE = 32 * 1024


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("sign", ["\\", '"', "\n", "é", "語", "😀"])
@pytest.mark.parametrize("before", range(PIECE - 13, PIECE + 1))
def test_a_long_text_in_pieces_is_the_same_text(before: int, sign: str, *, escaped: bool) -> None:
    text = "x" * before + 3 * sign + "y" * PIECE
    parts = [bytes(part) for part in pieces(msgspec.Raw(json.dumps(text, ensure_ascii=escaped).encode()))]
    assert "".join(msgspec.json.decode(part, type=str) for part in parts) == text
    assert len(parts) > 1
    assert all(len(part) >= PIECE for part in parts[:-1])


def test_a_text_without_a_safe_place_is_one_piece() -> None:
    raw = json.dumps("😀" * PIECE).encode()
    assert list(pieces(msgspec.Raw(raw))) == [raw]
