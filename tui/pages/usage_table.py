"""Usage table: the series of the chart with their sums, averages and percentiles, and the selection in both.

A bar and a series are selected by keys or mouse, and their calls are opened on the Live page.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

import msgspec
from textual.content import Content

from gateway.client.cells import cell, cut_middle
from gateway.domain.query import FILTER_WORDS, Query, is_id, parse, quote_value
from gateway.domain.units import Millis, local_datetime
from gateway.domain.views import SumRow
from tui import charts, format as fmt, glyphs
from tui.columns import Column, fit_columns
from tui.pages import live_actions
from tui.pages.base import AnyPage
from tui.pages.usage_bars import ALL, AXIS, EDGE, MEASURES, OTHERS, SERIES, Bars, ChartPlan, sum_rows
from tui.text import Part, content, safe
from tui.widgets.dialogs import toast

NO_QUERY = Query()


class SeriesRow(msgspec.Struct, frozen=True):
    """The sums of one token, model or other value, with its colour in the chart."""

    key: str
    name: str
    row: SumRow
    series: int = -1
    """The number of its colour; -1: none."""


SeriesColumns = Sequence[Column[SeriesRow]]


def _numbers(title: str, width: int, text: Callable[[SumRow], str], measure: str) -> Column[SeriesRow]:
    """Returns a column of numbers. Its id begins with the measure, which a click on the title chooses."""
    return Column(f"{measure}:{title}", title, width, lambda row: text(row.row), right=True)


def _times(title: str, measure: str) -> Iterator[Column[SeriesRow]]:
    """Yields the columns of a time: its percentiles, the first under the ``title``, and its average."""

    def text(number: Callable[[SumRow], float | None], row: SumRow) -> str:
        return fmt.duration(number(row))

    for name, number in zip((title, "p95", "avg"), MEASURES[measure].lines.values(), strict=True):
        yield _numbers(name, max(7, len(name)), partial(text, number), measure)


NUMBERS = (
    _numbers("cost", 9, lambda row: fmt.short_cost(row.cost_nanos), "cost"),
    _numbers("calls", 7, lambda row: fmt.count(row.calls), "calls"),
    _numbers("tokens", 7, lambda row: fmt.brief_count(row.input_tokens + row.output_tokens), "tokens"),
    _numbers("errors", 7, lambda row: fmt.count(row.errors), "errors"),
    *_times("dur p50", "duration"),
    *_times("first p50", "first token"),
)

MARKS = 3
"""The width of the cursor and the colour, before the first column."""


def series_rows(plan: ChartPlan, total: SumRow) -> list[SeriesRow]:
    """Returns the rows: all together, each series with a colour of its own, and all others."""
    largest, others = plan.largest, plan.others
    rows = [SeriesRow(ALL, "all", total)]
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
    """Returns the columns that fit: the shown measure's, then the others in order. ``by``: the dimension."""
    name: Column[SeriesRow] = Column(
        "name", f"by {by}", 19, lambda row: row.name, max_width=28, fit_text=lambda r, w: cut_middle(r.name, w)
    )
    columns = [name]
    measured = [column for column in NUMBERS if MEASURES[_measure_of(column)] is plan.measure]
    for rank, column in enumerate(NUMBERS, 1):
        is_last = column is measured[-1]
        title = column.title + (glyphs.DESCENDING if is_last else "")  # times are sorted by their average
        columns.append(msgspec.structs.replace(column, title=title, rank=0 if column in measured else rank))
        if is_last and not plan.measure.lines:  # times have no shares
            columns.append(Column("share", "share", 5, partial(_share, plan, total), right=True))
    over_time = partial(_over_time, plan)
    columns.append(Column("trend", "  over time", 19, lambda _: "", max_width=63, extra=True, fit_text=over_time))
    return fit_columns(columns, width - MARKS - 1)


def _measure_of(column: Column[SeriesRow]) -> str:
    """Returns the measure of a column; empty for the name and the line over time."""
    measure = column.id.partition(":")[0]
    return measure if measure in MEASURES else ""


def _share(plan: ChartPlan, total: SumRow, row: SeriesRow) -> str:
    whole = plan.measure.number(total) or 1.0
    return "" if row.key == ALL else fmt.percent(plan.measure.number(row.row) / whole)


def _over_time(plan: ChartPlan, row: SeriesRow, width: int) -> str:
    """Returns a sparkline of a series; nothing for all others together."""
    if row.key == OTHERS:
        return ""
    values = plan.trends.values(row.key, plan.measure.number)
    return f"  {charts.spark(values, min(width - 3, len(values)))}"


def measure_at(columns: SeriesColumns, x: int) -> str:
    """Returns the measure of the title at a cell of the table's head, or an empty string."""
    end = MARKS
    for column in columns:
        end += 1 + column.width
        if MARKS <= x < end:
            return _measure_of(column)
    return ""


def series_table(plan: ChartPlan, rows: Sequence[SeriesRow], columns: SeriesColumns, chosen: str) -> list[Content]:
    """Returns the head and the rows, with the selected one marked."""
    head: list[Part] = [(" " * MARKS, "dim")]
    for column in columns:
        title = column.title
        tone = "bold" if title.endswith(glyphs.DESCENDING) else "dim"
        head.append((f" {cell(title, column.width, right=column.right)}", tone))
    lines = [content(*head).rstrip()]
    for row in rows:
        is_chosen = row.key == chosen
        mark, colour = " ", ""
        if row.series >= 0 and not plan.measure.lines:  # lines of times have the colours of p50, p95 and the average
            mark = glyphs.FILLS[row.series] if plan.patterns else glyphs.SQUARE
            colour = f"chart{row.series + 1}"
        tones = {"share": "dim", "trend": colour or "dim"}
        parts: list[Part] = [(f" {glyphs.RUNNING if is_chosen else ' '}", "key"), (mark, colour)]
        for column in columns:
            _, fitted_text, _ = column.cell(row)
            text = cell(fitted_text, column.width, right=column.right)
            parts.append((f" {text}", tones.get(column.id, "bold" if is_chosen else "")))
        lines.append(content(*parts).rstrip())
    return lines


