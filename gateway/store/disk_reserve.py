"""DiskReserve: disk space held back so that running calls can still be recorded when the disk fills up."""

import errno
import os
import sys
from pathlib import Path

from gateway.store import files

NO_SPACE = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
"""The system's errors for a full disk or an exhausted quota."""


class DiskReserve:
    """A file of zeros that is deleted when space is needed, and created again before new calls are admitted."""

    def __init__(self, path: Path, size: int = 1 << 20) -> None:
        self._path, self._size = path, size
        self.held = False

    def acquire(self) -> None:
        """Reserve the space, or as much of it as possible. Raises OSError if that is less than 64 KiB."""
        if self.held:
            return
        if files.irregular_kind(self._path):  # a link or a pipe, which may be replaced
            self._path.unlink()
        fd = files.open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(fd).st_size != self._size:
                _fill(fd, self._size)
        finally:
            os.close(fd)
        self.held = True

    def release(self) -> bool:
        """Free the space. Returns whether any was freed."""
        if not self.held:
            return False
        self.held = False
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return False
        return True


def _fill(fd: int, size: int) -> None:
    """Allocate the space; if the disk is too full for it, half of it, and so on."""
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
