"""Search: the lines of the log whose calls match a query, newest first.

Segments that cannot have matching calls, by their times and sums, are skipped. Of the others only the few fields that
the conditions need are decoded, block by block, in about a microsecond per call. Matching lines are decoded completely.
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
from gateway.store.files import body_of, id_of, is_intact, split_lines
from gateway.store.rollup import Dimension
from gateway.store.segment import Segment, decode_entry
from gateway.store.sums import FOREVER

_STORED_FIELDS: dict[str, tuple[str, Any, object]] = {
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
"""The stored field of each attribute that conditions test, with its type and its default, which is not stored."""

_DIMENSIONS: dict[str, Dimension] = {
    "token_id": "token",
    "channel_id": "channel",
    "group_id": "group",
    "model": "model",
    "app": "app",
    "api": "api",
}
"""The dimension of a segment's sums that has all values of an attribute."""


class SearchDeadline:
    """The time that a search may take. It also pauses the search now and then, so that other threads can run."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._end = time.perf_counter() + seconds
        self._paused_at = time.perf_counter()
        self._cancelled = False

    def cancel(self) -> None:
        """Stop the search at once. Any thread may call it."""
        self._cancelled = True

    def passed(self) -> bool:
        """Returns whether the search must stop, perhaps after a pause, so it must be called after every line."""
        now = time.perf_counter()
        if now - self._paused_at > 0.001:
            time.sleep(0.000_05)  # long enough for a waiting thread to run
            self._paused_at = time.perf_counter()
        return self._cancelled or now > self._end


class SearchStep(msgspec.Struct, frozen=True):
    """One block of lines that was searched, or a segment that was skipped."""

    lines: list[bytes]
    """The matching lines, newest first. Some may be damaged."""
    segment: Segment
    block: bytes = b""
    """The block that was searched; empty if the segment was skipped."""

    def oldest(self) -> tuple[int, Millis]:
        """Returns the id and the start of the oldest examined call; zeros if all lines are damaged."""
        if not self.block:
            return self.segment.first, Millis(self.segment.earliest)
        for line in split_lines(self.block):
            if is_intact(line):
                return id_of(line), Millis(decode_entry(body_of(line)).ts)
        return 0, Millis(0)


class LogSearch:
    """Searches segments for the calls of a query."""

    def __init__(self, query: Query) -> None:
        self._since = query.since or 0
        self._until = FOREVER if query.until is None else query.until
        self._conditions = query.conditions
        in_span = NumberCondition("time_ms", self._since, self._until - 1)
        self._filter = _LineFilter(self._conditions)
        self._filter_with_span = _LineFilter([in_span, *self._conditions])

    def steps(self, segments: Iterable[Segment], below: int) -> Iterator[SearchStep]:
        """Yields the matching lines with ids under ``below``, newest first, block by block."""
        for segment in segments:
            if segment.first >= below or not segment.readable:
                continue
            if self._may_match(segment):
                is_inside = self._since <= segment.earliest and segment.latest < self._until
                line_filter = self._filter if is_inside else self._filter_with_span
                for block in segment.blocks():
                    if below > segment.last or _begins_below(block, below):
                        yield SearchStep(line_filter.matching_lines(block), segment, block)
            else:
                yield SearchStep([], segment)

    def _may_match(self, segment: Segment) -> bool:
        if segment.latest < self._since or segment.earliest >= self._until:
            return False
        return segment.edited or all(_may_satisfy(segment, condition) for condition in self._conditions)


class _LineFilter:
    """Tests the lines of calls with conditions, decoding only the fields that these need."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._tests = [condition.matches for condition in conditions]
        attributes = {name for condition in conditions for name in _attributes_of(condition)}
        if "group" in attributes:
            attributes = attributes - {"group"} | {"group_id", "group_name"}
        names = sorted(attributes)
        partial = msgspec.defstruct(
            "PartialCall",
            [(name, _STORED_FIELDS[name][1], _STORED_FIELDS[name][2]) for name in names],
            rename={name: _STORED_FIELDS[name][0] for name in names},
            namespace={
                "state": "settled",
                "waits_for": "",
                "group": property(lambda call: call.group_name or call.group_id),
            },
            frozen=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(partial).decode
        self._decode_all = msgspec.json.Decoder(dict[str, partial]).decode  # type: ignore[valid-type]

    def matching_lines(self, block: bytes) -> list[bytes]:
        """Returns the matching lines of a block, newest first. Undamaged blocks are decoded at once, thrice as fast."""
        lines = [line for line in split_lines(block) if line]
        if not self._tests:
            return lines[::-1]
        try:
            calls: dict[str, Any] = self._decode_all(b"{%s}" % block.lstrip(b"\n,"))
        except (msgspec.DecodeError, UnicodeDecodeError):
            calls = {}
        if len(calls) != len(lines):  # damage: one line at a time
            return [line for line in reversed(lines) if self._matches(line)]
        matching: Iterable[tuple[bytes, Any]] = zip(lines, calls.values(), strict=True)
        for test in self._tests:
            matching = [(line, call) for line, call in matching if test(call)]
        return [line for line, _ in matching][::-1]

    def _matches(self, line: bytes) -> bool:
        """Returns whether a single line is valid and matches all conditions."""
        try:
            call = self._decode(body_of(line))
        except (msgspec.DecodeError, ValueError):
            return False
        return all(test(call) for test in self._tests)


def _begins_below(block: bytes, number: int) -> bool:
    """Returns whether the oldest line of a block has an id below this number, or is damaged."""
    line = next(split_lines(block))
    return not is_intact(line) or id_of(line) < number


def _attributes_of(condition: Condition) -> Collection[str]:
    """Returns the attributes of a call that the condition tests."""
    match condition:
        case TextCondition():
            return (*TEXTS, "status")
        case StateCondition():
            return ("outcome",)
        case FailureCondition():
            return ("status", "outcome")
        case AnyOf(parts):
            return {name for part in parts for name in _attributes_of(part)}
        case Negation(inner):
            return _attributes_of(inner)
    return (condition.field,)


def _may_satisfy(segment: Segment, condition: Condition) -> bool:
    """Returns whether a call of the segment may satisfy the condition, according to the segment's sums."""
    if isinstance(condition, AnyOf):
        return any(_may_satisfy(segment, part) for part in condition.conditions)
    inner, wanted = (condition.condition, False) if isinstance(condition, Negation) else (condition, True)
    if isinstance(inner, OneOf | PatternCondition) and (by := _DIMENSIONS.get(inner.field)):
        return any(inner.matches_text(value) is wanted for value in segment.sums.totals(by))
    return True
