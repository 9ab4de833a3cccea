"""Usage table: the series of the chart with their sums, averages and percentiles. Values in, text out."""

from collections.abc import Callable, Sequence

import msgspec
from textual.content import Content

from gateway.domain.views import SumRow
from tui import charts, glyphs
from tui import format as fmt
from tui.pages.usage_chart import MEASURES, OTHERS, SERIES, ChartPlan, sum_rows
from tui.text import Part, cell, content, cut_middle, safe


class TableColumn(msgspec.Struct, frozen=True):
    """One column of numbers."""

    title: str
    width: int
    text: Callable[[SumRow], str]
    measure: str
    """The measure that it shows; a click on the title chooses it."""


def _ms(ms: float | None) -> str:
    return fmt.seconds(None if ms is None else round(ms))


COLUMNS = (
    TableColumn("cost", 10, lambda row: fmt.short_cost(row.cost_nanos), "cost"),
    TableColumn("calls", 8, lambda row: fmt.count(row.calls), "calls"),
    TableColumn("tokens", 8, lambda row: fmt.short_count(row.input_tokens + row.output_tokens), "tokens"),
    TableColumn("errors", 8, lambda row: fmt.count(row.errors), "errors"),
    TableColumn("dur p50", 8, lambda row: _ms(row.duration_p50_ms), "duration"),
    TableColumn("p95", 8, lambda row: _ms(row.duration_p95_ms), "duration"),
    TableColumn("avg", 8, lambda row: _ms(row.mean_duration_ms), "duration"),
    TableColumn("first p50", 10, lambda row: _ms(row.first_byte_p50_ms), "first token"),
    TableColumn("p95", 8, lambda row: _ms(row.first_byte_p95_ms), "first token"),
    TableColumn("avg", 8, lambda row: _ms(row.mean_first_byte_ms), "first token"),
)

NAMES = (19, 28)
"""The fewest and most cells of a name."""

SHARE = 6
"""The cells of the shares; times have no shares."""

TREND = (16, 60)
"""The fewest and most cells of a series over time."""


class SeriesRow(msgspec.Struct, frozen=True):
    """One line of the table."""

    key: str | None
    """The key; None: all together."""
    name: str
    row: SumRow
    series: int = -1
    """The number of its colour; -1: none."""


def series_rows(plan: ChartPlan, total: SumRow) -> list[SeriesRow]:
    """Returns the rows: all together, each series with a colour, and all others."""
    named, others = plan.named, plan.others
    rows = [SeriesRow(None, "all", total)]
    rows += [SeriesRow(row.key, name_of(row), row, number) for number, row in enumerate(named)]
    if len(others) == 1:
        rows.append(SeriesRow(others[0].key, name_of(others[0]), others[0], SERIES))
    elif others:
        rows.append(SeriesRow(OTHERS, f"{len(others)} others", sum_rows(others), SERIES))
    return rows


def name_of(row: SumRow) -> str:
    """Returns the name of a key. A call may lack a model, a channel or a program."""
    return safe(row.name, 60) or "none"


def shown_columns(measure: str, width: int) -> list[TableColumn]:
    """Returns the columns that fit: those of the measure, then the others in order."""
    room, shown = width - NAMES[0] - _share_width(measure) - 4, []
    for column in sorted(COLUMNS, key=lambda one: one.measure != measure):
        if column.width > room:
            break
        room -= column.width
        shown.append(column)
    return [column for column in COLUMNS if any(column is one for one in shown)]


def _share_width(measure: str) -> int:
    return 0 if MEASURES[measure].lines else SHARE


def _share_place(columns: Sequence[TableColumn], measure: str) -> int:
    """Returns the number of the column that the shares follow: the last one of the measure."""
    return max((number for number, column in enumerate(columns) if column.measure == measure), default=0)


def column_at(measure: str, width: int, x: int) -> TableColumn | None:
    """Returns the column whose title is at a cell of the table's head."""
    columns = shown_columns(measure, width)
    at, place = 4 + _name_width(columns, width), _share_place(columns, measure)
    for number, column in enumerate(columns):
        end = at + column.width + (_share_width(measure) if number == place else 0)
        if at <= x < end:
            return column
        at = end
    return None


def series_table(
    plan: ChartPlan, rows: Sequence[SeriesRow], measure: str, chosen: str | None, width: int, by: str
) -> list[Content]:
    """Returns the head and the rows, with the selected one marked. The shares follow the measure."""
    value = plan.value
    columns, share_width = shown_columns(measure, width), _share_width(measure)
    at = _share_place(columns, measure)
    name_width = _name_width(columns, width)
    head: list[Part] = [(f"    {cell('by ' + by, name_width)}", "dim")]
    for number, column in enumerate(columns):
        last = number + 1 == len(columns) or columns[number + 1].measure != measure
        mine = column.measure == measure and last  # times are sorted by their average
        title = cell(column.title + (glyphs.DESCENDING if mine else ""), column.width, right=True)
        head.append((title, "bold" if mine else "dim"))
        head += [(cell("share", share_width, right=True), "dim")] if number == at and share_width else []
    trend = _trend_width(columns, width)
    head += [("   over time", "dim")] if trend else []
    total = value.number(rows[0].row) or 1.0
    lines = [content(*head)]
    for row in rows:
        here = row.key == chosen
        drawn = row.series >= 0 and not value.lines  # lines of times have the colours of p50, p95 and the average
        mark = (plan.fill(row.series) if plan.patterns else glyphs.SQUARE) if drawn else " "
        tone = f"chart{row.series + 1}" if drawn else ""
        parts: list[Part] = [(f" {glyphs.RUNNING if here else ' '}", "key"), (mark, tone)]
        parts.append((f" {cell(cut_middle(row.name, name_width), name_width)}", "bold" if here else ""))
        for number, column in enumerate(columns):
            parts.append((cell(column.text(row.row), column.width, right=True), "bold" if here else ""))
            if number == at and share_width:
                share = "" if row.key is None else fmt.percent(value.number(row.row) / total)
                parts.append((cell(share, share_width, right=True), "dim"))
        if trend:
            parts.append((f"   {_trend(plan, row.key, trend)}", tone or "dim"))
        lines.append(content(*parts))
    return lines


def _trend(plan: ChartPlan, key: str | None, width: int) -> str:
    """Returns the values of a series over time; nothing for all others together."""
    if key == OTHERS:
        return ""
    source, key = (plan.whole, "") if key is None else (plan.trends, key)
    return charts.spark(source.values(key, plan.value.number), min(width, len(source.starts)))


def _trend_width(columns: Sequence[TableColumn], width: int) -> int:
    """Returns the cells of the small lines at the right; 0 if they do not fit."""
    spare = width - 4 - NAMES[1] - SHARE - sum(column.width for column in columns) - 4
    return min(TREND[1], spare) if spare >= TREND[0] else 0


def _name_width(columns: Sequence[TableColumn], width: int) -> int:
    spare = width - 4 - SHARE - sum(column.width for column in columns)
    return max(8, min(NAMES[1], spare))
