"""Usage chart: sums over time as stacked bars, and averages and percentiles as lines, with axes.

Each series has a colour of the theme, or without colours a fill. Zero, small and unknown values differ: an hour or day
without calls has a dot on the axis, and before the first counted call the axis is dashed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from textual.content import Content

from gateway.client.cells import cell
from gateway.domain.units import HOUR_MS, local_datetime
from gateway.domain.views import SumRow
from tui import charts, format as fmt, glyphs
from tui.pages.usage_bars import ALL, AXIS, EDGE, END, MEASURES, OTHERS, SERIES, Bars, ChartPlan, Measure, is_known
from tui.text import Part, content

LINE_TONES = ("chart1", "chart2", "chart3")
"""The tones of p50, p95 and the average."""


def chart(plan: ChartPlan, bars: Bars, height: int, chosen: int | None, series: str) -> list[Content]:
    """Returns at most ``height`` rows and two of the time axis. ``chosen``: a bar's number; ``series``: a row's key."""
    if plan.measure.lines:
        lines = _line_values(plan, bars, series)
        highest = max((value for line in lines for value in line if value is not None), default=0.0)
        ticks = charts.ticks(highest, height, times=True)
        rows = list(_line_rows(plan, bars, lines, ticks))
    else:
        columns = _columns(plan, bars)
        highest = max(map(sum, columns), default=0.0) or plan.measure.unit
        ticks = charts.ticks(highest, height, whole=plan.measure.integers)
        rows = list(_bar_rows(plan, bars, columns, ticks))
    labels = dict(_time_labels(bars))
    time_axis = [_axis_line(plan, bars, chosen, labels), _axis_labels(bars, labels)]
    return [*with_value_axis(plan.measure, rows, ticks), *time_axis]


def _columns(plan: ChartPlan, bars: Bars) -> list[list[float]]:
    """Returns the values of each bar: one for each of the largest series, and the sum of the others."""
    columns = [[0.0] * (SERIES + 1) for _ in bars.starts]
    for number, key in [*enumerate(row.key for row in plan.largest), (SERIES, OTHERS)]:
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
                tone = f"chart{chart_cell.series + 1}"
                tone += f" on chart{chart_cell.behind + 1}" if chart_cell.behind >= 0 else ""  # two series in one cell
                parts.append((chart_cell.text * span.bar, tone))
                parts.append((blank * (span.whole - span.bar), blank_tone))
            elif is_lowest and (marks := _zero_marks(plan, bars, bar)):
                parts += marks
            else:
                parts.append((blank * span.whole, blank_tone))
        yield parts


def _zero_marks(plan: ChartPlan, bars: Bars, bar: int) -> list[Part]:
    """Returns what stands for a zero: a low block with calls, a dot without calls, nothing if it is not known."""
    span = bars.spans[bar]
    if bar in bars.rows[ALL]:
        return [(glyphs.BLOCKS[1] * span.bar, "dim"), (" " * (span.whole - span.bar), "")]
    if is_known(plan, bars, bar):
        indent = (span.whole - 1) // 2
        return [(" " * indent + glyphs.NOTHING + " " * (span.whole - 1 - indent), "dim")]
    return []


def _background(plan: ChartPlan, ticks: charts.Ticks, row: int) -> Part:
    """Returns an empty cell: part of the line in a tick's row, which is dotted without colours, else a space."""
    if row % ticks.rows:
        return " ", ""
    return (glyphs.GRID_DOTS if plan.patterns else glyphs.GRID), "grid"


def _line_values(plan: ChartPlan, bars: Bars, series: str) -> list[list[float | None]]:
    """Returns the values of each line, one for each bar; None for a bar without calls."""
    rows = [bars.rows.get(series, {}).get(bar) for bar in range(len(bars.starts))]
    return [[None if row is None else value_of(row) for row in rows] for value_of in plan.measure.lines.values()]


