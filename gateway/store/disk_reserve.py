"""DiskReserve: disk space held back so that running calls can still be recorded when the disk fills up."""

import errno
import os
import sys
from pathlib import Path

from gateway.store import files

NO_SPACE = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
"""The system's errors for a full disk or an exhausted quota."""


class DiskReserve:
    """A file of zeros that is deleted when space is needed, and taken again before new calls are admitted."""

    def __init__(self, path: Path, size: int = 1 << 20) -> None:
        self._path, self._size = path, size
        self.there = False

    def take(self) -> None:
        """Reserve the space, or as much of it as possible. Raises OSError if that is too little."""
        if self.there:
            return
        if files.kind_of(self._path):  # a link, a pipe: nothing of ours is behind it
            self._path.unlink()
        fd = files.open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(fd).st_size != self._size:
                _fill(fd, self._size)
        finally:
            os.close(fd)
        self.there = True

    def release(self) -> bool:
        """Free the space. Returns whether any was held."""
        there, self.there = self.there, False
        if there:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                return False
        return there


def _fill(fd: int, size: int) -> None:
    """Take the space; if that fails, half of it, and so on."""
    while True:
        os.ftruncate(fd, 0)
        try:
            _allocate(fd, size)
        except OSError as exc:
            os.ftruncate(fd, 0)
            if exc.errno not in NO_SPACE or size // 2 < 64 << 10:
                raise
            size //= 2
        else:
            return


def _allocate(fd: int, size: int) -> None:
    if sys.platform == "linux":
        os.posix_fallocate(fd, 0, size)
    else:
        files.write_all(fd, bytes(size))
