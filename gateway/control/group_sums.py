"""Group sums: sums by the name of a group, as sums of the groups that there are: what was renamed keeps its calls.

Rollups know the names of the time. A name that only one group ever had stands for it as a whole; of one that several
had, the spans are read one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.domain.group_names import NameSpan
from gateway.store.latency import LatencyCounts, LatencyTable
from gateway.store.rollup import Counts
from gateway.store.sums import FOREVER, Bucket, Span, Sums


class GroupSums(NamedTuple):
    """Sums by group, and the histograms of the same calls."""

    sums: Sums
    latency: LatencyTable


Read = Callable[[Span], GroupSums]


class _Share(NamedTuple):
    """The span in which calls under a name belong to a group."""

    span: Span
    group: str


def sums_of_groups(read: Read, span: Span, names: Mapping[str, Sequence[NameSpan]]) -> GroupSums:
    """The sums of a span. ``read`` reads those by the names of the time, ``names`` has the names of each group."""
    whole, shares = read(span), _shares(names)
    if not shares:
        return whole
    rows: dict[str, Counts] = {}
    buckets: dict[tuple[int, str], Counts] = {}
    latency: LatencyTable = {}
    for name in {*whole.sums.rows, *whole.latency}:
        for share in shares.get(name, [_Share(Span(), name)]):
            part = whole if share.span == Span() else _read_within(read, span, share.span)
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
    sums = whole.sums
    return GroupSums(Sums(sums.total, rows, series, sums.first, sums.refusals_from), latency)


def _read_within(read: Read, span: Span, share: Span) -> GroupSums | None:
    since, until = max(span.since, share.since), min(span.until, share.until)
    return read(Span(since, until)) if since < until else None


def _shares(names: Mapping[str, Sequence[NameSpan]]) -> dict[str, list[_Share]]:
    """Which group the calls under a name belong to; those of a removed group are listed by the name."""
    owned: dict[str, list[_Share]] = {}
    for group, spans in names.items():
        for one in spans:
            until = FOREVER if one.until is None else one.until
            owned.setdefault(one.name, []).append(_Share(Span(one.since, until), group))
    return {name: list(_with_gaps(name, sorted(shares))) for name, shares in owned.items()}


def _with_gaps(name: str, shares: Sequence[_Share]) -> Iterator[_Share]:
    done = 0
    for share in shares:
        if done < share.span.since:
            yield _Share(Span(done, share.span.since), name)
        yield share
        done = share.span.until
    if done < FOREVER:
        yield _Share(Span(done, FOREVER), name)
