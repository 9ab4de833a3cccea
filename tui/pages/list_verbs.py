"""List verbs: what every page with a table can do: open the pane, filter, sort, mark, copy."""

from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from textual.widgets import Input

from gateway.domain.errors import BadRequest
from tui.clipboard import copy
from tui.columns import sorting
from tui.export import checked, write
from tui.pages.base import Verb
from tui.widgets.columns import ChooseColumns
from tui.widgets.detail import Detail
from tui.widgets.prompt import Prompt
from tui.widgets.toast import tell

AnyListPage = Any
"""A ListPage; it imports this file."""


def details(page: AnyListPage) -> None:
    """Open or close the pane."""
    pane = page.query_one(Detail)
    page.view.detail = pane.display = not pane.display
    pane.remove_class("full")
    page.draw_detail()


def full(page: AnyListPage) -> None:
    """Give the pane all the room, or take it back."""
    pane = page.query_one(Detail)
    pane.display = page.view.detail = True
    pane.toggle_class("full")
    page.draw_detail()


def edit_filter(page: AnyListPage) -> None:
    """Put the cursor into the filter."""
    field = page.query_one(Input)
    field.display = True
    page.screen.set_focus(field)  # at once, so that what is typed right after is its own


def sort(page: AnyListPage) -> None:
    """Sort by the next column that can be sorted by; after the last one by none."""
    ids = ["", *(column.id for column in sorting(page.columns))]
    at = ids.index(page.view.sort) if page.view.sort in ids else 0
    page.sort_by(ids[(at + 1) % len(ids)], reverse=False)
    page.renew()


def reverse(page: AnyListPage) -> None:
    """Turn the order round."""
    page.sort_by(page.view.sort, reverse=not page.view.reverse)
    page.renew()


async def columns(page: AnyListPage) -> None:
    """Choose which columns are shown."""
    chosen = await page.ask(ChooseColumns(page.columns, page.table.chosen))
    if chosen is not None:
        page.table.chosen = page.view.columns = chosen
        page.table.rearrange()


def mark(page: AnyListPage) -> None:
    """Mark the row, or unmark it, and go on to the next."""
    table = page.table
    if table.source.count:
        table.marks ^= {table.source.key(table.cursor)}
        table.action_cursor("down")


def marked(page: AnyListPage) -> None:
    """Only the rows that are marked; again: all."""
    table = page.table
    page.only_marked = not page.only_marked and bool(table.marks)
    page.source.keep(set(table.marks) if page.only_marked else None)
    if not table.marks:
        tell(page, "nothing is marked; m marks a row")
    page.renew()


async def export(page: AnyListPage) -> None:
    """Write the rows that are shown to a file."""
    rows = [row for i in range(page.source.count) if (row := page.source.row(i)) is not None]
    path = await page.ask(Prompt(f"Write {len(rows):,} rows to a file", "calls.csv or calls.jsonl", _complaint))
    if path:
        file = checked(path)
        count = await to_thread(write, file, rows)
        tell(page, f"{count:,} rows are in {file}")


def _complaint(text: str) -> str:
    try:
        checked(text)
    except BadRequest as error:
        return error.message
    return ""


def copy_name(page: AnyListPage) -> None:
    """Copy the row's name or id."""
    if (row := page.table.current) is not None:
        name = page.listing.name(row)
        copy(page.app, name)
        tell(page, f"copied: {name}")


def copy_twin(page: AnyListPage) -> None:
    """Copy the command that does the same."""
    if (row := page.table.current) is not None:
        twin = page.listing.twin(row)
        copy(page.app, twin)
        tell(page, f"copied:\n{twin}")


def back(page: AnyListPage) -> None:
    """Leave the filter; else close the pane; else clear the filter."""
    field, pane = page.query_one(Input), page.query_one(Detail)
    if not field.has_focus and pane.display:
        pane.display = page.view.detail = False
    else:
        field.value = ""
        field.display = False
    page.table.focus()


VERBS: Mapping[str, Verb] = {
    "details": details,
    "full": full,
    "filter": edit_filter,
    "sort": sort,
    "reverse": reverse,
    "columns": columns,
    "mark": mark,
    "marked": marked,
    "export": export,
    "copy": copy_name,
    "twin": copy_twin,
    "back": back,
}
