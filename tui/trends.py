"""Trends: the sums of the last days or hours, by one dimension, as rows of numbers that can be drawn."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.domain.limits import Window, window_start
from gateway.domain.units import Millis
from gateway.domain.views import Summary, SumRow

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """One summary over time. Where nothing happened there is no row."""

    starts: Sequence[Millis] = ()
    """The hours or days, oldest first, without gaps."""
    totals: Mapping[str, SumRow] = {}
    series: Mapping[str, Mapping[Millis, SumRow]] = {}

    def values(self, key: str, value: Callable[[SumRow], float]) -> list[float]:
        """A number an hour or day; 0 where nothing happened."""
        rows = self.series.get(key, {})
        return [value(rows[start]) if start in rows else 0.0 for start in self.starts]

    def newest(self, key: str) -> SumRow | None:
        """The row of the hour or day that runs."""
        return self.series.get(key, {}).get(self.starts[-1]) if self.starts else None


def trends(summary: Summary, starts: Sequence[Millis]) -> Trends:
    """The summary by its keys, over these hours or days."""
    series: dict[str, dict[Millis, SumRow]] = {}
    for point in summary.series:
        series.setdefault(point.key, {})[point.start_ms] = point.row
    return Trends(starts=tuple(starts), totals={row.key: row for row in summary.rows}, series=series)


def days(count: int, now: Millis) -> list[Millis]:
    """The first moments of so many local days, today's last; asked of the calendar, for days differ in length."""
    found = [window_start(Window.DAY, now)]
    while len(found) < count:
        found.append(window_start(Window.DAY, Millis(found[-1] - HOUR_MS)))
    return found[::-1]


def hours(count: int, now: Millis) -> list[Millis]:
    """The first moments of so many hours, the running one last; hours are those of UTC."""
    last = now // HOUR_MS * HOUR_MS
    return [Millis(last - back * HOUR_MS) for back in reversed(range(count))]
