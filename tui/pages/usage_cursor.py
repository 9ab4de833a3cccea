"""Usage cursor: selects a bar and a series by keys or mouse, and opens their calls on the Live page."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from gateway.domain.query import Query, is_id, parse
from gateway.domain.units import Millis
from tui import format as fmt
from tui.pages import live_actions
from tui.pages.base import AnyPage
from tui.pages.usage_bars import AXIS, EDGE, MEASURES, OTHERS, Bars
from tui.pages.usage_table import SeriesColumns, SeriesRow, measure_at
from tui.text import safe
from tui.widgets.dialogs import toast

FILTER_WORDS = {"model": "model", "token": "tok", "channel": "ch", "group": "grp", "app": "app", "api": "api"}
"""The filter's word for each dimension, as in ``tok:laptop``."""

DIMENSIONS = tuple(FILTER_WORDS)

NO_QUERY = Query()


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
    """Select another bar, ``step`` bars further in the past."""
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
        page.series = None
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
    if row is None or row.key is None or not is_id(FILTER_WORDS[dimension], row.key):
        return words
    by_name, by_id = _word(dimension, row), f"{FILTER_WORDS[dimension]}:{row.key}"
    other_words = f"{filter_words(layout, bar, None, dimension)} {by_name} !{by_id}"
    if not (await page.session.client.calls(words=other_words, limit=1)).calls:
        return words
    toast(page, f"Another {dimension} also had the name {safe(row.row.name, 40)}, so the filter has the id.")
    return words.replace(by_name, by_id, 1)  # only the first one: words of the page's filter follow


def filter_words(
    layout: TextLayout, bar: int, series: str | None, dimension: str, measure: str = "", query: Query = NO_QUERY
) -> str:
    """Returns the filter words for a bar and a series, with those of the measure and of the page's own filter."""
    start_ms, end_ms = layout.bars.starts[bar], layout.bars.ends[bar]
    start, end = fmt.local_time(start_ms), fmt.local_time(end_ms)
    if layout.bars.hourly:
        words = [f"since:{start:%Y-%m-%dT%H:%M}", f"until:{end:%Y-%m-%dT%H:%M}"]
    else:
        words = [f"since:{start:%Y-%m-%d}", f"until:{end - timedelta(hours=12):%Y-%m-%d}"]
    if query.since is not None and query.since > start_ms:
        words[0] = f"since:{_moment(query.since)}"
    if query.until is not None and query.until < end_ms:
        words[1] = f"until:{_moment(query.until)}"
    named_rows = [row for row in layout.rows if row.key is not None and row.key != OTHERS]
    if series == OTHERS:
        words += [f"!{_word(dimension, row)}" for row in named_rows]
    else:
        words += [_word(dimension, row) for row in named_rows if row.key == series]
    return " ".join(dict.fromkeys(filter(None, [*words, measure, *query.words])))


def _moment(ms: Millis) -> str:
    return f"{fmt.local_time(ms):%Y-%m-%dT%H:%M:%S}"


def _word(dimension: str, row: SeriesRow) -> str:
    """Returns the filter word of a series, such as ``tok:laptop``. A name with blanks is quoted."""
    name = row.row.name.replace('"', "?")
    quoted_name = f'"{name}"' if any(char.isspace() for char in name) else name
    return f"{FILTER_WORDS[dimension]}:{quoted_name}"


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
