"""Packed bodies are unpacked in bounded pieces at any split; damage and early ends are noticed."""

import gzip
import zlib

import pytest

from gateway.upstream.http.parser import PIECE, Inflater

TEXT = b"the same words again and again, " * 50


def _packed(wbits: int, data: bytes = TEXT) -> bytes:
    pack = zlib.compressobj(wbits=wbits)
    return pack.compress(data) + pack.flush()


GZIP, ZLIB, BARE = _packed(31), _packed(15), _packed(-15)
BODIES = {
    "gzip": ("gzip", GZIP),
    "x-gzip": ("x-gzip", GZIP),
    "zlib": ("deflate", ZLIB),
    "bare": ("deflate", BARE),
    "members": ("gzip", GZIP[:0] + _packed(31, TEXT[:100]) + _packed(31, TEXT[100:])),
}


def _unpack(coding: str, data: bytes, size: int) -> bytes:
    inflater, out = Inflater(coding), []
    for start in range(0, len(data), size):
        out.append(inflater.feed(data[start : start + size]))
        while inflater.pending:
            out.append(inflater.feed(b""))
    inflater.end()
    return b"".join(out)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("case", BODIES)
def test_bodies_at_any_split(case: str, size: int) -> None:
    assert _unpack(*BODIES[case], size) == TEXT


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_ends_early_is_told_at_every_cut(case: str) -> None:
    coding, data = BODIES[case]
    whole_member = len(_packed(31, TEXT[:100]))
    for cut in range(1, len(data)):
        if not (case == "members" and cut == whole_member):
            with pytest.raises(ValueError, match="ends too early"):
                _unpack(coding, data[:cut], 1000)


def test_damage_is_told() -> None:
    with pytest.raises(ValueError, match="damaged"):
        _unpack("gzip", GZIP[:-5] + b"\xff" * 5, 1000)
    with pytest.raises(ValueError, match="damaged"):
        _unpack("gzip", GZIP + b"more that is no member", 1000)


def test_a_body_that_was_not_packed_at_all_is_damaged() -> None:
    with pytest.raises(ValueError, match="damaged"):
        _unpack("gzip", b'{"id": 1}', 1000)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "identity"])
def test_codings_nobody_asked_for_are_refused(coding: str) -> None:
    with pytest.raises(ValueError, match="not asked for"):
        Inflater(coding)


def test_a_bomb_comes_in_bounded_pieces() -> None:
    inflater = Inflater("gzip")
    piece = inflater.feed(gzip.compress(bytes(20 * PIECE), mtime=0))
    assert (len(piece), inflater.pending) == (PIECE, True)


def test_a_thousand_members_are_no_harm() -> None:
    assert _unpack("gzip", _packed(31, b"x") * 1000, 100) == b"x" * 1000


def test_nothing_at_all_is_nothing() -> None:
    assert _unpack("gzip", b"", 1) == b""
