"""Lock: allows one writer for each store. The kernel releases it when the process ends, however it ends."""

import errno
import os
import sys
from pathlib import Path

from gateway.store.errors import StoreBusy
from gateway.store.files import open_file
from gateway.store.folder import ordinary_path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
"""The system's errors when another process has the lock. Any other error is a failure of the system itself."""


class Lock:
    """Held from construction to ``close``. Raises StoreBusy, which names the holder, and OSError for other failures."""

    def __init__(self, path: Path, folder: int = -1) -> None:
        """``folder``: the store's open folder, or -1. It is locked too, as its file could be replaced."""
        self._fd = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            _acquire(self._fd)
            _acquire_folder(folder)
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, str(os.getpid()).encode())
        except OSError as exc:
            failure = _busy(self._fd, path) if exc.errno in _HELD else exc
            self.close()
            raise failure from None

    def close(self) -> None:
        os.close(self._fd)


def _busy(fd: int, path: Path) -> StoreBusy:
    holder = os.read(fd, 20).decode("ascii", "replace").strip() or "unknown"
    return StoreBusy(
        f"another process (pid {holder}) is using the store in {ordinary_path(path).parent}; "
        "stop it, or give this one a home of its own with --home",
        details={"pid": holder},
    )


def _acquire_folder(fd: int) -> None:
    """Lock the folder where the system can lock folders."""
    if sys.platform != "win32" and fd >= 0:
        try:
            _acquire(fd)
        except OSError as exc:
            if exc.errno in _HELD:
                raise


def _acquire(fd: int) -> None:
    """Lock a file or folder without waiting. Raises OSError."""
    if sys.platform == "win32":
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # beyond the process id, which others may read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
