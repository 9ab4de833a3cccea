"""Tail: appends to the newest segment, and repairs segments after a crash or damage.

A complete line is never changed, and a failed write is undone. A repair loses no byte: the file as it was found is kept
beside the new one as ``<name>.<moment>.damaged``.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from gateway.store import files
from gateway.store.files import TAIL, body_of, id_of, intact, join, split
from gateway.store.folder import ordinary
from gateway.store.ledger import Ledger
from gateway.store.segment import HEAD, Segment, convert_foreign_layout, decode_entry

_CLOSED_FIRST = os.name == "nt"
"""Windows cannot replace an open file."""


class Mark(NamedTuple):
    """The lines that a sync covers."""

    lines: int
    end: int


class PartlyWritten(OSError):
    """The disk accepted the first ``count`` lines, but neither the next one nor the removal of these."""

    def __init__(self, cause: files.ShortWrite, count: int) -> None:
        super().__init__(cause.errno, cause.strerror)
        self.count = count


class Tail:
    """Appends to one segment. ``append`` may run while another thread runs ``sync``; the rest needs the log's lock."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._fd = files.open_file(segment.path, os.O_RDWR)
        self._has_name = os.fstat(self._fd).st_nlink > 0
        """Whether this file system counts the links of a file."""
        self._synced = segment.end
        self._unsynced: list[bytes] = []
        self._unsure = True
        """Whether lines of an earlier process are not checked yet."""
        self._failure: OSError | None = None
        """The error of a failed sync."""
        self._torn = False
        """Whether the remains of a failed write follow the last line."""

    @property
    def dirty(self) -> bool:
        """Returns whether a power cut could lose lines."""
        return self._unsure or self._torn or bool(self._unsynced)

    def append(self, lines: Sequence[bytes]) -> None:
        """Append all of the lines or none: a failed write is undone before its OSError is raised.

        Raises PartlyWritten if the disk refuses that too; the whole lines that it has are then appended.
        """
        if self._fd < 0 or self._torn:
            self._make_ready()
        end = self.segment.end
        body = join(lines, first=end == len(HEAD))
        try:
            files.write_at(self._fd, body + TAIL, end)
        except files.ShortWrite as exc:
            self._undo(exc, lines)
            raise
        self.segment.end = end + len(body)
        self._unsynced += lines

    def mark(self) -> Mark:
        """Returns what a sync that begins now will cover."""
        return Mark(len(self._unsynced), self.segment.end)

    def sync(self) -> None:
        """Wait for the disk. After a failure, only ``rebuild`` helps: the system may have dropped unwritten data.

        A deleted file is a failure, because its calls would be lost.
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
        if self._has_name and not os.fstat(self._fd).st_nlink:
            self._failure = OSError(errno.ENOENT, "the file was deleted")
            raise self._failure

    def covered(self, mark: Mark) -> None:
        """Note that a sync succeeded: everything before the mark is safe."""
        self._synced = mark.end
        del self._unsynced[: mark.lines]
        self._unsure = False

    def rebuild(self) -> None:
        """Rewrite the file and sync it: what was safe from the old file, the rest from memory."""
        safe = self._safe_bytes()
        lines = join(self._unsynced, first=self._synced == len(HEAD)) if self._unsynced else b""
        old, self._fd = self._fd, -1
        try:
            if _CLOSED_FIRST and old >= 0:
                os.close(old)
            files.replace(self.segment.path, safe + lines + TAIL)
        finally:
            if not _CLOSED_FIRST and old >= 0:
                os.close(old)
            with suppress(OSError):  # the next append tries again
                self._fd = files.open_file(self.segment.path, os.O_RDWR)
        self._synced, self._unsure = self.segment.end, False
        self._failure, self._torn = None, False
        self._unsynced.clear()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def _safe_bytes(self) -> bytes:
        if self._fd >= 0 and hasattr(os, "pread"):
            safe = os.pread(self._fd, self._synced, 0)
        else:
            safe = files.read(self.segment.path)[: self._synced]
        if len(safe) < self._synced:
            raise OSError(errno.EIO, "the file is shorter than it was")
        return safe

    def _make_ready(self) -> None:
        """Clean up after an earlier failure. Raises OSError."""
        if self._fd < 0:
            self._fd = files.open_file(self.segment.path, os.O_RDWR)
        if self._torn:
            self._cut()

    def _cut(self) -> None:
        """Truncate the file after its last line. It is cut first, so that no whole line follows closing braces."""
        end = self.segment.end
        os.ftruncate(self._fd, end + len(TAIL))
        files.write_at(self._fd, TAIL, end)  # over bytes that are allocated already
        self._torn = False

    def _undo(self, exc: files.ShortWrite, lines: Sequence[bytes]) -> None:
        """Undo a failed write. Raises PartlyWritten if that fails and whole lines are left."""
        self._torn = True
        with suppress(OSError):
            self._cut()
        if not self._torn:
            return
        begin = self.segment.end
        whole = [stop for _, stop in _spans(lines, begin) if stop - begin <= exc.written]
        if whole:
            self.segment.end = whole[-1]
            self._unsynced += lines[: len(whole)]
            raise PartlyWritten(exc, len(whole))


def _spans(lines: Iterable[bytes], at: int) -> Iterator[tuple[int, int]]:
    """Yields where each line begins and ends when it is appended to a file that ends at ``at``."""
    for line in lines:
        start = at + (1 if at == len(HEAD) else 2)
        at = start + len(line)
        yield start, at


def restore(segment: Segment, last: int, moment: int) -> str:
    """Count the calls of a segment with ids above ``last``, and repair its file if needed.

    Returns what was repaired, in words; empty if nothing. Raises OSError, and StoreTooNew before anything is changed.
    """
    segment.last = last
    if segment.scan():
        return ""
    data = files.read(segment.path)
    lines = _good_lines(data, last)
    if not lines and not data.startswith(HEAD):  # stock TinyDB changes the layout of a file; a file of ours is damaged
        lines = _good_lines(convert_foreign_layout(data), last)
        for line in lines:
            segment.observe(id_of(line), decode_entry(body_of(line)))
    kept = files.keep(segment.path, data, moment) if data else None
    body = HEAD + join(lines, first=True) if lines else HEAD
    files.replace(segment.path, body + TAIL)
    segment.end = len(body)
    original = f"the original is {kept.name}" if kept else "not a byte was left"
    return f"{ordinary(segment.path)} was damaged; {len(lines)} of its calls are intact, {original}"


def recheck_sealed(segment: Segment, ledger: Ledger, moment: int) -> tuple[Segment, str]:
    """Returns a sealed segment, read again if its size shows that it was changed. Its sums stay.

    Also returns what was found, in words; empty if nothing changed. Raises OSError and StoreTooNew.
    """
    sealed = ledger.sealed[segment.name]
    if segment.path.stat().st_size == sealed.end + len(TAIL):
        return segment, ""
    fresh = Segment(segment.path)
    text = restore(fresh, sealed.first - 1, moment)
    left = None if (fresh.n, fresh.last) == (sealed.n, sealed.last) else fresh.n
    if not text:  # all of it is as it was written
        text = f"{ordinary(segment.path)} holds {'all' if left is None else left} of its calls"
    changed = msgspec.structs.replace(sealed, left=left, end=fresh.end, edited=True)
    ledger.put(changed)
    return Segment(segment.path, changed), f"{text}; it had {sealed.n}. Sums and balances stay as they were"


def _good_lines(data: bytes, last: int) -> list[bytes]:
    lines = []
    for line in split(data):
        if intact(line) and (doc_id := id_of(line)) > last:
            lines.append(line)
            last = doc_id
    return lines
