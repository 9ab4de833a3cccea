r"""JSON whose values are left as they were sent, and how many elements it has.

What is not looked at is thus passed on untouched: numbers, escapes, unknown fields. A lone surrogate escape such as
``\ud83d`` is legal JSON, but msgspec refuses it; such a value is read by the standard library and written again.

Some servers write ``NaN`` or ``Infinity``, which is not JSON, or numbers beyond all bounds. Such a value is read as
null, a count of tokens as -1, so that it is not taken for one that was left out: one odd number does not lose an
answer.

Elements of a large answer are counted before it is decoded: 37 MB of ``{},`` would take a gigabyte. They are counted by
their commas. Long texts contain many commas, too, so a body with many of them is looked at more closely, without its
strings. Log probabilities have more elements than the rest of an answer together; where they pass unopened, they do not
count.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain.long_strings import holds

Fields = dict[str, msgspec.Raw]

NULL = msgspec.Raw(b"null")

_ODD = object()
"""Stands for a number that is none."""
_DIGITS = 400
_COUNT = re.compile(r"token|_n\Z", re.IGNORECASE)
"""Names of counts of tokens; ``prompt_n`` and the like are llama.cpp's."""

_REFUSED = (msgspec.DecodeError, RecursionError)

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[Fields])
_TEXT = msgspec.json.Decoder(str)


def encode(value: object) -> bytes:
    """Compact JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":"), default=_load_raw).encode()


def raw(value: object) -> msgspec.Raw:
    """A value to be put among raw ones."""
    return msgspec.Raw(encode(value))


def fields(data: bytes | msgspec.Raw) -> Fields:
    """The values of an object by name. Raises ValueError when the bytes are not a JSON object."""
    try:
        return _FIELDS.decode(data)
    except _REFUSED:
        found = _load(data)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of error for bytes that are not what was expected
    return {name: _dump(value) for name, value in found.items()}


def items(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The elements of an array. Raises ValueError when the bytes are not a JSON array."""
    try:
        return _ITEMS.decode(data)
    except _REFUSED:
        found = _load(data)
    if not isinstance(found, list):
        raise ValueError("not a JSON array")  # noqa: TRY004
    return [_dump(value) for value in found]


def objects(data: bytes | msgspec.Raw) -> list[Fields]:
    """The elements of an array of objects. Raises ValueError when the bytes are none."""
    try:
        return _OBJECTS.decode(data)
    except _REFUSED:
        return [fields(item) for item in items(data)]


def text(data: bytes | msgspec.Raw) -> str:
    """A string. Raises ValueError when the bytes are not a JSON string."""
    try:
        return _TEXT.decode(data)
    except _REFUSED:
        found = _load(data)
    if not isinstance(found, str):
        raise ValueError("not a JSON string")  # noqa: TRY004
    return found


