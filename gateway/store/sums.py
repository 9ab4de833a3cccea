"""Sums over a span of time: of whole hours and days from the rollups, of the rest from the records.

A span need not begin at a full hour, because some time zones are off by half an hour. The result is exact as long as
the records of that hour are kept.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from gateway.domain.call import Record
from gateway.domain.query import Query
from gateway.domain.units import Millis
from gateway.store.rollup import Counts, Dimension, Rollup, Table
from gateway.store.search import SearchDeadline, matching_calls
from gateway.store.segment import Segment

FOREVER = 1 << 62
"""A moment after every call, in milliseconds."""

Step = Literal["hour", "day", "month", ""]
"""The length of one step of sums over time; empty for everything."""


class Span(NamedTuple):
    """A span of time in milliseconds: ``since <= ts < until``."""

    since: int = 0
    until: int = FOREVER


class Sums(msgspec.Struct, frozen=True):
    """Sums over a span: in total, by value of a dimension, and over time if requested."""

    total: Counts
    rows: dict[str, Counts]
    table: Table = {}
    """The sums of each value by the start of an hour, day or month; empty if they were not requested."""
    first: Millis | None = None
    """When the earliest call of all began, in the span or not."""


def by_value(segments: Iterable[Segment], by: Dimension, span: Span) -> dict[str, Counts]:
    """Returns the sums of each value of a dimension in the span."""
    rows: dict[str, Counts] = {}
    for segment in _overlapping(segments, span):
        if span.since <= segment.earliest and segment.latest < span.until:
            for value, counts in segment.sums.totals(by).items():
                rows.setdefault(value, Counts()).merge(counts)
        else:
            for value, _, counts in _cells(segment, by, span):
                rows.setdefault(value, Counts()).merge(counts)
    return rows


def over_time(segments: Iterable[Segment], by: Dimension, span: Span, start_of: Callable[[int], int]) -> Table:
    """Returns the sums of each value by step. ``start_of`` maps the start of an hour or UTC day to its step's start."""
    table: Table = {}
    for segment in _overlapping(segments, span):
        for value, start, counts in _cells(segment, by, span):
            table.setdefault(value, {}).setdefault(start_of(start), Counts()).merge(counts)
    return table


def value_of(call: Record, by: Dimension) -> str:
    """Returns the call's value of a dimension."""
    return f"{call.token}|{call.model}" if by == "token|model" else str(getattr(call, by))


def _overlapping(segments: Iterable[Segment], span: Span) -> Iterator[Segment]:
    return (s for s in segments if s.latest >= span.since and s.earliest < span.until)


def _cells(segment: Segment, by: Dimension, span: Span) -> Iterator[tuple[str, int, Counts]]:
    """Yields value, start of hour or day, and sums: of whole rows in the span, and of each call at its edges."""
    inner = _inner_span(segment, by, span)
    yield from _rows_in(segment.sums.table(by), inner)
    if _has_records(segment):
        for edge in _edges(segment, span, inner):
            yield from _rows_in(_edge_sums(segment, edge).table(by), Span())


def _rows_in(table: Table, span: Span) -> Iterator[tuple[str, int, Counts]]:
    for value, rows in table.items():
        yield from ((value, start, counts) for start, counts in rows.items() if span.since <= start < span.until)


def _has_records(segment: Segment) -> bool:
    return not (segment.deleted or segment.incomplete)


def _inner_span(segment: Segment, by: Dimension, span: Span) -> Span:
    """Returns the part of the span that whole rows make up. Beyond the segment's first and last call it has no end."""
    step = segment.sums.step(by)
    since, until = -(-span.since // step) * step, span.until // step * step
    if not _has_records(segment):  # an hour at the edge counts as a whole if it begins in the span
        since, until = span
    return Span(
        since=0 if span.since <= segment.earliest else since,
        until=FOREVER if segment.latest < span.until else until,
    )


def _edges(segment: Segment, span: Span, inner: Span) -> Iterator[Span]:
    """Yields the parts of the span outside the inner one."""
    if inner.since >= inner.until:
        yield span
        return
    if span.since < inner.since and segment.earliest < inner.since:
        yield Span(span.since, inner.since)
    if inner.until < span.until and segment.latest >= inner.until:
        yield Span(inner.until, span.until)


def _edge_sums(segment: Segment, span: Span) -> Rollup:
    """Returns the sums of the calls that began in the span, counted one by one."""
    sums = Rollup()
    query = Query(since=Millis(span.since), until=Millis(span.until))
    for _, call in matching_calls(query, [segment], FOREVER, SearchDeadline()):
        sums.add(call)
    return sums
