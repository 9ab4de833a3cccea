"""PowerCut: a model of a disk that forgets, and of file systems that keep their promises and no more.

What was written to a file is safe when the file was synced; until then, any set of its sectors may be old. That a name
was made, changed or taken away is safe when its folder was synced; until then it may be undone, the latest first.
Everything goes to a real folder as well; ``image`` makes another one with what a power cut would have left.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.disk import real

SECTOR = 512


class Inode:
    """A file's content: what is safe, and every version since."""

    def __init__(self) -> None:
        self.versions: list[bytes] = [b""]

    def after_cut(self, rng: random.Random) -> bytes:
        """Each sector from any version; the length is that of one of them."""
        if len(self.versions) == 1:
            return self.versions[0]
        size = len(rng.choice(self.versions))
        sectors = (rng.choice(self.versions)[at : at + SECTOR].ljust(SECTOR, b"\0") for at in range(0, size, SECTOR))
        return b"".join(sectors)[:size]


class PowerCut:
    """Watches the system calls of this process below one folder, until the patch is undone."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._names: dict[Path, dict[str, Inode]] = {root: {}}
        self._before: dict[Path, list[dict[str, Inode]]] = {root: []}
        """Folder to its names before each change of them that is not safe."""
        self._open: dict[int, Inode | Path] = {}
        """Descriptor to a file's content, or to a folder."""
        notes: dict[str, Callable[..., None]] = {
            "open": self._opened,
            "dup": self._doubled,
            "replace": self._replaced,
            "unlink": self._unlinked,
            "fsync": self._synced,
            "fdatasync": self._synced,
            **dict.fromkeys(("write", "pwrite", "ftruncate", "posix_fallocate"), self._written),
        }
        for name, note in notes.items():
            patch.setattr(os, name, _noting(getattr(os, name), note))

    def image(self, target: Path, rng: random.Random) -> None:
        """What is left when the power is cut now."""
        for folder, names in self._names.items():
            there = target / folder.relative_to(self._root)
            there.mkdir(parents=True, exist_ok=True)
            for name, inode in rng.choice([*self._before[folder], names]).items():
                (there / name).write_bytes(inode.after_cut(rng))

    def _opened(self, fd: int, path: str | Path, flags: int, *_: object) -> None:
        path = real(path)
        if not path.is_relative_to(self._root):
            return
        if path.is_dir():
            self._open[fd] = path
            return
        names = self._names.setdefault(path.parent, {})
        self._before.setdefault(path.parent, [])
        if path.name not in names:
            self._changing(path.parent)[path.name] = Inode()
        self._open[fd] = names[path.name]
        if flags & os.O_TRUNC:
            names[path.name].versions.append(b"")

    def _doubled(self, fd: int, original: int) -> None:
        if original in self._open:
            self._open[fd] = self._open[original]

    def _written(self, _: object, fd: int, *__: object) -> None:
        inode = self._open.get(fd)
        if isinstance(inode, Inode):
            inode.versions.append(Path(f"/proc/self/fd/{fd}").read_bytes())

    def _replaced(self, _: object, source: Path, target: Path) -> None:
        source, target = real(source), real(target)
        names = self._changing(source.parent)
        names[target.name] = names.pop(source.name)

    def _unlinked(self, _: object, path: str | Path, **__: object) -> None:
        path = real(path)
        if path.parent in self._names and path.name in self._names[path.parent]:
            del self._changing(path.parent)[path.name]

    def _synced(self, _: object, fd: int) -> None:
        found = self._open.get(fd)
        if isinstance(found, Inode):
            del found.versions[:-1]
        elif found is not None:
            self._before[found].clear()

    def _changing(self, folder: Path) -> dict[str, Inode]:
        self._before[folder].append(dict(self._names[folder]))
        return self._names[folder]


def _noting(real: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        result = real(*args, **options)
        note(result, *args)
        return result

    return call
