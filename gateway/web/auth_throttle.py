"""AuthThrottle: other machines that send invalid tokens must wait.

A 256-bit token cannot be guessed; this only saves work and log entries. This machine's own programs are not counted:
one with an old token must not lock the others out.
"""

from collections import deque
from collections.abc import Callable
from math import ceil

from gateway.domain.errors import RateLimited
from gateway.web.connection_limits import is_own

MOST = 10
"""How many failures of one address within ``SPAN_S`` seconds make it wait."""
SPAN_S = 60.0


class AuthThrottle:
    """Failures by address. ``mono`` returns seconds."""

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
