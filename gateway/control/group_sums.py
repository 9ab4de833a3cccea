"""Group sums: sums by the name of a group, as sums of the groups that there are: what was renamed keeps its calls.

Rollups know the names of the time. A name that one group alone had stands for it as a whole; of one that several had,
the spans are read one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gateway.domain.group_names import NameShare, NameSpan, name_shares
from gateway.store.latency import LatencyCounts, LatencyTable
from gateway.store.rollup import Counts
from gateway.store.sums import FOREVER, Bucket, Span, Sums, total


class GroupSums(NamedTuple):
    """Sums by group, and the histograms of the same calls."""

    sums: Sums
    latency: LatencyTable


Read = Callable[[Span], GroupSums]


def sums_of_groups(read: Read, span: Span, names: Mapping[str, Sequence[NameSpan]]) -> GroupSums:
    """The sums of a span. ``read`` reads those by the names of the time, ``names`` has the names of each group."""
    whole, shares = read(span), name_shares(names)
    if not shares:
        return whole
    rows: dict[str, Counts] = {}
    buckets: dict[tuple[int, str], Counts] = {}
    latency: LatencyTable = {}
    for name in {*whole.sums.rows, *whole.latency}:
        for share in shares.get(name, [NameShare(0, FOREVER, name)]):
            part = whole if (share.since, share.until) == (0, FOREVER) else _read_within(read, span, share)
            if part is None:
                continue
            if name in part.sums.rows:
                rows.setdefault(share.group, Counts()).merge(part.sums.rows[name])
            for bucket in part.sums.series:
                if bucket.key == name:
                    buckets.setdefault((bucket.start, share.group), Counts()).merge(bucket.counts)
            for start, counts in part.latency.get(name, {}).items():
                cells = latency.setdefault(share.group, {})
                cells.setdefault(start, LatencyCounts({}, {})).merge(counts)
    series = [Bucket(start, group, counts) for (start, group), counts in sorted(buckets.items(), key=lambda b: b[0])]
    sums = whole.sums  # calls may have ended between two reads: the total is that of the rows
    return GroupSums(Sums(total(rows.values()), rows, series, sums.first), latency)


def _read_within(read: Read, span: Span, share: NameShare) -> GroupSums | None:
    since, until = max(span.since, share.since), min(span.until, share.until)
    return read(Span(since, until)) if since < until else None
