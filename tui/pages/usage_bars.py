"""Usage bars: the measure, the largest series and the sums of each bar that the usage chart shows."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from gateway.domain.units import DAY_MS, DOLLAR, HOUR_MS, Millis
from gateway.domain.views import SumRow
from tui import charts, format as fmt
from tui.trends import Trends

AXIS = 8
"""The width of the axis with the numbers, at the left."""

EDGE = 2
"""The width of the edge between the numbers and the bars."""

END = 6
"""The width of the names at the right ends of lines."""

SERIES = 6
"""The maximum number of series with a colour of their own. All others share one."""

ALL, OTHERS = "\0all", "\0others"
"""The keys of all calls together, and of the series without a colour of their own."""


class Measure(msgspec.Struct, frozen=True):
    """A measure that the chart can show."""

    name: str
    number: Callable[[SumRow], float]
    show: Callable[[int], str]
    lines: Mapping[str, Callable[[SumRow], float | None]] = {}
    """The average and the percentiles of a time, by name, which are drawn as lines; empty for sums, which are bars."""
    integers: bool = False
    """Whether its values are whole numbers."""
    words: str = ""
    """The filter for the calls that it counts; empty if it counts all calls."""
    unit: float = 1
    """The upper end of the axis while all values are zero."""

    def text(self, number: float) -> str:
        return self.show(round(number))


def _time_measure(name: str, field: str) -> Measure:
    """Returns the measure of a time, whose fields in a row contain ``field``."""
    percentiles = {percent: attrgetter(f"{field}_{percent}_ms") for percent in ("p50", "p95")}
    mean = attrgetter(f"mean_{field}_ms")
    return Measure(name, lambda row: mean(row) or 0, fmt.duration, {**percentiles, "avg": mean})


MEASURES: Mapping[str, Measure] = {
    "cost": Measure("cost", lambda row: row.cost_nanos, fmt.short_cost, unit=DOLLAR),
    "calls": Measure("calls", lambda row: row.calls, fmt.brief_count, integers=True),
    "tokens": Measure("tokens", lambda row: row.input_tokens + row.output_tokens, fmt.brief_count, integers=True),
    "errors": Measure("errors", lambda row: row.errors, fmt.brief_count, integers=True, words="st:err"),
    "duration": _time_measure("duration", "duration"),
    "first token": _time_measure("time to the first token", "first_byte"),
}


class ChartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the chart shows, and how."""

    trends: Trends
    """The sums by key, and the sums of all calls as the series ``ALL``."""
    measure: Measure
    patterns: bool = False
    """Whether fills are used instead of colours."""
    first_ms: Millis | None = None
    """The time of the first call ever counted, before which nothing is known; None before the first call."""

    @property
    def largest(self) -> list[SumRow]:
        """Returns the series with a colour of their own, the largest first."""
        rows = sorted(self.trends.totals.values(), key=lambda row: -self.measure.number(row))
        return [row for row in rows if self.measure.number(row) > 0][:SERIES]

    @property
    def others(self) -> list[SumRow]:
        largest_keys = {row.key for row in self.largest}
        return [row for row in self.trends.totals.values() if row.key not in largest_keys]


class Bars(msgspec.Struct, frozen=True):
    """The bars of a chart: the time and the place of each, and its sums."""

    starts: Sequence[Millis]
    ends: Sequence[Millis]
    chunk: int
    """The number of hours or days of each bar; the oldest one may have fewer."""
    spans: Sequence[charts.BarSpan]
    rows: Mapping[str, Mapping[int, SumRow]] = {}
    """The sums of the bars that have calls, by the key of the series and the number of the bar."""

    @property
    def hourly(self) -> bool:
        return bool(self.starts) and self.ends[0] - self.starts[0] <= HOUR_MS * self.chunk

    def bar_at(self, x: int) -> int | None:
        """Returns the number of the bar at a cell, counted from the axis, or None."""
        return next((i for i, span in enumerate(self.spans) if span.start <= x < span.start + span.whole), None)


def bars_of(plan: ChartPlan, width: int) -> Bars:
    """Returns as many bars as fit. If several hours or days share a bar, the oldest bar may have fewer."""
    starts = plan.trends.starts
    chart_width = max(1, width - AXIS - EDGE - (END if plan.measure.lines else 0))
    chunk = max(1, math.ceil(len(starts) / chart_width))
    left_over = len(starts) % chunk
    firsts = (starts[0], *starts[left_over::chunk]) if left_over else starts[::chunk]
    step = HOUR_MS if len(starts) > 1 and starts[1] - starts[0] <= HOUR_MS else DAY_MS
    end = Millis(starts[-1] + step) if starts else Millis(0)
    series = plan.trends.series
    sources = {key: [series.get(key, {})] for key in (ALL, *plan.trends.totals, *series)}
    sources[OTHERS] = [series.get(row.key, {}) for row in plan.others]
    rows = {key: _rows_by_bar(firsts, cells) for key, cells in sources.items()}
    return Bars(firsts, (*firsts[1:], end), chunk, charts.spread_bars(len(firsts), chart_width), rows)


def _rows_by_bar(firsts: Sequence[Millis], sources: Sequence[Mapping[Millis, SumRow]]) -> dict[int, SumRow]:
    by_bar: dict[int, list[SumRow]] = {}
    for cells in sources:
        for start, row in cells.items():
            bar = bisect_right(firsts, start) - 1
            if bar >= 0:
                by_bar.setdefault(bar, []).append(row)
    return {bar: sum_rows(rows, slowest=len(sources) == 1) for bar, rows in by_bar.items()}


def sum_rows(rows: Sequence[SumRow], *, slowest: bool = False) -> SumRow:
    """Returns the sum of rows. Percentiles cannot be added: it has none, or with ``slowest`` the highest ones."""
    if len(rows) == 1:
        return rows[0]
    sums: dict[str, Any] = {}
    for name in SumRow.__struct_fields__[2:]:  # after the key and the name
        numbers = [number for row in rows if (number := getattr(row, name)) is not None]
        if name.endswith(("_p50_ms", "_p95_ms")):
            sums[name] = max(numbers, default=None) if slowest else None
        else:
            sums[name] = sum(numbers)
    return msgspec.structs.replace(rows[0], **sums)


def is_known(plan: ChartPlan, bars: Bars, bar: int) -> bool:
    """Returns whether anything is known about a bar: it ends after the first call that was ever counted."""
    return plan.first_ms is not None and bars.ends[bar] > plan.first_ms
