"""Ballast: disk space kept back, so that calls which are running when the disk gets full can still be recorded."""

import os
import sys
from pathlib import Path

from gateway.store import files

SIZE = 1 << 20
"""Bytes: the records of two thousand calls."""


class DiskReserve:
    """A file of zeros that is deleted when space is needed, and taken again before new calls are admitted."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self._path, self._size = path, size
        self.there = False

    def take(self) -> None:
        """Reserve the space. Raises OSError if there is none."""
        if self.there:
            return
        fd = files.open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(fd).st_size != self._size:
                os.ftruncate(fd, 0)
                _allocate(fd, self._size)
        except OSError:
            os.ftruncate(fd, 0)
            raise
        finally:
            os.close(fd)
        self.there = True

    def give_up(self) -> bool:
        """Free the space; whether there was any to free."""
        there, self.there = self.there, False
        if there:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                return False
        return there


def _allocate(fd: int, size: int) -> None:
    if sys.platform == "linux":
        os.posix_fallocate(fd, 0, size)
    else:
        files.write_all(fd, bytes(size))
