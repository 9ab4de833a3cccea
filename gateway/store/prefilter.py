"""Prefilter: what is known of the wanted calls before they are decoded.

From the conditions of a search come needles, for the bytes of a block of lines; questions to the sums of a segment,
which show what occurs in it; and the few fields that a line must be decoded to for being tested.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any

from gateway.domain.call import CHAT_API, Outcome
from gateway.domain.query import (
    INFINITE,
    SUCCESS,
    TEXTS,
    WAITING,
    AllOf,
    AnyOf,
    Condition,
    FailureCondition,
    Negation,
    NumberCondition,
    OneOf,
    PatternCondition,
    StateCondition,
    TextCondition,
)
from gateway.store.files import split
from gateway.store.needles import (
    DENSE,
    AnyNeedle,
    ExactNeedle,
    Needle,
    NumberNeedle,
    TextNeedle,
    digits_of,
    json_bytes,
)
from gateway.store.rollup import Dimension
from gateway.store.segment import Segment
from gateway.store.sums import total

FIELDS: dict[str, tuple[str, Any, object]] = {
    "id": ("id", str, ""),
    "time_ms": ("ts", int, 0),
    "token": ("token_name", str, ""),
    "token_id": ("token", str, ""),
    "group": ("group", str, ""),
    "model": ("model", str, ""),
    "upstream_model": ("upstream_model", str, ""),
    "channel": ("channel_name", str, ""),
    "channel_id": ("channel", str, ""),
    "app": ("app", str, ""),
    "api": ("api", str, CHAT_API),
    "status": ("status", int, 0),
    "outcome": ("outcome", str, Outcome.DONE.value),
    "code": ("code", str, ""),
    "error": ("error", str, ""),
    "duration_ms": ("ms", int, 0),
    "first_byte_ms": ("ttft", int | None, None),
    "input_tokens": ("input", int, 0),
    "output_tokens": ("output", int, 0),
    "cost_nanos": ("cost", int, 0),
}
"""What a condition can name: the attribute of a view, the field of the record behind it, its type and its default.

