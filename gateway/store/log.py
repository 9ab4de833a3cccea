"""Log: all ended calls in segments, and the number of the newest record that is known to be safe.

Appending takes the same time at any size, and opening reads only the newest segment. A segment is closed at the end of
a day (UTC) or when it is full, and the next one begins at once. Closed segments are sealed later: their sums are added
to the ledger. Calls are appended by one thread; ``sync`` and ``seal`` may run in another, one at a time.

Records are numbered without gaps, so a missing one in the middle is noticed. To notice a missing end, ``HighWater``
stores the last number in a file of its own. The syncing thread writes it after each sync. The file itself is not
synced: after a power cut the number may be too small, but never too large.
"""

import calendar
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.call import Record
from gateway.domain.units import DAY_MS
from gateway.store import files
from gateway.store.ledger import Ledger, check_complete
from gateway.store.line_format import pack
from gateway.store.segment import EMPTY, Segment
from gateway.store.tail import PartlyWritten, Tail, recheck_sealed, repair


class HighWater:
    """The file with the number of the newest record that is safe from a power cut.

    The number is written over the former one, because some file systems wait for the disk when a file is replaced. It
    is written twice, so that a write that was cut off is noticed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        first, _, second = files.read(path).partition(b"\n")[0].partition(b" ")
        self.last = int(first) if first == second and first.isdigit() else 0
        """The number in the file; 0 if unknown."""

    def put(self, last: int) -> None:
        """Store that all records up to this number are safe. If the disk refuses, the next call tries again."""
        if last > self.last:
            with suppress(OSError):
                files.write_file(self._path, b"%d %d\n" % (last, last), 0, durable=False)
                self.last = last


LIMIT = 32 << 20
"""The size of a full segment in bytes, about 60,000 calls. It limits how much is read at the start."""

_NAME = re.compile(r"calls-(\d{8})-(\d{4,9})\.json")

_encode = msgspec.json.Encoder().encode


class Log:
    """The call log in the folder ``usage``. Opening it repairs and reports damage.

    Changes replace the tuple ``segments``, which is sorted oldest first. Raises OSError and StoreError.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = LIMIT,
        now: Callable[[], int] = int,
        oldest: Callable[[int], int] = lambda _newest: 0,
        high_water: HighWater | None = None,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """``oldest`` returns the moment before which calls need not be kept, given when the newest sealed one began, in
        milliseconds. ``report`` is called with each repair, at once and later, from any thread.
        """
        self.folder, self._limit, self._oldest = folder, limit, oldest
        self._moment = now()
        self._high_water, self.report = high_water, report
        self.damage: list[str] = []
        """The notes about calls whose cost may be missing from the sums."""
        self.lock = threading.Lock()
        """While it is held, no segment grows. It is not held while waiting for the disk."""
        self._closed: list[Tail] = []
        self._tail: Tail | None = None
        self._day_end = 0
        self._created_files, self._synced_files = 1, 0
        """How many files were created (plus one at the start), and how many names of them are safe from a power cut."""
        self._seal_delay = 0
        """The number of calls of ``seal`` that do nothing, after the disk refused one."""
        self.deletions = 0
        """How many files were deleted since the start. Each deletion renumbers the records for ``by_number``."""
        self.segments: tuple[Segment, ...] = ()
        self.last = 0
        """The newest document id that was ever assigned, even if its call is missing."""
        files.make_folder(folder)
        self._load()

    def append(self, records: Iterable[Record], *, in_new_file: bool = False) -> None:
        """Append the records of ended calls, all or none, in one write.

        Raises OSError, or PartlyWritten if the first of them were appended and the disk refuses to remove them.
        """
        numbered = list(enumerate(records, self.last + 1))
        lines = [pack(number, _encode(record)) for number, record in numbered]
        with self.lock:
            self._leave_changed_tail()
            tail = self._tail_for(numbered[0][1].ts, in_new_file=in_new_file)
            written = 0
            try:
                tail.append(lines)
                written = len(lines)
            except PartlyWritten as exc:
                written = exc.count
                raise
            finally:
                for number, record in numbered[:written]:
                    tail.segment.add_call(number, record)
                    self.last = number

    def sync(self) -> None:
        """Make everything appended before survive a power cut, rewriting files that do not sync. Raises OSError."""
        with self.lock:
            unsynced = [(tail, tail.mark()) for tail in (*self._closed, self._tail) if tail and tail.dirty]
            created, last = self._created_files, self.last
        if created != self._synced_files:
            files.sync_folder(self.folder)
            self._synced_files = created
        for tail, mark in unsynced:
            self._sync(tail, mark)
        if self._high_water is not None:
            self._high_water.put(last)

    def seal(self) -> None:
        """Add the sums of closed, synced segments to the ledger, and delete old files. What fails is tried later."""
        ready = [tail for tail in self._closed if not tail.dirty]
        if not ready:
            return
        if self._seal_delay:
            self._seal_delay -= 1
            return
        sealed = [tail.segment.seal() for tail in ready]
        try:
            self.ledger.put(*sealed)
        except OSError:
            self._seal_delay = 100  # a full disk must not be asked ten times a second
            return
        with self.lock:
            for tail, sums in zip(ready, sealed, strict=True):
                tail.segment.sums = sums
                self._closed.remove(tail)
                tail.close()
        self._delete_old_files()

    def close(self) -> None:
        """Sync and close the files. Raises OSError if the sync fails; the files are closed anyway."""
        try:
            self._leave_changed_tail()
            self.sync()
            self.seal()
        finally:
            for tail in (*self._closed, self._tail):
                if tail:
                    tail.close()
            self._closed, self._tail = [], None

    def _sync(self, tail: Tail, mark: tuple[int, int]) -> None:
        """Sync one file, or rewrite it if the disk refuses. Raises OSError if that fails, too."""
        try:
            tail.sync()
        except OSError as exc:
            with self.lock:
                tail.rebuild()
            self.report(f"the disk refused to sync {tail.segment.name} ({files.reason(exc)}); the file was rewritten")
        else:
            with self.lock:
                tail.mark_synced(mark)

    def _delete_old_files(self) -> None:
        """Delete the files of sealed segments whose calls are all too old. Their sums stay.

        A clock that is ahead for some hours deletes nothing: the calls of its first day are not sealed yet.
        """
        sealed = [segment for segment in self.segments if segment.name in self.ledger.sealed]
        before = self._oldest(max((segment.latest for segment in sealed), default=0))
        for segment in sealed:
            if not segment.deleted and segment.latest < before:
                segment.deleted = True  # first, so that a reader who finds no file knows why
                try:
                    segment.path.unlink(missing_ok=True)
                    self.deletions += 1
                except OSError:
                    segment.deleted = False  # the next time will do

    def _leave_changed_tail(self) -> None:
        """Close a call file that another program changed. Its sums are in memory, and the ledger will keep them."""
        if self._tail is not None and self._tail.is_changed:
            self.report(f"another program changed {self._tail.segment.name}; calls continue in a new file")
            self._closed.append(self._tail)
            self._tail = None

    def _tail_for(self, ts: int, *, in_new_file: bool) -> Tail:
        """Returns where to append a call that began at this time. Raises OSError."""
        tail = self._tail
        if in_new_file and (tail is None or tail.segment.count):
            return self._rotate(ts)
        if tail is not None and ts < self._day_end and tail.segment.end <= self._limit:
            return tail
        try:
            return self._rotate(ts)
        except OSError:
            if tail is None:
                raise
            return tail  # the disk has no space for another file: a call may still fit into this one

    def _rotate(self, ts: int) -> Tail:
        """Begin a new segment. Raises OSError."""
        segment = Segment(self.folder / _next_name(self.segments, ts))
        if files.read(segment.path) != EMPTY:  # it may exist already, if it could not be opened after its creation
            files.create(segment.path, EMPTY)
        self._created_files += 1
        try:
            tail = Tail(segment)
        except OSError:
            with suppress(OSError):
                segment.path.unlink(missing_ok=True)
            raise
        self.segments = (*self.segments, segment)
        self._set_tail(tail)
        return tail

    def _set_tail(self, tail: Tail) -> None:
        if self._tail is not None:
            self._closed.append(self._tail)
        self._tail = tail
        day = time.strptime(tail.segment.name[6:14], "%Y%m%d")
        self._day_end = calendar.timegm(day) * 1000 + DAY_MS

    def _load(self) -> None:
        """Open all segments, repair what is damaged, and report what is missing."""
        self.ledger = Ledger(self.folder)
        self.segments = tuple(self._open_segments())
        if self._tail and self._tail.segment is not self.segments[-1]:
            self._closed.append(self._tail)
            self._tail = None
        if self.ledger.damaged or not self.ledger.exists:
            check_complete(self.ledger.path, self.segments)
        if self._high_water is not None and self._high_water.last > self.last:
            missing = missing_records(self.last + 1, self._high_water.last)
            self.report(
                f"{missing} from the end of {files.ordinary_path(self.folder)}: the newest call file was deleted or "
                "truncated. The cost is missing from all sums. Restore the file from a backup if there is one"
            )
            self.last = self._high_water.last  # other calls do not get these numbers: the file may be restored
            if not self.ledger.exists:  # otherwise the next start would refuse the gap in the numbers
                self.ledger.put()
        if self.ledger.damaged:
            copy = self.ledger.rebuild(self._moment)
            path = files.ordinary_path(self.ledger.path)
            self.report(f"{path} was damaged and has been rebuilt; the original is {copy.name}")
        self._delete_old_files()

    def _open_segments(self) -> Iterator[Segment]:
        """Yields all segments, oldest first, after repairing their files."""
        names = {path.name for path in self.folder.iterdir() if _NAME.fullmatch(path.name)}
        sealed = self.ledger.sealed
        for name in sorted({*names, *sealed}, key=_order):
            segment, note = Segment(self.folder / name, sealed.get(name)), ""
            segment.deleted = name not in names
            if name not in sealed:  # the newest one, or one that was not sealed because of a crash
                note = repair(segment, self.last, self._moment)
                self.damage += [note] if note else []
                self._set_tail(Tail(segment))
            elif not segment.deleted:
                segment, note = recheck_sealed(segment, self.ledger, self._moment)
            if note:
                self.report(note)
            self.last = max(self.last, segment.last)
            yield segment


def missing_records(first: int, last: int) -> str:
    """Returns ``record 3 is missing``, or ``records 3 to 9 are missing``."""
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


def _order(name: str) -> tuple[str, int]:
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match else ("", 0)


def _next_name(segments: Sequence[Segment], ts: int) -> str:
    """Returns the name of the next segment: of the call's day, or of the newest segment's day if it is later, so that
    the files stay in order if the clock is set back.
    """
    year_end = 253_402_300_799_999  # of the year 9999
    day = time.strftime("%Y%m%d", time.gmtime(min(max(ts, 0), year_end) // 1000))
    newest, number = _order(segments[-1].name) if segments else ("", 0)
    return f"calls-{day}-0000.json" if day > newest else f"calls-{newest}-{number + 1:04d}.json"
