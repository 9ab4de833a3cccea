"""A long JSON string as several: of an answer of any size only a piece is ever copied, and no event is very long."""

import re
from collections.abc import Iterator

import msgspec

PIECE = 32 * 1024
"""Bytes of a text in one event."""
_ESCAPE = 6
"""Bytes of the longest escape of JSON: backslash, u, four digits."""
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")


def is_long(text: bytes | memoryview) -> bool:
    """Whether a JSON string is more than a piece."""
    return len(text) > PIECE + 2


def pieces(text: bytes | msgspec.Raw) -> Iterator[bytes]:
    """A JSON string as several that are the same together: no character, escape or pair of escapes is torn."""
    view = memoryview(text)[1:-1]
    start = 0
    while start < len(view):
        piece = bytes(view[start : start + PIECE])
        if start + len(piece) < len(view):
            piece = piece[: _last_whole(piece)]
        yield b'"%b"' % piece
        start += len(piece)


def _last_whole(piece: bytes) -> int:
    """How many bytes of it are whole characters, when others follow it."""
    end = len(piece)
    while end and piece[end - 1] & 0xC0 == 0x80:  # of a character of several bytes the last ones
        end -= 1
    if end and piece[end - 1] >= 0xC0:
        return end - 1
    end = len(piece)
    for begin in range(max(0, end - _ESCAPE + 1), end):
        if _is_escape(piece, begin) and begin + (_ESCAPE if piece[begin + 1 : begin + 2] == b"u" else 2) > end:
            end = begin
            break
    high = end - _ESCAPE
    return high if high >= 0 and _HIGH_SURROGATE.match(piece, high) and _is_escape(piece, high) else end


def _is_escape(piece: bytes, at: int) -> bool:
    """Whether an escape begins here: a backslash behind an even number of others."""
    if piece[at] != ord("\\"):
        return False
    before = piece[:at]
    return (at - len(before.rstrip(b"\\"))) % 2 == 0