A field with its default is not written.
"""

_SUMMED: dict[str, Dimension] = {
    "token_id": "token",
    "channel_id": "channel",
    "group": "group",
    "model": "model",
    "app": "app",
    "api": "api",
}
"""Fields whose values the sums of a segment tell."""


IDS = ("token_id", "channel_id")
"""Fields whose values have no capital letters."""

ALTERNATIVES = 16
"""So many needles are searched for at once; decoding all lines is faster than searching for more."""

_PLAIN = rb'[^"\\\n]'
"""A byte of a text that is written as it is."""
_PLAIN_ASCII = rb'[^"\\\n\x80-\xff]'

Ranges = list[tuple[int, int]]
"""Numbers from the first to the second of a pair, of any of the pairs."""


def never(condition: Condition) -> bool:
    """Whether no ended call can fit."""
    match condition:
        case StateCondition(value):
            return value in ("running", WAITING)
        case AnyOf(parts):
            return all(map(never, parts))
        case AllOf(parts):
            return any(map(never, parts))
        case Negation(inner):
            return always(inner)
    return False


def always(condition: Condition) -> bool:
    """Whether every ended call fits."""
    match condition:
        case StateCondition(value):
            return value == "settled"
        case TextCondition(text):
            return not text
        case AnyOf(parts):
            return any(map(always, parts))
        case AllOf(parts):
            return all(map(always, parts))
        case Negation(inner):
            return never(inner)
    return isinstance(condition, PatternCondition) and bool(condition.pattern) and not condition.pattern.strip("*")


def fields_of(condition: Condition) -> Collection[str]:
    """What a call must have for being tested."""
    match condition:
        case TextCondition():
            return (*TEXTS, "status")
        case StateCondition():
            return ("outcome",)
        case FailureCondition():
            return ("status", "outcome")
        case AnyOf(parts) | AllOf(parts):
            return {name for part in parts for name in fields_of(part)}
        case Negation(inner):
            return fields_of(inner)
    return (condition.field,)


def needle_of(condition: Condition) -> Needle | None:
    """What the line of every wanted call holds; None if there is no such text."""
    match condition:
        case AnyOf(parts):
            return _any_needle(list(map(needle_of, parts)))
        case AllOf(parts):
            return next((needle for needle in map(needle_of, parts) if needle is not None), None)
    return _needle_of_one(condition)


def _needle_of_one(condition: Condition) -> Needle | None:
    match condition:
        case TextCondition(text):
            defaults = (str(FIELDS[name][2]) for name in (*TEXTS, "status"))
            return None if any(text in default for default in defaults) else TextNeedle(text)
        case PatternCondition():
            return _pattern_needle(condition)
        case OneOf(field, values):
            return _any_needle([_exact_needle(field, value) for value in sorted(values)])
        case StateCondition(value):
            return _exact_needle("outcome", value)
    return _number_needle(condition)


class Exclusion:
    """What in a line proves that one of some conditions does not hold: where every line may fit, most still do not."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        wanted = list(conditions)
        proofs = [proof for proof in map(_proof_against, wanted) if proof is not None]
        self._pattern = re.compile(b"(?:%s)[^\\n]*" % b"|".join(proofs)) if proofs else None
        self._folded = any(_is_of_text(condition) for condition in wanted)

    def left(self, block: bytes) -> list[bytes] | None:
        """The lines of a block without such a proof, in its order; None if they are too many to be worth it."""
        if self._pattern is None:
            return None
        found: list[bytes] = []
        done = 0
        for match in self._pattern.finditer(block.lower() if self._folded else block):
            start = block.rfind(b"\n", done, match.start())
            if block.count(b"{", start + 1, match.start()) > 1:  # it may be of an attempt, which proves nothing
                continue
            if start > done:
                found += split(block[done:start])
                if len(found) > len(block) // DENSE:
                    return None
            done = match.end()
        found += split(block[done:])
        return [line for line in found if line] if len(found) <= len(block) // DENSE else None


def may_hold(segment: Segment, condition: Condition) -> bool:
    """Whether a call of the segment may fit, as far as its sums tell."""
    if segment.edited:
        return True
    match condition:
        case AnyOf(parts):
            return any(may_hold(segment, part) for part in parts)
        case AllOf(parts):
            return all(may_hold(segment, part) for part in parts)
    return _may_hold_one(segment, condition)


def _may_hold_one(segment: Segment, condition: Condition) -> bool:
    positive = condition.condition if isinstance(condition, Negation) else condition
    if isinstance(positive, OneOf | PatternCondition) and (by := _SUMMED.get(positive.field)):
        wanted = positive is condition
        return any(positive.matches(value) is wanted for value in segment.sums.totals(by))
    if isinstance(condition, NumberCondition) and condition.field == "time_ms":
        return segment.t0 <= condition.high and segment.t1 >= condition.low
    found = _ranges(condition)
    if found is None or found[0] != "status":
        return True
    counts = total(segment.sums.totals("group").values())
    if counts.errors == counts.calls:
        return any(low < SUCCESS.low or high > SUCCESS.high for low, high in found[1])
    return counts.errors > 0 or any(low <= SUCCESS.high and high >= SUCCESS.low for low, high in found[1])


def _ranges(condition: Condition) -> tuple[str, Ranges] | None:
    """The field and the numbers that fit, of an ended call; None if it is not about numbers."""
    match condition:
        case NumberCondition(field, low, high):
            return field, [(low, high)]
        case FailureCondition():
            return "status", _complement([(SUCCESS.low, SUCCESS.high)])
        case Negation(FailureCondition()):
            return None  # calls that somebody ended may have any status
        case Negation(inner):
            found = _ranges(inner)
            if found is not None and FIELDS[found[0]][2] is not None:  # no number at all is none of these numbers
                return found[0], _complement(found[1])
    return None


