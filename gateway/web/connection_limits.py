"""ConnectionLimits and AuthThrottle: how many connections may be open, and how often an address may send bad tokens."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from gateway.domain.errors import RateLimited
from gateway.domain.settings import Settings
from gateway.domain.urls import address_of


@lru_cache(maxsize=256)
def is_this_machine(address: str) -> bool:
    """Returns whether a peer's address is this machine's. True for a text that is not a network address."""
    ip = address_of(address)
    return ip is None or ip.is_loopback


class ConnectionLimits:
    """Counts the open connections: all of them, and each other machine's."""

    def __init__(self, settings: Callable[[], Settings], system_limit: Callable[[], int] = lambda: 0) -> None:
        """``system_limit`` returns how many connections the system allows; 0 for any number."""
        self._settings = settings
        self._system_limit = system_limit
        self._by_address: dict[str, int] = {}
        self.open = 0

    def enter(self, address: str) -> str:
        """Count a new connection. Returns why it must be refused; empty if it is counted."""
        settings, allowed = self._settings(), self._system_limit()
        if settings.connections and self.open >= settings.connections:
            return f"more than {settings.connections} connections are open"
        if allowed and self.open >= allowed:
            return f"more than {allowed} connections are open, and the system's limit of open files allows no more"
        if not is_this_machine(address):
            count, limit = self._by_address.get(address, 0), settings.address_connections
            if limit and count >= limit:
                return f"more than {limit} connections of this address are open"
            self._by_address[address] = count + 1
        self.open += 1
        return ""

    def leave(self, address: str) -> None:
        """Stop counting a connection that was closed."""
        self.open -= 1
        if address in self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


MAX_FAILURES = 10
"""After this many failures within ``FAILURE_SPAN_S``, an address must wait."""
FAILURE_SPAN_S = 60.0


class AuthThrottle:
    """Makes other machines wait if they keep sending invalid tokens. ``mono`` returns monotonic seconds.

    A 256-bit token cannot be guessed; this only saves work and log entries. This machine's own programs are not
    counted: one with an old token must not lock the others out.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self.failures: dict[str, deque[float]] = {}
        """The times of the last failures by address, the address that failed last at the end."""

    def check(self, address: str) -> None:
        """Raises RateLimited for an address that failed too often."""
        failures = self.failures.get(address)
        if failures is None or len(failures) < MAX_FAILURES:
            return
        wait = ceil(failures[0] + FAILURE_SPAN_S - self._mono())
        if wait > 0:
            msg = f"{MAX_FAILURES} requests from your address had no valid token; try again in {wait} s with one"
            raise RateLimited(msg, retry_after_s=float(wait))

    def count_failure(self, address: str) -> None:
        """Count a request without a valid token from this address."""
        if is_this_machine(address):
            return
        failures = self.failures.pop(address, None) or deque(maxlen=MAX_FAILURES)
        failures.append(self._mono())
        self.failures[address] = failures
        if len(self.failures) > 1000:
            del self.failures[next(iter(self.failures))]
