"""Usage table: the series of the chart with their sums, averages and percentiles, and rankings. Values in, text out."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from textual.content import Content

from gateway.domain.views import SumRow
from tui import charts
from tui import format as fmt
from tui.glyphs import Glyphs
from tui.pages.usage_chart import MEASURES, OTHERS, SERIES, ChartPlan, Measure, sum_rows
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
    value, glyphs = plan.value, plan.glyphs
    columns, share_width = shown_columns(measure, width), _share_width(measure)
    at = _share_place(columns, measure)
    name_width = _name_width(columns, width)
    head: list[Part] = [(f"    {cell('by ' + by, name_width)}", "dim")]
    for number, column in enumerate(columns):
        last = number + 1 == len(columns) or columns[number + 1].measure != measure
        mine = column.measure == measure and last  # times are sorted by their average
        title = cell(column.title + (glyphs.descending if mine else ""), column.width, right=True)
        head.append((title, "bold" if mine else "dim"))
        head += [(cell("share", share_width, right=True), "dim")] if number == at and share_width else []
    trend = _trend_width(columns, width)
    head += [("   over time", "dim")] if trend else []
    total = value.number(rows[0].row) or 1.0
    lines = [content(*head)]
    for row in rows:
        here = row.key == chosen
        drawn = row.series >= 0 and not value.lines  # lines of times have the colours of p50, p95 and the average
        mark = (plan.fill(row.series) if plan.patterns else glyphs.square) if drawn else " "
        tone = f"chart{row.series + 1}" if drawn else ""
        parts: list[Part] = [(f" {glyphs.running if here else ' '}", "key"), (mark, tone)]
        parts.append(
            (f" {cell(cut_middle(row.name, name_width, glyphs.ellipsis), name_width)}", "bold" if here else "")
        )
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
    return charts.spark(source.values(key, plan.value.number), min(width, len(source.starts)), plan.glyphs)


def _trend_width(columns: Sequence[TableColumn], width: int) -> int:
    """Returns the cells of the small lines at the right; 0 if they do not fit."""
    spare = width - 4 - NAMES[1] - SHARE - sum(column.width for column in columns) - 4
    return min(TREND[1], spare) if spare >= TREND[0] else 0


def _name_width(columns: Sequence[TableColumn], width: int) -> int:
    spare = width - 4 - SHARE - sum(column.width for column in columns)
    return max(8, min(NAMES[1], spare))


def ranking(title: str, rows: Sequence[SumRow], value: Measure, width: int, glyphs: Glyphs) -> list[Content]:
    """Returns the five largest as bars."""
    best = [row for row in sorted(rows, key=lambda row: -value.number(row))[:5] if value.number(row) > 0]
    top = max(map(value.number, best), default=0.0) or 1.0
    name = max(8, min(24, width // 3))
    room = max(4, width - name - 14)
    lines = [content((cell(f" by {title}", width), "bold"))]
    for row in best:
        bar = charts.gauge(value.number(row) / top, room, glyphs, empty=" ")
        text = f" {value.text(value.number(row)):>10}"
        lines.append(
            content(
                f" {cell(cut_middle(name_of(row), name, glyphs.ellipsis), name)} ",
                (bar, "chart1"),
                cell(text, width - name - room - 2),
            )
        )
    if not best:
        lines.append(content((cell("   nothing yet", width), "dim")))
    return lines


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Returns two blocks side by side; ``width`` is the left one's."""
    rows = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else Content("")
        other = right[number] if number < len(right) else Content("")
        rows.append(Content.assemble(one, " " * max(0, width - one.cell_length), other))
    return rows


def rankings(found: Mapping[str, Sequence[SumRow]], plan: ChartPlan, width: int) -> list[Content]:
    """Returns the largest users by each of the other dimensions."""
    blocks = list(found)
    across = len(blocks) if width >= 140 else 2 if width >= 76 else 1
    each = width // across
    drawn = [ranking(by, found[by], plan.value, each - 2, plan.glyphs) for by in blocks]
    rows: list[Content] = []
    for at in range(0, len(drawn), across):
        row = drawn[at]
        for number, block in enumerate(drawn[at + 1 : at + across], 1):
            row = side_by_side(row, block, each * number)
        rows += [*row, content("")]
    return rows[:-1]
