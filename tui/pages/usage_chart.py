"""Usage chart: sums over time as stacked bars or a line with its axes, and rankings with bars. Values in, text out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec
from textual.content import Content

from gateway.domain.units import Millis
from gateway.domain.views import SumRow
from tui import charts
from tui import format as fmt
from tui.glyphs import Glyphs
from tui.text import Part, cell, content, safe
from tui.trends import Trends

T = TypeVar("T")

AXIS = 9
"""Cells of the numbers at the left."""

HALF_DAY_MS = 12 * 3_600_000

SERIES = 3
"""Values that have a fill of their own; all others share the last one."""

TONES = ("live", "", "ok", "dim")
"""Tones of the fills, which are distinct without them."""


class Measure(msgspec.Struct, frozen=True):
    """One measure that can be drawn."""

    name: str
    number: Callable[[SumRow], float]
    text: Callable[[float], str]
    adds_up: bool = True
    """False: it is a mean, drawn as a line."""


def mean_first_byte_ms(row: SumRow) -> float:
    """Mean milliseconds to the first byte, over calls that did not fail."""
    return row.first_byte_ms / max(1, row.calls - row.errors)


def _money(nanos: float) -> str:
    return fmt.short_cost(round(nanos))


MEASURES: Mapping[str, Measure] = {
    "cost": Measure("cost", lambda row: row.cost_nanos, _money),
    "calls": Measure("calls", lambda row: row.calls, lambda n: fmt.short_count(round(n))),
    "tokens": Measure("tokens", lambda row: row.input_tokens + row.output_tokens, lambda n: fmt.short_count(round(n))),
    "errors": Measure("errors", lambda row: row.errors, lambda n: fmt.short_count(round(n))),
    "latency": Measure(
        "latency to the first byte", mean_first_byte_ms, lambda ms: fmt.seconds(round(ms)), adds_up=False
    ),
}


def largest_first(trends: Trends, value: Measure) -> list[SumRow]:
    """The rows of all keys, the largest first."""
    return sorted(trends.totals.values(), key=lambda row: -value.number(row))


def chart(trends: Trends, value: Measure, width: int, height: int, glyphs: Glyphs) -> list[Content]:
    """Bars or a line over the time, with the axes; ``height`` lines of it, and two below."""
    room, chunk = width - AXIS - 2, steps_per_cell(trends, width)
    starts = trends.starts[::chunk]
    each = max(1, room // max(1, len(starts)))
    if value.adds_up:
        columns = [_summed(part) for part in _chunks(_columns(trends, value), chunk)]
        top = max(map(sum, columns), default=0.0)
        rows = [list(_bar_cells(row, each)) for row in charts.stacked(columns, height, glyphs, top or 1)]
    else:
        values = [max(part) for part in _chunks(totals(trends, value), chunk)]
        top = max(values, default=0.0)
        rows = [[(text, "live")] for text in charts.line(values, each * len(starts), height, glyphs, top or 1)]
    steps = charts.scale(top, height)
    axis = glyphs.axis
    lines = []
    for number, row in enumerate(rows):
        labelled = top > 0 and number % 3 == 0
        label = value.text(steps[number]) if labelled else ""
        lines.append(content((f"{cell(label, AXIS, right=True)} {axis[1] if labelled else axis[0]}", "dim"), *row))
    lines.append(content((f"{' ' * AXIS} {axis[2]}{axis[3] * each * len(starts)}", "dim")))
    return [*lines, content((_dates(starts, each, AXIS + 2), "dim"))]


def steps_per_cell(trends: Trends, width: int) -> int:
    """How many hours or days have to share a cell of the chart."""
    return max(1, -(-len(trends.starts) // max(1, width - AXIS - 2)))


def totals(trends: Trends, value: Measure) -> list[float]:
    """The value of all keys together, an hour or day."""
    found = []
    for start in trends.starts:
        rows = [series[start] for series in trends.series.values() if start in series]
        found.append(value.number(_sum(rows)) if rows else 0.0)
    return found


def legend(trends: Trends, value: Measure, width: int, count: int, glyphs: Glyphs) -> list[Content]:
    """The largest values with their fills and shares, and what the others come to."""
    rows = largest_first(trends, value)
    total = sum(map(value.number, rows)) or 1.0
    lines = []
    for number, row in enumerate(rows[:count]):
        fill = min(number, SERIES)
        mark = glyphs.fills[fill] if value.adds_up else glyphs.dot
        lines.append(_legend_line((mark, TONES[fill]), _name(row), value, value.number(row), total, width))
    if len(rows) > count:
        rest = rows[count:]
        name = f"{len(rest)} others"
        lines.append(_legend_line((" ", ""), name, value, value.number(_sum(rest)), total, width))
    return lines


def ranking(title: str, rows: Sequence[SumRow], value: Measure, width: int, glyphs: Glyphs) -> list[Content]:
    """The largest five as bars."""
    best = sorted(rows, key=lambda row: -value.number(row))[:5]
    top = max(map(value.number, best), default=0.0) or 1.0
    room = max(4, width - 30)
    lines = [content((cell(f" by {title}", width), "bold"))]
    for row in best:
        bar = charts.gauge(value.number(row) / top, min(room, 16), glyphs)
        text = f" {cell(_name(row), 14)} {bar} {value.text(value.number(row)):>9}"
        lines.append(content(cell(text, width)))
    if not best:
        lines.append(content((cell("   nothing yet", width), "dim")))
    return lines


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Two blocks side by side; ``width`` is the left one's."""
    rows = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else Content("")
        other = right[number] if number < len(right) else Content("")
        rows.append(Content.assemble(one, " " * max(0, width - one.cell_length), other))
    return rows


