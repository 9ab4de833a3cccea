"""Trends: sums of the last days or hours by one dimension, and the calls, errors and latency of the last hour."""

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.domain.query import FAILURE
from gateway.domain.units import HOUR_MS, Millis
from gateway.domain.views import CallView, Summary, SumRow


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """One summary over time. Hours and days without calls have no row."""

    starts: Sequence[Millis] = ()
    """The hours or days, oldest first, without gaps."""
    totals: Mapping[str, SumRow] = {}
    series: Mapping[str, Mapping[Millis, SumRow]] = {}

    def values(self, key: str, value: Callable[[SumRow], float]) -> list[float]:
        """Returns a number for each hour or day; 0 if nothing happened."""
        rows = self.series.get(key, {})
        return [value(rows[start]) if start in rows else 0.0 for start in self.starts]

    def total(self, key: str, value: Callable[[SumRow], int]) -> int:
        """Returns a number for the whole time; 0 if nothing happened."""
        return value(self.totals[key]) if key in self.totals else 0

    def newest(self, key: str) -> SumRow | None:
        """Returns the row of the current hour or day."""
        return self.series.get(key, {}).get(self.starts[-1]) if self.starts else None


def trends(summary: Summary, starts: Sequence[Millis]) -> Trends:
    """Returns the rows of a summary by key and by hour or day. ``starts`` are the hours or days."""
    series: dict[str, dict[Millis, SumRow]] = {}
    for point in summary.series:
        series.setdefault(point.key, {})[point.start_ms] = point.row
    return Trends(starts=tuple(starts), totals={row.key: row for row in summary.rows}, series=series)


def hours(count: int, now: Millis) -> list[Millis]:
    """Returns the starts of the last ``count`` UTC hours, oldest first."""
    last = now // HOUR_MS * HOUR_MS
    return [Millis(last - hours_ago * HOUR_MS) for hours_ago in reversed(range(count))]


class CallRates:
    """The ended calls of the last hour by second, and the error rate and latency of the newest ones."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[int, int]] = {}
        """The number of calls that ended in each second, and how many of them have no record of their own."""
        self._failed: deque[bool] = deque(maxlen=200)
        self._first: deque[int] = deque(maxlen=200)

    def add(self, call: CallView) -> None:
        """Count one ended call, or all the calls that a record of refusals stands for."""
        second = (call.time_ms + call.duration_ms) // 1000
        calls, repeats = self._seconds.get(second, (0, 0))
        self._seconds[second] = (calls + call.count, repeats + call.count - 1)
        if len(self._seconds) > 7_200:  # two hours of seconds
            oldest = max(self._seconds) - 3_600
            self._seconds = {second: counts for second, counts in self._seconds.items() if second > oldest}
        self._failed.append(FAILURE.matches(call))
        if call.first_byte_ms is not None:
            self._first.append(call.first_byte_ms)

    def minutes(self, now: int, count: int) -> list[int]:
        """Returns how many calls ended in each of the last minutes, the last one being the 60 seconds up to now."""
        counts = [0] * count
        for second, (calls, _) in self._seconds.items():
            minutes_ago = (now // 1000 - second) // 60
            if -1 <= minutes_ago < count:  # the server's clock may be a little ahead
                counts[-1 - max(0, minutes_ago)] += calls
        return counts

    def repeats(self, now: int) -> int:
        """Returns how many refusals of the last 60 seconds are only counted in another refusal's record."""
        counts = self._seconds.items()
        return sum(repeats for second, (_, repeats) in counts if -1 <= (now // 1000 - second) // 60 < 1)

    @property
    def samples(self) -> int:
        """Returns the number of newest calls that ``failed`` and ``first_byte_ms`` describe."""
        return len(self._failed)

    @property
    def failed(self) -> float | None:
        """Returns the share of errors among the newest calls, or None. Calls ended by hand do not count."""
        return sum(self._failed) / len(self._failed) if self._failed else None

    @property
    def first_byte_ms(self) -> int | None:
        """Returns the median time to the first byte of the newest calls."""
        return round(statistics.median(self._first)) if self._first else None
