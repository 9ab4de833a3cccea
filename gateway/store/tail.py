"""Tail: appends to the newest segment, and repairs segments after a crash or damage.

A complete line is never changed, and a failed write is undone. A repair loses nothing: the damaged file is copied to
``<name>.<moment>.damaged`` before.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from gateway.store import files
from gateway.store.ledger import Ledger
from gateway.store.line_format import TAIL, check_format, end_of_lines, file_with, join_lines, split_lines
from gateway.store.segment import HEAD, Segment, convert_foreign_layout, read_call


class PartlyWritten(OSError):
    """The disk accepted the first ``count`` lines, refused the next one, and refused to remove the accepted ones."""

    def __init__(self, cause: files.ShortWrite, count: int) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.count = count


class Tail:
    """Appends to one segment. ``append`` and ``sync`` may run in two threads at once; all else needs the log's lock."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._fd = files.open_file(segment.path, os.O_RDWR)
        self._has_identity = files.is_in_place(self._fd, self.segment.path)
        """Whether the file system tells files apart, so that the loss of this one can be noticed."""
        self._synced = segment.end
        """The offset before which everything is safe."""
        self._unsynced: list[bytes] = []
        """The lines after that offset."""
        self._unverified = True
        """Whether an earlier process may have left lines that are not synced."""
        self._failure: OSError | None = None
        self._torn = False
        """Whether the remains of a failed write follow the last line."""

    @property
    def dirty(self) -> bool:
        """Returns whether a power cut could lose lines."""
        return self._unverified or self._torn or bool(self._unsynced)

    @property
    def is_changed(self) -> bool:
        """Returns whether another program changed the length of the file, as an editor does that saves it."""
        return self._fd >= 0 and not self._torn and os.fstat(self._fd).st_size != self.segment.end + len(TAIL)

    def append(self, lines: Sequence[bytes]) -> None:
        """Append all of the lines or none: a failed write is undone before its OSError is raised.

        Raises PartlyWritten if the disk refuses that too; then the complete lines in the file count as appended.
        """
        if self._fd < 0:
            self._fd = files.open_file(self.segment.path, os.O_RDWR)
        if self._torn:
            self._truncate()
        end = self.segment.end
        body = join_lines(lines, first=end == len(HEAD))
        try:
            files.write_all(self._fd, body + TAIL, end)
        except files.ShortWrite as exc:
            self._undo(exc, lines)
            raise
        self.segment.end = end + len(body)
        self._unsynced += lines

    def mark(self) -> tuple[int, int]:
        """Returns what a sync that begins now will cover: the number of unsynced lines, and the offset after them."""
        return len(self._unsynced), self.segment.end

    def sync(self) -> None:
        """Sync the file. Raises OSError, even if the file was only deleted or moved, because its calls would be lost.

        After a failure only ``rebuild`` helps, because the system may have dropped unwritten data.
        """
        if self._failure is not None:
            raise OSError(self._failure.errno, self._failure.strerror)
        if self._torn:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        try:
            files.sync(self._fd)
        except OSError as exc:
            self._failure = exc
            raise
        if self._has_identity and not files.is_in_place(self._fd, self.segment.path):
            self._failure = OSError(errno.ENOENT, "the file was deleted, moved or replaced")
            raise self._failure

    def mark_synced(self, mark: tuple[int, int]) -> None:
        """Note that a sync succeeded, so that everything before the mark is safe."""
        lines, self._synced = mark
        del self._unsynced[:lines]
        self._unverified = False

    def rebuild(self) -> None:
        """Rewrite the file from its safe part and the unsynced lines in memory, and sync it. Raises OSError."""
        safe = self._safe_bytes()
        lines = join_lines(self._unsynced, first=self._synced == len(HEAD)) if self._unsynced else b""
        if os.name == "nt":  # Windows cannot replace an open file
            self.close()
        before = files.identity(self.segment.path)
        try:
            files.replace(self.segment.path, safe + lines + TAIL)
        finally:
            # while nothing replaces a deleted file, only this one has its content
            if files.identity(self.segment.path) != before:
                self.close()
            if self._fd < 0:
                with suppress(OSError):  # the next append tries again
                    self._fd = files.open_file(self.segment.path, os.O_RDWR)
        self._synced, self._unverified = self.segment.end, False
        self._failure, self._torn = None, False
        self._unsynced.clear()

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _safe_bytes(self) -> bytes:
        """Returns the synced part of the file. Raises OSError."""
        if self._fd >= 0 and hasattr(os, "pread"):
            safe = os.pread(self._fd, self._synced, 0)
        else:
            safe = files.read(self.segment.path)[: self._synced]
        if len(safe) < self._synced:
            raise OSError(errno.EIO, "the file is shorter than it was")
        return safe

    def _truncate(self) -> None:
        """End the file after its last line. It is truncated first, so that no complete line follows closing braces."""
        end = self.segment.end
        os.ftruncate(self._fd, end + len(TAIL))
        files.write_all(self._fd, TAIL, end)  # needs no space: the bytes are allocated already
        self._torn = False

    def _undo(self, exc: files.ShortWrite, lines: Sequence[bytes]) -> None:
        """Undo a failed write. Raises PartlyWritten if that fails and complete lines are left."""
        self._torn = True
        with suppress(OSError):
            self._truncate()
        if not self._torn:
            return
        begin, count = self.segment.end, 0
        for line in lines:
            separator = 1 if self.segment.end == len(HEAD) else 2  # the first line has no comma
            end = self.segment.end + separator + len(line)
            if end - begin > exc.written:
                break
            self.segment.end, count = end, count + 1
        if count:
            self._unsynced += lines[:count]
            raise PartlyWritten(exc, count)


