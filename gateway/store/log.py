"""The call log: all ended calls in segments, and the number of the newest record known to be safe.

Appending costs the same at any size, and opening reads only the open segment. A segment is closed at the end of a day
(UTC) or when it is big, and the next one begins at once. Closed segments are sealed later: their sums enter the ledger.
Calls come from one thread; ``sync`` and ``seal`` may come from another.

Records are numbered without gaps, so one missing in the middle shows. To show a missing end, ``HighWater`` keeps the
last number in a file of its own. The syncing thread writes it after each sync, never on a call's path. It is not synced
itself: after a power cut it may be too small, never too large.
"""

import calendar
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from gateway.store import files
from gateway.store.folder import ordinary
from gateway.store.ledger import Ledger, check_complete
from gateway.store.rollup import DAY, Countable, Rollup, SegmentSums
from gateway.store.segment import EMPTY, Segment
from gateway.store.tail import Mark, PartlyWritten, Tail, recheck_sealed, restore


class HighWater:
    """``last`` is the number in the file when it was opened, and later the number that was last put; 0 if unknown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = files.read(path)
        self.last = int(data) if _NUMBER.fullmatch(data) else 0

    def put(self, last: int) -> None:
        """Write down that all records up to this number are safe. If the disk refuses, the next call tries again."""
        if last <= self.last:
            return
        with suppress(OSError):
            files.replace(self._path, b"%d\n" % last, durable=False)
            self.last = last


_NUMBER = re.compile(rb"\d{1,18}\n")


LIMIT = 32 << 20
"""The size of a segment in bytes, about 60,000 calls. It bounds what is read at start, and what stock TinyDB must hold.
"""


_NAME = re.compile(r"calls-(\d{8})-(\d{4,9})\.json")


class LogLine(NamedTuple):
    """One call to be appended."""

    doc_id: int
    data: bytes
    call: Countable


_data = attrgetter("data")


class SegmentView(NamedTuple):
    """A segment as it was at one moment, unaffected by later writes."""

    segment: Segment
    n: int
    last: int
    sums: SegmentSums
    end: int
    """The bytes of the file up to here never change again."""


def _view(segment: Segment) -> SegmentView:
    sums = segment.sums.copy() if isinstance(segment.sums, Rollup) else segment.sums
    return SegmentView(segment, segment.n, segment.last, sums, segment.end)


class Log:
    """The folder ``usage``. What is damaged is repaired when it is opened, and reported in ``notes``.

    Changes replace the tuple ``segments`` (oldest first). Raises OSError, StoreTooNew and StoreDamaged.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = LIMIT,
        now: Callable[[], int] = int,
        oldest: Callable[[], int] = int,
        notes: list[str] | None = None,
        high_water: HighWater | None = None,
    ) -> None:
        """``oldest`` returns the moment before which calls need not be kept, in milliseconds."""
        self.folder, self._limit, self._oldest = folder, limit, oldest
        self._moment = now()
        self._high_water = high_water
        self.notes = [] if notes is None else notes
        self.tell: Callable[[str], None] = self.notes.append
        """Reports what happens to growing files, for the owner."""
        self.damage: list[str] = []
        """The notes about calls whose cost may be missing from the sums."""
        self.lock = threading.Lock()
        """While it is held, no segment grows. Waiting for the disk happens without it."""
        self._sync_lock = threading.Lock()
        self._closed: list[Tail] = []
        self._tail: Tail | None = None
        self._day_end = 0
        self._files, self._files_safe = 1, 0
        """At least how many files were made, and how many of their names are safe from a power cut."""
        self._wait_with_seal = 0
        self.segments: tuple[Segment, ...] = ()
        self.last = 0
        """The newest document id ever given, even if its call is missing."""
        files.make_folder(folder)
        self._load()

    def append(self, lines: Sequence[LogLine], *, in_new_file: bool = False) -> None:
        """Append calls with growing ids, all or none, in one write; if asked, in a new file.

        Raises OSError, and PartlyWritten if the first of them were added and cannot be undone.
        """
        with self.lock:
            tail, ts = self._tail, lines[0].call.ts
            if in_new_file or tail is None or ts >= self._day_end or tail.segment.end > self._limit:
                tail = self._ready_tail(ts, in_new_file=in_new_file)
            written = 0
            try:
                tail.append(list(map(_data, lines)))
                written = len(lines)
            except PartlyWritten as exc:
                written = exc.count
                raise
            finally:
                for line in lines[:written]:
                    tail.segment.observe(line.doc_id, line.call)
                    self.last = line.doc_id

    def views(self) -> list[SegmentView]:
        """Returns the segments as they are now. The caller holds the lock."""
        return [_view(segment) for segment in self.segments]

    def sync(self) -> None:
        """Make everything appended before survive a power cut.

        A file whose sync failed is rewritten from memory; OSError if that fails, too.
        """
        with self._sync_lock:
            with self.lock:
                due = [(tail, tail.mark()) for tail in (*self._closed, self._tail) if tail and tail.dirty]
                made, last = self._files, self.last
            if made != self._files_safe:
                files.sync_folder(self.folder)
                self._files_safe = made
            for tail, mark in due:
                self._sync(tail, mark)
            if self._high_water is not None:
                self._high_water.put(last)

    def seal(self) -> None:
        """Enter the sums of closed, synced segments into the ledger, and delete what is too old.

        If the disk refuses, it is tried again some time later.
        """
        with self._sync_lock:
            ready = [tail for tail in self._closed if not tail.dirty]
            if not ready:
                return
            if self._wait_with_seal:
                self._wait_with_seal -= 1
                return
            sealed = [tail.segment.seal() for tail in ready]
            try:
                self.ledger.put(*sealed)
            except OSError:
                self._wait_with_seal = 100  # a full disk must not be asked ten times a second
                return
            with self.lock:
                for tail, sums in zip(ready, sealed, strict=True):
                    tail.segment.sums = sums
                    self._closed.remove(tail)
                    tail.close()
            self._retain()

    def close(self) -> None:
        """Sync and close the files. Raises OSError if the sync fails; the files are closed anyway."""
        try:
            self.sync()
            self.seal()
        finally:
            for tail in (*self._closed, self._tail):
                if tail:
                    tail.close()
            self._closed, self._tail = [], None

    def _sync(self, tail: Tail, mark: Mark) -> None:
        try:
            tail.sync()
        except OSError as exc:
            with self.lock:
                tail.rebuild()
            self.tell(f"the disk refused to sync {tail.segment.name} ({files.reason(exc)}); the file was rewritten")
        else:
            with self.lock:
                tail.covered(mark)

    def _retain(self) -> None:
        """Delete the files of sealed segments whose calls are all too old. Their sums stay."""
        before = self._oldest()
        for segment in self.segments:
            if segment.name in self.ledger.sealed and not segment.gone and segment.t1 < before:
                segment.gone = True  # first, so that a reader who finds no file knows why
                try:
                    segment.path.unlink(missing_ok=True)
                except OSError:
                    segment.gone = False  # the next time will do

    def _ready_tail(self, ts: int, *, in_new_file: bool) -> Tail:
        tail = self._tail
        if in_new_file and (tail is None or tail.segment.n):
            return self._rotate(ts)
        if tail is not None and ts < self._day_end and tail.segment.end <= self._limit:
            return tail
        try:
            return self._rotate(ts)
        except OSError:
            if tail is None:
                raise
            return tail  # no room for another file: a call may still fit into this one

    def _rotate(self, ts: int) -> Tail:
        segment = Segment(self.folder / _next_name(self.segments, ts))
        if files.read(segment.path) != EMPTY:  # else it is left from a time when it could not be opened
            files.create(segment.path, EMPTY)
        self._files += 1
        try:
            tail = Tail(segment)
        except OSError:
            with suppress(OSError):
                segment.path.unlink(missing_ok=True)
            raise
        self.segments = (*self.segments, segment)
        self._grow(tail)
        return tail

    def _grow(self, tail: Tail) -> None:
        if self._tail is not None:
            self._closed.append(self._tail)
        self._tail = tail
        self._day_end = _day_end(tail.segment.name)

    def _load(self) -> None:
        self.ledger = Ledger(self.folder)
        there, self.last = _names(self.folder), 0
        segments = []
        for name in sorted({*there, *self.ledger.sealed}, key=_order):
            if name in self.ledger.sealed:
                segment = Segment(self.folder / name, self.ledger.sealed[name])
                segment.gone = name not in there
                if not segment.gone:
                    segment, note = recheck_sealed(segment, self.ledger, self._moment)
                    self.notes += [note] if note else []
            else:
                segment = self._found(name)
            self.last = max(self.last, segment.last)
            segments.append(segment)
        self.segments = tuple(segments)
        if self._tail and self._tail.segment is not segments[-1]:
            self._closed.append(self._tail)
            self._tail = None
        if self.ledger.damaged or not self.ledger.there:
            check_complete(self.ledger.path, segments)
        written = self._high_water.last if self._high_water is not None else 0
        if written > self.last:  # their ids are not given to other calls: the file may be restored
            self.notes.append(_missing(self.folder, self.last + 1, written))
            self.last = written
            if not self.ledger.there:  # else the next start would miss the calls in between
                self.ledger.put()
        if self.ledger.damaged:
            kept = self.ledger.restore(self._moment)
            path = ordinary(self.ledger.path)
            self.notes.append(f"{path} was damaged and has been rebuilt; the original is {kept.name}")
        self._retain()

    def _found(self, name: str) -> Segment:
        """Open a segment that is not sealed: the last one that grew, or one that a crash kept from being sealed."""
        segment = Segment(self.folder / name)
        segment.last = self.last
        text = restore(segment, self.last, self._moment)
        if text:
            self.notes.append(text)
            self.damage.append(text)
        self._grow(Tail(segment))
        return segment


def _missing(folder: Path, first: int, last: int) -> str:
    which = f"record {last} is" if first == last else f"records {first} to {last} are"
    return (
        f"{which} missing from the end of {ordinary(folder)}: the newest call file was deleted or truncated. What "
        "those calls cost is missing from all sums. Restore the file from a backup if there is one"
    )


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)}


def _order(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match else ("", 0)


def _next_name(segments: Sequence[Segment], ts: int) -> str:
    """Returns the name for the call's day, but never before the newest day: a clock set back must not reorder the
    files.
    """
    last = 253_402_300_799_999  # the end of the year 9999
    day = time.strftime("%Y%m%d", time.gmtime(min(max(ts, 0), last) // 1000))
    newest, number = _order(segments[-1].name) if segments else ("", 0)
    return f"calls-{day}-0000.json" if day > newest else f"calls-{newest}-{number + 1:04d}.json"


def _day_end(name: str) -> int:
    return calendar.timegm(time.strptime(name[6:14], "%Y%m%d")) * 1000 + DAY
