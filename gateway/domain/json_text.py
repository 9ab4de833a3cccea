"""JSON text that is searched and counted as it is written, because bodies may be large.

The elements of a large answer are counted, by their commas, before it is decoded: 37 MB of ``{},`` would take a
gigabyte. Log probabilities have more elements than the rest of an answer; where they pass undecoded, they do not count.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest

Value = TypeVar("Value")

_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")


def plain_escapes(data: bytes | msgspec.Raw) -> bytes:
    """Returns JSON text for searching: escaped letters, digits and marks stand for themselves."""
    text = bytes(data)
    return _ASCII_ESCAPE.sub(_unescape, text) if b"\\u00" in text else text


def _unescape(match: "re.Match[bytes]") -> bytes:
    char = bytes((int(match[1], 16),))
    return match[0] if char in b'"\\' else char


def refuse_repeated(keys: int, *texts: bytes | msgspec.Raw) -> None:
    """Raises BadRequest unless these JSON texts have as many keys as were read in all their objects."""
    if keys != sum(map(_written_keys, texts)):
        raise BadRequest("an object of the body has a key twice; send each field once", code="duplicate_key")


def _written_keys(data: bytes | msgspec.Raw) -> int:
    text = bytes(data)
    return sum(part.count(b":") for part in _outside_strings(text)) if b"{" in text else 0


def _outside_strings(text: bytes) -> Iterator[bytes]:
    """Yields the text without its strings, in steps, because a large text takes a while."""
    inside = start = 0
    while start < len(text):
        end = start + (64 << 10)  # split at every quote at once
        while end < len(text) and text[end - 1] == ord("\\"):  # no escape is cut
            end += 1
        part = text[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) + 1 & 1
        start = end


def read_typed(decoder: "msgspec.json.Decoder[Value]", raw: bytes | msgspec.Raw, where: str) -> Value:
    """Returns a decoded value of a request. Raises BadRequest that names the place at fault; ``where`` is the value's
    own.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        place = (where + path.rstrip("`")).lstrip(".")
        raise BadRequest(f"{place}: {what}", code="invalid_type", param=place) from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", code="too_deep") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"{where} is not valid JSON: {error}", code="invalid_json", param=where) from error


MOST_ELEMENTS = 1_000_000
"""The most elements that are decoded: some 250 MiB at worst."""
MOST_UNOPENED = 4_000_000
"""The most elements of log probabilities: thirty thousand tokens with twenty alternatives each."""
SMALL = 1 << 20
"""The size in bytes up to which a text is not counted."""


class TooManyElements(ValueError):
    """An answer has too many elements to be decoded."""


class _ProbedChoice(msgspec.Struct, gc=False):
    logprobs: msgspec.Raw = rawjson.NULL


class _ProbedAnswer(msgspec.Struct, gc=False):
    choices: list[_ProbedChoice] = []


_PROBED = msgspec.json.Decoder(_ProbedAnswer)


def refuse_many_elements(text: bytes, *, opens_logprobs: bool = True) -> None:
    """Raises TooManyElements for more elements than any real answer has."""
    if len(text) <= SMALL:
        return
    most = MOST_ELEMENTS if opens_logprobs or b'"logprobs"' not in text else MOST_UNOPENED
    count = count_elements(text, most)
    if MOST_ELEMENTS < count <= most:
        count -= _count_unopened(text)
    if count > MOST_ELEMENTS:
        raise TooManyElements(f"it has more than {MOST_ELEMENTS:,} elements")


def count_elements(text: bytes, most: int) -> int:
    """Returns the commas outside of strings, counting only until there are more than ``most``."""
    count = 0
    for part in _outside_strings(text):
        count += part.count(b",")
        if count > most:
            break
    return count


def _count_unopened(text: bytes) -> int:
    """Returns the elements of the log probabilities of all choices."""
    try:
        choices = _PROBED.decode(text).choices
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(count_elements(bytes(choice.logprobs), MOST_UNOPENED) for choice in choices)


class ObjectEnd:
    """Finds the end of a JSON object that comes in pieces. Each character is examined once."""

    _MARKS = re.compile(r'["\\{}\[\]]')

    def __init__(self) -> None:
        self._begun = False
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self.reached = False

    def add(self, text: str) -> None:
        """Add a piece. Anything but blanks after the end means that it was not an object."""
        if not self._begun or self.reached:
            text = text.lstrip(" \t\r\n")
        if text and (self.reached or (not self._begun and text[0] != "{")):
            self.reached, self._depth = False, -1
        if not text or self._depth < 0:
            return
        self._begun = True
        start = 0
        if self._escaped:
            self._escaped, start = False, 1
        for mark in self._MARKS.finditer(text, start):
            if mark.start() >= start:
                start = self._take(mark[0], mark.start(), len(text))
            if self.reached:
                break
        if self.reached and text[start:].strip(" \t\r\n"):
            self.reached, self._depth = False, -1

    def _take(self, mark: str, place: int, size: int) -> int:
        """Take one significant character. Returns where to go on."""
        if mark == "\\":
            self._escaped = self._quoted and place + 1 == size
            return place + (2 if self._quoted else 1)
        if mark == '"':
            self._quoted = not self._quoted
        elif not self._quoted:
            self._depth += 1 if mark in "{[" else -1
            self.reached = self._depth == 0
        return place + 1
