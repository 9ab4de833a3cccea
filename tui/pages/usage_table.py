"""Usage table: the series of the chart with their sums, averages and percentiles."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
from textual.content import Content

from gateway.client.cells import cell, cut_middle
from gateway.domain.views import SumRow
from tui import charts, glyphs
from tui import format as fmt
from tui.columns import Column, PlacedColumn, fit_columns
from tui.pages.usage_bars import MEASURES, OTHERS, SERIES, ChartPlan, sum_rows
from tui.text import Part, content, safe


class SeriesNumber(msgspec.Struct, frozen=True):
    """A column of numbers."""

    title: str
    width: int
    text: Callable[[SumRow], str]
    measure: str
    """The measure that it belongs to, which a click on the title chooses."""


def _ms(ms: float | None) -> str:
    return fmt.seconds(None if ms is None else round(ms))


NUMBERS = (
    SeriesNumber("cost", 9, lambda row: fmt.short_cost(row.cost_nanos), "cost"),
    SeriesNumber("calls", 7, lambda row: fmt.count(row.calls), "calls"),
    SeriesNumber("tokens", 7, lambda row: fmt.brief_count(row.input_tokens + row.output_tokens), "tokens"),
    SeriesNumber("errors", 7, lambda row: fmt.count(row.errors), "errors"),
    SeriesNumber("dur p50", 7, lambda row: _ms(row.duration_p50_ms), "duration"),
    SeriesNumber("p95", 7, lambda row: _ms(row.duration_p95_ms), "duration"),
    SeriesNumber("avg", 7, lambda row: _ms(row.mean_duration_ms), "duration"),
    SeriesNumber("first p50", 9, lambda row: _ms(row.first_byte_p50_ms), "first token"),
    SeriesNumber("p95", 7, lambda row: _ms(row.first_byte_p95_ms), "first token"),
    SeriesNumber("avg", 7, lambda row: _ms(row.mean_first_byte_ms), "first token"),
)

MARKS = 3
"""The width of the cursor and the colour, before the first column."""


class SeriesRow(msgspec.Struct, frozen=True):
    """A row of the table."""

    key: str | None
    """The key of the series; None: all together."""
    name: str
    row: SumRow
    series: int = -1
    """The number of its colour; -1: none."""


SeriesColumns = Sequence[PlacedColumn[SeriesRow]]


def series_rows(plan: ChartPlan, total: SumRow) -> list[SeriesRow]:
    """Returns the rows: all together, each series with a colour of its own, and all others."""
    largest, others = plan.largest, plan.others
    rows = [SeriesRow(None, "all", total)]
    rows += [SeriesRow(row.key, name_of(row), row, number) for number, row in enumerate(largest)]
    if len(others) == 1:
        rows.append(SeriesRow(others[0].key, name_of(others[0]), others[0], SERIES))
    elif others:
        rows.append(SeriesRow(OTHERS, f"{len(others)} others", sum_rows(others), SERIES))
    return rows


def name_of(row: SumRow) -> str:
    """Returns the name of a series. It is empty for calls without a model, a channel or an app."""
    return safe(row.name, 60) or "none"


def series_columns(plan: ChartPlan, total: SumRow, by: str, width: int) -> SeriesColumns:
    """Returns the columns that fit: those of the shown measure, then the others in order. ``by``: the dimension."""
    return fit_columns(list(_columns(plan, total, by)), width - MARKS - 1)


def _columns(plan: ChartPlan, total: SumRow, by: str) -> Iterator[Column[SeriesRow]]:
    yield Column(
        "name", f"by {by}", 19, lambda row: row.name, max_width=28, fit_text=lambda r, w: cut_middle(r.name, w)
    )
    measured = [number for number in NUMBERS if MEASURES[number.measure] is plan.measure]
    for rank, number in enumerate(NUMBERS, 1):
        last = number is measured[-1]
        yield Column(
            f"{number.measure}:{number.title}",
            number.title + (glyphs.DESCENDING if last else ""),  # times are sorted by their average
            number.width,
            partial(_number, number),
            rank=0 if number in measured else rank,
            right=True,
        )
        if last and not plan.measure.lines:  # times have no shares
            yield Column("share", "share", 5, partial(_share, plan, total), right=True)
    over_time = partial(_over_time, plan)
    yield Column("trend", "  over time", 19, lambda _: "", max_width=63, extra=True, fit_text=over_time)


def _number(number: SeriesNumber, row: SeriesRow) -> str:
    return number.text(row.row)


def _share(plan: ChartPlan, total: SumRow, row: SeriesRow) -> str:
    whole = plan.measure.number(total) or 1.0
    return "" if row.key is None else fmt.percent(plan.measure.number(row.row) / whole)


def _over_time(plan: ChartPlan, row: SeriesRow, width: int) -> str:
    """Returns a sparkline of a series; nothing for all others together."""
    if row.key == OTHERS:
        return ""
    source, key = (plan.overall, "") if row.key is None else (plan.trends, row.key)
    return f"  {charts.spark(source.values(key, plan.measure.number), min(width - 3, len(source.starts)))}"


def measure_at(columns: SeriesColumns, x: int) -> str:
    """Returns the measure of the title at a cell of the table's head; empty if there is none."""
    end = MARKS
    for place in columns:
        end += 1 + place.width
        if MARKS <= x < end:
            measure = place.column.id.partition(":")[0]
            return measure if measure in MEASURES else ""
    return ""


def series_table(
    plan: ChartPlan, rows: Sequence[SeriesRow], columns: SeriesColumns, chosen: str | None
) -> list[Content]:
    """Returns the head and the rows, with the selected one marked."""
    head: list[Part] = [(" " * MARKS, "dim")]
    for place in columns:
        title = place.column.title
        tone = "bold" if title.endswith(glyphs.DESCENDING) else "dim"
        head.append((f" {cell(title, place.width, right=place.column.right)}", tone))
    lines = [content(*head).rstrip()]
    for row in rows:
        is_chosen = row.key == chosen
        has_colour = (
            row.series >= 0 and not plan.measure.lines
        )  # lines of times have the colours of p50, p95 and the average
        mark = (plan.fill(row.series) if plan.patterns else glyphs.SQUARE) if has_colour else " "
        colour = f"chart{row.series + 1}" if has_colour else ""
        tones = {"share": "dim", "trend": colour or "dim"}
        parts: list[Part] = [(f" {glyphs.RUNNING if is_chosen else ' '}", "key"), (mark, colour)]
        for place in columns:
            text = cell(place.text(row), place.width, right=place.column.right)
            parts.append((f" {text}", tones.get(place.column.id, "bold" if is_chosen else "")))
        lines.append(content(*parts).rstrip())
    return lines
