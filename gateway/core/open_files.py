"""Open files: how many this process may have, and how many of them connections may use.

Every connection is an open file. A call needs two, the client's and the upstream's. The store, the control surface and
rejected clients need some too, so connections never get all that the system allows.
"""

import sys
from collections.abc import Callable

import msgspec

from gateway.domain.settings import Settings

LEAST_RESERVE, MOST_RESERVE = 48, 128


class Shares(msgspec.Struct, frozen=True):
    """How many connections may be open at once; 0: any number."""

    clients: int
    upstreams: int


class OpenFiles:
    """The limit of open files, raised as far as the settings need it and the system allows."""

    def __init__(self, settings: Callable[[], Settings], raised: "Callable[[int], int] | None" = None) -> None:
        """``raised`` raises the limit towards a number and returns the new limit; 0: unlimited."""
        self._settings = settings
        self._raised = raised or raised_limit
        self._seen = -1
        self._shares = Shares(0, 0)
        self.limit = 0
        """What the system allows; 0: unknown, or any number."""

    @property
    def shares(self) -> Shares:
        """Returns the shares that the settings and the system allow."""
        connections = self._settings().connections
        if connections != self._seen:
            self._seen = connections
            self.limit = self._raised(wanted_files(connections))
            self._shares = share_files(self.limit, connections)
        return self._shares

    def clients(self) -> int:
        """Returns how many connections of clients may be open."""
        return self.shares.clients

    def upstreams(self) -> int:
        """Returns how many connections to upstreams may be open."""
        return self.shares.upstreams

    @property
    def short(self) -> bool:
        """Returns whether fewer connections are possible than the settings ask for."""
        return 0 < self.shares.clients < self._settings().connections


def wanted_files(connections: int) -> int:
    """Returns the open files needed for so many connections of clients, and twice as many to upstreams."""
    return 4 * connections + MOST_RESERVE if connections else 1 << 20


def share_files(limit: int, connections: int) -> Shares:
    """Returns how many of ``limit`` open files clients and upstreams may use for ``connections`` of clients."""
    if not limit:
        return Shares(connections, 0)
    free = max(2, limit - min(MOST_RESERVE, max(LEAST_RESERVE, limit // 4)))
    clients = min(connections or free, free // 2)
    return Shares(clients, free - clients)


def raised_limit(goal: int) -> int:
    """Raise this process's soft limit of open files towards the goal. Returns the new limit; 0: unlimited."""
    if sys.platform == "win32":
        return 0
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        goal = min(goal, hard)
    for most in (goal, min(goal, 10_240)):  # macOS reports a higher hard limit than it accepts
        if soft == resource.RLIM_INFINITY or soft >= most:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            continue
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0 if soft == resource.RLIM_INFINITY else soft
