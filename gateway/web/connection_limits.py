"""ConnectionLimits and AuthThrottle: what other machines may do, counted by their addresses."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from math import ceil

from gateway.domain.errors import RateLimited
from gateway.domain.settings import Settings


@lru_cache(maxsize=256)
def is_own(address: str) -> bool:
    """Returns whether an address is this machine's. True for a text that is not a network address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return True
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


class ConnectionLimits:
    """Counts the open connections, in all and for each address of another machine."""

    def __init__(
        self, settings: Callable[[], Settings], own: Callable[[str], bool] = is_own, most: Callable[[], int] = lambda: 0
    ) -> None:
        """``own``: addresses that are not counted apart. ``most``: how many the system allows; 0 for any number."""
        self._settings = settings
        self._own = own
        self._most = most
        self._by_address: dict[str, int] = {}
        self.open = 0
        """How many are open."""

    def enter(self, address: str) -> str:
        """Count one more connection. Returns why it is one too many; empty if it is counted."""
        settings, most = self._settings(), self._most()
        if settings.connections and self.open >= settings.connections:
            return f"more than {settings.connections} connections are open"
        if most and self.open >= most:
            return f"more than {most} connections are open, and the system's limit of open files allows no more"
        if not self._own(address):
            count, most_of_address = self._by_address.get(address, 0), settings.address_connections
            if most_of_address and count >= most_of_address:
                return f"more than {most_of_address} connections of this address are open"
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


MOST = 10
"""How many failures of one address within ``SPAN_S`` seconds make it wait."""
SPAN_S = 60.0


class AuthThrottle:
    """Failures by address: other machines that send invalid tokens must wait. ``mono`` returns seconds.

    A 256-bit token cannot be guessed; this only saves work and log entries. This machine's own programs are not
    counted: one with an old token must not lock the others out.
    """

    def __init__(self, mono: Callable[[], float], own: Callable[[str], bool] = is_own) -> None:
        self._mono = mono
        self._own = own
        self.failures: dict[str, deque[float]] = {}
        """When each address failed recently; usually empty."""

    def check(self, address: str) -> None:
        """Raises RateLimited for an address that failed too often."""
        failures, now = self.failures.get(address), self._mono()
        if failures is None:
            return
        while failures and failures[0] <= now - SPAN_S:
            failures.popleft()
        if not failures:
            del self.failures[address]
        elif len(failures) >= MOST:
            wait_s = ceil(failures[0] + SPAN_S - now)
            msg = f"{MOST} requests of your address had no valid token; try again in {wait_s} s with a valid one"
            raise RateLimited(msg, retry_after_s=float(wait_s))

    def failed(self, address: str) -> None:
        """Count a request of this address without a valid token."""
        if self._own(address):
            return
        failures = self.failures.pop(address, None) or deque(maxlen=MOST)
        failures.append(self._mono())
        self.failures[address] = failures
        if len(self.failures) > 1000:
            del self.failures[next(iter(self.failures))]
