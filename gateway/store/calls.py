"""CallLog: the records of ended calls. Searches read from the newest record back, without an index; see ``search``."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import islice

import msgspec

from gateway.domain.budget import Window, window_end, window_start
from gateway.domain.call import Record, began_at
from gateway.domain.query import EVERYTHING, CallOrder, OneOf, Query
from gateway.domain.settings import ExpiringRecords
from gateway.domain.units import DAY_MS, HOUR_MS, QUARTER_MS, CallId, Millis
from gateway.domain.views import CallView, call_view
from gateway.store import sums
from gateway.store.latency import LatencyCache, LatencyTable, book_latency
from gateway.store.line_format import CRC
from gateway.store.log import Log
from gateway.store.rollup import Counts, Dimension, Rollup, Table, total, totals_of
from gateway.store.search import SearchDeadline, matching_calls
from gateway.store.segment import Segment
from gateway.store.sums import FOREVER, Span, Step, Sums


class SearchExtent(msgspec.Struct, frozen=True, kw_only=True):
    """How far back a search looked."""

    cursor: int | None = None
    """The number below which the search can continue; None if everything was searched."""
    back_to: Millis = Millis(0)
    """When the oldest call that was examined began."""
    left: int = 0
    """The number of calls that were not examined."""


class CallLog:
    """Writes and reads the records of ended calls. Reading raises OSError."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._latency = LatencyCache()

    @property
    def count(self) -> int:
        return sum(segment.count for segment in self.log.segments if not segment.deleted)

    def get(self, call_id: CallId) -> Record | None:
        """Returns the record with this id; None if the id is unknown or not valid."""
        call = self._find(call_id)
        return call[1] if call else None

    def by_number(self, top: int, limit: int) -> list[Record]:
        """Returns the records numbered ``top``, ``top - 1`` and so on, at most ``limit`` of them.

        Records are numbered in the order their calls ended: the oldest one that is kept is number 1, the newest is
        number ``count``. Numbers outside that range are skipped.
        """
        with self.log.lock:
            segments = [copy(segment) for segment in self.log.segments if not segment.deleted]
        skip = max(0, sum(segment.count for segment in segments) - top)
        wanted = min(limit, top)
        records: list[Record] = []
        for segment in reversed(segments):
            if skip < segment.count:
                records += (record for _, record in islice(segment.calls(CRC, skip), wanted - len(records)))
            if len(records) >= wanted:
                break
            skip = max(0, skip - segment.count)
        return records

    def find(self, query: Query = EVERYTHING, *, limit: int) -> list[Record]:
        """Returns the matching calls that ended last, newest first."""
        return self.search(query, limit=limit, deadline=SearchDeadline())[0]

    def number_of(self, call_id: CallId) -> int:
        """Returns the number of a call's record, as a search takes it for ``below``; 0 if the call is unknown."""
        call = self._find(call_id)
        return call[0] if call else 0

    def search(
        self, query: Query = EVERYTHING, *, limit: int, below: int = FOREVER, deadline: SearchDeadline
    ) -> tuple[list[Record], SearchExtent]:
        """Returns up to ``limit`` matching calls that are found before the deadline, newest first, and how far back the
        search looked. ``below`` is an earlier cursor.
        """
        records: list[Record] = []
        for number, record in matching_calls(query, self.log.segments[::-1], below, deadline):
            records.append(record)
            if len(records) >= limit:
                return records, _extent(self.log.segments, number, record.ts)
        extent = _extent(self.log.segments, *deadline.oldest) if deadline.oldest else SearchExtent()
        return records, extent

    def best(
        self, query: Query, order: CallOrder, *, limit: int, below: int = FOREVER, deadline: SearchDeadline
    ) -> tuple[list[CallView], SearchExtent]:
        """Returns the calls that come first in an order, of those that ``search`` finds before the deadline, and how
        far back it looked.

        To get the first of all calls, continue the search by its cursor and merge the results.
        """
        calls: list[CallView] = []
        page_size = max(2 * limit, 1000)
        while True:
            records, extent = self.search(query, limit=page_size, below=below, deadline=deadline)
            calls = order.best([*calls, *map(call_view, records)], limit)
            if extent.cursor is None or len(records) < page_size:
                return calls, extent
            below = extent.cursor

    def sums(self, by: Dimension, since: Millis, until: Millis, step: Step) -> Sums:
        """Returns sums of the calls that began in ``since <= ts < until``: in total, by value and over time.

        Days and months are local. Of calls older than forty days, a UTC day counts to the local day when it begins.
        Months, and days that begin inside an hour of UTC, are exact as long as the records at their edges are kept.
        """
        segments, span = self.log.segments, Span(since, until)
        if not step:
            return _sums_of(segments, sums.by_value(segments, by, span), {})
        begins_inside_hour = time.timezone % 3600 or time.altzone % 3600  # a day does, in summer or in winter
        if step == "month" or (step == "day" and begins_inside_hour):
            table = _by_window(segments, by, span, Window(step))
        else:
            table = sums.over_time(segments, by, span, cache(_START_OF[step]))
        return _sums_of(segments, totals_of(table), table)

    def latency(self, by: Dimension, since: Millis, until: Millis, step: Step) -> LatencyTable:
        """Returns latency histograms by value and over time, of those calls in ``sums`` whose records are kept."""
        return self._latency.table(self.log.segments, by, Span(since, until), step, _START_OF[step])

    def recorded_ids(self, call_ids: set[CallId], since: Millis) -> set[CallId]:
        """Returns which of these calls have a record. All of them began at ``since`` or later."""
        query = Query(since=since, conditions=(OneOf("id", frozenset(call_ids)),))
        return {record.id for record in self.find(query, limit=len(call_ids))} if call_ids else set()

    def _find(self, call_id: CallId) -> tuple[int, Record] | None:
        """Returns the number and the record of a call. Its id has its time, so likely files are searched first."""
        if (began := began_at(call_id)) is None:
            return None
        text = b'"id":"%s"' % call_id.encode()
        newest_first = self.log.segments[::-1]
        likely_first = sorted(newest_first, key=lambda segment: not segment.earliest <= began <= segment.latest)
        return next((call for segment in likely_first for call in segment.calls(text)), None)


