"""ListPage: a page with a table, a detail pane, a filter, sorting, marks and export; TrendPage adds recent sums."""

from asyncio import to_thread
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Input, Static

from gateway.client.exports import create_private, csv_text
from gateway.domain.budget import days
from gateway.domain.errors import BadRequest, Conflict
from tui import clipboard
from tui.columns import Column, fit_columns, sortable_columns
from tui.format import count_text
from tui.listing import ListRows, PageListing, RowSource, row_filter
from tui.pages.base import GONE, AnyPage, ConsolePage, Verb, unmark
from tui.saved_state import PageState
from tui.session import ConsoleSession
from tui.text import content, safe
from tui.trends import hours, trends
from tui.widgets.choices import MultiSelect
from tui.widgets.dialogs import toast
from tui.widgets.form import Form, line_plan
from tui.widgets.search_input import FilterInput
from tui.widgets.table import LiveTable
from tui.widgets.text_block import Detail, LeadLine

R = TypeVar("R")

EXPORT_ENDINGS = (".csv", ".jsonl")
"""The formats of an exported file: CSV for spreadsheets, JSON lines for programs."""


def toggle_detail(page: AnyPage) -> None:
    """Open or close the detail pane."""
    page.view.detail = page.pane.display = page.table.held = not page.pane.display
    page.pane.remove_class("full")
    page.draw_detail()


def toggle_full_height(page: AnyPage) -> None:
    """Expand the detail pane to the full height, or shrink it again."""
    page.view.detail = page.pane.display = page.table.held = True
    page.pane.toggle_class("full")
    page.draw_detail()


def edit_filter(page: AnyPage) -> None:
    """Show the filter and put the cursor into it."""
    page.field.open()


def sort_by_next_column(page: AnyPage) -> None:
    """Sort by the next sortable column on the screen; after the last one, by none."""
    ids = ["", *(column.id for column in sortable_columns(shown_columns(page.table)))]
    current = ids.index(page.view.sort) if page.view.sort in ids else 0
    _sort_from_top(page, ids[(current + 1) % len(ids)], reverse=False)


def sort_by_title(page: AnyPage, column: str) -> None:
    """Sort by the column whose title was clicked; a second click reverses the order."""
    if all(other.id != column for other in sortable_columns(page.columns)):
        title = next((other.title for other in page.columns if other.id == column), "")
        toast(page, f"You cannot sort by {title or 'this column'}.")
        return
    _sort_from_top(page, column, reverse=page.view.sort == column and not page.view.reverse)


def shown_columns(table: LiveTable[R]) -> list[Column[R]]:
    """Returns the columns on the screen, from left to right."""
    return fit_columns(table.columns, table.line_width - 1, table.chosen_ids)


def _sort_from_top(page: AnyPage, column: str, *, reverse: bool) -> None:
    page.sort_by(column, reverse=reverse)
    page.renew()
    page.table.go(0)


async def choose_columns(page: AnyPage) -> None:
    """Choose which columns are shown. Without a choice, as many as fit are shown, even after the window is resized."""
    table, options = page.table, [(column.id, column.title or column.id) for column in page.columns]
    before = set(table.chosen_ids) or {column.id for column in shown_columns(table)}
    about = "If nothing is selected, as many as fit are shown."
    checked = await page.ask(MultiSelect("Columns", about, options, before, resets=True))
    if checked == before:
        return
    table.chosen_ids = page.view.columns = [id_ for id_, _ in options if id_ in checked]
    table.rearrange()
    shown = {column.id for column in shown_columns(table)}
    if hidden := [title for id_, title in options if id_ in table.chosen_ids and id_ not in shown]:
        toast(page, f"No room for {', '.join(hidden)}. Show fewer other columns, or use a wider terminal.")


def mark_row(page: AnyPage) -> None:
    """Mark the row, or unmark it, and go to the next."""
    table = page.table
    if table.source.count and not table.lost:
        table.marks ^= {table.source.key(table.cursor)}
        table.action_cursor("down")
        if page.shows_marked and not table.marks:
            toggle_marked_only(page)


def mark_all(page: AnyPage) -> None:
    """Mark all rows that are shown; if they are marked already, remove all marks."""
    table = page.table
    shown = {*map(table.source.key, range(table.source.count))}
    if shown <= table.marks:
        unmark(page)
    else:
        table.marks |= shown
        table.refresh()
        page.draw_lead()


def toggle_marked_only(page: AnyPage) -> None:
    """Show only the marked rows, or all rows again."""
    table, showed_marked = page.table, page.shows_marked
    page.shows_marked = not showed_marked and bool(table.marks)
    page.source.restrict(set(table.marks) if page.shows_marked else None)
    if page.shows_marked and table.cursor_key not in table.marks:
        table.cursor_key = None
    if not (table.marks or showed_marked):
        toast(page, f"Nothing is marked. Press {page.session.key('list.mark')} to mark a row.")
    page.renew()


