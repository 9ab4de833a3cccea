"""JSON text: searches and counts in JSON that is not decoded, because bodies may be large.

The elements of a large answer are counted by their commas before it is decoded: 37 MB of ``{},`` would take a gigabyte.
Log probabilities have more elements than the rest of an answer; where they are passed on undecoded, they do not count.
"""

import codecs
import json
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from gateway.domain import rawjson

_LONE_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_LONE_LOW_SURROGATE = re.compile(rb"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_CUT_ESCAPE = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_STEP = 64 << 10
"""How many bytes of a text are decoded or searched at once."""
_PIECE = 4 << 10
"""How many bytes of a text are split at once."""
_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")


def contains(text: bytes | msgspec.Raw, word: bytes) -> bool:
    """Returns whether a word is in a large text, in a fifth of the time that ``in`` takes."""
    return bytes(text).rfind(word) >= 0


def plain_escapes(data: bytes | msgspec.Raw) -> bytes:
    """Returns JSON text for searching: its letters, digits and punctuation are not escaped."""
    text = bytes(data)
    for digits in {match[1] for match in _ASCII_ESCAPE.finditer(text)} if contains(text, b"\\u00") else ():
        char = bytes.fromhex(digits.decode())
        text = text if char in b'"\\' else text.replace(b"\\u00" + digits, char)
    return text


def count_braces(text: bytes) -> int:
    """Returns how many ``{`` a text has. ``replace`` is ten times as fast, but slow, for all threads, if many come."""
    return text.count(b"{") if len(text) > SMALL else len(text) - len(text.replace(b"{", b""))


def text_count(raw: msgspec.Raw | None) -> int:
    """Returns how many texts a value has, which may be one text, an array of them, or either as numbers."""
    try:
        items = rawjson.items(rawjson.NULL if raw is None else raw)
    except ValueError:  # one text, or none
        return 1
    return len(items) if items and bytes(memoryview(items[0])[:1]) in (b'"', b"[") else 1


def may_have_more_objects(text: bytes, objects: int, texts: list[str]) -> bool:
    """Returns whether JSON text may have more objects than were decoded, because a key comes twice.

    ``texts`` are the decoded texts. An escaped ``{`` in a text could take the place of one that begins an object.
    """
    braces = count_braces(text)
    if braces == objects:
        return False
    in_texts = count_braces("".join(texts).encode("latin-1", "replace"))
    return braces != objects + in_texts or contains(text, b"\\u007")


def as_utf8(text: bytes) -> bytes:
    """Returns JSON text in UTF-8, with U+FFFD in place of what is invalid in it, such as a character cut in two."""
    if text.isascii():
        return text
    try:
        if len(text) <= _STEP:
            text.decode()
        else:
            deque(_decode_in_steps(text, "utf-8", "strict"), maxlen=0)
    except UnicodeDecodeError:
        return b"".join([part.encode() for part in _decode_in_steps(text, json.detect_encoding(text), "replace")])
    return text


def _decode_in_steps(text: bytes, encoding: str, errors: str) -> Iterator[str]:
    """Yields a text in parts, because a large one decoded at once takes much memory. Raises UnicodeDecodeError."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for start in range(0, len(text), _STEP):
        yield decoder.decode(text[start : start + _STEP], start + _STEP >= len(text))


def replace_lone_surrogates(text: bytes) -> bytes:
    r"""Returns JSON text with U+FFFD in place of lone surrogates such as ``\ud83d``.

    They are legal JSON, and SDKs send them that cut a text within an emoji, but strict decoders refuse them.
    """
    if b"\0" in text:  # not JSON, and it stands for an escaped backslash here
        return text
    parts: list[bytes] = []
    start = 0
    while start < len(text):  # in steps, because no other thread runs during a search
        part = text[start : start + _STEP]
        if start + len(part) < len(text):
            part = part[: uncut_length(part)]
        start += len(part)
        part = _LONE_HIGH_SURROGATE.sub(rb"\\ufffd", part.replace(b"\\\\", b"\0"))
        parts.append(_LONE_LOW_SURROGATE.sub(rb"\\ufffd", part).replace(b"\0", b"\\\\"))
    return b"".join(parts)


def uncut_length(text: bytes) -> int:
    """Returns the length of the beginning of a JSON string without what its end cuts: an escape, or two surrogates."""
    match = _CUT_ESCAPE.search(text.replace(b"\\\\", b"\0\0"), max(0, len(text) - len(rb"\ud83d\ude0")))
    return match.start() if match else len(text)


PIECE = 32 * 1024
"""A JSON string is split after about this many bytes."""


def pieces(text: bytes | msgspec.Raw) -> Iterator[bytes]:
    """Yields a JSON string as several with the same content."""
    view = memoryview(text)
    start, stop = 1, len(view) - 1
    while start < stop:
        end = min(start + PIECE, stop)
        while end < stop and view[end] & 0xC0 == 0x80:  # no character is split
            end += 1
        piece = bytes(view[start:end])
        if end < stop:
            piece = piece[: uncut_length(piece)]
        yield b'"%b"' % piece
        start += len(piece)


def outside_strings(text: bytes) -> Iterator[bytes]:
    """Yields the text without its strings, in parts, so that a caller can stop early.

    It is split piece by piece. A string is skipped up to its next quote, in a fiftieth of the time of splitting.
    """
    in_string = 0  # 1 within a string
    start = 0
    while start < len(text):
        piece = text[start : start + _PIECE]
        if _ends_in_escape(piece):
            piece = text[start : start + _PIECE + 1]
        start += len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[in_string::2])
        in_string = (in_string + len(parts) - 1) % 2  # each quote begins or ends a string
        if in_string:
            quote = text.find(b'"', start)
            if quote < 0:
                break
            start = quote - _ends_in_escape(text[start:quote])


def _ends_in_escape(text: bytes) -> bool:
    """Returns whether a text of JSON ends with a backslash that escapes what follows."""
    return text.endswith(b"\\") and (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


MAX_ELEMENTS = 1_000_000
"""The maximum number of elements that are decoded. They take up to 250 MiB."""
MAX_LOGPROBS = 4_000_000
"""The maximum number of elements of log probabilities: thirty thousand tokens with twenty alternatives each."""
SMALL = 1 << 20
"""Elements are not counted in texts of up to this many bytes."""


def nested_value(text: str) -> Any:
    """Returns the value of JSON that came in a string; None if it is not JSON, or too large to be decoded uncounted."""
    return rawjson.maybe(text.encode("utf-8", "surrogatepass")) if len(text) <= SMALL else None


class TooManyElements(ValueError):
    """An answer has too many elements to be decoded."""


class _ProbedChoice(msgspec.Struct, gc=False):
    logprobs: msgspec.Raw = rawjson.NULL


class _ProbedAnswer(msgspec.Struct, gc=False):
    choices: list[_ProbedChoice] = []


_PROBED = msgspec.json.Decoder(_ProbedAnswer)


def refuse_many_elements(text: bytes, *, opens_logprobs: bool = True) -> None:
    """Raises TooManyElements for more than any real answer has. ``opens_logprobs``: these are decoded too."""
    if len(text) <= SMALL:
        return
    limit = MAX_ELEMENTS if opens_logprobs or b'"logprobs"' not in text else MAX_LOGPROBS
    count = count_elements(text, limit)
    if MAX_ELEMENTS < count <= limit:
        with suppress(msgspec.DecodeError, RecursionError):
            choices = _PROBED.decode(text).choices
            count -= sum(count_elements(bytes(choice.logprobs), MAX_LOGPROBS) for choice in choices)
    if count > MAX_ELEMENTS:
        raise TooManyElements(f"it has more than {MAX_ELEMENTS:,} elements")


def count_elements(text: bytes, limit: int) -> int:
    """Returns the number of commas outside strings, or a number above ``limit`` if there are more."""
    count = 0
    for part in outside_strings(text):
        count += part.count(b",")
        if count > limit:
            break
    return count


_IN_STRING = re.compile(r'"|\\(?:.|\Z)', re.DOTALL)
_OUTSIDE = re.compile(r'["{}\[\]]')


class ObjectEnd:
    """Finds the end of a JSON object that is received in pieces. Each character is examined once.

    No model writes an object of a million characters: more are not examined.
    """

    def __init__(self) -> None:
        self._size = 0
        self._begun = False
        self.depth = 0
        """How many objects and arrays are open; less than 0 if the text is not an object, or too long."""
        self._quoted = False
        self._escaped = False
        """Whether the last piece ended with a backslash that escapes what follows."""
        self.reached = False
        """Whether the object is complete."""

    def add(self, text: str) -> None:
        """Examine the next piece. If anything but whitespace follows the end, the text is not an object."""
        if not self._begun or self.reached:
            text = text.lstrip(" \t\r\n")
        self._size += len(text)
        if self._size > 1 << 20 or (text and (self.reached or (not self._begun and text[0] != "{"))):
            self.reached, self.depth = False, -1
        if not text or self.depth < 0:
            return
        self._begun = True
        position = int(self._escaped)
        self._escaped = False
        while not self.reached:
            mark = (_IN_STRING if self._quoted else _OUTSIDE).search(text, position)
            if mark is None:
                break
            position = mark.end()
            if mark[0] == '"':
                self._quoted = not self._quoted
            elif self._quoted:
                self._escaped = mark[0] == "\\"
            else:
                self.depth += 1 if mark[0] in "{[" else -1
                self.reached = self.depth == 0
        if self.reached and text[position:].strip(" \t\r\n"):
            self.reached, self.depth = False, -1