def expiring_records(calls: CallLog, before: int) -> ExpiringRecords:
    """Returns how many records are in files that may be deleted, because all their calls began before this moment."""
    old = [segment for segment in calls.log.segments if segment.readable and segment.latest < before]
    days = {segment.earliest // DAY_MS for segment in old}
    return ExpiringRecords(records=sum(segment.count for segment in old), days=len(days))


def has_deleted(calls: CallLog, since: int) -> bool:
    """Returns whether the records of any calls since this moment were deleted because of their age."""
    return any(segment.deleted and segment.latest >= since for segment in calls.log.segments)


def _extent(segments: Iterable[Segment], number: int, back_to: Millis) -> SearchExtent:
    left = sum(min(segment.count, max(0, number - segment.first)) for segment in segments if segment.readable)
    return SearchExtent(cursor=number, back_to=back_to, left=left)


def filtered_sums_of(
    calls: CallLog, query: Query, by: Dimension, step: Step, deadline: SearchDeadline
) -> tuple[Sums, LatencyTable]:
    """Returns what ``sums`` and ``latency`` return, for the matching calls that are found before the deadline.

    The stored sums do not tell which calls match a query, so records are read, and calls without one are missing here.
    """
    rollups, latency, start_of = defaultdict[int, Rollup](Rollup), LatencyTable(), cache(_START_OF[step])
    for _, call in matching_calls(query, calls.log.segments[::-1], FOREVER, deadline):
        rollups[start_of(call.ts // QUARTER_MS * QUARTER_MS)].add(call)
        book_latency(latency, call, by, start_of)
    table: Table = {}
    for start, rollup in rollups.items():
        for value, counts in rollup.totals(by).items():
            table.setdefault(value, {})[start] = counts
    return _sums_of(calls.log.segments, totals_of(table), table if step else {}), latency


def _sums_of(segments: Sequence[Segment], rows: dict[str, Counts], table: Table) -> Sums:
    first = min((Millis(segment.earliest) for segment in segments if segment.latest), default=None)
    return Sums(total(rows.values()), rows, table, first)


def _by_window(segments: Sequence[Segment], by: Dimension, span: Span, window: Window) -> Table:
    """Returns the sums of each local month or day. The calls at its edges are counted one by one."""
    table: Table = {}
    earliest = min((segment.earliest for segment in segments if segment.latest), default=span.until)
    latest = max((segment.latest for segment in segments), default=-1)
    start, stop = Millis(max(span.since, earliest)), Millis(min(span.until, latest + 1))
    while start < stop:
        end = window_end(window, start) or stop
        for value, counts in sums.by_value(segments, by, Span(start, min(end, span.until))).items():
            table.setdefault(value, {})[window_start(window, start)] = counts
        start = end
    return table


_START_OF: Mapping[Step, Callable[[int], int]] = {
    "month": lambda start: window_start(Window.MONTH, Millis(start)),
    "day": lambda start: window_start(Window.DAY, Millis(start)),
    "hour": lambda start: start // HOUR_MS * HOUR_MS,
    "": lambda _: 0,
}
"""Functions that return the start of the step that a moment belongs to, by the length of the step."""