def value(data: bytes | msgspec.Raw | None) -> Any:
    """Any value, decoded completely; None when there is none. Raises ValueError when the bytes are not JSON."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except _REFUSED:
        return _load(data)


def maybe(data: bytes | msgspec.Raw | None) -> Any:
    """As ``value``, but None when the bytes are not JSON."""
    try:
        return value(data)
    except ValueError:
        return None


def is_null(data: msgspec.Raw | None) -> bool:
    """Whether a value is absent or null."""
    return data is None or data == NULL


def _load(data: bytes | msgspec.Raw) -> Any:
    try:
        found = json.loads(bytes(data), parse_constant=_odd, parse_float=_float, parse_int=_int)
        return _tame(found) if isinstance(found, dict | list) else None if found is _ODD else found
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _odd(_: str) -> object:
    return _ODD


def _float(digits: str) -> object:
    number = float(digits)
    return number if math.isfinite(number) else _ODD


def _int(digits: str) -> object:
    return int(digits) if len(digits) < _DIGITS else _ODD


def _tame(found: Any) -> Any:
    """The same value, with the odd numbers in it replaced."""
    holders = [found]
    while holders:
        holder = holders.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if item is _ODD:
                holder[key] = -1 if isinstance(key, str) and _COUNT.search(key) else None
            elif isinstance(item, dict | list):
                holders.append(item)
    return found


def _dump(found: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(found, separators=(",", ":")).encode())


def _load_raw(value: object) -> Any:
    if isinstance(value, msgspec.Raw):
        return _load(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


MOST_ELEMENTS = 1_000_000
"""Decoded they take some 250 MiB at the worst."""
MOST_UNOPENED = 4_000_000
"""Elements of log probabilities: thirty thousand tokens with twenty alternatives each."""
SMALL = 1 << 20
"""Bytes of a text that is not counted."""
STEP = 64 << 10
"""Bytes that are looked at together: they are split at every quote."""
_QUOTES = 4000
"""Quotes that are searched for one by one."""
_WINDOW = 64
"""Bytes in front of a quote in which backslashes are counted."""
_BACKSLASH = ord("\\")


class TooManyElements(ValueError):
    """An answer is not decoded."""


class _ProbedChoice(msgspec.Struct, gc=False):
    logprobs: msgspec.Raw = NULL


class _ProbedAnswer(msgspec.Struct, gc=False):
    choices: list[_ProbedChoice] = []


_PROBED = msgspec.json.Decoder(_ProbedAnswer)


def refuse_many_elements(text: bytes, *, opens_logprobs: bool = True) -> None:
    """Raises TooManyElements if there are more than any real answer has."""
    if len(text) <= SMALL or not _has_more(text, MOST_ELEMENTS):
        return
    most = MOST_ELEMENTS if opens_logprobs or not holds(text, b'"logprobs"') else MOST_UNOPENED
    found = count_elements(text, most)
    if MOST_ELEMENTS < found <= most:
        found -= _count_unopened(text)
    if found > MOST_ELEMENTS:
        msg = f"it has more than {MOST_ELEMENTS:,} elements"
        raise TooManyElements(msg)


def count_elements(text: bytes, most: int) -> int:
    """Commas outside strings; as soon as there are more than ``most`` the rest is not counted."""
    count = 0
    for part in _structure(text):
        count += part.count(b",")
        if count > most:
            break
    return count


def _has_more(text: bytes, most: int) -> bool:
    """Whether there are more commas than that, without those in the first strings: these may be very long."""
    count, rest = _past_strings(text)
    for start in range(rest, len(text), STEP):
        count += text.count(b",", start, start + STEP)
        if count > most:
            return True
    return False


def _past_strings(text: bytes) -> tuple[int, int]:
    """Commas outside of the first strings, and the position behind them.

    A search for the end of a long string takes a tenth of the time that counting in it takes.
    """
    count = at = outside = 0
    inside = False
    for _ in range(_QUOTES):
        quote = text.find(b'"', at)
        if quote < 0:
            break
        if not inside:
            count += text.count(b",", outside, quote)
            inside = True
        else:
            before = text[max(0, quote - _WINDOW) : quote]
            backslashes = len(before) - len(before.rstrip(b"\\"))
            if backslashes == _WINDOW:
                break
            inside, outside = backslashes % 2 == 1, quote + 1
        at = quote + 1
    return count, at if inside else outside


def _structure(text: bytes) -> Iterator[bytes]:
    """The text outside of strings, step by step."""
    inside = start = 0
    while start < len(text):
        end = start + STEP
        while end < len(text) and text[end - 1] == _BACKSLASH:  # no escape is cut
            end += 1
        part = text[start:end]
        if b"\\" in part:
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = part.split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) + 1 & 1
        start = end


def _count_unopened(text: bytes) -> int:
    """Elements of the log probabilities of all choices."""
    try:
        choices = _PROBED.decode(text).choices
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(count_elements(bytes(choice.logprobs), MOST_UNOPENED) for choice in choices if choice.logprobs != NULL)


class ObjectEnd:
    """Finds the end of a JSON object that comes in pieces. Each character is looked at once."""

    _MARKS = re.compile(r'["\\{}\[\]]')

    def __init__(self) -> None:
        self._begun = False
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self.reached = False

    def add(self, text: str) -> None:
        """More of it. What follows the end, except for blanks, means that it was none."""
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
        """One character that counts; returns where to go on."""
        if mark == "\\":
            self._escaped = self._quoted and place + 1 == size
            return place + (2 if self._quoted else 1)
        if mark == '"':
            self._quoted = not self._quoted
        elif not self._quoted:
            self._depth += 1 if mark in "{[" else -1
            self.reached = self._depth == 0
        return place + 1