def _chunks(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


def _summed(columns: Sequence[Sequence[float]]) -> list[float]:
    return [sum(part) for part in zip(*columns, strict=True)]


def _columns(trends: Trends, value: Measure) -> list[list[float]]:
    """A stack an hour or day: the largest keys, and all others together."""
    keys = [row.key for row in largest_first(trends, value)]
    series = [trends.values(key, value.number) for key in keys]
    own, others = series[:SERIES], series[SERIES:]
    if others:
        own.append([sum(part) for part in zip(*others, strict=True)])
    if not own:
        return [[0.0] for _ in trends.starts]
    return [list(column) for column in zip(*own, strict=True)]


def _bar_cells(row: Sequence[charts.ChartCell], each: int) -> Iterator[Part]:
    """Bars as wide as there is room, with a gap between them."""
    wide = max(1, each - 1) if each > 1 else 1
    for one in row:
        yield one.text * wide + " " * (each - wide), TONES[min(one.series, SERIES)] if one.series >= 0 else ""


def _dates(starts: Sequence[Millis], each: int, indent: int) -> str:
    """Some moments under the axis."""
    if not starts:
        return ""
    hourly = len(starts) > 1 and starts[1] - starts[0] < HALF_DAY_MS
    step = max(1, -(-12 // each))
    line = " " * indent
    for number in range(0, len(starts), step):
        at = indent + number * each
        then = datetime.fromtimestamp(starts[number] / 1000).astimezone()
        text = f"{then:%H:%M}" if hourly else f"{then.day} {then:%b}"
        if at >= len(line) and at + len(text) <= indent + each * len(starts):
            line = line.ljust(at) + text + " "
    return line


def _legend_line(mark: Part, name: str, value: Measure, number: float, total: float, width: int) -> Content:
    share = f" {fmt.percent(number / total):>5}" if value.adds_up else ""
    text = f"{value.text(number):>9}{share}"
    return content(mark, f" {cell(name, max(4, width - len(text) - 3))} {text}")


def _name(row: SumRow) -> str:
    return safe(row.name, 60) or "none"


def _sum(rows: Sequence[SumRow]) -> SumRow:
    first = rows[0]
    fields = ("calls", "errors", "input_tokens", "cached_tokens", "output_tokens", "cost_nanos", "possible_nanos")
    names = (*fields, "duration_ms", "first_byte_ms")
    return msgspec.structs.replace(first, **{name: sum(getattr(row, name) for row in rows) for name in names})
