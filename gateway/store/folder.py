"""Folder: a data folder that is held open, so that all of its files are reached through it.

A path may change its meaning while a server runs: the folder is renamed or deleted, or a backup is put in its place.
The server must then leave alone what is there now, which may belong to another server. So paths begin with a name that
the system gives to the open folder. Where a system has no such name (Windows, which renames no folder in use, and a few
others), they begin with the ordinary path.
"""

import os
import sys
from pathlib import Path

NAMES = ("/proc/self/fd/{fd}", "/.vol/{dev}/{ino}")
"""Names of an open folder, on Linux and on macOS."""


class Folder:
    """A data folder held open. Call ``close`` after use. Raises OSError if the folder cannot be opened."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.fd = -1 if sys.platform == "win32" else os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._known = home.stat() if self.fd < 0 else os.fstat(self.fd)
        self.path = self._lasting_path()
        """The start of its files' paths."""

    @property
    def misplaced(self) -> str:
        """Says why the path leads elsewhere; empty if it does not, or if this cannot be found out now."""
        try:
            status = self._home.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was renamed or deleted"
        except OSError:
            return ""
        return "" if os.path.samestat(status, self._known) else "was replaced by another folder"

    def close(self) -> None:
        """Close the folder. Its paths are invalid afterwards."""
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
    """Returns the path as the owner knows it: where the file is now."""
    held = str(path).startswith(("/proc/self/fd/", "/.vol/"))
    return Path(os.path.realpath(path.parent)) / path.name if held else path
