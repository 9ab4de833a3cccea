"""Needles: bytes that a line of the log must hold if a text or a number of its call is a wanted one.

They are searched for in whole blocks of lines, which is a hundred times faster than decoding the lines. A needle may be
found in a line that is not wanted, never missing from one that is. Text is compared without case: bytes are
lower-cased, which does for ASCII; what else folds to a wanted text (``ß`` to ``ss``, the sign of Kelvin to ``k``) is
searched for as it is, or makes every line of its block a candidate.
"""

import re
from collections.abc import Iterator
from itertools import chain, groupby, islice, product

import msgspec

from gateway.domain.call import Attempt, FailureKind, Record
from gateway.domain.query import INFINITE
from gateway.domain.usage import UsageSource

DENSE = 1 << 10
"""Bytes of a block for each hit: if there are more hits, decoding all lines is faster than cutting out each."""

FORMS = 8
"""So many ways to write a text are searched for; a text with more is searched for by a part of it."""

FIXED = (
    b'"channel":"ch_',
    b'"token":"tok_',
    b'"finish":"stop"',
    b'"finish":"tool_calls"',
    b'"upstream_id":"chatcmpl-',
    *(b'"source":"%s"' % source.encode() for source in UsageSource),
    *(b'"kind":"%s"' % kind.encode() for kind in FailureKind),
    *(b'"%s":' % field.encode() for field in sorted({*Record.__struct_fields__, *Attempt.__struct_fields__})),
)
"""Bytes of many lines that are not part of a text: a word such as ``token`` is not to be found in every line."""

MANY = 8
"""So many of them are blotted out; a word that is in more of them is short, and found anyway."""

RARE = 4
"""Characters of a text that is not found everywhere."""

SEVERAL = tuple(chain(range(0x80, 0x2130), range(0xFB00, 0xFB18)))
"""All characters that fold to several, or to ASCII without being ASCII, are among these."""

FOLDED = range(0x80, 0x20000)
"""All other characters that fold to another one are among these."""


