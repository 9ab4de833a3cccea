"""Disk: refuses file operations below one folder as a test wants it; all else goes to the real one.

A refusal happens as a kernel would have it: nothing is done and an error number comes, or a write takes a part and says
how much.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

OPERATIONS = (
    *("open", "write", "pwrite", "fsync", "fdatasync"),
    *("replace", "ftruncate", "posix_fallocate", "unlink", "mkdir"),
)
"""Functions of ``os`` that change files or make changes safe. Reading changes nothing."""

WRITES = ("write", "pwrite")


class Operation(NamedTuple):
    """One of them, on a file by its name in the folder (``usage/ledger.json``)."""

    name: str
    file: str


class Refusal(NamedTuple):
    """What happens to one operation."""

    number: int
    """Of the error."""
    part: float = 0.0
    """Of a write: the share of the data that is taken. The next write then gets the error."""


Judge = Callable[[Operation], Refusal | None]


class Disk:
    """Asks ``judge`` before every operation; ``seen`` are all that there were. Several threads may work."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.judge: Judge = lambda _: None
        self.seen: list[Operation] = []
        self._folder = str(folder)
        self._next: dict[int, Refusal] = {}
        """Descriptors of which a part of a write was taken."""
        self._lock = threading.Lock()
        for name in OPERATIONS:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def refuse(self, number: int, *names: str, file: str = "", times: int = 1 << 30, part: float = 0.0) -> None:
        """Refuse the operations of these names (all if none is given) on files whose names hold a text."""
        left = [times]

        def judge(operation: Operation) -> Refusal | None:
            if (names and operation.name not in names) or file not in operation.file or not left[0]:
                return None
            left[0] -= 1
            return Refusal(number, part)

        self.judge = judge

    def heal(self) -> None:
        """Refuse nothing any more."""
        self.judge = lambda _: None
        self._next.clear()

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            file = self._file(args[1] if name == "replace" else args[0])
            if file is None or (name == "open" and not _may_change(args)):
                return real(*args, **options)
            with self._lock:
                refusal = self._next.pop(args[0], None) if name in WRITES else None
                if refusal is None:
                    operation = Operation(name, file)
                    self.seen.append(operation)
                    refusal = self.judge(operation)
            if refusal is None:
                return real(*args, **options)
            if name in WRITES and refusal.part and len(args[1]) > 1:
                fd, data, *at = args
                self._next[fd] = Refusal(refusal.number)
                return real(fd, data[: max(1, int(len(data) * refusal.part))], *at)
            raise OSError(refusal.number, os.strerror(refusal.number))

        return call

    def _file(self, target: object) -> str | None:
        """The name below the folder; None for everything else."""
        try:
            path = str(Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else real(target))
        except OSError:
            return None
        path = path.removesuffix(" (deleted)")
        return path[len(self._folder) + 1 :] if path.startswith(self._folder + "/") else None


def real(path: object) -> Path:
    """The path of a file that may be reached through an open folder."""
    found = Path(str(path))
    if found.parent == Path("/proc/self/fd"):
        return Path(os.path.realpath(found))
    return Path(os.path.realpath(found.parent)) / found.name


def _may_change(args: tuple[Any, ...]) -> bool:
    """Whether a file is opened to be changed, or a folder to be synced; the latter needs a descriptor as well."""
    return bool(args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or Path(args[0]).is_dir()


REASONS = {
    "EIO": Refusal(errno.EIO),
    "ENOSPC": Refusal(errno.ENOSPC),
    "EFBIG": Refusal(errno.EFBIG),
    "EACCES": Refusal(errno.EACCES),
    "EMFILE": Refusal(errno.EMFILE),
    "short": Refusal(errno.EIO, part=0.6),
    "short and full": Refusal(errno.ENOSPC, part=0.3),
}
"""Kinds of refusals by name."""


def takes_only(patch: pytest.MonkeyPatch, name: str, size: int) -> None:
    """The disk takes a part of the next ``write`` or ``pwrite``, and then nothing."""
    real, left = getattr(os, name), [size]

    def write(fd: int, data: bytes, *at: int) -> int:
        part, left[0] = data[: left[0]], 0
        return int(real(fd, part, *at)) if part else 0

    patch.setattr(os, name, write)


def refuse(*_: object, **__: object) -> Any:
    """In the place of any operation."""
    raise OSError(errno.EIO, "refused")
