"""Long strings: the middles of long JSON strings, taken out of a large text so that it can be read and edited quickly.

What is left is the *brief* text. In it a long string has its beginning, a mark, and its end. The mark names the part
that is missing and its size. It consists of a character that the text does not have, whether as it is or as an escape,
and that every JSON decoder and encoder leaves as it is. So the brief text can be decoded, edited, translated and
encoded again, and ``filled`` puts back what is missing, byte by byte as it came. A string must stay one while it is
edited: what makes JSON of a string's content needs the whole string, see ``full``.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

HEAD, TAIL = 512, 64
"""Bytes of a long string that stay, about so many: they show media types, and spaces at the ends."""

STEP = 1 << 20
"""Bytes that are looked through at once."""

Buffer = bytes | memoryview

_PAIR = 13
"""Bytes of an escaped pair of surrogates, and one more."""
_decode = msgspec.json.Decoder(str).decode


class LongStrings(msgspec.Struct, frozen=True, gc=False):
    """What was taken out of one text."""

    text: bytes
    """The whole of it."""
    mark: str
    """The character that a mark begins and ends with; empty: nothing was taken out."""
    spans: Sequence[tuple[int, int]]
    """Where in the whole text the missing parts begin and end."""

    def hidden(self, brief: str | bytes | msgspec.Raw) -> int:
        """Bytes that are missing in a part of the brief text."""
        if not self.mark:
            return 0
        if isinstance(brief, str):
            return sum(int(found[2]) for found in _pattern(self.mark).finditer(brief)) if self.mark in brief else 0
        data, mark = bytes(brief), self.mark.encode()
        return sum(int(found[2]) for found in _byte_pattern(mark).finditer(data)) if mark in data else 0

    def parts(self, brief: str) -> list[str | memoryview]:
        """A decoded text in pieces, the missing ones as JSON."""
        if not self.mark or self.mark not in brief:
            return [brief]
        found: list[str | memoryview] = []
        whole, position = memoryview(self.text), 0
        for mark in _pattern(self.mark).finditer(brief):
            start, end = self.spans[int(mark[1])]
            found += (brief[position : mark.start()], whole[start:end])
            position = mark.end()
        return [*found, brief[position:]]

    def filled(self, brief: bytes) -> list[Buffer]:
        """The brief text with everything put back, in pieces.

        Raises ValueError when it would be larger than twice the whole text: nothing is repeated so often.
        """
        if not self.mark:
            return [brief]
        pieces: list[Buffer] = []
        whole, size, position = memoryview(self.text), len(brief), 0
        for found in _byte_pattern(self.mark.encode()).finditer(brief):
            start, end = self.spans[int(found[1])]
            size += end - start
            if size > 2 * len(self.text):
                msg = "a long string of the request would be sent again and again"
                raise ValueError(msg)
            pieces += (brief[position : found.start()], whole[start:end])
            position = found.end()
        pieces.append(brief[position:])
        return pieces

    def clipped(self, brief: bytes) -> bytes:
        """The brief text with an ellipsis instead of every mark."""
        return _byte_pattern(self.mark.encode()).sub("…".encode(), brief) if self.mark else brief

    def full(self, brief: bytes | msgspec.Raw) -> bytes:
        """The same as one piece."""
        return b"".join(self.filled(bytes(brief)))

    def whole_fields(self, fields: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
        """The fields of the brief text with everything put back."""
        if not self.mark:
            return fields
        return {name: msgspec.Raw(self.full(raw)) for name, raw in fields.items()}


NOTHING_LONG = LongStrings(b"", "", ())
"""Of a text that is brief as it is."""


def holds(text: bytes, word: bytes) -> bool:
    """The same as ``in``, in steps: for one look through 30 MB C code may take 60 ms."""
    return any(text.find(word, start, start + STEP + len(word)) >= 0 for start in range(0, len(text), STEP))


def mark_of(number: int, size: int, mark: bytes) -> bytes:
    """What stands for a part of the whole text."""
    return b"%b%d:%d%b" % (mark, number, size, mark)


def _pattern(mark: str) -> "re.Pattern[str]":
    return re.compile(f"{mark}([0-9]+):([0-9]+){mark}")


def _byte_pattern(mark: bytes) -> "re.Pattern[bytes]":
    return re.compile(mark + rb"([0-9]+):([0-9]+)" + mark)


def text_within(json: bytes) -> str:
    """What a piece from the middle of a JSON string says. It may begin and end within an escape or a character."""
    json = json.decode("utf-8", "ignore").encode()
    for first in range(_PAIR):
        for last in range(len(json), len(json) - _PAIR, -1):
            try:
                return _decode(b'"' + json[first:last] + b'"')
            except msgspec.DecodeError:
                continue
    return json.decode()
