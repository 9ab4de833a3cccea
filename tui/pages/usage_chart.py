"""Usage chart: sums over time as stacked bars, and averages and percentiles as lines, with axes.

The chart takes the whole width. Each series has a colour of the theme, or a fill without colours. An hour or day
without calls has a dot on the axis, and before the first call ever counted the axis is dashed, so that zero, small and
unknown values differ.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from textual.content import Content

from gateway.domain.units import DOLLAR, Millis
from gateway.domain.views import SumRow
from tui import charts, glyphs
from tui import format as fmt
from tui.text import Part, cell, content
from tui.trends import DAY_MS, HOUR_MS, Trends

AXIS = 8
"""The width of the numbers at the left."""

EDGE = 2
"""The width between the numbers and the bars."""

END = 6
"""The width of the names at the right ends of lines."""

SERIES = 6
"""The most series with a colour of their own. All others share one."""

OTHERS = "\0others"
"""The key that stands for all other series."""


class Measure(msgspec.Struct, frozen=True):
    """A measure that the chart can show."""

    name: str
    number: Callable[[SumRow], float]
    text: Callable[[float], str]
    lines: Mapping[str, Callable[[SumRow], float | None]] = {}
    """The average and the percentiles of a time, by name, which are drawn as lines; empty for sums, which are bars."""
    whole: bool = False
    """Whether its values are whole numbers."""
    words: str = ""
    """The filter for the calls that it counts; empty: all calls."""
    unit: float = 1
    """The upper end of the axis while all values are zero."""


def _money(nanos: float) -> str:
    return fmt.short_cost(round(nanos))


def _count(number: float) -> str:
    return fmt.brief_count(round(number))


def _time(ms: float) -> str:
    return fmt.seconds(round(ms))


MEASURES: Mapping[str, Measure] = {
    "cost": Measure("cost", lambda row: row.cost_nanos, _money, unit=DOLLAR),
    "calls": Measure("calls", lambda row: row.calls, _count, whole=True),
    "tokens": Measure("tokens", lambda row: row.input_tokens + row.output_tokens, _count, whole=True),
    "errors": Measure("errors", lambda row: row.errors, _count, whole=True, words="st:err"),
    "duration": Measure(
        "duration",
        lambda row: row.mean_duration_ms or 0,
        _time,
        {
            "p50": lambda row: row.duration_p50_ms,
            "p95": lambda row: row.duration_p95_ms,
            "avg": lambda row: row.mean_duration_ms,
        },
    ),
    "first token": Measure(
        "time to the first token",
        lambda row: row.mean_first_byte_ms or 0,
        _time,
        {
            "p50": lambda row: row.first_byte_p50_ms,
            "p95": lambda row: row.first_byte_p95_ms,
            "avg": lambda row: row.mean_first_byte_ms,
        },
    ),
}


class ChartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the chart shows, and how."""

    trends: Trends
    whole: Trends
    """The sums of all keys together, under an empty key."""
    value: Measure
    """The measure that is shown."""
    patterns: bool = False
    """Whether fills are used instead of colours."""
    first_ms: Millis | None = None
    """The time of the first call ever counted, before which nothing is known; None without calls."""

    @property
    def named(self) -> list[SumRow]:
        """Returns the series with a colour of their own, the largest first."""
        return [row for row in largest_first(self.trends, self.value) if self.value.number(row) > 0][:SERIES]

    @property
    def others(self) -> list[SumRow]:
        """Returns all other series."""
        named = {row.key for row in self.named}
        return [row for row in self.trends.totals.values() if row.key not in named]

    def fill(self, series: int) -> str:
        """Returns the character with which a series is drawn."""
        return glyphs.FILLS[series] if self.patterns else glyphs.FILLS[0]


def largest_first(trends: Trends, value: Measure) -> list[SumRow]:
    """Returns the rows of all keys, the largest first."""
    return sorted(trends.totals.values(), key=lambda row: -value.number(row))


