"""Latency: percentiles of durations and of times to the first byte, counted from the records themselves.

Rollups have sums only, so settling a call does no work for percentiles. When they are requested, the calls of each
segment are counted once, in buckets that are at most 3 % wide, and the counts are kept in memory, so the next request
only reads calls that are new. Of calls whose records were deleted there are averages, but no percentiles.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain.call import CHAT_API, Outcome
from gateway.store.files import body_of, id_of, intact, split
from gateway.store.rollup import HOUR, Dimension
from gateway.store.search import SearchDeadline
from gateway.store.segment import Segment
from gateway.store.sums import FOREVER, Span

EXACT_BITS = 6
"""Times below 2**6 milliseconds have a bucket each."""

CACHE_BYTES = 16 << 20
"""The most bytes of encoded counts: a year of 3,000 calls a day by model takes about 5 MiB."""

UNCOUNTED = (Outcome.REFUSED, Outcome.LOST)
"""Outcomes whose durations say nothing about upstreams."""


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
    """Returns the time that this share of the calls did not exceed, in milliseconds; None without calls."""
    left = share * sum(histogram.values())
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 0:
            return time_of(bucket)
    return None


class LatencyCounts(msgspec.Struct, array_like=True, gc=False):
    """Histograms of durations and of times to the first byte."""

    durations: Histogram = {}
    first_bytes: Histogram = {}

    def book(self, ms: int, ttft: int | None) -> None:
        """Add one call."""
        bucket = bucket_of(ms)
        self.durations[bucket] = self.durations.get(bucket, 0) + 1
        if ttft is not None:
            bucket = bucket_of(ttft)
            self.first_bytes[bucket] = self.first_bytes.get(bucket, 0) + 1

    def merge(self, other: "LatencyCounts") -> None:
        """Add other calls."""
        for mine, more in ((self.durations, other.durations), (self.first_bytes, other.first_bytes)):
            for bucket, count in more.items():
                mine[bucket] = mine.get(bucket, 0) + count


LatencyTable = dict[str, dict[int, LatencyCounts]]
"""Maps a value of a dimension to the start of an hour or day (0: without steps) to histograms."""


class CachedTable(msgspec.Struct, frozen=True):
    """The table of one segment."""

    last: int
    """Number of the newest record in it."""
    data: bytes
    """The encoded table, which takes a tenth of the memory."""


class LatencyCache:
    """The tables of segments that were requested before. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[str, Dimension, str], CachedTable] = OrderedDict()
        self._bytes = 0

    def table(
        self, segments: Iterable[Segment], by: Dimension, span: Span, step: str, start_of: Callable[[int], int]
    ) -> LatencyTable:
        """Returns the calls that began in the span. ``start_of`` maps an hour to the start of its hour or day."""
        table: LatencyTable = {}
        with self._lock:
            for segment in segments:
                if segment.gone or segment.t1 < span.since or segment.t0 >= span.until:
                    continue
                inside = span.since <= segment.t0 and segment.t1 < span.until
                if inside or (step and _on_steps(segment, span, start_of)):
                    _add(table, self._cached(segment, by, step, start_of), Span() if inside else span)
                else:
                    cells: LatencyTable = {}
                    _count(segment, by, cells, start_of, span)
                    _add(table, cells, Span())
        return table

    def _cached(self, segment: Segment, by: Dimension, step: str, start_of: Callable[[int], int]) -> LatencyTable:
        key = (segment.name, by, step)
        known = self._tables.get(key)
        table: LatencyTable = {} if known is None else _decode_table(known.data)
        last = segment.last  # first: calls that come while it is read are counted the next time
        if known is None or known.last != last:
            _count(segment, by, table, start_of, Span(), above=0 if known is None else known.last, top=last)
            self._keep(key, CachedTable(last, _encode(table)))
        else:
            self._tables.move_to_end(key)
        return table

    def _keep(self, key: tuple[str, Dimension, str], table: CachedTable) -> None:
        old = self._tables.pop(key, None)
        self._tables[key] = table
        self._bytes += len(table.data) - (len(old.data) if old else 0)
        while self._bytes > CACHE_BYTES and len(self._tables) > 1:
            _, dropped = self._tables.popitem(last=False)
            self._bytes -= len(dropped.data)


def _on_steps(segment: Segment, span: Span, start_of: Callable[[int], int]) -> bool:
    """Returns whether the span begins and ends with an hour or day, as far as that matters for the segment."""
    begins = span.since <= segment.t0 or start_of(span.since // HOUR * HOUR) == span.since
    return begins and (segment.t1 < span.until or start_of(span.until // HOUR * HOUR) == span.until)


def _add(table: LatencyTable, cells: LatencyTable, within: Span) -> None:
    """Add the hours or days that begin within the span."""
    for value, rows in cells.items():
        for start, counts in rows.items():
            if within.since <= start < within.until:
                table.setdefault(value, {}).setdefault(start, LatencyCounts({}, {})).merge(counts)


def _count(
    segment: Segment,
    by: Dimension,
    table: LatencyTable,
    start_of: Callable[[int], int],
    span: Span,
    *,
    above: int = 0,
    top: int = FOREVER,
) -> None:
    """Add the segment's calls of the span, with numbers above ``above`` and up to ``top``, to the table."""
    cells: dict[tuple[str, int], LatencyCounts] = {}
    patience = SearchDeadline()  # lets other threads run after each millisecond
    decode, decode_all = _decoders(by)
    pairs = by == "token|model"
    since, until = span
    for block in segment.blocks():
        oldest = 0
        for number, call in _calls(block, decode, decode_all):
            oldest = oldest or number
            if not above < number <= top or call.outcome in UNCOUNTED or not since <= call.ts < until:
                continue
            key = f"{call.key}|{call.model}" if pairs else call.key
            cell = (key, call.ts // HOUR)
            counts = cells.get(cell)
            if counts is None:
                rows = table.setdefault(key, {})
                counts = cells[cell] = rows.setdefault(start_of(call.ts // HOUR * HOUR), LatencyCounts({}, {}))
            counts.book(call.ms, call.ttft)
        patience.over()
        if oldest and oldest <= above + 1:
            return


def _calls(block: bytes, decode: Callable[[bytes], Any], decode_all: Callable[[bytes], Any]) -> Iterator[Any]:
    """Yields number and call of each intact line, oldest first. Decoding a whole block takes a third of the time."""
    try:
        found = decode_all(b"{%s}" % block.strip(b"\n,"))
        if len(found) == block.strip(b"\n").count(b"\n") + 1:
            yield from ((int(number), call) for number, call in found.items())
            return
    except (msgspec.DecodeError, ValueError):
        pass
    for line in split(block):  # damage: one line at a time
        if line and intact(line):
            yield id_of(line), decode(body_of(line))


def _decoders(by: Dimension) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """Returns decoders of one line and of many lines, to the fields that this dimension needs."""
    pairs = by == "token|model"
    timing = msgspec.defstruct(
        "Timing",
        [
            ("ts", int, 0),
            ("key", str, CHAT_API if by == "api" else ""),
            *([("model", str, "")] if pairs else []),
            ("ms", int, 0),
            ("ttft", int | None, None),
            ("outcome", str, Outcome.DONE.value),
        ],
        rename={"key": "token" if pairs else by},
        frozen=True,
        gc=False,
    )
    return msgspec.json.Decoder(timing).decode, msgspec.json.Decoder(dict[str, timing]).decode  # type: ignore[valid-type]


_encode = msgspec.msgpack.Encoder().encode
_decode_table = msgspec.msgpack.Decoder(LatencyTable).decode