def _proof_against(condition: Condition) -> bytes | None:
    """A regular expression for what a line that does not fit may have."""
    match condition:
        case Negation(TextCondition(text)) if _is_plain(text):
            names = b"|".join(FIELDS[name][0].encode() for name in TEXTS)
            return b'"(?:%s)":"%s*?%s' % (names, _PLAIN, re.escape(text.encode()))
        case Negation(PatternCondition(field, pattern)) if _is_plain(pattern):
            wild = re.escape(pattern).replace(r"\*", "*").replace(r"\?", "?").encode()
            value = wild.replace(b"?", _PLAIN_ASCII).replace(b"*", _PLAIN + b"*")
            return _proof(FIELDS[field][0], b'"%s"' % value)
        case Negation(OneOf(field, values)) if field in IDS:  # small letters may be searched for any other text
            texts = b"|".join(re.escape(json_bytes(value)) for value in sorted(values))
            return _proof(FIELDS[field][0], b'"(?:%s)"' % texts)
        case Negation(AnyOf(parts)):
            proofs = [proof for proof in (_proof_against(Negation(part)) for part in parts) if proof is not None]
            return b"|".join(proofs) or None
        case Negation(FailureCondition()):
            return None
        case Negation(inner):
            found = _ranges(inner)
        case _:
            found = _ranges(condition)
            found = None if found is None else (found[0], _complement(found[1]))
    return _proof(FIELDS[found[0]][0], digits_of(found[1])) if found is not None and found[1] else None


def _proof(name: str, value: bytes) -> bytes:
    """A member with a value; blanks fill up a line that was amended."""
    return b'"%s":%s *[,}]' % (name.encode(), value)


def _is_of_text(condition: Condition) -> bool:
    """Whether its proof is in small letters."""
    if not isinstance(condition, Negation):
        return False
    if isinstance(condition.condition, AnyOf):
        return any(_is_of_text(Negation(part)) for part in condition.condition.conditions)
    return isinstance(condition.condition, TextCondition | PatternCondition)


def _is_plain(text: str) -> bool:
    """Whether the text is written in JSON as it is."""
    return text.isascii() and text.isprintable() and not {'"', "\\"} & set(text)


def _complement(ranges: Ranges) -> Ranges:
    """``ranges`` are in order and leave gaps."""
    ends = [-INFINITE - 1, *(end for span in ranges for end in span), INFINITE + 1]
    gaps = zip(ends[::2], ends[1::2], strict=True)
    return [(before + 1, after - 1) for before, after in gaps if before + 1 < after]


def _number_needle(condition: Condition) -> NumberNeedle | None:
    found = _ranges(condition)
    if found is None:
        return None
    name, _, default = FIELDS[found[0]]
    if isinstance(default, int) and any(low <= default <= high for low, high in found[1]):
        return None
    return NumberNeedle(name, found[1])


def _pattern_needle(condition: PatternCondition) -> TextNeedle | None:
    """The longest piece without a wildcard, with the quotes of the value if it begins or ends it."""
    if condition.matches(str(FIELDS[condition.field][2])):
        return None
    runs = re.split(r"[*?]", condition.pattern)
    longest = max(range(len(runs)), key=lambda i: len(runs[i]))
    if not runs[longest]:
        return None
    before = b'"%s":"' % FIELDS[condition.field][0].encode() if longest == 0 else b""
    after = b'"' if longest == len(runs) - 1 else b""
    return TextNeedle(runs[longest], before, after)


def _any_needle(needles: list[Needle | None]) -> Needle | None:
    there = [needle for needle in needles if needle is not None]
    return AnyNeedle(there) if len(there) == len(needles) <= ALTERNATIVES else None


def _exact_needle(field: str, value: str) -> ExactNeedle | None:
    name, _, default = FIELDS[field]
    return None if value == default else ExactNeedle(b'"%s":"%s"' % (name.encode(), json_bytes(value)))