async def export_rows(page: AnyPage, note: str = "") -> None:
    """Write the shown rows to a file, after asking for its name. ``note``: which rows those are, for the title."""
    loaded = (row for i in range(page.source.count) if (row := page.source.row(i)) is not None)
    rows = [page.export_view(row) for row in loaded]
    title = f"Export {count_text(len(rows), 'row')} to a file{note}"
    example = f"{page.noun}s.csv or {page.noun}s.jsonl"
    name = await page.ask(Form(line_plan(title, "File", example, export_path)))
    file = export_path(name)
    count = await to_thread(write_rows, file, rows)
    toast(page, f"{count_text(count, 'row')} written to {file}")


def export_path(text: str) -> Path:
    """Returns the path of the file to write. Raises BadRequest if the name is not valid, or the file exists."""
    path = Path(text.strip()).expanduser()
    if path.suffix not in EXPORT_ENDINGS:
        raise BadRequest(f"the name must end in {' or '.join(EXPORT_ENDINGS)}")
    if path.exists():
        raise BadRequest(f"{path} already exists; choose another name")
    if not path.absolute().parent.is_dir():
        raise BadRequest(f"folder {path.absolute().parent} does not exist")
    return path


def write_rows(path: Path, rows: Iterable[msgspec.Struct]) -> int:
    """Write the rows into a new file that only the owner may read. Returns their number. Raises Conflict."""
    is_csv, count = path.suffix == ".csv", 0
    try:
        with create_private(path) as file:
            for row in rows:
                if count == 0 and is_csv:
                    file.write(csv_text(type(row).__struct_encode_fields__))
                values = (getattr(row, name) for name in row.__struct_fields__)
                file.write(csv_text(values) if is_csv else msgspec.json.encode(row).decode() + "\n")
                count += 1
    except OSError as exc:
        raise Conflict(f"cannot write {path}: {exc.strerror}") from exc
    return count


def copy_name(page: AnyPage) -> None:
    """Copy the row's name or id."""
    if (row := page.table.current) is not None:
        name = page.row_name(row)
        clipboard.copy_text(page, name, f"Copied: {name}")


def copy_command(page: AnyPage) -> None:
    """Copy the row's command."""
    if (row := page.table.current) is not None:
        command = page.command(row)
        clipboard.copy_text(page, command, f"Copied:\n{command}")


def go_back(page: AnyPage) -> None:
    """Close the pane, unless the filter has the focus; else clear the filter; if it is empty, show all rows again."""
    if not page.field.has_focus and page.pane.display:
        page.view.detail = page.pane.display = page.table.held = False
    elif page.shows_marked and not page.view.filter:
        toggle_marked_only(page)
    else:
        set_filter(page, "")
    page.table.focus()


VERBS: Mapping[str, Verb] = {
    "details": toggle_detail,
    "full": toggle_full_height,
    "filter": edit_filter,
    "sort": sort_by_next_column,
    "reverse": lambda page: _sort_from_top(page, page.view.sort, reverse=not page.view.reverse),
    "columns": choose_columns,
    "mark": mark_row,
    "mark_all": mark_all,
    "marked": toggle_marked_only,
    "export": export_rows,
    "copy": copy_name,
    "twin": copy_command,
    "back": go_back,
}


def select_row(page: AnyPage, key: Hashable, verb: str = "") -> None:
    """Move the cursor to the row with this key, and run a verb on it: now, or as soon as the board has the row."""
    page.wanted_row, page.wanted_verb = key, verb
    page.renew()


def set_filter(page: AnyPage, text: str) -> None:
    """Show the rows that match the text; all rows if it is empty."""
    page.view.filter = text
    page.field.fill(text)
    page.renew()


