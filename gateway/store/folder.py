"""Folder: a data folder that is held open. All its files are reached through it, and so they stay in it.

A path may lead elsewhere while a server runs: the folder was renamed, deleted, or a backup was put there. The server
then must not touch what is there now, which may belong to another server. So its paths begin with a name of the open
folder that the system offers. Where there is none (Windows, which renames no folder in use, and a few other systems)
they begin with the folder's ordinary path.
"""

import os
import sys
from pathlib import Path

NAMES = ("/proc/self/fd/{fd}", "/.vol/{dev}/{ino}")
"""Of an open folder: on Linux, and on macOS."""


class Folder:
    """To be closed. Raises OSError if it cannot be opened."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.fd = -1 if sys.platform == "win32" else os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._known = home.stat() if self.fd < 0 else os.fstat(self.fd)
        self.path = self._lasting_path()
        """What paths of its files begin with."""

    @property
    def misplaced(self) -> str:
        """Why its path does not lead to it; empty if it does, or if nobody can tell at present."""
        try:
            found = self._home.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was renamed or deleted"
        except OSError:
            return ""
        return "" if os.path.samestat(found, self._known) else "was replaced by another folder"

    def close(self) -> None:
        """Its paths lead nowhere afterwards."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _lasting_path(self) -> Path:
        for name in NAMES if self.fd >= 0 else ():
            path = Path(name.format(fd=self.fd, dev=self._known.st_dev, ino=self._known.st_ino))
            try:
                if os.path.samestat(path.stat(), self._known):
                    return path
            except OSError:
                continue
        return self._home


def ordinary(path: Path) -> Path:
    """The path as its owner knows it: where the file is now."""
    held = str(path).startswith(("/proc/self/fd/", "/.vol/"))
    return Path(os.path.realpath(path.parent)) / path.name if held else path
