"""OpenFiles: how many files this process may have open, and how many of them connections may use.

Every connection is an open file. A call needs two: the client's and the upstream's. The store, the owner's API and
rejected clients need some too, so connections never get all that the system allows.
"""

import sys
from collections.abc import Callable

from gateway.domain.settings import Settings

MIN_RESERVE, MAX_RESERVE = 48, 128
"""The open files that connections never get: a quarter of the limit, but within these bounds."""


class OpenFiles:
    """Shares the system's limit of open files between the connections of clients and those to upstreams."""

    def __init__(self, settings: Callable[[], Settings], limit: int) -> None:
        self._settings = settings
        self.limit = limit
        """How many open files the system allows; 0 for any number, or if unknown."""
        reserve = min(MAX_RESERVE, max(MIN_RESERVE, limit // 4))
        self._free = max(2, limit - reserve) if limit else 0
        """How many files connections may use; 0 for any number."""

    def clients(self) -> int:
        """Returns how many connections of clients may be open at once; 0 for any number."""
        connections, free = self._settings().connections, self._free
        return min(connections or free, free // 2) if free else connections

    def upstreams(self) -> int:
        """Returns how many connections to upstreams may be open at once; 0 for any number."""
        return self._free - self.clients() if self._free else 0

    @property
    def limited_by_system(self) -> bool:
        """Returns whether the system allows fewer connections of clients than the settings do."""
        return 0 < self.clients() < self._settings().connections


def needed_files(connections: int) -> int:
    """Returns how many open files are certainly enough for this many connections, where 0 means any number."""
    return 4 * connections + MAX_RESERVE if connections else 1 << 20


def raise_file_limit() -> int:
    """Raise this process's soft limit of open files as far as is useful. Returns the new limit; 0 means unlimited."""
    if sys.platform == "win32":
        return 0
    import resource  # noqa: PLC0415 - Windows lacks it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for goal in (1 << 20, 10_240):  # macOS reports a higher hard limit than it accepts
        new_limit = goal if hard == resource.RLIM_INFINITY else min(goal, hard)
        if soft == resource.RLIM_INFINITY or soft >= new_limit:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
        except (OSError, ValueError):
            continue
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0 if soft == resource.RLIM_INFINITY else soft