class TextLayout(msgspec.Struct, frozen=True):
    """The places of the bars and the series in the page's text."""

    bars: Bars
    chart: range
    """The lines with bars."""
    table: int
    """The line with the table's head."""
    rows: Sequence[SeriesRow]
    columns: SeriesColumns


def move_bar(page: AnyPage, step: int) -> None:
    """Select the bar that is ``step`` bars earlier."""
    if (layout := page.text_layout) is not None:
        page.bars_back = max(0, min(len(layout.bars.starts) - 1, page.bars_back + step))
    page.renew()


def move_series(page: AnyPage, step: int) -> None:
    """Select the next series; with a ``step`` of -1, the previous one."""
    if (layout := page.text_layout) is not None:
        keys = [row.key for row in layout.rows]
        current = keys.index(page.series) if page.series in keys else 0
        page.series = keys[max(0, min(len(keys) - 1, current + step))]
    page.renew()


def correct_selection(page: AnyPage, bars: Bars, rows: Sequence[SeriesRow]) -> int:
    """Move the selection off a bar or a series that no longer exists. Returns the number of the selected bar."""
    if page.series not in [row.key for row in rows]:
        page.series = ALL
    newest = len(bars.starts) - 1
    page.bars_back = min(page.bars_back, newest)
    bar: int = newest - page.bars_back
    return bar


async def open_calls(page: AnyPage) -> None:
    """Open the Live page with the calls of the selected bar and series."""
    layout: TextLayout | None = page.text_layout
    if layout is not None:
        dimension, measure = page.choice("by"), MEASURES[page.choice("value")]
        bar = len(layout.bars.starts) - 1 - page.bars_back
        query = NO_QUERY if page.complaint else parse(page.view.filter, page.session.now())
        words = filter_words(layout, bar, page.series, dimension, measure.words, query)
        await live_actions.show_calls(page.app, await _unambiguous_words(page, layout, words, bar, dimension))


async def _unambiguous_words(page: AnyPage, layout: TextLayout, words: str, bar: int, dimension: str) -> str:
    """Returns the filter words, with the id instead of the name if another token or channel had that name too."""
    row = next((row for row in layout.rows if row.key == page.series), None)
    if row is None or row.key == ALL or not is_id(FILTER_WORDS[dimension], row.key):
        return words
    by_name, by_id = _word(dimension, row), f"{FILTER_WORDS[dimension]}:{row.key}"
    other_words = f"{filter_words(layout, bar, ALL, dimension)} {by_name} !{by_id}"
    if not (await page.session.client.calls(words=other_words, limit=1)).calls:
        return words
    toast(page, f"Another {dimension} also had the name {safe(row.row.name, 40)}, so the filter uses the id.")
    return words.replace(by_name, by_id, 1)  # only the first one: words of the page's filter follow


def filter_words(
    layout: TextLayout, bar: int, series: str, dimension: str, measure: str = "", query: Query = NO_QUERY
) -> str:
    """Returns the filter words for a bar and a series, for the measure, and of the page's own filter."""
    start_ms, end_ms = layout.bars.starts[bar], layout.bars.ends[bar]
    start, end = local_datetime(start_ms), local_datetime(end_ms)
    if layout.bars.hourly:
        words = [f"since:{start:%Y-%m-%dT%H:%M}", f"until:{end:%Y-%m-%dT%H:%M}"]
    else:
        words = [f"since:{start:%Y-%m-%d}", f"until:{end - timedelta(hours=12):%Y-%m-%d}"]
    if query.since is not None and query.since > start_ms:
        words[0] = f"since:{_moment(query.since)}"
    if query.until is not None and query.until < end_ms:
        words[1] = f"until:{_moment(query.until)}"
    named_rows = [row for row in layout.rows if row.key not in (ALL, OTHERS)]
    if series == OTHERS:
        words += [f"!{_word(dimension, row)}" for row in named_rows]
    else:
        words += [_word(dimension, row) for row in named_rows if row.key == series]
    return " ".join(dict.fromkeys(filter(None, [*words, measure, *query.words])))


def _moment(ms: Millis) -> str:
    return f"{local_datetime(ms):%Y-%m-%dT%H:%M:%S}"


def _word(dimension: str, row: SeriesRow) -> str:
    """Returns the filter word of a series, such as ``tok:laptop``."""
    name = row.row.name.replace('"', "?")
    return f"{FILTER_WORDS[dimension]}:{quote_value(name)}"


async def click(page: AnyPage, layout: TextLayout, x: int, y: int) -> None:
    """Select what was clicked at a cell of the text. If it was selected already, open its calls."""
    previous = (page.bars_back, page.series)
    row = y - layout.table - 1
    if y in layout.chart and (number := layout.bars.bar_at(x - AXIS - EDGE)) is not None:
        page.bars_back = len(layout.bars.starts) - 1 - number
    elif 0 <= row < len(layout.rows):
        page.series = layout.rows[row].key
    elif y == layout.table and (measure := measure_at(layout.columns, x)):
        page.view.choices["value"] = measure
        page.renew()
        return
    else:
        return
    if (page.bars_back, page.series) == previous:
        await open_calls(page)
    page.renew()
