"""Reads a request of megabytes: checked as ``json_body`` checks a small one, and made brief (see ``long_strings``).

This runs in a thread beside the event loop, and one call into C holds up both. So whatever looks at the whole body does
it slice by slice; the JSON decoder, which cannot, gets the brief text.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

import msgspec

from gateway.domain.conversation import BLANK_LIMIT
from gateway.domain.errors import BadRequest
from gateway.domain.long_strings import HEAD, TAIL, LongStrings, holds, mark_of
from gateway.domain.rawjson import Fields
from gateway.inbound import json_body as small
from gateway.inbound.json_body import BLANKS, USUAL, BodyLimits

LONG = 4 << 10
"""Bytes of a string that is shortened."""
SLICE = 128 << 10
SAME = 64 << 10
"""Bytes of a missing part that gets the number of one that is the same, so that equal ids and names stay equal. At the
top level a string that misses no more is left whole: some are looked into."""
MAX_NAME = 1 << 20
"""Bytes of the name of a field. Names are not shortened, for two must not become one."""

_MARKS = ("\x7f", *(chr(code) for code in range(0xE000, 0xE010)))
"""DEL, and some characters for private use: hardly any text has one of them."""
_ESCAPE = 6
"""Bytes of the longest escape."""
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_POSITION = re.compile(r"\(byte (\d+)\)")
_LOOK = 64
"""Bytes behind a string in which a colon tells that it is a name."""
_TEXT_DATA = b"data:text/"
"""Base64 of texts: translated requests say what is in it."""
_WHOLE_FIELDS = ("prediction",)
"""What the model may write again: its length counts."""
_BLANK = re.compile(rb"(?: |\\[nrt])*\\?\Z")

_check = msgspec.json.Decoder(msgspec.Raw).decode


class LargeBody(msgspec.Struct, frozen=True, gc=False):
    """What was read."""

    fields: Fields
    """The top level of the brief text."""
    brief: bytes
    mask: bytes
    """Digit that lone surrogates were masked with, in the whole text; empty: there were none."""
    long: LongStrings


def read_large(body: bytes, limits: BodyLimits = USUAL, *, long: int = LONG, step: int = SLICE) -> LargeBody:
    """Read and check the object. ``long`` and ``step`` are other than usual in tests alone.

    Raises BadRequest with the position where a parser would stop.
    """
    body = body.removeprefix(small.BOM)
    scan = _Scan(body, long, limits.bare)
    for part in slices(body, step):
        scan.take(part)
    keys = small.count_keys(b"".join(scan.skeleton), limits)
    made = _ShortenedBody(body, step, scan.strings)
    why, digit = "invalid utf-16 surrogate pair", b""
    fields: Fields | None = None
    try:
        fields = None if made.lone else small.parse(made.brief)
    except msgspec.DecodeError as error:
        why = str(error)
    if fields is None:
        digit = _free_digit(body, step)
        if not digit:
            raise small.invalid(made.placed(why))
        made.mask(digit)
        try:
            fields = small.parse(made.brief)
        except msgspec.DecodeError as error:
            raise small.invalid(made.placed(str(error))) from error
    if len(fields) != keys:
        raise small.repeated_key()
    strings = LongStrings(made.whole, made.mark_char, made.spans)
    for name, raw in fields.items():
        text = bytes(memoryview(raw)[:1]) == b'"'
        if made.spans and ((text and strings.hidden(raw) <= SAME) or name in _WHOLE_FIELDS):
            fields[name] = msgspec.Raw(strings.full(raw))
    return LargeBody(fields, made.brief, digit, strings)


def slices(text: bytes, step: int = SLICE) -> Iterator[bytes]:
    """The text in parts of some ``step`` bytes, at least 32, cut through no character, escape or pair of surrogates."""
    start = 0
    while start < len(text):
        end = _cut(text, start, start + step, len(text))
        yield text[start:end]
        start = end


def unmask_text(text: bytes, mask: bytes) -> bytes:
    """What was masked in a large text, put back; ``mask`` may be empty."""
    return b"".join([small.unmask(part, mask) for part in slices(text)]) if mask else text


def _cut(text: bytes, start: int, wanted: int, end: int) -> int:
    """Where a part that begins at ``start`` may end: at ``wanted`` or a few bytes before, or at the ``end``."""
    if wanted >= end:
        return end
    cut = wanted
    while text[cut] & 0xC0 == 0x80 and wanted - cut < 3:
        cut -= 1
    if b"\\" not in text[max(start, cut - _ESCAPE) : cut]:
        return cut
    part = text[start:cut].replace(b"\\\\", b"__")
    escape = part.rfind(b"\\", max(0, len(part) - _ESCAPE + 1))
    if escape >= 0 and part[escape + 1 : escape + 2] in (b"", b"u"):
        part = part[:escape]
    if _HIGH_SURROGATE.search(part, max(0, len(part) - _ESCAPE)):
        part = part[:-_ESCAPE]
    return start + len(part)


class _Scan:
    """Finds what is outside of strings, and the long strings."""

    def __init__(self, body: bytes, long: int, most_bare: int) -> None:
        self._body = body
        self._long = long
        self._most_bare = most_bare
        self._position = self._quotes = self._bare = 0
        self._opened = -1
        """Where the string began in which the last part ended."""
        self.skeleton: list[bytes] = []
        self.strings: list[tuple[int, int]] = []
        """Where those that may be shortened begin and end, without their quotation marks."""

    def take(self, part: bytes) -> None:
        """The next part of the body."""
        pieces = small.without_escapes(part).split(b'"')
        inside = self._opened >= 0
        ends_inside = inside is (len(pieces) % 2 == 1)
        self._count(len(pieces) - 1)
        self._keep(b"s".join(pieces[1::2] if inside else pieces[0::2]))
        strings = pieces[0::2] if inside else pieces[1::2]
        if len(pieces) > 1:
            if ends_inside:
                self._keep(b"s")
            if inside or max(map(len, strings)) >= self._long:
                self._note(pieces, inside)
            self._opened = self._position + len(part) - len(pieces[-1]) if ends_inside else -1
        self._position += len(part)

    def _count(self, quotes: int) -> None:
        self._quotes += quotes
        if self._quotes > small.MAX_QUOTES:
            raise small.too_many_strings()

    def _keep(self, outside: bytes) -> None:
        bare = outside.translate(None, BLANKS)
        self._bare += len(bare)
        if self._bare > self._most_bare:
            msg = f"the body has more than {self._most_bare} bytes outside of strings"
            raise BadRequest(msg, code="too_complex")
        self.skeleton.append(bare)

    def _note(self, pieces: list[bytes], inside: bool) -> None:  # noqa: FBT001 - where the first piece is
        """The long ones of those strings that end in this part."""
        ends = list(accumulate(map(len, pieces)))
        for i in range(0 if inside else 1, len(pieces) - 1, 2):
            end = self._position + ends[i] + i
            start = self._opened if i == 0 else end - len(pieces[i])
            if end - start >= self._long and not self._stays(start, end):
                self.strings.append((start, end))

    def _stays(self, start: int, end: int) -> bool:
        """Whether a string is not shortened: it names a field, or what it says matters (see ``turns`` for blanks)."""
        behind = self._body[end + 1 : end + 1 + _LOOK].lstrip(BLANKS)[:1]
        if behind not in (b"", b":"):
            head = self._body[start : start + HEAD]
            blank = end - start <= BLANK_LIMIT and _BLANK.match(head) is not None
            return blank or head.lower().startswith(_TEXT_DATA)
        if end - start > MAX_NAME:
            msg = f"the name of a field is longer than {MAX_NAME >> 20} MiB"
            raise BadRequest(msg, code="too_complex")
        return True


class _ShortenedBody:
    """The brief text of a body, and the check of what is not in it."""

    def __init__(self, body: bytes, step: int, strings: list[tuple[int, int]]) -> None:
        """Raises BadRequest for what is not JSON or not UTF-8."""
        self.whole = body
        self._step = step
        self.lone = False
        """A missing part has a lone surrogate."""
        self.spans: list[tuple[int, int]] = []
        """The missing parts by number."""
        self._marks: list[tuple[int, int, int]] = []
        """Where parts are missing, and their numbers."""
        self.mark_char = _free_mark(body) if strings else ""
        self.brief = self._make(strings) if self.mark_char else body
        position = 0
        for part in () if self.brief.isascii() else slices(self.brief, step):
            if (fault := _fault(part)) >= 0:
                raise small.not_utf8(self._place(position + fault))
            position += len(part)

    def mask(self, digit: bytes) -> None:
        """Mask the surrogates of the brief and the whole text."""
        self.whole = b"".join([small.mask_surrogates(part, digit) for part in slices(self.whole, self._step)])
        self.brief = b"".join([small.mask_surrogates(part, digit) for part in slices(self.brief, self._step)])

    def placed(self, message: str) -> str:
        """What the decoder says of the brief text, with the position in the whole one."""
        return _POSITION.sub(lambda found: f"(byte {self._place(int(found[1]))})", message)

    def _make(self, strings: list[tuple[int, int]]) -> bytes:
        parts: list[bytes] = []
        mark, position = self.mark_char.encode(), 0
        known: dict[bytes, int] = {}
        for start, end in strings:
            first = last = _cut(self.whole, start, start + HEAD, end)
            while (cut := _cut(self.whole, last, min(last + self._step, end - TAIL), end)) > last:
                self._check(self.whole[last:cut], last)
                last = cut
            if last > first:
                number = self._number(first, last, known)
                parts += (self.whole[position:first], mark_of(number, last - first, mark))
                position = last
        parts.append(self.whole[position:])
        return b"".join(parts)

    def _number(self, first: int, last: int, known: dict[bytes, int]) -> int:
        """Of a missing part; the same one of parts that are the same."""
        number = len(self.spans)
        if last - first <= SAME:
            number = known.setdefault(self.whole[first:last], number)
        if number == len(self.spans):
            self.spans.append((first, last))
        self._marks.append((first, last, number))
        return number

    def _check(self, part: bytes, position: int) -> None:
        """A part of a string."""
        if (fault := _fault(part)) >= 0:
            raise small.not_utf8(position + fault)
        try:
            _check(b'"' + part + b'"')
        except msgspec.DecodeError as error:
            masked, digit = small.mask(part)
            try:
                _check(b'"' + masked + b'"')
            except msgspec.DecodeError:
                msg = _POSITION.sub(lambda found: f"(byte {position + int(found[1]) - 1})", str(error))
                raise small.invalid(msg) from error
            self.lone = self.lone or bool(digit)

    def _place(self, position: int) -> int:
        """Where in the whole text a position of the brief one is."""
        for start, end, number in self._marks:
            if position <= start:
                break
            position += end - start - len(mark_of(number, end - start, self.mark_char.encode()))
        return position


def _fault(part: bytes) -> int:
    """Where the first byte is that is not UTF-8; -1: all of it is."""
    try:
        part.isascii() or part.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def _free_mark(body: bytes) -> str:
    """A character that the body does not have; empty if it has them all."""
    for char in _MARKS:
        escape = b"\\u%04x" % ord(char)
        spellings = {char.encode(), escape, escape.upper().replace(b"\\U", b"\\u")}
        if not any(holds(body, spelling) for spelling in spellings):
            return char
    return ""


def _free_digit(body: bytes, step: int) -> bytes:
    """A first digit that no escape of the body has; empty if there is none."""
    if holds(body, b"\0"):  # not JSON at all, and the stand-in for an escaped backslash
        return b""
    for digit in small.STAND_INS:
        if not any(b"\\u" + digit in part.replace(b"\\\\", b"\0") for part in slices(body, step)):
            return digit
    return b""
