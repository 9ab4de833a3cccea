"""Search: the lines of the log whose calls match a query, newest first.

Segments that cannot have matching calls, by their times and sums, are skipped. Of the others only the fields that
conditions test are decoded, block by block, in about two microseconds per call. Matching lines are decoded completely.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec

from gateway.domain.call import CHAT_API, Outcome, Record
from gateway.domain.query import INFINITE, AnyOf, Condition, Negation, NumberCondition, OneOf, PatternCondition, Query
from gateway.domain.units import Millis
from gateway.store.line_format import body_of, split_lines
from gateway.store.rollup import Dimension
from gateway.store.segment import Segment, read_call


class SearchedCall(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a call that conditions test, named as in views. A line of the log decodes to it."""

    state: ClassVar[str] = "settled"
    waits_for: ClassVar[str] = ""
    id: str = ""
    time_ms: int = msgspec.field(default=0, name="ts")
    token: str = msgspec.field(default="", name="token_name")
    token_id: str = msgspec.field(default="", name="token")
    group_id: str = msgspec.field(default="", name="group")
    group_name: str = ""
    model: str = ""
    upstream_model: str = ""
    channel: str = msgspec.field(default="", name="channel_name")
    channel_id: str = msgspec.field(default="", name="channel")
    app: str = ""
    api: str = CHAT_API
    status: int = 0
    outcome: str = Outcome.DONE.value
    code: str = ""
    error: str = ""
    duration_ms: int = msgspec.field(default=0, name="ms")
    first_byte_ms: int | None = msgspec.field(default=None, name="ttft")
    input_tokens: int = msgspec.field(default=0, name="input")
    output_tokens: int = msgspec.field(default=0, name="output")
    cost_nanos: int = msgspec.field(default=0, name="cost")

    @property
    def group(self) -> str:
        return self.group_name or self.group_id


_decode = msgspec.json.Decoder(SearchedCall).decode
_decode_all = msgspec.json.Decoder(dict[str, SearchedCall]).decode

VIEW_FIELDS: Mapping[Dimension, str] = {
    "token": "token_id",
    "model": "model",
    "channel": "channel_id",
    "group": "group_id",
    "app": "app",
    "api": "api",
}
"""The attribute of a call's view that each dimension sums up by."""
_DIMENSIONS = {field: by for by, field in VIEW_FIELDS.items()}


class SearchDeadline:
    """How long a search may take, how far it got in that time, and when it pauses so that other threads can run."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._end = time.perf_counter() + seconds
        self._paused_at = time.perf_counter()
        self._cancelled = False
        self.oldest: tuple[int, Millis] | None = None
        """The number and the start of the oldest call that was examined; None unless the deadline ended the search."""

    def cancel(self) -> None:
        """Stop the search at once. Any thread may call it."""
        self._cancelled = True

    def pause(self) -> None:
        """Pause if the last pause was a millisecond ago. Call it after every line and block."""
        if time.perf_counter() - self._paused_at > 0.001:
            time.sleep(0.000_05)  # long enough for a waiting thread to run
            self._paused_at = time.perf_counter()

    def is_over(self) -> bool:
        """Returns whether the search must stop."""
        return self._cancelled or time.perf_counter() > self._end


def matching_calls(
    query: Query, segments: Iterable[Segment], below: int, deadline: SearchDeadline
) -> Iterator[tuple[int, Record]]:
    """Yields a query's calls with numbers under ``below``, newest first, until the deadline passes."""
    deadline.oldest = None
    since, until = query.since or 0, INFINITE if query.until is None else query.until
    for segment in segments:
        if segment.first >= below or not segment.readable or segment.latest < since or segment.earliest >= until:
            continue
        if not (segment.edited or all(_may_satisfy(segment, part) for part in query.conditions)):
            continue
        is_inside = since <= segment.earliest and segment.latest < until
        in_span = [] if is_inside else [NumberCondition("time_ms", since, until - 1)]
        for block in segment.blocks():
            oldest = next(filter(None, map(read_call, split_lines(block))), None)
            number = oldest[0] if oldest else 0
            if number >= below:
                continue
            for line in _matching_lines(block, [*in_span, *query.conditions]):
                if (call := read_call(line)) and call[0] < below:
                    yield call
                    deadline.pause()
            deadline.pause()
            if oldest and deadline.is_over():
                deadline.oldest = number, oldest[1].ts
                return


def _matching_lines(block: bytes, conditions: Sequence[Condition]) -> list[bytes]:
    """Returns the matching lines of a block, newest first. Undamaged blocks are decoded at once, thrice as fast."""
    lines = [line for line in split_lines(block) if line]
    if not conditions:
        return lines[::-1]
    calls: list[SearchedCall] = []
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        calls += _decode_all(b"{%s}" % block.lstrip(b"\n,")).values()
    if len(calls) != len(lines):  # damage: one line at a time
        lines = list(filter(read_call, lines))
        calls = [_decode(body_of(line)) for line in lines]
    matching: Iterable[tuple[bytes, SearchedCall]] = zip(lines, calls, strict=True)
    for condition in conditions:
        matching = [(line, call) for line, call in matching if condition.matches(call)]
    return [line for line, _ in matching][::-1]


def _may_satisfy(segment: Segment, condition: Condition) -> bool:
    """Returns whether a call of the segment may satisfy the condition, according to the segment's sums."""
    if isinstance(condition, AnyOf):
        return any(_may_satisfy(segment, part) for part in condition.conditions)
    inner, wanted = (condition.condition, False) if isinstance(condition, Negation) else (condition, True)
    if isinstance(inner, OneOf | PatternCondition) and (by := _DIMENSIONS.get(inner.field)):
        return any(inner.matches_text(value) is wanted for value in segment.sums.totals(by))
    return True
