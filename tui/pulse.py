"""Pulse: how busy it is, minute by minute: calls, errors and times to first byte of the last hour."""

from collections import deque
from statistics import median

from gateway.domain.views import CallView

MINUTE = 60_000
MINUTES = 60
SAMPLES = 200
"""Calls that the share of errors and the median are taken over."""


class Pulse:
    """Counts by the minute in which a call began; the clock is given."""

    def __init__(self) -> None:
        self._minutes: dict[int, int] = {}
        self._failed: deque[bool] = deque(maxlen=SAMPLES)
        self._first: deque[int] = deque(maxlen=SAMPLES)

    def add(self, call: CallView) -> None:
        """Count one ended call."""
        minute = call.time_ms // MINUTE
        self._minutes[minute] = self._minutes.get(minute, 0) + 1
        if len(self._minutes) > 2 * MINUTES:
            newest = max(self._minutes)
            self._minutes = {at: n for at, n in self._minutes.items() if at > newest - MINUTES}
        self._failed.append(not 200 <= call.status < 300)
        if call.first_byte_ms is not None:
            self._first.append(call.first_byte_ms)

    def minutes(self, now: int, count: int) -> list[int]:
        """Calls in each of the last minutes, the running one last."""
        last = now // MINUTE
        return [self._minutes.get(minute, 0) for minute in range(last - count + 1, last + 1)]

    @property
    def failed(self) -> float | None:
        """Share of errors among the newest calls; None if there were none."""
        return sum(self._failed) / len(self._failed) if self._failed else None

    @property
    def first_byte_ms(self) -> int | None:
        """Median time to the first byte of the newest calls."""
        return round(median(self._first)) if self._first else None
