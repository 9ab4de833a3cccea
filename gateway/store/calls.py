"""CallLog: the log with typed records. Searches run from the newest record back, in the files and without an index.

``search`` has the filters.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from gateway.domain.budget import Window, window_end, window_start
from gateway.domain.call import Record, is_call_id
from gateway.domain.query import EVERYTHING, CallOrder, Query
from gateway.domain.settings import ExpiringRecords
from gateway.domain.units import CallId, Millis
from gateway.domain.views import CallView, call_view
from gateway.store import sums
from gateway.store.files import body_of, id_of, intact, pack
from gateway.store.latency import LatencyCache, LatencyTable, book_latency
from gateway.store.log import Log, LogLine
from gateway.store.rollup import DAY, Counts, Dimension, Rollup, Table
from gateway.store.search import LogSearch, SearchDeadline
from gateway.store.segment import Segment, decode_entry
from gateway.store.sums import FOREVER, Bucket, Span, Step, Sums

_ID_IN_LINE = re.compile(rb'"id":"(req_[0-9a-f]{26})"')

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, and how far back it looked."""

    records: list[Record]
    """Newest first."""
    cursor: int | None = None
    """Where the search can go on: below this number. None if everything was searched."""
    back_to: Millis = Millis(0)
    """When the oldest call that was examined began."""
    left: int = 0
    """How many calls were not examined."""


class SortedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The first calls in an order, of those examined, and how far back the search looked."""

    calls: list[CallView]
    progress: SearchResult
    """Without records."""


class CallLog:
    """Records of ended calls. Reading raises OSError."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._latency = LatencyCache()

    @property
    def count(self) -> int:
        """How many records are kept."""
        return sum(segment.n for segment in self.log.segments if not segment.gone)

    def append(self, records: Iterable[Record], *, in_new_file: bool = False) -> None:
        """Append all records or none, in one write. Raises OSError as ``Log.append`` does."""
        lines: list[LogLine] = []
        for number, record in enumerate(records, self.log.last + 1):
            line = pack(number, _encode(record))
            lines.append(LogLine(number, line, record))
        self.log.append(lines, in_new_file=in_new_file)

    def get(self, call_id: CallId) -> Record | None:
        """Returns the record with this id; None if it is unknown or not an id."""
        line = self._locate(call_id)
        return _decode(body_of(line)) if line else None

    def newest(self, limit: int) -> list[Record]:
        """Returns the calls that ended last, newest first."""
        return self.find(limit=limit)

    def numbered(self, top: int, limit: int) -> list[Record]:
        """Returns the records numbered ``top``, ``top - 1``, … in the order in which calls ended.

        The oldest record kept is number 1, the newest ``count``; numbers outside of that range are skipped.
        """
        with self.log.lock:
            kept = [(segment, segment.n, segment.end) for segment in self.log.segments if not segment.gone]
        skip = max(0, sum(n for _, n, _ in kept) - top)
        wanted = min(limit, top)
        records: list[Record] = []
        for segment, n, end in reversed(kept):
            if skip >= n:
                skip -= n
                continue
            for line in segment.newest_lines(skip, end):
                if len(records) >= wanted:
                    return records
                records.append(_decode(body_of(line)))
            skip = 0
        return records

    def find(self, query: Query = EVERYTHING, *, limit: int) -> list[Record]:
        """Returns the matching calls that ended last, newest first."""
        return self.search(query, limit=limit, patience=SearchDeadline()).records

    def place(self, call_id: CallId) -> int:
        """Returns the number below which a search finds the calls that ended before this one; 0 if it is unknown."""
        line = self._locate(call_id)
        return id_of(line) if line else 0

    def search(
        self,
        query: Query = EVERYTHING,
        *,
        limit: int,
        below: int = FOREVER,
        patience: SearchDeadline,
    ) -> SearchResult:
        """Search for matching calls, newest first, until there are enough or the deadline passes.

        ``below`` is the cursor of an earlier search.
        """
        records: list[Record] = []
        segments = self.log.segments[::-1]
        for step in LogSearch(query).steps(segments, below):
            for line in step.lines:
                if intact(line) and (number := id_of(line)) < below:
                    records.append(_decode(body_of(line)))
                    if len(records) >= limit:
                        return _so_far(self.log.segments, records, number, records[-1].ts)
                    patience.over()
            if patience.over():
                number, back_to = step.oldest()
                if 0 < number < below:
                    return _so_far(self.log.segments, records, number, back_to)
        return SearchResult(records=records)

    def best(
        self,
        query: Query,
        order: CallOrder,
        *,
        limit: int,
        below: int = FOREVER,
        patience: SearchDeadline,
    ) -> SortedCalls:
        """Search for matching calls until the deadline passes, and return the first ones in an order.

        Continue the search by its cursor and merge the results to get the first ones of all calls.
        """
        calls: list[CallView] = []
        size = max(2 * limit, 1000)
        while True:
            page = self.search(query, limit=size, below=below, patience=patience)
            calls = order.best([*calls, *map(call_view, page.records)], limit)
            if page.cursor is None or len(page.records) < size:
                return SortedCalls(calls=calls, progress=msgspec.structs.replace(page, records=[]))
            below = page.cursor

    def sums(self, by: Dimension, since: Millis, until: Millis, step: Step) -> Sums:
        """Returns sums of calls that began in ``since <= ts < until``: in total, by value and over time.

        Days and months are local. A UTC hour (for calls older than forty days, a UTC day) belongs to the local day in
        which it begins; months are exact as long as the calls at their edges are kept.
        """
        span = Span(since, until)
        if not step:
            return _sums_of(self.log.segments, sums.by_value(self.log.segments, by, span), [])
        table = (
            _by_month(self.log.segments, by, span) if step == "month" else sums.over_time(self.log.segments, by, span)
        )
        rows = {value: sums.total(cells.values()) for value, cells in table.items()}
        return _sums_of(self.log.segments, rows, _series(table, _START_OF[step]))

    def latency(self, by: Dimension, since: Millis, until: Millis, step: Step) -> LatencyTable:
        """Returns histograms of the calls that ``sums`` adds up and whose records are kept, by value and over time."""
        return self._latency.table(self.log.segments, by, Span(since, until), step, _START_OF[step])

    def present(self, wanted: set[CallId], since: Millis) -> set[CallId]:
        """Returns which of these calls, all of which began at ``since`` or later, have a record."""
        ids: set[CallId] = set()
        for segment in self.log.segments:
            if wanted and segment.n and segment.t1 >= since:
                for block in segment.blocks():
                    ids.update(wanted.intersection(CallId(i.decode()) for i in _ID_IN_LINE.findall(block)))
        return ids

    def _locate(self, call_id: CallId) -> bytes | None:
        """Returns the line of a call. Its id contains the time it began, so most segments can be skipped."""
        if not is_call_id(call_id):
            return None
        moment = int(call_id[4:16], 16)
        near: list[Segment] = []
        far: list[Segment] = []
        for segment in reversed(self.log.segments):
            (near if segment.t0 <= moment <= segment.t1 else far).append(segment)
        needle = [b'"id":"%s"' % call_id.encode()]
        return next((line for segment in (*near, *far) for line in segment.newest(needle)), None)


