"""Latency: percentiles of durations and of times to the first byte, computed from the records themselves.

Rollups have sums only, so settling a call needs no work for percentiles. When they are requested, the records are read
and counted in buckets that are at most 3 % wide. Calls whose records were deleted are in averages, but not in
percentiles.
"""

from collections.abc import Callable

import msgspec

from gateway.domain.call import Outcome
from gateway.store.rollup import HOUR, Dimension, RollupEntry
from gateway.store.sums import value_of

EXACT_BITS = 6
"""Times below 2**6 milliseconds have a bucket each."""

UNCOUNTED = (Outcome.REFUSED, Outcome.LOST)
"""Outcomes of calls whose durations say nothing about upstreams."""


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
    """Returns the time in milliseconds that this share of the calls did not exceed; None if there are no calls."""
    remaining = share * sum(histogram.values())
    for bucket in sorted(histogram):
        remaining -= histogram[bucket]
        if remaining <= 0:
            return time_of(bucket)
    return None


class LatencyCounts(msgspec.Struct, gc=False):
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


def book_latency(table: LatencyTable, call: RollupEntry, by: Dimension, start_of: Callable[[int], int]) -> None:
    """Count one call in the table. ``start_of`` maps an hour to the start of its hour or day."""
    if call.outcome not in UNCOUNTED:
        cells, start = table.setdefault(value_of(call, by), {}), start_of(call.ts // HOUR * HOUR)
        (cells.get(start) or cells.setdefault(start, LatencyCounts())).add(call.ms, call.ttft)