class Bars(msgspec.Struct, frozen=True):
    """The bars of a chart: the time and the place of each, and its sums."""

    starts: Sequence[Millis]
    """The start of the time of each bar."""
    ends: Sequence[Millis]
    """The end of the time of each bar."""
    chunk: int
    """The number of hours or days of each bar; the oldest one may have fewer."""
    spans: Sequence[charts.BarSpan]
    rows: Mapping[str | None, Mapping[int, SumRow]] = {}
    """The sums of the bars that have calls, by the key of the series (None: all together) and the number of the bar."""

    @property
    def hourly(self) -> bool:
        """Returns whether the bars are hours."""
        return bool(self.starts) and self.ends[0] - self.starts[0] <= HOUR_MS * self.chunk

    def at(self, x: int) -> int | None:
        """Returns the number of the bar at a cell, counted from the axis; None if there is none."""
        return next((i for i, span in enumerate(self.spans) if span.start <= x < span.start + span.whole), None)


def bars_of(plan: ChartPlan, width: int) -> Bars:
    """Returns as many bars as fit. If there are more hours or days than cells, several share a bar, the newest
    evenly.
    """
    starts = plan.trends.starts
    chart_width = max(1, width - AXIS - EDGE - (END if plan.value.lines else 0))
    chunk = max(1, -(-len(starts) // chart_width))
    left_over = len(starts) % chunk
    firsts = (starts[0], *starts[left_over::chunk]) if left_over else starts[::chunk]
    step = HOUR_MS if len(starts) > 1 and starts[1] - starts[0] <= HOUR_MS else DAY_MS
    end = Millis(starts[-1] + step) if starts else Millis(0)
    series = plan.trends.series
    sources: dict[str | None, list[Mapping[Millis, SumRow]]] = {
        key: [series.get(key, {})] for key in {**plan.trends.totals, **series}
    }
    sources[None] = [plan.whole.series.get("", {})]
    sources[OTHERS] = [series.get(row.key, {}) for row in plan.others]
    rows = {key: _rows_by_bar(firsts, cells) for key, cells in sources.items()}
    return Bars(firsts, (*firsts[1:], end), chunk, charts.spread_bars(len(firsts), chart_width), rows)


def chart(plan: ChartPlan, bars: Bars, height: int, chosen: int | None, series: str | None) -> list[Content]:
    """Returns the bars or lines with their axes: bar most ``height`` rows, and two rows below.

    ``chosen``: the number of the selected bar; ``series``: the key of the selected series, None for all together.
    """
    if plan.value.lines:
        row_of_bar = [bars.rows.get(series, {}).get(bar) for bar in range(len(bars.starts))]
        lines_of_values = [
            [None if row is None else number(row) for row in row_of_bar] for number in plan.value.lines.values()
        ]
        highest = max((value for line in lines_of_values for value in line if value is not None), default=0.0)
        ticks = charts.ticks(highest, height, times=True)
        width = sum(span.whole for span in bars.spans)
        rows = list(_line_rows(plan, lines_of_values, width, ticks))
    else:
        columns = _columns(plan, bars)
        highest = max(map(sum, columns), default=0.0) or plan.value.unit
        ticks = charts.ticks(highest, height, whole=plan.value.whole)
        rows = list(_bar_rows(plan, bars, columns, ticks))
    return [*_with_axis(plan, rows, ticks), *_time_axis(plan, bars, chosen)]


def _rows_by_bar(firsts: Sequence[Millis], sources: Sequence[Mapping[Millis, SumRow]]) -> dict[int, SumRow]:
    """Returns the sums of each bar that has calls, by its number."""
    by_bar: dict[int, list[SumRow]] = {}
    for cells in sources:
        for start, row in cells.items():
            if (at := bisect_right(firsts, start) - 1) >= 0:
                by_bar.setdefault(at, []).append(row)
    return {at: sum_rows(rows, slowest=len(sources) == 1) for at, rows in by_bar.items()}


def sum_rows(rows: Sequence[SumRow], *, slowest: bool = False) -> SumRow:
    """Returns the sum of rows. Percentiles cannot be added, so the sum has none; with ``slowest``, it has the highest
    ones of its hours or days.
    """
    if len(rows) == 1:
        return rows[0]
    counts = ("calls", "errors", "refused", "aborts", "lost", "input_tokens", "cached_tokens", "output_tokens")
    others = ("cost_nanos", "possible_nanos", "duration_ms", "first_byte_ms", "first_bytes", "refused_ms", "waited_ms")
    sums = {name: sum(getattr(row, name) for row in rows) for name in (*counts, *others)}
    times: dict[str, Any] = {}
    for name in ("duration_p50_ms", "duration_p95_ms", "first_byte_p50_ms", "first_byte_p95_ms"):
        percentiles = [ms for row in rows if (ms := getattr(row, name)) is not None]
        times[name] = max(percentiles, default=None) if slowest else None
    return msgspec.structs.replace(rows[0], **sums, **times)


def is_known(plan: ChartPlan, bars: Bars, number: int) -> bool:
    """Returns whether something is known about a bar, because it does not end before the first call ever counted."""
    return plan.first_ms is not None and bars.ends[number] > plan.first_ms


def _columns(plan: ChartPlan, bars: Bars) -> list[list[float]]:
    """Returns the values of each bar: of the series with a colour of their own, and of all others together."""
    columns = [[0.0] * (SERIES + 1) for _ in bars.starts]
    for number, key in [*enumerate(row.key for row in plan.named), (SERIES, OTHERS)]:
        for at, row in bars.rows[key].items():
            columns[at][number] = plan.value.number(row)
    return columns


def _bar_rows(
    plan: ChartPlan, bars: Bars, columns: Sequence[Sequence[float]], ticks: charts.Ticks
) -> Iterator[list[Part]]:
    stacks = charts.stack_bars(columns, ticks.height, ticks.top, patterns=plan.patterns)
    calls = bars.rows[None]
    for number, row in enumerate(stacks):
        background = _background(plan, ticks, number)
        bottom = number == ticks.height - 1
        parts: list[Part] = []
        for bar, (chart_cell, span) in enumerate(zip(row, bars.spans, strict=True)):
            if chart_cell.series >= 0:
                tone = f"chart{chart_cell.series + 1}" + (
                    f" on chart{chart_cell.behind + 1}" if chart_cell.behind >= 0 else ""
                )
                parts += [(chart_cell.text * span.bar, tone), (background[0] * (span.whole - span.bar), background[1])]
            elif bottom and bar not in calls and is_known(plan, bars, bar):
                indent = (span.whole - 1) // 2
                parts.append((" " * indent + glyphs.NOTHING + " " * (span.whole - 1 - indent), "dim"))
            elif bottom and bar in calls:
                parts += [(glyphs.BLOCKS[1] * span.bar, "dim"), (" " * (span.whole - span.bar), "")]
            else:
                parts.append((background[0] * span.whole, background[1]))
        yield parts


def _background(plan: ChartPlan, ticks: charts.Ticks, row: int) -> Part:
    """Returns the background of a cell of this row: the line of a tick, or nothing. Without colours the line is
    dotted.
    """
    if row % ticks.rows:
        return " ", ""
    return (glyphs.GRID_DOTS if plan.patterns else glyphs.GRID), "grid"


def _line_rows(
    plan: ChartPlan, values: Sequence[Sequence[float | None]], width: int, ticks: charts.Ticks
) -> Iterator[list[Part]]:
    rows = charts.lines(values, width, ticks.height, ticks.top, patterns=plan.patterns)
    names = _line_names(plan, values, ticks)
    for number, row in enumerate(rows):
        background = (" ", "") if plan.patterns else _background(plan, ticks, number)
        parts = [
            background if chart_cell.series < 0 else (chart_cell.text, LINE_TONES[chart_cell.series])
            for chart_cell in row
        ]
        yield parts + names.get(number, [(" " * END, "")])


LINE_TONES = ("chart1", "chart2", "chart3")
"""The tones of p50, p95 and the average."""


def _line_names(
    plan: ChartPlan, values: Sequence[Sequence[float | None]], ticks: charts.Ticks
) -> dict[int, list[Part]]:
    """Returns the names of the lines, each after a sign in the line's colour, by the row of the chart, counted from the
    top, that is nearest to the line's end and free.
    """
    names, height = [], ticks.height
    signs = glyphs.LINES if plan.patterns else 3 * glyphs.LINES[0]
    for number, (name, line) in enumerate(zip(plan.value.lines, values, strict=True)):
        last = next((value for value in reversed(line) if value is not None), None)
        if last is not None:
            names.append((last, [(f" {signs[number]}", LINE_TONES[number]), (f" {name:<{END - 3}}", "")]))
    rows: dict[int, list[Part]] = {}
    for names_below, (last, parts) in zip(reversed(range(len(names))), sorted(names, reverse=True), strict=True):
        row = height - 1 - min(height - 1, int(last / ticks.top * height))
        free = range(max(rows, default=-1) + 1, height - names_below)
        if free:
            rows[min(free, key=lambda candidate: abs(candidate - row))] = parts
    return rows


def _with_axis(plan: ChartPlan, rows: Sequence[Sequence[Part]], ticks: charts.Ticks) -> Iterator[Content]:
    """Yields the rows after the axis with the numbers of the ticks. A tick is at the upper end of its row."""
    for number, row in enumerate(rows):
        labelled = number % ticks.rows == 0
        label = tick_text(plan.value, ticks, number // ticks.rows) if labelled else ""
        axis = glyphs.AXIS[1 if labelled else 0]
        yield content((f"{cell(label, AXIS, right=True)} {axis}", "dim"), *join_parts(row))


def join_parts(parts: Sequence[Part]) -> Iterator[Part]:
    """Yields the parts with neighbours of the same tone joined, because a chart has thousands of cells."""
    text, tone = "", ""
    for part in parts:
        if part[1] != tone and text:
            yield text, tone
            text = ""
        text, tone = text + part[0], part[1]
    if text:
        yield text, tone


def tick_text(value: Measure, ticks: charts.Ticks, number: int) -> str:
    """Returns the text of a tick, counted from the top, which fits beside the axis. All ticks of a scale have the same
    number of decimals.
    """
    amount = ticks.step * (ticks.count - number)
    if value.name == "cost":
        step = ticks.step / 10**9
        decimals = 0 if step >= 1 else max(2, -math.floor(math.log10(step)))
        text = f"${amount / 10**9:,.{decimals}f}"
        return text if len(text) <= AXIS else f"${amount / 10**9:g}"
    if not value.lines:
        return value.text(amount)
    if ticks.top < 1000:
        return f"{amount:.0f}ms"
    decimals = 0 if ticks.step >= 1000 else 1 if ticks.step >= 100 else 2
    return f"{amount / 1000:.{decimals}f}s" if ticks.step < 60_000 else f"{amount / 60_000:.0f}m"


def _time_axis(plan: ChartPlan, bars: Bars, chosen: int | None) -> Iterator[Content]:
    """Yields the axis of the time with its marks, and the row of dates or hours below."""
    labels = dict(_labels(bars))
    parts: list[Part] = [(f"{cell('0', AXIS, right=True)} {glyphs.AXIS[2]}", "dim")]
    for number, span in enumerate(bars.spans):
        if number == chosen:
            parts += [(glyphs.CHOSEN * span.bar, "key"), (glyphs.AXIS[3] * (span.whole - span.bar), "dim")]
            continue
        line = glyphs.AXIS[3] if is_known(plan, bars, number) else glyphs.UNKNOWN
        text = (glyphs.TICK if number in labels else line) + line * (span.whole - 1)
        parts.append((text, "dim"))
    yield content(*parts)
    indent, width = AXIS + EDGE, sum(span.whole for span in bars.spans)
    text = " " * indent
    for number, label in labels.items():
        column = indent + bars.spans[number].start
        column = min(column, indent + width - len(label))  # the last label may be left of its mark
        if column >= len(text):
            text = text.ljust(column) + label + " "
    yield content((text.rstrip(), "dim"))


def _labels(bars: Bars) -> Iterator[tuple[int, str]]:
    """Yields the numbers of the bars that have labels, with the labels: round hours, Mondays, or first days of
    a month.
    """
    hours = next((hours for hours in (1, 2, 3) if hours * _mean_width(bars) >= 8), 6)  # between labels
    months = len(bars.starts) * bars.chunk > 120
    for number, start in enumerate(bars.starts):
        time = fmt.local_time(start)
        if bars.hourly:
            if time.hour == 0:
                yield number, f"{time:%a} {time.day}"
            elif time.hour % hours == 0:
                yield number, f"{time:%H}:00"
        elif months:
            end = fmt.local_time(bars.ends[number] - 1_000)
            if time.day == 1 or time.month != end.month:
                yield number, f"{end:%b %Y}" if end.month == 1 else f"{end:%b}"
        elif _mean_width(bars) >= len("Mon 23 Nov "):
            yield number, f"{time:%a} {time.day} {time:%b}"
        elif time.weekday() == 0 or _mean_width(bars) >= len("23 Nov "):
            yield number, f"{time.day} {time:%b}"


def _mean_width(bars: Bars) -> float:
    """Returns the mean number of cells from one bar to the next."""
    return sum(span.whole for span in bars.spans) / max(1, len(bars.spans))
