"""Quotes: parts of an upstream's message that repeat the request. The client may read them, because it sent them; they
are not kept.

What counts as a quote: ``LONG`` characters or more in common with any string of the request, or the whole of a shorter
text of its messages (``SHORT`` characters or more). Compared is without blanks, quotation marks and backslashes and in
lower case, with escapes decoded, for upstreams reflow and escape what they quote. Names of fields are not texts, nor is
``model``.

Time is linear in both lengths: the request is looked through once, by words of eight bytes, each in one look-up.
"""

import sys
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.secret_search import SearchView, Span, views

LONG = 24
"""Characters; for text in other scripts, bytes of UTF-8."""
SHORT = 8
"""Characters of a whole text, as they are compared."""
LIMIT = 2 * 1024 * 1024
"""Bytes of a request that is compared; for a longer one no message of the upstream is kept."""
WORD = 8
RUN = 2 * WORD - 1
"""How many bytes in common certainly contain an aligned word."""

_TEXTS = frozenset({"content", "text", "arguments", "input", "refusal", "reasoning_content", "prompt"})
_DROPPED = bytes(range(0x21)) + b"\"'`\\\x7f"
_LOWER = bytes(byte + 32 if ord("A") <= byte <= ord("Z") else byte for byte in range(256))
_END = b"\0"

Fields = Mapping[str, msgspec.Raw]


class Quotes:
    """The texts of one request."""

    def __init__(self, fields: Fields) -> None:
        self.comparable = sum(len(memoryview(raw)) for raw in fields.values()) <= LIMIT
        """False: the request is too long."""
        self._fields = fields
        self._text: bytes | None = None
        self._words: array[int] = array("Q")
        self._shorts: list[bytes] = []

    def spans(self, message: str) -> list[Span]:
        """Returns where a message quotes the request."""
        if self._text is None:
            self._read()
        return [span for view in views(message) for span in self._spans_in(view)]

    def hold(self, word: str) -> bool:
        """Returns whether an identifier is from the request; one that is too long only as a whole."""
        if self.comparable:
            return bool(self.spans(word))
        return len(word) >= SHORT and any(word.encode() in bytes(raw) for raw in self._fields.values())

    def _read(self) -> None:
        """Prepare the texts for comparison."""
        longs: list[bytes] = []
        for name, raw in self._fields.items():
            if name == "model":
                continue
            for said, whole in _strings(rawjson.maybe(raw), name):
                plain = _comparable(said)
                if len(said) >= LONG or len(plain) >= LONG:
                    longs.append(plain)
                elif whole and len(plain) >= SHORT:
                    self._shorts.append(plain)
        del self._shorts[:-2000]  # the last ones are searched for
        self._text = text = _END.join(longs)
        self._words.frombytes(text[: len(text) // WORD * WORD])

    def _spans_in(self, view: SearchView) -> Iterator[Span]:
        message = _comparable(view.text)
        runs, wholes = list(self._runs(message)), list(self._wholes(message))
        owners = _owners(view.text) if runs or wholes else []
        for begin, end in runs:
            first, last = owners[begin], owners[end - 1]
            if max(end - begin, last - first + 1) >= LONG:
                yield view.starts[first], view.ends[last]
        for begin, end in wholes:
            yield view.starts[owners[begin]], view.ends[owners[end - 1]]

    def _runs(self, message: bytes) -> Iterator[Span]:
        """Yields parts of the message that are also in a long text; all of it if it repeats itself too much
        to be sure.
        """
        text = self._text or b""
        shifted = (array("Q", message[shift:][: (len(message) - shift) // WORD * WORD]) for shift in range(WORD))
        if not text or set().union(*shifted).isdisjoint(self._words):
            return
        offsets: dict[int, list[int]] = {}
        for start in range(len(message) - WORD + 1):
            offsets.setdefault(int.from_bytes(message[start : start + WORD], sys.byteorder), []).append(start)
        places = (number for number, word in enumerate(self._words) if word in offsets)
        pairs = ((start, number * WORD) for number in places for start in offsets[self._words[number]])
        covered = bytearray(len(message))
        for count, (start, place) in enumerate(pairs):
            if count >= 20_000:  # it takes a while
                yield 0, len(message)
                return
            if not (covered[start] and covered[start + WORD - 1]):
                begin, end = _grown(message, start, text, place)
                if end - begin >= RUN:
                    covered[begin:end] = b"x" * (end - begin)
                    yield begin, end

    def _wholes(self, message: bytes) -> Iterator[Span]:
        """Yields shorter texts that are in the message."""
        for short in self._shorts:
            start = message.find(short)
            while start >= 0:
                yield start, start + len(short)
                start = message.find(short, start + len(short))


def _grown(message: bytes, start: int, text: bytes, place: int) -> Span:
    """Returns the part of the message around ``start`` that equals the text around ``place``."""
    begin, end = start, start + WORD
    shift = place - start
    while begin > 0 and begin + shift > 0 and message[begin - 1] == text[begin + shift - 1]:
        begin -= 1
    while end < len(message) and end + shift < len(text) and message[end] == text[end + shift]:
        end += 1
    return begin, end


def _strings(value: Any, name: str) -> Iterator[tuple[str, bool]]:
    """Yields all strings of a JSON value, and whether each is a text that people read."""
    left: list[tuple[Any, str]] = [(value, name)]
    while left:
        item, name = left.pop()
        if isinstance(item, str):
            yield item, name in _TEXTS
        elif isinstance(item, dict):
            left += ((inner, key) for key, inner in item.items())
        elif isinstance(item, list):
            left += ((inner, name) for inner in item)


def _comparable(text: str) -> bytes:
    if not text.isascii():
        text = "".join(text.split())
    return text.encode("utf-8", "replace").translate(_LOWER, _DROPPED)


def _owners(text: str) -> list[int]:
    """Returns which character each byte of the comparable text comes from."""
    out: list[int] = []
    for number, char in enumerate(text):
        out += [number] * len(_comparable(char))
    return out
