"""Search: the lines of the log whose calls match some conditions, newest first.

Segments are skipped by their times and sums. The others are decoded block by block to the few fields that the
conditions name, about a microsecond a call. Only matching lines are decoded whole.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from gateway.domain.call import CHAT_API, Outcome
from gateway.domain.query import (
    TEXTS,
    AnyOf,
    Condition,
    FailureCondition,
    Negation,
    NumberCondition,
    OneOf,
    PatternCondition,
    Query,
    StateCondition,
    TextCondition,
)
from gateway.domain.units import Millis
from gateway.store.files import body_of, id_of, intact, split
from gateway.store.rollup import Dimension
from gateway.store.segment import Segment, decode_entry
from gateway.store.sums import FOREVER

_FIELDS: dict[str, tuple[str, Any, object]] = {
    "id": ("id", str, ""),
    "time_ms": ("ts", int, 0),
    "token": ("token_name", str, ""),
    "token_id": ("token", str, ""),
    "group_id": ("group", str, ""),
    "group_name": ("group_name", str, ""),
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
"""What a condition can name: the attribute of a view, the record's field behind it, its type and its default.

A field with its default value is not written.
"""

_SUMMED: dict[str, Dimension] = {
    "token_id": "token",
    "channel_id": "channel",
    "group_id": "group",
    "model": "model",
    "app": "app",
    "api": "api",
}
"""Fields whose values are in the sums of a segment."""


class SearchDeadline:
    """How long a search may take. It pauses now and then, so that other threads can run."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._end = time.perf_counter() + seconds
        self._rested = time.perf_counter()
        self._cancelled = False

    def cancel(self) -> None:
        """End the search at once. Any thread may call it."""
        self._cancelled = True

    def over(self) -> bool:
        """Returns whether to stop. Called often; it pauses when it is time to."""
        now = time.perf_counter()
        if now - self._rested > 0.001:
            time.sleep(0.000_05)  # long enough for a waiting thread to run
            self._rested = time.perf_counter()
        return self._cancelled or now > self._end


class SearchStep(msgspec.Struct, frozen=True):
    """One block of lines that was searched, or a segment that was passed over."""

    lines: list[bytes]
    """The matching lines, newest first. A damaged one may be among them."""
    segment: Segment
    block: bytes = b""
    """The block that was searched; empty for a skipped segment."""

    def oldest(self) -> tuple[int, Millis]:
        """Returns the id and start of the oldest intact call examined; zeros if there is none."""
        if not self.block:
            return self.segment.first, Millis(self.segment.t0)
        for line in split(self.block):
            if intact(line):
                return id_of(line), Millis(decode_entry(body_of(line)).ts)
        return 0, Millis(0)


class LogSearch:
    """The conditions of a query, ready to search."""

    def __init__(self, query: Query) -> None:
        self._since = query.since or 0
        self._until = FOREVER if query.until is None else query.until
        self._conditions = query.conditions
        self._inside = _LineFilter(self._conditions)
        self._across = _LineFilter([NumberCondition("time_ms", self._since, self._until - 1), *self._conditions])

    def steps(self, segments: Iterable[Segment], top: int) -> Iterator[SearchStep]:
        """Yields the matching lines with ids below ``top``, newest first, block by block."""
        for segment in segments:
            if segment.first >= top or segment.gone or not segment.n:
                continue
            if self._may_hold(segment):
                inside = self._since <= segment.t0 and segment.t1 < self._until
                lines = self._inside if inside else self._across
                for block in segment.blocks():
                    if top > segment.last or _begins_below(block, top):
                        yield SearchStep(lines.fitting(block), segment, block)
            else:
                yield SearchStep([], segment)

    def _may_hold(self, segment: Segment) -> bool:
        if segment.t1 < self._since or segment.t0 >= self._until:
            return False
        return segment.edited or all(_may_hold(segment, condition) for condition in self._conditions)


class _LineFilter:
    """The conditions, and the decoder of lines to the fields that they need."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = [condition.fits for condition in conditions]
        wanted = {name for condition in conditions for name in _fields_of(condition)}
        if "group" in wanted:
            wanted = wanted - {"group"} | {"group_id", "group_name"}
        names = sorted(wanted)
        partial = msgspec.defstruct(
            "PartialCall",
            [(name, _FIELDS[name][1], _FIELDS[name][2]) for name in names],
            rename={name: _FIELDS[name][0] for name in names},
            namespace={"state": "settled", "waits_for": "", "group": property(_group_name)},
            frozen=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(partial).decode
        self._decode_all = msgspec.json.Decoder(dict[str, partial]).decode  # type: ignore[valid-type]

    def fitting(self, block: bytes) -> list[bytes]:
        """Returns the matching lines of a block, newest first. Decoding them at once takes a third of the time."""
        lines = [line for line in split(block) if line]
        if not self._conditions:
            return lines[::-1]
        try:
            calls: dict[str, Any] = self._decode_all(b"{%s}" % block.lstrip(b"\n,"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            calls = {}
        if len(calls) != len(lines):  # damage: one line at a time
            return [line for line in reversed(lines) if self._fits(line)]
        wanted: Iterable[tuple[bytes, Any]] = zip(lines, calls.values(), strict=True)
        for fits in self._conditions:
            wanted = [(line, call) for line, call in wanted if fits(call)]
        return [line for line, _ in wanted][::-1]

    def _fits(self, line: bytes) -> bool:
        try:
            call = self._decode(body_of(line))
        except (msgspec.DecodeError, ValueError):
            return False
        return all(fits(call) for fits in self._conditions)


def _begins_below(block: bytes, top: int) -> bool:
    """Returns whether the oldest line of a block has an id below ``top``, or is damaged."""
    line = next(split(block))
    return not intact(line) or id_of(line) < top


def _group_name(call: Any) -> str:
    return str(call.group_name or call.group_id)


def _fields_of(condition: Condition) -> Collection[str]:
    """Returns the fields that the test of a call needs."""
    match condition:
        case TextCondition():
            return (*TEXTS, "status")
        case StateCondition():
            return ("outcome",)
        case FailureCondition():
            return ("status", "outcome")
        case AnyOf(parts):
            return {name for part in parts for name in _fields_of(part)}
        case Negation(inner):
            return _fields_of(inner)
    return (condition.field,)


def _may_hold(segment: Segment, condition: Condition) -> bool:
    """Returns whether a call of the segment may match, judged by its sums."""
    match condition:
        case AnyOf(parts):
            return any(_may_hold(segment, part) for part in parts)
    positive = condition.condition if isinstance(condition, Negation) else condition
    if isinstance(positive, OneOf | PatternCondition) and (by := _SUMMED.get(positive.field)):
        return any(positive.matches(value) is (positive is condition) for value in segment.sums.totals(by))
    return True
