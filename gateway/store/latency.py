"""Latency: percentiles of durations and of times to the first byte, computed from the records themselves.

Rollups have sums only, so settling a call needs no work for percentiles. When percentiles are requested, the calls of
each segment are counted once, in buckets that are at most 3 % wide. The counts of whole segments stay in memory, so the
next request reads only new calls. Calls whose records were deleted are in averages, but not in percentiles.
"""

import threading
from collections.abc import Callable, Iterable
from functools import cache

import msgspec

from gateway.domain.call import Outcome, Record
from gateway.domain.query import Query
from gateway.domain.units import QUARTER_MS, Millis
from gateway.store.rollup import Dimension
from gateway.store.search import SearchDeadline, matching_calls
from gateway.store.segment import Segment
from gateway.store.sums import FOREVER, Span, value_of

EXACT_BITS = 6
"""Times below 2**6 milliseconds have a bucket each."""

CACHE_BYTES = 16 << 20
"""The maximum size of the encoded counts in memory. A year of 3,000 calls a day by model takes about 5 MiB."""


def bucket_of(ms: int) -> int:
    """Returns the bucket of a time: exact below 64 ms, then 32 buckets for each doubling."""
    if ms < 1 << EXACT_BITS:
        return max(0, ms)
    shift = ms.bit_length() - EXACT_BITS
    return (shift << (EXACT_BITS - 1)) + (ms >> shift)


def time_of(bucket: int) -> int:
    """Returns the milliseconds in the middle of a bucket."""
    shift = max(0, (bucket >> (EXACT_BITS - 1)) - 1)
    return ((bucket - (shift << (EXACT_BITS - 1))) << shift) + (1 << shift) // 2


Histogram = dict[int, int]
"""Maps a bucket to its number of calls."""


def percentile(histogram: Histogram, share: float) -> int | None:
    """Returns the time in milliseconds that this share of the calls did not exceed; None if no call was counted."""
    remaining = share * sum(histogram.values())
    for bucket in sorted(histogram):
        remaining -= histogram[bucket]
        if remaining <= 0:
            return time_of(bucket)
    return None


class LatencyCounts(msgspec.Struct, array_like=True, gc=False):
    """Histograms of durations and of times to the first byte."""

    durations: Histogram = {}
    first_bytes: Histogram = {}

    def add(self, ms: int, ttft: int | None) -> None:
        bucket = bucket_of(ms)
        self.durations[bucket] = self.durations.get(bucket, 0) + 1
        if ttft is not None:
            bucket = bucket_of(ttft)
            self.first_bytes[bucket] = self.first_bytes.get(bucket, 0) + 1

    def merge(self, other: "LatencyCounts") -> None:
        for histogram, added in ((self.durations, other.durations), (self.first_bytes, other.first_bytes)):
            for bucket, count in added.items():
                histogram[bucket] = histogram.get(bucket, 0) + count


LatencyTable = dict[str, dict[int, LatencyCounts]]
"""Maps a value of a dimension to the start of an hour or day to histograms. Without steps, the only start is 0."""


def book_latency(table: LatencyTable, call: Record, by: Dimension, start_of: Callable[[int], int]) -> None:
    """Count one call in the table. ``start_of`` maps a quarter of an hour to the start of its step."""
    if call.outcome not in (Outcome.REFUSED, Outcome.LOST):  # their durations say nothing about upstreams
        cells, start = table.setdefault(value_of(call, by), {}), start_of(call.ts // QUARTER_MS * QUARTER_MS)
        (cells.get(start) or cells.setdefault(start, LatencyCounts())).add(call.ms, call.ttft)


class LatencyCache:
    """The tables of whole segments that were requested before. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, Dimension, str], tuple[int, bytes]] = {}
        """By segment, dimension and step: the newest counted number, and the encoded table, a tenth as large."""

    def table(
        self, segments: Iterable[Segment], by: Dimension, span: Span, step: str, start_of: Callable[[int], int]
    ) -> LatencyTable:
        """Returns the histograms of calls that began in the span. ``start_of``: see ``book_latency``."""
        table, start_of = LatencyTable(), cache(start_of)
        with self._lock:
            for segment in segments:
                if segment.deleted or segment.latest < span.since or segment.earliest >= span.until:
                    continue
                if span.since <= segment.earliest and segment.latest < span.until:
                    _merge(table, self._cached_table(segment, by, step, start_of))
                else:
                    _count(segment, by, table, start_of, span)
        return table

    def _cached_table(self, segment: Segment, by: Dimension, step: str, start_of: Callable[[int], int]) -> LatencyTable:
        """Returns the table of a whole segment, after counting the calls that are new since the last request."""
        key = (segment.name, by, step)
        last, data = self._tables.get(key, (0, b""))
        table = _decode_table(data) if data else LatencyTable()
        if last != segment.last:
            last = _count(segment, by, table, start_of, Span(), above=last)
            self._tables[key] = last, _encode(table)
            if sum(len(data) for _, data in self._tables.values()) > CACHE_BYTES:
                self._tables.clear()
        return table


def _merge(table: LatencyTable, cells: LatencyTable) -> None:
    for value, rows in cells.items():
        for start, counts in rows.items():
            table.setdefault(value, {}).setdefault(start, LatencyCounts()).merge(counts)


def _count(
    segment: Segment, by: Dimension, table: LatencyTable, start_of: Callable[[int], int], span: Span, above: int = 0
) -> int:
    """Add the segment's calls of the span with numbers above ``above`` to the table. Returns the newest number."""
    newest = above
    query = Query(since=Millis(span.since), until=Millis(span.until))
    for number, call in matching_calls(query, [segment], FOREVER, SearchDeadline()):
        if number <= above:
            break
        newest = max(newest, number)
        book_latency(table, call, by, start_of)
    return newest


_encode = msgspec.msgpack.Encoder().encode
_decode_table = msgspec.msgpack.Decoder(LatencyTable).decode