class ListPage(ConsolePage, PageListing[R], Generic[R]):
    """A page with table, pane and filter. A subclass says what it shows, and has its own actions."""

    verbs: ClassVar[Mapping[str, Verb]] = VERBS
    marks_hint: ClassVar[tuple[str, str]] = ("list.bulk", "changes them all")
    """The action on marked rows, and its effect."""

    def __init__(self, session: ConsoleSession, source: RowSource[R] | None = None) -> None:
        super().__init__(session)
        self.view: PageState = session.state.view(str(self.id))
        self.columns = list(self.all_columns())
        self.source: RowSource[R] = ListRows[R](self.key) if source is None else source
        self.field = FilterInput(self.hint, self.view.filter, classes="filter")
        self.table: LiveTable[R] = LiveTable(self.columns, self.source)
        self.pane = Detail(classes="detail")
        self.shows_marked = False
        self.complaint = ""
        """The error in the filter; empty if it is valid."""
        self.wanted_row: Hashable = None
        """The key of a row to select as soon as the source has it, or None."""
        self.wanted_verb = ""
        """The verb to run on that row; empty if no verb is to run."""
        self._applied_filter = ""

    def compose(self) -> ComposeResult:
        yield LeadLine(classes="lead")
        yield self.field
        yield Container(self.table, Static(classes="empty"), self.pane, classes="body")

    def on_mount(self) -> None:
        self.table.request_sort = partial(sort_by_title, self)
        self.table.chosen_ids = [c.id for c in self.columns if c.id in self.view.columns]
        self.pane.display = self.view.detail
        self.sort_by(self.view.sort, reverse=self.view.reverse)
        self.renew()

    def take_focus(self) -> None:
        self.table.focus()

    def renew(self) -> None:
        if new_filter := self._applied_filter != self.view.filter:
            self._applied_filter, self.complaint = self.view.filter, ""
            self.source.pin(None)
            try:
                self.narrow(self.view.filter)
            except BadRequest as error:
                self.complaint = self.session.advice(error.message)
        if self.table.text_selection is None:  # selected text must not move
            self.fill()
        self.table.renew(new_filter=new_filter)
        if self.wanted_row is not None and (index := self.source.index(self.wanted_row)) is not None:
            verb, self.wanted_row, self.wanted_verb = self.wanted_verb, None, ""
            self.table.go(index)
            if verb:
                self.call_later(self.action_act, verb)
        empty = self.query_one(".empty", Static)
        empty.display = self.source.count == 0  # it covers the table, which keeps the focus and the page's keys
        if empty.display:
            empty.update(_text_without_rows(self))
        self.draw_lead()
        self.draw_detail()

    def fill(self) -> None:
        if isinstance(self.source, ListRows):
            self.source.set_rows(self.rows())

    def narrow(self, text: str) -> None:
        """Show only matching rows. Raises BadRequest for an invalid filter; then the previous one stays."""
        if isinstance(self.source, ListRows):
            matches, columns = row_filter(text), self.columns
            self.source.matches = (lambda row: matches(self.search_text(row, columns))) if text.strip() else None

    def sort_by(self, column: str, *, reverse: bool) -> None:
        """Sort by the column with this id, in its usual order unless reversed; an empty id: by none."""
        sorted_by: Column[R] | None = next((c for c in self.columns if c.id == column and c.sort), None)
        self.view.sort, self.view.reverse = (column, reverse) if sorted_by else ("", False)
        is_descending = sorted_by is not None and sorted_by.largest_first != reverse
        self.table.sort, self.table.descending = self.view.sort, is_descending
        self.source.order(sorted_by, descending=is_descending)
        self.table.held = False
        self.table.rearrange()

    def draw_lead(self) -> None:
        if isinstance(self.source, ListRows):
            self.shown_count = self.source.count if self.source.hidden else None
        if self.complaint:
            lead = content((safe(self.complaint, 600), "bad"))
        else:
            action, effect = self.marks_hint
            hints = f": {self.session.key(action)} {effect}"
            hints += f", {self.session.key('list.marked')} shows all rows" if self.shows_marked else ""
            marked = f" {len(self.table.marks)} marked{hints}  " if self.table.marks else ""
            start = content(self.list_state(), (marked, "live"))
            lead = start + self.lead(self.size.width - start.cell_length)
        self.query_one(LeadLine).show(lead, whole=bool(self.complaint))

    def draw_detail(self) -> None:
        row = self.table.current
        if self.pane.display:
            key = None if row is None else self.key(row)
            no_row = content(GONE if self.table.lost else "")
            self.pane.show(lambda width: no_row if row is None else self.detail(row, width), key)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter a moment after the last letter, so that typing is never delayed."""
        if self.view.filter != event.value:
            self.view.filter = event.value
            self.set_timer(0.05, self.renew)  # wait for more letters

    def on_live_table_opened(self) -> None:
        toggle_detail(self)

    def on_live_table_moved(self) -> None:
        self.table.held = self.table.held or (self.pane.display and self.table.cursor > 0)
        self.draw_lead()
        self.draw_detail()


def _text_without_rows(page: ListPage[R]) -> Content:
    if progress := page.session.progress:  # the data may bring rows
        return content((f"{progress.capitalize()} ...", "dim"))
    hides_rows = page.view.filter or page.shows_marked
    return page.no_match(page.view.filter) if hides_rows else page.empty()


class TrendPage(ListPage[R], Generic[R]):
    """A list page that also fetches the sums of the last 30 days for each row."""

    by: ClassVar[str] = ""
    """The dimension of the sums, such as ``token``."""
    hourly: ClassVar[bool] = False
    """Whether the sums cover the last 24 hours instead."""

    def renew(self) -> None:
        super().renew()
        board = self.session.board
        calls = board.calls.total - len(board.calls.running)
        self.fetch_if_due(board.failures, calls, pause_ms=10_000, urgent_ms=1_000)

    async def fetch(self) -> None:
        now = self.session.now()
        starts = hours(24, now) if self.hourly else days(30, now)
        step = "hour" if self.hourly else "day"
        summary = await self.session.client.summary(by=self.by, since=starts[0], step=step)
        self.trends = trends(summary, starts)
