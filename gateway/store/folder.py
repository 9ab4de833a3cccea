"""Folder: a data folder that stays open, so that its files are found even if its path changes.

While a server runs, the folder may be renamed or deleted, or a backup may be put in its place. The server must not
write to what is at the path then, because it may belong to another server. So the paths of its files begin with a name
that the system gives to the open folder. Some systems have no such name, such as Windows, which cannot rename a folder
in use; there they begin with the ordinary path.
"""

import os
import sys
from pathlib import Path

NAMES = ("/proc/self/fd/{fd}", "/.vol/{dev}/{ino}")
"""Names of an open folder, on Linux and on macOS."""


class Folder:
    """An open data folder. Call ``close`` after use. Raises OSError if the folder cannot be opened."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.fd = -1 if sys.platform == "win32" else os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._status = home.stat() if self.fd < 0 else os.fstat(self.fd)
        self.path = self._stable_path()
        """The path with which the paths of its files begin."""

    @property
    def misplaced(self) -> str:
        """Returns why the folder is no longer at its path; empty if it is, or if the system does not tell."""
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
        """Returns a path of the open folder that stays valid if it is renamed; its ordinary path if there is none."""
        for name in NAMES if self.fd >= 0 else ():
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
