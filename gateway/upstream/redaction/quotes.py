"""Quotes: finds parts of an upstream's message that repeat the request. Its client may read them; they are not stored.

A quote is a part of ``LONG`` characters or more that any string of the request has too, or a whole text of its messages
if it is shorter (but has ``SHORT`` characters or more). Names of fields are not texts, nor is ``model``. Texts are
compared in lower case, without blanks, quotation marks and backslashes, and with escapes decoded, because upstreams
reflow and escape what they quote.

The time is linear in both lengths: the request is scanned once, in words of eight bytes, each with one look-up.
"""

import re
import sys
from array import array
from collections.abc import Iterator
from typing import Any

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.domain.secret_search import SearchView, Span, views

LONG = 24
"""The minimum length of a quoted part in characters; bytes of UTF-8 in other scripts."""
SHORT = 8
"""The minimum length of a quoted whole text, in characters as they are compared."""
LIMIT = 2 * 1024 * 1024
"""The maximum size of a request that is compared, in bytes. For a longer one, no message of the upstream is stored."""
WORD = 8
RUN = 2 * WORD - 1
"""The number of bytes in common that always contain an aligned word."""

_TEXTS = frozenset({"content", "text", "arguments", "input", "refusal", "reasoning_content", "prompt"})
_DROPPED = bytes(range(0x21)) + b"\"'`\\\x7f"
_LOWER = bytes(byte + 32 if ord("A") <= byte <= ord("Z") else byte for byte in range(256))


class Quotes:
    """The texts of one request."""

    def __init__(self, fields: Fields) -> None:
        self.comparable = sum(len(memoryview(raw)) for raw in fields.values()) <= LIMIT
        self._fields = fields
        self._text = b""
        """All long texts."""
        self._short_texts: list[bytes] = []
        if self.comparable:
            self._read()

    def spans(self, message: str) -> list[Span]:
        """Returns where a message quotes the request."""
        return [span for view in views(message) for span in self._spans_in(view)]

    def contains(self, word: str) -> bool:
        """Returns whether an identifier is from the request. A request that is too long must have all of it."""
        if self.comparable:
            return bool(self.spans(word))
        return len(word) >= SHORT and any(word.encode() in bytes(raw) for raw in self._fields.values())

    def _read(self) -> None:
        long_texts: list[bytes] = []
        for name, raw in self._fields.items():
            if name == "model":
                continue
            for string, is_text in _strings(rawjson.maybe(raw), name):
                normal = _normalize(string)
                if len(string) >= LONG or len(normal) >= LONG:
                    long_texts.append(normal)
                elif is_text and len(normal) >= SHORT:
                    self._short_texts.append(normal)
        del self._short_texts[:-2000]  # only the last ones are searched for
        self._text = b"\0".join(long_texts)

    def _spans_in(self, view: SearchView) -> Iterator[Span]:
        """Yields where one view of a message quotes the request."""
        message = _normalize(view.text)
        parts = list(self._long_parts(message))
        patterns = [re.escape(text) for text in self._short_texts if text in message]
        whole_spans = [match.span() for pattern in patterns for match in re.finditer(pattern, message)]
        if not (parts or whole_spans):
            return
        # the character of the view that each byte of the normalized message comes from
        indexes = [index for index, character in enumerate(view.text) for _ in _normalize(character)]
        for begin, end in parts:
            first, last = indexes[begin], indexes[end - 1]
            if max(end - begin, last - first + 1) >= LONG:
                yield view.places[first], view.places[last + 1]
        for begin, end in whole_spans:
            yield view.places[indexes[begin]], view.places[indexes[end - 1] + 1]

    def _long_parts(self, message: bytes) -> Iterator[Span]:
        """Yields the parts that a long text has too; all of the message if it repeats itself too much to compare."""
        text = self._text
        words = array("Q", text[: len(text) // WORD * WORD])
        shifted = (array("Q", message[shift:][: (len(message) - shift) // WORD * WORD]) for shift in range(WORD))
        if not text or set().union(*shifted).isdisjoint(words):
            return
        offsets: dict[int, list[int]] = {}
        for start in range(len(message) - WORD + 1):
            offsets.setdefault(int.from_bytes(message[start : start + WORD], sys.byteorder), []).append(start)
        places = (number for number, word in enumerate(words) if word in offsets)
        pairs = ((start, number * WORD) for number in places for start in offsets[words[number]])
        covered = bytearray(len(message))
        for count, (start, text_start) in enumerate(pairs):
            if count >= 20_000:
                yield 0, len(message)
                return
            if not (covered[start] and covered[start + WORD - 1]):
                begin, end = _extend(message, start, text, text_start)
                if end - begin >= RUN:
                    covered[begin:end] = b"x" * (end - begin)
                    yield begin, end


def _extend(message: bytes, start: int, text: bytes, text_start: int) -> Span:
    """Returns the part of the message around the word at ``start`` that equals the text around ``text_start``."""
    begin, end = start, start + WORD
    shift = text_start - start
    while begin > 0 and begin + shift > 0 and message[begin - 1] == text[begin + shift - 1]:
        begin -= 1
    while end < len(message) and end + shift < len(text) and message[end] == text[end + shift]:
        end += 1
    return begin, end


def _strings(value: Any, name: str) -> Iterator[tuple[str, bool]]:
    """Yields all strings of a JSON value in a field, and whether each is a text that people read."""
    stack: list[tuple[Any, str]] = [(value, name)]
    while stack:
        item, name = stack.pop()
        if isinstance(item, str):
            yield item, name in _TEXTS
        elif isinstance(item, dict):
            stack += ((inner, key) for key, inner in item.items())
        elif isinstance(item, list):
            stack += ((inner, name) for inner in item)


def _normalize(text: str) -> bytes:
    if not text.isascii():
        text = "".join(text.split())
    return text.encode("utf-8", "replace").translate(_LOWER, _DROPPED)
