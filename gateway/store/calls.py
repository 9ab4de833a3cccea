"""CallLog: the typed face of the log. Records go in and come out; the newest are found first, without an index.

Files are skipped by time, the rest is searched from its end for the bytes that a wanted record must hold; only what
has them is decoded, and then looked at exactly.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from gateway.domain.call import Outcome, Record
from gateway.domain.limits import Window, window_start
from gateway.domain.units import CallId, Millis
from gateway.store import sums
from gateway.store.lines import body_of, fit, id_of, pack
from gateway.store.log import Line, Log
from gateway.store.rollup import Counts, Dimension
from gateway.store.segment import Segment
from gateway.store.sums import FOREVER, Bucket, Span, Sums

_ID = re.compile(r"req_[0-9a-f]{26}")
_ID_IN_LINE = re.compile(rb'"id":"(req_[0-9a-f]{26})"')

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls: all conditions must hold, None is none. ``since <= ts < until``."""

    since: Millis | None = None
    until: Millis | None = None
    token: str | None = None
    """Token id."""
    group: str | None = None
    model: str | None = None
    channel: str | None = None
    """Channel id."""
    app: str | None = None
    status: int | None = None
    outcome: Outcome | None = None
    failed: bool | None = None


ANY = CallFilter()

_EXACT = ("status", "outcome", "app", "token", "channel", "model", "group")
"""Conditions on one field, the rarest values first: the first one present is what is searched for."""

_ABSENT: dict[str, object] = {"status": 0, "outcome": Outcome.DONE}
"""Values that are not written: they are the defaults of a Record. For the other fields that is the empty string."""


def is_id(text: str) -> bool:
    """Whether the text has the form of a call's id."""
    return _ID.fullmatch(text) is not None