def repair(segment: Segment, last: int, moment: int) -> str:
    """Count the calls of a segment with ids above ``last``, and repair its file if needed.

    Returns a note about the repair; empty if none was needed. Raises OSError, and StoreError before anything changes.
    """
    segment.last = last
    data = files.read(segment.path)
    check_format(segment.path, data[:100])
    segment.end, is_whole = end_of_lines(data, HEAD, _count_lines(segment, data))
    if is_whole:
        return ""
    readable = Segment(segment.path)
    readable.last = last
    lines = [*_count_lines(readable, data)]
    if not lines:  # stock TinyDB changes the layout of a file, and an editor may change the ends of its lines
        same = data.replace(b"\r\n", b"\n") if data.startswith(HEAD) else convert_foreign_layout(data)
        lines = [*_count_lines(segment, same)]
    whole = file_with(HEAD, lines)
    segment.end = len(whole) - len(TAIL)
    copy = files.save_copy(segment.path, data, moment) if data else None
    files.replace(segment.path, whole)
    original = f"the original is {copy.name}" if copy else "not a byte was left"
    return f"{files.ordinary_path(segment.path)} was damaged; {len(lines)} of its calls are intact, {original}"


def recheck_sealed(segment: Segment, ledger: Ledger, moment: int) -> tuple[Segment, str]:
    """Returns a sealed segment, and a note, which is empty unless the size of its file has changed.

    A changed file is read again, but the sums stay as they were. Raises OSError and StoreError.
    """
    sealed = ledger.sealed[segment.name]
    if segment.path.stat().st_size == sealed.end + len(TAIL):
        return segment, ""
    current = Segment(segment.path)
    note = repair(current, sealed.first - 1, moment)
    is_complete = (current.count, current.last) == (sealed.count, sealed.last)
    if not note:  # what is left of it is intact
        note = f"{files.ordinary_path(segment.path)} holds {'all' if is_complete else current.count} of its calls"
    remaining = None if is_complete else current.count
    changed = msgspec.structs.replace(sealed, remaining=remaining, end=current.end, edited=True)
    ledger.put(changed)
    return Segment(segment.path, changed), f"{note}; it had {sealed.count}. Sums and balances stay as they were"


def _count_lines(segment: Segment, data: bytes) -> Iterator[bytes]:
    """Count the calls in the data that are newer than those counted so far, and yield their lines."""
    for line in split_lines(data):
        if (call := read_call(line)) and call[0] > segment.last:
            segment.add_call(*call)
            yield line