class TextNeedle:
    """A text in any mix of cases, as it is written in JSON, between two fixed pieces of bytes."""

    def __init__(self, text: str, before: bytes = b"", after: bytes = b"") -> None:
        """``text`` is casefolded; one that is empty is found everywhere."""
        part = text if text.isascii() else _searchable(text)
        whole = part == text
        self.forms = tuple(
            b"%s%s%s" % (before if whole else b"", form, after if whole else b"") for form in _forms(part)
        )
        uncertain = sorted(char.encode() for char in _unfold(part))
        self._uncertain = {first: list(chars) for first, chars in groupby(uncertain, key=lambda char: char[:1])}
        fixed = tuple(one for one in FIXED if not before and any(form in one for form in self.forms))
        self._fixed = fixed if len(fixed) <= MANY else ()

    def hits(self, block: bytes) -> list[int] | None:
        """Offsets in the block; None if every line of it is to be looked at."""
        if not block.isascii() and any(self._doubts(block)):
            return None
        block = block.lower()
        for fixed in self._fixed:
            block = block.replace(fixed, bytes(len(fixed)))  # offsets stay
        found: list[int] = []
        for form in self.forms:
            found += islice(_offsets(block, form), len(block) // DENSE + 1)
        return _few(found, block)

    def _doubts(self, block: bytes) -> Iterator[bool]:
        """A single byte is searched for much faster than several, so their first one goes first."""
        for first, chars in self._uncertain.items():
            if first in block:
                yield from (char in block for char in chars)


class ExactNeedle:
    """Bytes as they are."""

    def __init__(self, needle: bytes) -> None:
        self._needle = needle

    def hits(self, block: bytes) -> list[int] | None:
        """Offsets in the block; None if every line of it is to be looked at."""
        return _few(list(islice(_offsets(block, self._needle), len(block) // DENSE + 1)), block)


class NumberNeedle:
    """A number of a field, in one of several ranges."""

    def __init__(self, field: str, ranges: list[tuple[int, int]]) -> None:
        """Of each range the lowest and the highest number."""
        self._pattern = re.compile(b'"%s":%s *[,}]' % (field.encode(), digits_of(ranges)))

    def hits(self, block: bytes) -> list[int] | None:
        """Offsets in the block; None if every line of it is to be looked at."""
        found = [match.start() for match in islice(self._pattern.finditer(block), len(block) // DENSE + 1)]
        return _few(found, block)


class AnyNeedle:
    """What a line must hold one of."""

    def __init__(self, needles: "list[Needle]") -> None:
        self._needles = needles

    def hits(self, block: bytes) -> list[int] | None:
        """Offsets in the block; None if every line of it is to be looked at."""
        found: list[int] = []
        for needle in self._needles:
            hits = needle.hits(block)
            if hits is None:
                return None
            found += hits
        return _few(found, block)


Needle = TextNeedle | ExactNeedle | NumberNeedle | AnyNeedle


def json_bytes(text: str) -> bytes:
    """A text as it is written within JSON; what is not Unicode was never written."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1]


def digits_of(ranges: list[tuple[int, int]]) -> bytes:
    """A regular expression for the digits of the numbers in any of the ranges, and for all negative ones if it may."""
    parts = [_between(max(low, 0), high) for low, high in ranges if high >= 0]
    if any(low < 0 for low, _ in ranges):
        parts.append(r"-\d+")
    return (parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})").encode()


def _offsets(block: bytes, needle: bytes) -> Iterator[int]:
    at = block.find(needle)
    while at >= 0:
        yield at
        at = block.find(needle, at + 1)


def _few(found: list[int], block: bytes) -> list[int] | None:
    return None if len(found) > len(block) // DENSE else found


def _forms(text: str) -> list[bytes]:
    """The ways to write the text, except for the case of ASCII letters."""
    return [json_bytes("".join(chars)).lower() for chars in product(*map(_sources, text))]


def _sources(char: str) -> list[str]:
    """The characters that fold to this one; of ASCII letters the small one."""
    if char.isascii():
        return [char]
    return [char, *(one for one in map(chr, FOLDED) if one != char and one.casefold() == char)]


def _searchable(text: str) -> str:
    """The longest part that is ASCII, if that is long enough; else the longest one that has not too many forms."""
    plain = max(re.findall(r"[\x00-\x7f]+", text), key=len, default="")
    if len(plain) >= RARE:
        return str(plain)
    counts = {char: len(_sources(char)) for char in set(text)}
    best = ""
    for start in range(len(text)):
        forms, end = 1, start
        while end < len(text) and forms * counts[text[end]] <= FORMS:
            forms *= counts[text[end]]
            end += 1
        best = max(best, text[start:end], key=len)
    return best


def _unfold(text: str) -> list[str]:
    """Characters whose folding is more, or other, than the forms tell and may be a part of the text."""
    return [char for char in map(chr, SEVERAL) if _is_several(fold := char.casefold()) and _overlap(fold, text)]


def _is_several(fold: str) -> bool:
    return len(fold) > 1 or fold.isascii()


def _overlap(fold: str, text: str) -> bool:
    """Whether a place of the text, where it is found, can be made of this folding or of an end of it."""
    ends = range(1, min(len(fold), len(text)) + 1)
    return fold in text or text in fold or any(text[:i] == fold[-i:] or text[-i:] == fold[:i] for i in ends)


def _between(low: int, high: int) -> str:
    """A regular expression for the digits of the numbers of a span."""
    least, most = str(low), "" if high >= INFINITE else str(high)
    if len(least) == len(most):
        return _span(least, most)
    longer = rf"\d{{{len(least) + 1},{len(most) - 1 if most else ''}}}"
    parts = [_at_least(least)]
    if not most or len(most) > len(least) + 1:
        parts.append(longer)
    if most:
        parts.append(_at_most(most))
    return f"(?:{'|'.join(parts)})"


def _span(low: str, high: str) -> str:
    """Of numbers with equally many digits."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + _span(low[1:], high[1:])
    parts = [low[0] + _at_least(low[1:]), high[0] + _at_most(high[1:])]
    if int(high[0]) - int(low[0]) > 1:
        parts.append(f"[{int(low[0]) + 1}-{int(high[0]) - 1}]{_digits(len(low) - 1)}")
    return f"(?:{'|'.join(parts)})"


def _at_least(digits: str) -> str:
    if not digits:
        return ""
    first, rest = digits[0], digits[1:]
    equal = first + _at_least(rest)
    return equal if first == "9" else f"(?:[{int(first) + 1}-9]{_digits(len(rest))}|{equal})"


def _at_most(digits: str, least: int = 0) -> str:
    if not digits:
        return ""
    first, rest = digits[0], digits[1:]
    equal = first + _at_most(rest)
    return equal if int(first) <= least else f"(?:[{least}-{int(first) - 1}]{_digits(len(rest))}|{equal})"


def _digits(count: int) -> str:
    return rf"\d{{{count}}}" if count else ""
