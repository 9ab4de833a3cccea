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
    assert all(len(part) > PIECE - 12 for part in parts[:-1])


@pytest.mark.parametrize("sign", ["é", "😀", "\\", "\ud83d"])
def test_a_text_of_escapes_only_is_split_between_them(sign: str) -> None:
    raw = json.dumps(sign * PIECE).encode()
    parts = list(pieces(msgspec.Raw(raw)))
    assert b"".join(part[1:-1] for part in parts) == raw[1:-1]
    assert max(map(len, parts)) <= PIECE + 2
    assert all(len(part[1:-1]) % (len(raw[1:-1]) // PIECE) == 0 for part in parts)
