"""Text pieces: a long JSON string as several, so that only a piece of an answer is ever copied, and no event is very
long.
"""

import re
from collections.abc import Iterator

import msgspec

PIECE = 32 * 1024
"""The most bytes of a text in one event."""
_ESCAPE = 6
"""Bytes of JSON's longest escape: backslash, u, four digits."""
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")


def is_long(text: bytes | memoryview) -> bool:
    """Returns whether a JSON string is longer than a piece."""
    return len(text) > PIECE + 2


def pieces(text: bytes | msgspec.Raw) -> Iterator[bytes]:
    """Yields a JSON string as several with the same content: no character, escape or pair of escapes is split."""
    view = memoryview(text)[1:-1]
    start = 0
    while start < len(view):
        piece = bytes(view[start : start + PIECE])
        if start + len(piece) < len(view):
            piece = piece[: _last_whole(piece)]
        yield b'"%b"' % piece
        start += len(piece)


def _last_whole(piece: bytes) -> int:
    """Returns how many of its bytes are whole characters, when others follow."""
    end = len(piece)
    while end and piece[end - 1] & 0xC0 == 0x80:  # the last bytes of a longer character
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
    """Returns whether an escape begins here: a backslash after an even number of others."""
    if piece[at] != ord("\\"):
        return False
    before = piece[:at]
    return (at - len(before.rstrip(b"\\"))) % 2 == 0
