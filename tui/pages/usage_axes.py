"""Usage axes: the numbers at the left of the usage chart, and the time below it."""

import math
from collections.abc import Iterator, Sequence

from textual.content import Content

from tui import charts, glyphs
from tui import format as fmt
from tui.pages.usage_bars import AXIS, EDGE, Bars, ChartPlan, Measure, is_known
from tui.text import Part, cell, content, join_parts


def with_value_axis(plan: ChartPlan, rows: Sequence[Sequence[Part]], ticks: charts.Ticks) -> Iterator[Content]:
    """Yields the rows after the axis with the numbers of the ticks. A tick is at the upper end of its row."""
    for number, row in enumerate(rows):
        is_tick = number % ticks.rows == 0
        label = tick_text(plan.measure, ticks, number // ticks.rows) if is_tick else ""
        axis = glyphs.AXIS[1 if is_tick else 0]
        yield content((f"{cell(label, AXIS, right=True)} {axis}", "dim"), *join_parts(row))


def tick_text(measure: Measure, ticks: charts.Ticks, number: int) -> str:
    """Returns the text of a tick, counted from the top. All ticks of a scale have the same number of decimals."""
    amount = ticks.step * (ticks.count - number)
    if measure.name == "cost":
        step = ticks.step / 10**9
        decimals = 0 if step >= 1 else max(2, -math.floor(math.log10(step)))
        text = f"${amount / 10**9:,.{decimals}f}"
        return text if len(text) <= AXIS else f"${amount / 10**9:g}"
    if not measure.lines:
        return measure.text(amount)
    if ticks.top < 1000:
        return f"{amount:.0f}ms"
    decimals = 0 if ticks.step >= 1000 else 1 if ticks.step >= 100 else 2
    return f"{amount / 1000:.{decimals}f}s" if ticks.step < 60_000 else f"{amount / 60_000:.0f}m"


def time_axis(plan: ChartPlan, bars: Bars, chosen: int | None) -> Iterator[Content]:
    """Yields the axis of the time with its marks, and below it the dates or hours. ``chosen``: the selected bar."""
    labels = dict(_time_labels(bars))
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


def _time_labels(bars: Bars) -> Iterator[tuple[int, str]]:
    """Yields the numbers of the bars that have labels, with the labels: round hours, days, Mondays, or months."""
    width = sum(span.whole for span in bars.spans) / max(1, len(bars.spans))
    hours_between = next((hours for hours in (1, 2, 3) if hours * width >= 8), 6)
    are_months = not bars.hourly and len(bars.starts) * bars.chunk > 120
    for number, start in enumerate(bars.starts):
        time = fmt.local_time(start)
        if bars.hourly:
            if time.hour == 0:
                yield number, f"{time:%a} {time.day}"
            elif time.hour % hours_between == 0:
                yield number, f"{time:%H}:00"
        elif are_months:
            end = fmt.local_time(bars.ends[number] - 1_000)
            if time.day == 1 or time.month != end.month:
                yield number, f"{end:%b %Y}" if end.month == 1 else f"{end:%b}"
        elif width >= len("Mon 23 Nov "):
            yield number, f"{time:%a} {time.day} {time:%b}"
        elif time.weekday() == 0 or width >= len("23 Nov "):
            yield number, f"{time.day} {time:%b}"
