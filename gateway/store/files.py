"""Files that survive a crash and that nobody else can read: folders 0700, files 0600, whatever the umask.

Functions raise OSError; links are not followed at the last step of a path.
"""

import errno
import os
import stat
import sys
import time
from pathlib import Path
from typing import BinaryIO

_HAS_PWRITE = hasattr(os, "pwrite")
"""Windows has none."""
_ALWAYS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

WINDOWS_TRIES = 20
"""Windows refuses to replace or delete a file while a reader has it open, for a moment only."""


def make_folder(path: Path) -> None:
    """Make the folder and the ones above it; this one is 0700 afterwards."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32" and stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file that has mode 0600 from now on."""
    fd = os.open(path, flags | _ALWAYS, 0o600)
    if sys.platform != "win32" and stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def opened(path: Path) -> BinaryIO:
    """A file to be read. Raises FileNotFoundError, as other OSErrors."""
    return os.fdopen(os.open(path, os.O_RDONLY | _ALWAYS), "rb")


def fetch(fd: int, start: int, length: int) -> None:
    """Ask the system to read a part of a file ahead; it need not."""
    if sys.platform == "linux":
        os.posix_fadvise(fd, start, length, os.POSIX_FADV_WILLNEED)


def read(path: Path) -> bytes:
    """The whole content; empty if there is no such file."""
    try:
        file = opened(path)
    except FileNotFoundError:
        return b""
    with file:
        return file.read()


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file: a reader finds the old bytes or the new ones; if durable, also after a power cut."""
    new = path.with_name(path.name + ".tmp")
    try:
        write_new(new, data, durable=durable)
        rename(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file from its beginning; what it held before is gone. If durable, its content is on the disk then."""
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def rename(new: Path, path: Path) -> None:
    """Put a file in the place of another one."""
    for left in reversed(range(WINDOWS_TRIES)):
        try:
            os.replace(new, path)  # noqa: PTH105 - the tests of crashes count the system calls of `os`
        except PermissionError:
            if os.name != "nt" or not left:
                raise
            time.sleep(0.01)
        else:
            return


def create(path: Path, data: bytes) -> None:
    """Make a file that must not exist yet: it has all of its content as soon as it has its name. It is not synced."""
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    replace(path, data, durable=False)


def keep(path: Path, data: bytes, moment: int, suffix: str = "damaged") -> Path:
    """Keep what a file held, beside it as ``<name>.<moment>.<suffix>``; where. Raises OSError."""
    kept = path.with_name(f"{path.name}.{moment}.{suffix}")
    while kept.exists():
        moment += 1
        kept = path.with_name(f"{path.name}.{moment}.{suffix}")
    replace(kept, data)
    return kept


class ShortWrite(OSError):
    """A write that failed; the file has the first ``written`` bytes of the data."""

    def __init__(self, cause: OSError, written: int) -> None:
        super().__init__(cause.errno or errno.EIO, reason(cause))
        self.written = written


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data at the file's position. Raises ShortWrite."""
    done = 0
    try:
        while done < len(data):
            done += _some(os.write(fd, data[done:] if done else data))
    except OSError as exc:
        raise ShortWrite(exc, done) from exc


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write at an offset: with one system call, unless the disk takes no more than a part. Raises ShortWrite."""
    done = 0
    try:
        while done < len(data):
            rest = data[done:] if done else data
            if _HAS_PWRITE:
                done += _some(os.pwrite(fd, rest, at + done))
            else:
                os.lseek(fd, at + done, os.SEEK_SET)
                done += _some(os.write(fd, rest))
    except OSError as exc:
        raise ShortWrite(exc, done) from exc


def _some(written: int) -> int:
    """A disk that gets full takes a part and says nothing. Asked for the rest it tells why, or takes nothing."""
    if not written:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return written


def reason(exc: OSError) -> str:
    """What the system said, in words and without the path, which concerns the owner alone."""
    return exc.strerror or str(exc)


def sync(fd: int) -> None:
    """Wait until what was written to the file is on the disk."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_folder(path: Path) -> None:
    """Make names of new and replaced files durable; Windows does so by itself."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
