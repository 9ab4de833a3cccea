"""OpenFiles: how many files this process may have open, and how many of them connections may use.

Every connection is an open file. A call needs two: the client's and the upstream's. The store, the control surface and
rejected clients need some too, so connections never get all that the system allows.
"""

import sys
from collections.abc import Callable

from gateway.domain.settings import Settings

MIN_RESERVE, MAX_RESERVE = 48, 128
"""The open files that connections never get: a quarter of the limit, but within these bounds."""


class OpenFiles:
    """The limit of open files, raised to what the settings need if the system allows it."""

    def __init__(self, settings: Callable[[], Settings], raise_limit: Callable[[int], int] | None = None) -> None:
        """``raise_limit`` raises the limit towards a number and returns the new one; see ``raise_file_limit``."""
        self._settings = settings
        self._raise_limit = raise_limit or raise_file_limit
        self._connections = -1
        """The setting for which the limit was raised last."""
        self.limit = 0
        """How many open files the system allows; 0 for any number, or if unknown."""

    def clients(self) -> int:
        """Returns how many connections of clients may be open at once; 0 for any number."""
        connections, free = self._settings().connections, self._free()
        return min(connections or free, free // 2) if free else connections

    def upstreams(self) -> int:
        """Returns how many connections to upstreams may be open at once; 0 for any number."""
        free = self._free()
        return free - self.clients() if free else 0

    @property
    def limited_by_system(self) -> bool:
        """Returns whether the system allows fewer connections of clients than the settings do."""
        return 0 < self.clients() < self._settings().connections

    def _free(self) -> int:
        """Returns how many files connections may use; 0 for any number. Raises the limit if the setting has changed."""
        connections = self._settings().connections
        if connections != self._connections:
            self._connections = connections
            self.limit = self._raise_limit(needed_files(connections))
        reserve = min(MAX_RESERVE, max(MIN_RESERVE, self.limit // 4))
        return max(2, self.limit - reserve) if self.limit else 0


def needed_files(connections: int) -> int:
    """Returns how many open files are certainly enough for this many connections, where 0 means any number."""
    return 4 * connections + MAX_RESERVE if connections else 1 << 20


def raise_file_limit(goal: int) -> int:
    """Raise this process's soft limit of open files towards the goal. Returns the new limit; 0 means unlimited."""
    if sys.platform == "win32":
        return 0
    import resource  # noqa: PLC0415 - Windows lacks it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        goal = min(goal, hard)
    for new_limit in (goal, min(goal, 10_240)):  # macOS reports a higher hard limit than it accepts
        if soft == resource.RLIM_INFINITY or soft >= new_limit:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
        except (OSError, ValueError):
            continue
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0 if soft == resource.RLIM_INFINITY else soft
