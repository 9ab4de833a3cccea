"""Files that survive a crash and that only their owner can read: folders 0700, files 0600, whatever the umask.

The functions raise OSError. They do not follow a link at the end of a path. ``Folder`` is a data folder that stays
open, so that its files are found even if its path changes.
"""

import errno
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_HAS_PWRITE = hasattr(os, "pwrite")
"""Whether the system has ``pwrite``, which Windows lacks."""
_COMMON_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def make_folder(path: Path) -> None:
    """Create the folder with mode 0700, and its parents."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32" and stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)


def open_file(path: Path, flags: int) -> int:
    """Open a file and give it mode 0600. Returns its descriptor."""
    fd = os.open(path, flags | _COMMON_FLAGS, 0o600)
    if sys.platform != "win32" and stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
        os.fchmod(fd, 0o600)
    return fd


def open_to_read(path: Path) -> BinaryIO:
    """Open a file for reading. Raises FileNotFoundError and other OSErrors, also if the path is not a file."""
    nonblock = getattr(os, "O_NONBLOCK", 0)  # without it, opening a named pipe waits for a writer
    fd = os.open(path, os.O_RDONLY | nonblock | _COMMON_FLAGS)
    if not stat.S_ISREG(mode := os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a file", str(path))
    return os.fdopen(fd, "rb")


def irregular_kind(path: Path) -> str:
    """Returns what lies at the path instead of a file, such as ``a symbolic link``; empty for a file or nothing."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    return "" if stat.S_ISREG(mode) else _kind(mode)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISDIR, "a folder"))
    return next((name for test, name in kinds if test(mode)), "a device or a socket")


def make_private(folder: Path) -> None:
    """Give every file in a folder mode 0600, except links and what the system refuses."""
    if sys.platform == "win32":
        return
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mode & 0o077:
                with suppress(OSError):
                    Path(entry.path).chmod(0o600)


def read(path: Path) -> bytes:
    """Returns the whole content; empty if the file is missing."""
    try:
        file = open_to_read(path)
    except FileNotFoundError:
        return b""
    with file:
        return file.read()


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically: readers get either the old or the new content; if durable, also after a power cut."""
    new = path.with_name(path.name + ".tmp")
    try:
        write_file(new, data, durable=durable)
        rename(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_file(path: Path, data: bytes, flag: int = os.O_TRUNC, *, durable: bool = True) -> None:
    """Write a file. With ``flag`` 0, the end of a longer one stays. If durable, the data is on the disk afterwards."""
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | flag)
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def rename(new: Path, path: Path) -> None:
    """Replace one file with another."""
    for attempts_left in reversed(range(20)):  # Windows refuses, for a moment, while a reader has it open
        try:
            os.replace(new, path)  # noqa: PTH105 - the tests of crashes count the system calls of `os`
        except PermissionError:
            if os.name != "nt" or not attempts_left:
                raise
            time.sleep(0.01)
        else:
            return


def create(path: Path, data: bytes) -> None:
    """Create a file that must not exist yet. It appears with all of its content, but is not synced."""
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    replace(path, data, durable=False)


def save_copy(path: Path, data: bytes, moment: int, suffix: str = "damaged") -> Path:
    """Write a file's content next to it as ``<name>.<moment>.<suffix>``. Returns the path of that copy."""
    copy = path.with_name(f"{path.name}.{moment}.{suffix}")
    while copy.exists():
        moment += 1
        copy = path.with_name(f"{path.name}.{moment}.{suffix}")
    replace(copy, data)
    return copy


class ShortWrite(OSError):
    """A write failed after the first ``written`` bytes of the data."""

    def __init__(self, cause: OSError, written: int) -> None:
        super().__init__(cause.errno or errno.EIO, reason(cause))
        self.written = written


def write_all(fd: int, data: bytes, offset: int | None = None) -> None:
    """Write all of the data at an offset or the file's position, in one system call if possible. Raises ShortWrite."""
    if offset is not None and not _HAS_PWRITE:
        os.lseek(fd, offset, os.SEEK_SET)
        offset = None
    written = 0
    while written < len(data):
        rest = data[written:] if written else data
        try:
            count = os.write(fd, rest) if offset is None else os.pwrite(fd, rest, offset + written)
        except OSError as exc:
            raise ShortWrite(exc, written) from exc
        if not count:  # after a partial write a full disk may accept no bytes instead of raising an error
            raise ShortWrite(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), written)
        written += count


def reason(exc: OSError) -> str:
    """Returns the text of a system error without the path, which only the owner may see."""
    return exc.strerror or str(exc)


def sync(fd: int) -> None:
    """Wait until what was written to the file is on the disk."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def identity(path: Path) -> tuple[int, int]:
    """Returns what tells the file at the path from others; zeros if it was deleted or moved."""
    try:
        status = path.lstat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def is_in_place(fd: int, path: Path) -> bool:
    """Returns whether the open file is the one at the path."""
    own = os.fstat(fd)
    return (own.st_dev, own.st_ino) == identity(path)


def sync_folder(path: Path) -> None:
    """Make the names of new and replaced files durable. Windows does so by itself."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


FOLDER_NAMES = ("/proc/self/fd/{fd}", "/.vol/{dev}/{ino}")
"""Names of an open folder, on Linux and on macOS."""


class Folder:
    """An open data folder. Call ``close`` after use. Raises OSError if the folder cannot be opened.

    While a server runs, the folder may be renamed or deleted, or a backup may be put in its place. The server must not
    write to what is at the path then, because it may belong to another server. So the paths of its files begin with a
    name that the system gives to the open folder. Some systems have no such name, such as Windows, which cannot rename
    a folder in use; there they begin with the ordinary path.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.fd = -1 if sys.platform == "win32" else os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._status = home.stat() if self.fd < 0 else os.fstat(self.fd)
        self.path = self._stable_path()
        """The beginning of the paths of its files."""

    @property
    def missing_reason(self) -> str:
        """Returns why the folder is missing at its path; empty if it is there, or if the system refuses to say."""
        try:
            status = self._home.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was renamed or deleted"
        except OSError:
            return ""
        return "" if os.path.samestat(status, self._status) else "was replaced by another folder"

    def close(self) -> None:
        """Close the folder. The paths of its files are invalid afterwards."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _stable_path(self) -> Path:
        """Returns a path of the open folder that stays valid if it is renamed, or else its ordinary path."""
        for name in FOLDER_NAMES if self.fd >= 0 else ():
            path = Path(name.format(fd=self.fd, dev=self._status.st_dev, ino=self._status.st_ino))
            try:
                if os.path.samestat(path.stat(), self._status):
                    return path
            except OSError:
                continue
        return self._home


def ordinary_path(path: Path) -> Path:
    """Returns the path as the owner knows it: where the file is now."""
    in_open_folder = str(path).startswith(("/proc/self/fd/", "/.vol/"))
    return Path(os.path.realpath(path.parent)) / path.name if in_open_folder else path
