"""Usage cursor: selects a bar and a series by keys and by mouse, and opens their calls on the Live page."""

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

WORDS = {"model": "model", "token": "tok", "channel": "ch", "group": "grp", "app": "app", "api": "api"}
"""The word of the filter for each dimension: ``tok:laptop``."""

DIMENSIONS = tuple(WORDS)

IDS = ("token", "channel")
"""The dimensions whose keys are ids, because their names may change."""

NO_QUERY = Query()


class Layout(msgspec.Struct, frozen=True):
    """What is where in the text of the page, for the cursor and the mouse."""

    bars: Bars
    chart: range
    """The lines of the bars."""
    table: int
    """The line of the table's head."""
    rows: Sequence[SeriesRow]
    columns: SeriesColumns


def move_bar(page: AnyPage, by: int) -> None:
    """Select another bar, ``by`` bars further in the past."""
    if (layout := page.layout_of_text) is not None:
        page.bars_back = max(0, min(len(layout.bars.starts) - 1, page.bars_back + by))
    page.renew()


def move_series(page: AnyPage, by: int) -> None:
    """Select the next or previous series."""
    if (layout := page.layout_of_text) is not None:
        keys = [row.key for row in layout.rows]
        current = keys.index(page.series) if page.series in keys else 0
        page.series = keys[max(0, min(len(keys) - 1, current + by))]
    page.renew()


def correct_selection(page: AnyPage, bars: Bars, rows: Sequence[SeriesRow]) -> int:
    """Select a bar and a series that exist, if the selected ones have gone. Returns the number of the bar."""
    if page.series not in [row.key for row in rows]:
        page.series = None
    newest = len(bars.starts) - 1
    page.bars_back = min(page.bars_back, newest)
    bar: int = newest - page.bars_back
    return bar


async def open_calls(page: AnyPage) -> None:
    """Open the Live page with the calls of the selected bar and series."""
    layout: Layout | None = page.layout_of_text
    if layout is not None:
        by, measure = page.choice("by"), page.choice("value")
        number = len(layout.bars.starts) - 1 - page.bars_back
        query = NO_QUERY if page.complaint else parse(page.view.filter, page.session.now())
        words = filter_words(layout, number, page.series, by, MEASURES[measure].words, query)
        if by in IDS and page.series is not None and page.series != OTHERS:
            words = await _unambiguous_words(page, layout, words, number, by)
        await live_actions.show_calls(page.app, words)


async def _unambiguous_words(page: AnyPage, layout: Layout, words: str, number: int, by: str) -> str:
    """Returns the filter words, with an id instead of a name that another token or channel had, too."""
    row = next((other for other in layout.rows if other.key == page.series), None)
    if row is None or row.key is None or not is_id(WORDS[by], row.key):
        return words
    by_name, by_id = _word(by, row), f"{WORDS[by]}:{row.key}"
    other_words = f"{filter_words(layout, number, None, by)} {by_name} !{by_id}"
    if not (await page.session.client.calls(words=other_words, limit=1)).calls:
        return words
    toast(page, f"Another one had the name {safe(row.row.name, 40)} meanwhile: the filter has its id.")
    return words.replace(by_name, by_id, 1)  # only the first one: words of the page's filter follow


def filter_words(
    layout: Layout, number: int, series: str | None, by: str, more: str = "", query: Query = NO_QUERY
) -> str:
    """Returns the filter words for a bar and a series, and ``more`` of the measure; ``query`` may shorten the span."""
    start = fmt.local_time(layout.bars.starts[number])
    end = fmt.local_time(layout.bars.ends[number])
    if layout.bars.hourly:
        words = [f"since:{start:%Y-%m-%dT%H:%M}", f"until:{end:%Y-%m-%dT%H:%M}"]
    else:
        words = [f"since:{start:%Y-%m-%d}", f"until:{end - timedelta(hours=12):%Y-%m-%d}"]
    if query.since is not None and query.since > layout.bars.starts[number]:
        words[0] = f"since:{_moment(query.since)}"
    if query.until is not None and query.until < layout.bars.ends[number]:
        words[1] = f"until:{_moment(query.until)}"
    named_rows = [row for row in layout.rows if row.key is not None and row.key != OTHERS]
    if series == OTHERS:
        words += [f"!{_word(by, row)}" for row in named_rows]
    else:
        words += [_word(by, row) for row in named_rows if row.key == series]
    return " ".join(dict.fromkeys(filter(None, [*words, more, *query.words])))


def _moment(ms: Millis) -> str:
    return f"{fmt.local_time(ms):%Y-%m-%dT%H:%M:%S}"


def _word(by: str, row: SeriesRow) -> str:
    """Returns the filter word of a series, such as ``tok:laptop``. Names with blanks are quoted."""
    name = row.row.name.replace('"', "?")
    return f'{WORDS[by]}:"{name}"' if any(char.isspace() for char in name) else f"{WORDS[by]}:{name}"


async def click(page: AnyPage, layout: Layout, x: int, y: int) -> None:
    """Handle a click at a cell of the text: see ``UsagePage.on_click``."""
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
