"""Retries: how many attempts are made where one has failed already, so that broken upstreams are not stormed.

A fifth of the calls in flight, but at least three, and over time no more than a fifth of the calls and three a second
(``reliability.md`` 4.2). An attempt at another channel that is well is no such retry: health bounds those.
"""

from collections.abc import Callable

SHARE = 0.2
LEAST = 3.0


class Retries:
    """The budget of the whole gateway. ``in_flight`` says how many calls run."""

    def __init__(self, mono: Callable[[], float], in_flight: Callable[[], int]) -> None:
        self._mono = mono
        self._in_flight = in_flight
        self._credit = LEAST
        self._then = mono()
        self.calls = 0
        """Counted up with every call."""

    def take(self) -> bool:
        """Whether one may be made; it is made then."""
        now = self._mono()
        earned = SHARE * self.calls + LEAST * (now - self._then)
        self._credit = min(max(LEAST, SHARE * self._in_flight()), self._credit + earned)
        self.calls, self._then = 0, now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True
