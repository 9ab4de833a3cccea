"""Usage chart: sums over time as stacked bars, and averages and percentiles as lines, with axes.

The chart takes the whole width. Each series has a colour of the theme, or a fill without colours. An hour or day
without calls has a dot on the axis, and before the first call ever counted the axis is dashed, so that zero, small and
unknown values differ.
"""

from collections.abc import Iterator, Sequence

from textual.content import Content

from tui import charts, glyphs
from tui.pages.usage_axes import time_axis, with_value_axis
from tui.pages.usage_bars import END, OTHERS, SERIES, Bars, ChartPlan, is_known
from tui.text import Part

LINE_TONES = ("chart1", "chart2", "chart3")
"""The tones of p50, p95 and the average."""


def chart(plan: ChartPlan, bars: Bars, height: int, chosen: int | None, series: str | None) -> list[Content]:
    """Returns the chart with its axes, at most ``height`` rows and two below. ``chosen``: a bar; ``series``: a key."""
    if plan.measure.lines:
        lines = _line_values(plan, bars, series)
        highest = max((value for line in lines for value in line if value is not None), default=0.0)
        ticks = charts.ticks(highest, height, times=True)
        width = sum(span.whole for span in bars.spans)
        rows = list(_line_rows(plan, lines, width, ticks))
    else:
        columns = _columns(plan, bars)
        highest = max(map(sum, columns), default=0.0) or plan.measure.unit
        ticks = charts.ticks(highest, height, whole=plan.measure.whole)
        rows = list(_bar_rows(plan, bars, columns, ticks))
    return [*with_value_axis(plan, rows, ticks), *time_axis(plan, bars, chosen)]


def _columns(plan: ChartPlan, bars: Bars) -> list[list[float]]:
    """Returns the values of each bar: of the series with a colour of their own, and of all others together."""
    columns = [[0.0] * (SERIES + 1) for _ in bars.starts]
    for number, key in [*enumerate(row.key for row in plan.named), (SERIES, OTHERS)]:
        for bar, row in bars.rows[key].items():
            columns[bar][number] = plan.measure.number(row)
    return columns


def _bar_rows(
    plan: ChartPlan, bars: Bars, columns: Sequence[Sequence[float]], ticks: charts.Ticks
) -> Iterator[list[Part]]:
    stacks = charts.stack_bars(columns, ticks.height, ticks.top, patterns=plan.patterns)
    for number, row in enumerate(stacks):
        blank, blank_tone = _background(plan, ticks, number)
        is_lowest = number == ticks.height - 1
        parts: list[Part] = []
        for bar, (chart_cell, span) in enumerate(zip(row, bars.spans, strict=True)):
            if chart_cell.series >= 0:
                parts.append((chart_cell.text * span.bar, _bar_tone(chart_cell)))
                parts.append((blank * (span.whole - span.bar), blank_tone))
            elif is_lowest and (marks := _zero_marks(plan, bars, bar)):
                parts += marks
            else:
                parts.append((blank * span.whole, blank_tone))
        yield parts


def _bar_tone(chart_cell: charts.ChartCell) -> str:
    """Returns the colour of a cell's series, on the colour of the series above it in the cell, if there is one."""
    tone = f"chart{chart_cell.series + 1}"
    return f"{tone} on chart{chart_cell.behind + 1}" if chart_cell.behind >= 0 else tone


def _zero_marks(plan: ChartPlan, bars: Bars, bar: int) -> list[Part]:
    """Returns the marks of a bar of zeros: a low block with calls, a dot without, nothing if that is not known."""
    span = bars.spans[bar]
    if bar in bars.rows[None]:
        return [(glyphs.BLOCKS[1] * span.bar, "dim"), (" " * (span.whole - span.bar), "")]
    if is_known(plan, bars, bar):
        indent = (span.whole - 1) // 2
        return [(" " * indent + glyphs.NOTHING + " " * (span.whole - 1 - indent), "dim")]
    return []


def _background(plan: ChartPlan, ticks: charts.Ticks, row: int) -> Part:
    """Returns a blank cell of a row: a part of the line of a tick, or nothing. Without colours the line is dotted."""
    if row % ticks.rows:
        return " ", ""
    return (glyphs.GRID_DOTS if plan.patterns else glyphs.GRID), "grid"


def _line_values(plan: ChartPlan, bars: Bars, series: str | None) -> list[list[float | None]]:
    """Returns the values of each line, one for each bar; None for a bar without calls."""
    rows = [bars.rows.get(series, {}).get(bar) for bar in range(len(bars.starts))]
    return [[None if row is None else number(row) for row in rows] for number in plan.measure.lines.values()]


def _line_rows(
    plan: ChartPlan, lines: Sequence[Sequence[float | None]], width: int, ticks: charts.Ticks
) -> Iterator[list[Part]]:
    rows = charts.lines(lines, width, ticks.height, ticks.top, patterns=plan.patterns)
    names = _line_names(plan, lines, ticks)
    for number, row in enumerate(rows):
        background = (" ", "") if plan.patterns else _background(plan, ticks, number)
        parts = [
            background if chart_cell.series < 0 else (chart_cell.text, LINE_TONES[chart_cell.series])
            for chart_cell in row
        ]
        yield parts + names.get(number, [(" " * END, "")])


def _line_names(plan: ChartPlan, lines: Sequence[Sequence[float | None]], ticks: charts.Ticks) -> dict[int, list[Part]]:
    """Returns the names of the lines, each after a sign in its colour, by the free row nearest to the line's end."""
    names: list[tuple[float, list[Part]]] = []
    signs = glyphs.LINES if plan.patterns else 3 * glyphs.LINES[0]
    for number, (name, line) in enumerate(zip(plan.measure.lines, lines, strict=True)):
        last = next((value for value in reversed(line) if value is not None), None)
        if last is not None:
            names.append((last, [(f" {signs[number]}", LINE_TONES[number]), (f" {name:<{END - 3}}", "")]))
    rows: dict[int, list[Part]] = {}
    height = ticks.height
    for names_below, (last, parts) in zip(reversed(range(len(names))), sorted(names, reverse=True), strict=True):
        row_at_end = height - 1 - min(height - 1, int(last / ticks.top * height))
        free_rows = range(max(rows, default=-1) + 1, height - names_below)  # one row is left for each name below
        if free_rows:
            rows[min(free_rows, key=lambda row: abs(row - row_at_end))] = parts
    return rows