def _line_rows(
    plan: ChartPlan, bars: Bars, lines: Sequence[Sequence[float | None]], ticks: charts.Ticks
) -> Iterator[list[Part]]:
    width = sum(span.whole for span in bars.spans)
    names = _line_names(plan, lines, ticks)
    for number, row in enumerate(charts.lines(lines, width, ticks.height, ticks.top, patterns=plan.patterns)):
        background = (" ", "") if plan.patterns else _background(plan, ticks, number)
        parts = [background if point.series < 0 else (point.text, LINE_TONES[point.series]) for point in row]
        yield parts + names.get(number, [(" " * END, "")])


def _line_names(plan: ChartPlan, lines: Sequence[Sequence[float | None]], ticks: charts.Ticks) -> dict[int, list[Part]]:
    """Returns the names of the lines by row: each in the free row nearest to its line's end, after a coloured sign."""
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


def with_value_axis(measure: Measure, rows: Sequence[Sequence[Part]], ticks: charts.Ticks) -> Iterator[Content]:
    """Yields the rows, each after its part of the axis. A tick's number is at the upper end of its row."""
    for number, row in enumerate(rows):
        is_tick = number % ticks.rows == 0
        label = tick_text(measure, ticks, number // ticks.rows) if is_tick else ""
        axis = glyphs.AXIS[1 if is_tick else 0]
        yield content((f"{cell(label, AXIS, right=True)} {axis}", "dim"), *row).simplify()


def tick_text(measure: Measure, ticks: charts.Ticks, number: int) -> str:
    """Returns the text of a tick, counted from the top. All ticks of an axis have the same number of decimals."""
    amount = ticks.step * (ticks.count - number)
    if measure.name == "cost":
        return _cost_text(amount, ticks.step / 10**9)
    if not measure.lines:
        return measure.text(amount)
    if ticks.top < 1000:
        return f"{amount:.0f}ms"
    if ticks.step >= 60_000:
        return f"{amount / 60_000:.0f}m"
    if ticks.step >= 1000:
        return f"{amount / 1000:.0f}s"
    return f"{amount / 1000:.{1 if ticks.step >= 100 else 2}f}s"


def _cost_text(nanos: float, step: float) -> str:
    """Returns dollars, or cents if dollars are too long. ``step``: the dollars between two ticks."""
    decimals = 0 if step >= 1 else max(2, -math.floor(math.log10(step)))
    text = f"${nanos / 10**9:,.{decimals}f}"
    if len(text) > AXIS and step < 1:
        text = f"{nanos / 10**7:.{decimals - 2}f}¢"
    return text if len(text) <= AXIS else f"${nanos / 10**9:g}"


def _axis_line(plan: ChartPlan, bars: Bars, chosen: int | None, labels: Mapping[int, str]) -> Content:
    """Returns the time axis, with a mark at each bar that has a label. ``chosen``: the selected bar."""
    parts: list[Part] = [(f"{cell('0', AXIS, right=True)} {glyphs.AXIS[2]}", "dim")]
    for number, span in enumerate(bars.spans):
        line = glyphs.AXIS[3] if is_known(plan, bars, number) else glyphs.UNKNOWN
        if number == chosen:
            parts += [(glyphs.CHOSEN * span.bar, "key"), (line * (span.whole - span.bar), "dim")]
            continue
        text = (glyphs.TICK if number in labels else line) + line * (span.whole - 1)
        parts.append((text, "dim"))
    return content(*parts)


def _axis_labels(bars: Bars, labels: Mapping[int, str]) -> Content:
    """Returns the dates or hours below the axis, without those that have no space."""
    indent, width = AXIS + EDGE, sum(span.whole for span in bars.spans)
    text = " " * indent
    for number, label in labels.items():
        column = indent + bars.spans[number].start
        column = min(column, indent + width - len(label))  # the last label may be left of its mark
        if column >= len(text):
            text = text.ljust(column) + label + " "
    return content((text.rstrip(), "dim"))


def _time_labels(bars: Bars) -> Iterator[tuple[int, str]]:
    """Yields the bars with a label, by number, and the label: every few hours, each day or Monday, or each month."""
    width = sum(span.whole for span in bars.spans) / max(1, len(bars.spans))
    hours_between = next((hours for hours in (1, 2, 3) if hours * width >= 8), 6)
    are_months = not bars.hourly and len(bars.starts) * bars.chunk > 120
    for number, start in enumerate(bars.starts):
        time = local_datetime(start)
        if bars.hourly:
            if time.hour == 0:
                yield number, f"{time:%a} {time.day}"
            elif time.hour % hours_between == 0:
                yield number, f"{time:%H}:00"
        elif are_months:
            end = local_datetime(bars.ends[number] - 1_000)
            if time.day == 1 or time.month != end.month:
                yield number, f"{end:%b %Y}" if end.month == 1 else f"{end:%b}"
        elif width >= len("Mon 23 Nov "):
            yield number, f"{time:%a} {time.day} {time:%b}"
        elif time.weekday() == 0 or width >= len("23 Nov "):
            yield number, f"{time.day} {time:%b}"


def chart_height(height: int, rows: int) -> int:
    """Returns the lines of the bars: those that the series leave free, on tall screens also without the panels."""
    free = height - rows - 6
    for min_height, panels in ((44, 18), (34, 11)):
        if height >= min_height:
            return max(8, min(22, free - panels))
    return max(5, min(16, free))


def chart_title(plan: ChartPlan, bars: Bars, *, incomplete: bool) -> Content:
    """Returns the measure and its step, and what any gaps, dots and dashes stand for."""
    step = "hour" if bars.hourly else "day"
    per = f"per {bars.chunk} {step}s" if bars.chunk > 1 else f"per {step}"
    calls = bars.rows[ALL]
    known_bars = [is_known(plan, bars, number) for number in range(len(bars.starts))]
    parts: list[Part] = [(f" {plan.measure.name} {per}", "bold")]
    if any(known and number not in calls for number, known in enumerate(known_bars)):
        parts.append((f"   {glyphs.NOTHING} no calls" if not plan.measure.lines else "   gaps: no calls", "dim"))
    if bars.chunk > 1 and plan.measure.lines:
        parts.append(("   p50, p95: the slowest day", "dim"))
    if not all(known_bars):
        parts.append((f"   {glyphs.UNKNOWN * 2} before the first call", "dim"))
    if incomplete:
        parts.append(("   without older calls: their records are deleted", "dim"))
    return content(*parts)


def bar_time(bars: Bars, number: int) -> str:
    """Returns the time that a bar stands for: ``Mon 23 Nov``, ``Mon 23 Nov 14:00``, ``Mon 23 Nov to 29 Nov``."""
    start = local_datetime(bars.starts[number])
    text = f"{start:%a} {start.day} {start:%b}" + (f" {start:%H:%M}" if bars.hourly else "")
    if bars.chunk > 1:
        end = local_datetime(bars.ends[number] - HOUR_MS)
        text += f" to {end.day} {end:%b}"
    return text


def sum_texts(row: SumRow, measure: Measure, chosen: str) -> list[str]:
    """Returns the sums of a bar as texts, first the sum of the measure, which is the option ``chosen``."""
    sums = {"cost": fmt.short_cost(row.cost_nanos), "calls": fmt.count_text(row.calls, "call")}
    sums["tokens"] = f"{fmt.brief_count(row.input_tokens + row.output_tokens)} tok"
    if row.errors or chosen == "errors":
        sums["errors"] = fmt.count_text(row.errors, "error")
    texts = [sums[name] for name in sorted(sums, key=lambda name: name != chosen)]
    time_measure = measure if measure.lines else MEASURES["duration"]
    numbers = {name: number(row) for name, number in time_measure.lines.items()}
    times = " ".join(f"{name} {fmt.duration(round(ms))}" for name, ms in numbers.items() if ms is not None)
    return [times, *texts] if measure.lines else [*texts, times]