class CallLog:
    """Records of ended calls. Reading raises OSError."""

    def __init__(self, log: Log) -> None:
        self.log = log

    @property
    def count(self) -> int:
        """How many records are kept."""
        return sum(segment.n for segment in self.log.segments if not segment.gone)

    def append(self, records: Iterable[Record], *, in_new_file: bool = False) -> None:
        """All or none, by one write. Raises OSError as ``Log.append`` does."""
        first = self.log.last + 1
        lines = [Line(i, pack(i, _encode(one)), one) for i, one in enumerate(records, first)]
        self.log.append(lines, in_new_file=in_new_file)

    def amend(self, old: Record, new: Record) -> bool:
        """Put another record of the same call in the place of one that is not yet safe from a power cut.

        False if the old one stays: it is safe by now, or the disk refuses.
        """

        def remake(line: bytes) -> bytes | None:
            shorter = msgspec.structs.replace(new, error="")
            return next(filter(None, (fit(id_of(line), _encode(one), len(line)) for one in (new, shorter))), None)

        return self.log.amend(b'"id":"%s"' % old.id.encode(), remake, old, new)

    def get(self, call_id: CallId) -> Record | None:
        """The record with this id; None if there is none or the text is no id."""
        found = self._locate(call_id)
        return _decode(body_of(found)) if found else None

    def newest(self, limit: int) -> list[Record]:
        """The calls that ended last, newest first."""
        return self.find(ANY, limit=limit)

    def numbered(self, top: int, limit: int) -> list[Record]:
        """The records numbered ``top``, ``top - 1``, … in the order of their ends.

        The oldest kept is 1, the newest ``count``; numbers beyond them are passed over.
        """
        skip = max(0, self.count - top)
        wanted = min(limit, top)
        records: list[Record] = []
        for segment in reversed([one for one in self.log.segments if not one.gone]):
            if skip >= segment.n:
                skip -= segment.n
                continue
            for line in segment.newest_after(skip):
                if len(records) >= wanted:
                    return records
                records.append(_decode(body_of(line)))
            skip = 0
        return records

    def find(self, where: CallFilter, *, limit: int, before: CallId | None = None) -> list[Record]:
        """The calls that ended last among those wanted, newest first; with ``before``, only those that ended earlier.

        Calls lie in the order of their ends, so pages neither overlap nor leave anything out while calls come in.
        """
        top = FOREVER
        if before is not None:
            found = self._locate(before)
            top = id_of(found) if found else 0
        records: list[Record] = []
        for record in self._wanted(where, top):
            if len(records) >= limit:
                break
            records.append(record)
        return records

    def sums(self, by: Dimension, since: Millis, until: Millis, step: Literal["hour", "day", ""]) -> Sums:
        """Sums of calls that began in ``since <= ts < until``, in total, by value and over time.

        Days are local ones, and a UTC hour (or, in what is older than forty days, a UTC day) belongs to the local day
        in which it begins.
        """
        span = Span(since, until)
        if not step:
            rows = sums.by_value(self.log.segments, by, span)
            return Sums(sums.total(rows.values()), rows, [])
        table = sums.over_time(self.log.segments, by, span)
        rows = {value: sums.total(cells.values()) for value, cells in table.items()}
        start_of = _local_day if step == "day" else _same
        return Sums(sums.total(rows.values()), rows, _series(table, start_of))

    def present(self, wanted: set[CallId], since: Millis) -> set[CallId]:
        """Which of these calls, none of which began earlier, have a record."""
        found: set[CallId] = set()
        for segment in self.log.segments:
            if wanted and segment.n and segment.t1 >= since:
                for block in segment.blocks():
                    found.update(wanted.intersection(CallId(i.decode()) for i in _ID_IN_LINE.findall(block)))
        return found

    def _locate(self, call_id: CallId) -> bytes | None:
        """The line of a call. Its id tells when it began, so most segments need no look."""
        if not is_id(call_id):
            return None
        moment = int(call_id[4:16], 16)
        near: list[Segment] = []
        far: list[Segment] = []
        for segment in reversed(self.log.segments):
            (near if segment.t0 <= moment <= segment.t1 else far).append(segment)
        needle = [b'"id":"%s"' % call_id.encode()]
        return next((line for segment in (*near, *far) for line in segment.newest(needle)), None)

    def _wanted(self, where: CallFilter, top: int) -> Iterator[Record]:
        needles, fits = _needles(where), _test(where)
        skip = _succeeded if where.failed else None
        since, until = where.since or 0, FOREVER if where.until is None else where.until
        for segment in reversed(self.log.segments):
            if not segment.n or segment.t1 < since or segment.t0 >= until or segment.first >= top:
                continue
            for line in segment.newest(needles, skip):
                if segment.last < top or id_of(line) < top:
                    record = _decode(body_of(line))
                    if since <= record.ts < until and fits(record):
                        yield record


def _needles(where: CallFilter) -> list[bytes]:
    """What the bytes of a wanted line must hold. A field at its default is not written, so nothing can be asked."""
    return [
        b'"%s":%s' % (name.encode(), _encode(value))
        for name in _EXACT
        if (value := getattr(where, name)) is not None and value != _ABSENT.get(name, "")
    ]


def _succeeded(line: bytes) -> bool:
    """Whether the bytes show a good status, that of the call and not of an attempt; if not, they may hold either."""
    found = line.find(b'"status":2')
    return found >= 0 and line.find(b'"attempts":', 0, found) < 0


def _test(where: CallFilter) -> Callable[[Record], bool]:
    exact = [(name, value) for name in _EXACT if (value := getattr(where, name)) is not None]

    def fits(record: Record) -> bool:
        if where.failed is not None and record.failed != where.failed:
            return False
        return all(getattr(record, name) == value for name, value in exact)

    return fits


def _series(table: dict[str, dict[int, Counts]], start_of: Callable[[int], int]) -> list[Bucket]:
    starts = {start: start_of(start) for start in {start for cells in table.values() for start in cells}}
    buckets: dict[tuple[int, str], Counts] = {}
    for value, cells in table.items():
        for start, counts in cells.items():
            buckets.setdefault((starts[start], value), Counts()).merge(counts)
    return [Bucket(start, value, counts) for (start, value), counts in sorted(buckets.items(), key=lambda b: b[0])]


def _local_day(start: int) -> int:
    return window_start(Window.DAY, Millis(start))


def _same(start: int) -> int:
    return start
