"""Tail: the growing end of a segment, and what of it is not yet safe from a power cut."""

import errno
import os
from collections.abc import Sequence

from gateway.store import files
from gateway.store.lines import TAIL, join
from gateway.store.segment import HEAD, Segment


class Tail:
    """Appends to one segment. ``append`` may run beside ``sync`` in another thread; the rest needs the log's lock."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._fd = files.open_file(segment.path, os.O_RDWR)
        self._has_name = os.fstat(self._fd).st_nlink > 0
        """Whether this file system counts the names of a file."""
        self._synced = segment.end
        self._unsynced: list[bytes] = []
        self._unsure = True
        """Nothing is known yet about what an earlier process wrote."""
        self._failed = False

    @property
    def dirty(self) -> bool:
        """Whether there are lines that a power cut could take."""
        return self._unsure or bool(self._unsynced)

    def append(self, lines: Sequence[bytes]) -> None:
        """All of the lines or none: a failed write is undone before its OSError is raised."""
        end = self.segment.end
        body = join(lines, first=end == len(HEAD))
        try:
            files.write_at(self._fd, body + TAIL, end)
        except OSError:
            files.write_at(self._fd, TAIL, end)  # over bytes that are allocated already
            os.ftruncate(self._fd, end + len(TAIL))
            raise
        self.segment.end = end + len(body)
        self._unsynced += lines

    def mark(self) -> tuple[int, int]:
        """What a sync that begins now will cover."""
        return len(self._unsynced), self.segment.end

    def sync(self) -> None:
        """Wait for the disk. After one failure only ``rebuild`` helps: the system may have forgotten what it owes.

        A file that somebody has deleted is a failure: nobody would find the calls in it.
        """
        if self._failed:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._failed = True
        files.sync(self._fd)
        if self._has_name and not os.fstat(self._fd).st_nlink:
            raise OSError(errno.ENOENT, "the file was deleted")
        self._failed = False

    def covered(self, mark: tuple[int, int]) -> None:
        """A sync succeeded: what was there at the mark is safe."""
        count, self._synced = mark
        del self._unsynced[:count]
        self._unsure = False

    def rebuild(self) -> None:
        """Write the file anew, with a sync of its own: what was safe from the old file, the rest from memory."""
        safe = os.pread(self._fd, self._synced, 0) if hasattr(os, "pread") else files.read(self.segment.path)
        safe = safe[: self._synced]
        lines = join(self._unsynced, first=self._synced == len(HEAD)) if self._unsynced else b""
        os.close(self._fd)
        self._fd = -1
        try:
            files.replace(self.segment.path, safe + lines + TAIL)
        finally:
            self._fd = files.open_file(self.segment.path, os.O_RDWR)
        self._synced, self._unsure, self._failed = self.segment.end, False, False
        self._unsynced.clear()

    def close(self) -> None:
        os.close(self._fd)