def count_older(calls: CallLog, call_id: CallId) -> int | None:
    """Returns how many of the records kept are older than this one; None if the id is unknown."""
    place, older = calls.place(call_id), 0
    for segment in [
        earlier for earlier in calls.log.segments if not earlier.gone and earlier.n and earlier.first <= place
    ]:
        if segment.last < place:
            older += segment.n
        elif segment.last - segment.first + 1 == segment.n:
            older += place - segment.first
        else:  # some are missing from its file
            older += sum(id_of(line) < place for line in segment.lines())
    return older if place else None


def expiring_records(calls: CallLog, before: int) -> ExpiringRecords:
    """Returns the files whose calls all began before this moment: they may be deleted."""
    old = [segment for segment in calls.log.segments if segment.n and not segment.gone and segment.t1 < before]
    return ExpiringRecords(records=sum(segment.n for segment in old), days=len({segment.t0 // DAY for segment in old}))


def has_deleted(calls: CallLog, since: int) -> bool:
    """Returns whether records of calls that began since this moment were deleted for their age."""
    return any(segment.gone and segment.t1 >= since for segment in calls.log.segments)


def _so_far(segments: Iterable[Segment], records: list[Record], number: int, back_to: Millis) -> SearchResult:
    left = sum(min(segment.n, max(0, number - segment.first)) for segment in segments if segment.n and not segment.gone)
    return SearchResult(records=records, cursor=number, back_to=back_to, left=left)


class CallSelection(NamedTuple):
    """Which calls to sum up, and how long to search."""

    query: Query
    patience: SearchDeadline


def filtered_sums_of(calls: CallLog, selection: CallSelection, by: Dimension, step: Step) -> tuple[Sums, LatencyTable]:
    """Returns what ``sums`` and ``latency`` return, for matching calls that are found before the deadline.

    Rollups have sums by the values of one dimension. What else those calls match is only in their records, so calls
    whose records were deleted are missing here.
    """
    rollup, latency, start_of, patience = Rollup(), LatencyTable(), cache(_START_OF[step]), selection.patience
    for block in LogSearch(selection.query).steps(calls.log.segments[::-1], FOREVER):
        for line in filter(intact, block.lines):
            call = decode_entry(body_of(line))
            rollup.add(call)
            book_latency(latency, call, by, start_of)
            patience.over()  # lets other threads run
        if patience.over():
            break
    series = _series(rollup.table(by), start_of) if step else []
    return _sums_of(calls.log.segments, rollup.totals(by), series), latency


def _sums_of(segments: Sequence[Segment], rows: dict[str, Counts], series: list[Bucket]) -> Sums:
    first = min((Millis(segment.t0) for segment in segments if segment.t1), default=None)
    return Sums(sums.total(rows.values()), rows, series, first)


def _by_month(segments: Sequence[Segment], by: Dimension, span: Span) -> Table:
    """Returns the sums of each local month. The calls at its edges are counted one by one."""
    table: Table = {}
    start = Millis(max(span.since, min((segment.t0 for segment in segments if segment.t1), default=span.until)))
    last = Millis(min(span.until, max((segment.t1 + 1 for segment in segments), default=0)))
    while start < last:
        end = window_end(Window.MONTH, start) or last
        for value, counts in sums.by_value(segments, by, Span(start, min(end, span.until))).items():
            table.setdefault(value, {})[_START_OF["month"](start)] = counts
        start = end
    return table


def _series(table: dict[str, dict[int, Counts]], start_of: Callable[[int], int]) -> list[Bucket]:
    starts = {start: start_of(start) for start in {start for cells in table.values() for start in cells}}
    buckets: dict[tuple[int, str], Counts] = {}
    for value, cells in table.items():
        for start, counts in cells.items():
            buckets.setdefault((starts[start], value), Counts()).merge(counts)
    return [Bucket(start, value, counts) for (start, value), counts in sorted(buckets.items(), key=lambda b: b[0])]


_START_OF: Mapping[Step, Callable[[int], int]] = {
    "month": lambda start: window_start(Window.MONTH, Millis(start)),
    "day": lambda start: window_start(Window.DAY, Millis(start)),
    "hour": lambda start: start,
    "": lambda _: 0,
}
"""By step: the start of what an hour belongs to."""
