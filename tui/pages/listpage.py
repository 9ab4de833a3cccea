"""ListPage: a page that is a table with a pane about the row under the cursor, a filter, sorting and marks."""

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Input, Static

from gateway.domain.errors import BadRequest
from tui.columns import Column
from tui.listing import Listing
from tui.livetable import LiveTable
from tui.pages import list_verbs
from tui.pages.base import Page, Verb
from tui.safe import safe
from tui.session import Session
from tui.source import ListSource, Source
from tui.state import View
from tui.tones import content
from tui.widgets.detail import Detail
from tui.words import wanted_by

R = TypeVar("R")

TYPING_S = 0.05
"""How long the filter waits for more letters."""


class ListPage(Page, Generic[R]):
    """Table, pane and filter. A subclass brings a Listing; what it does beside are verbs."""

    verbs: ClassVar[Mapping[str, Verb]] = list_verbs.VERBS

    def __init__(self, session: Session, id: str, listing: Listing[R], source: Source[R] | None = None) -> None:
        super().__init__(session, id)
        self.listing = listing
        self.view: View = session.remembered.view(id)
        self.columns = listing.columns()
        self.source: Source[R] = ListSource[R](listing.key) if source is None else source
        self.only_marked = False
        self.complaint = ""
        """What is wrong with the filter."""
        self._filtered = ""

    def compose(self) -> ComposeResult:
        yield Static(classes="lead")
        yield Input(placeholder=self.listing.hint, classes="filter", compact=True, value=self.view.filter)
        with Container(classes="body"):
            yield LiveTable(self.columns, self.source, self.session.glyphs)
            yield Static(classes="empty")
            yield Detail()

    def on_mount(self) -> None:
        self.table.chosen = [c.id for c in self.columns if c.id in self.view.columns]
        self.query_one(Input).display = bool(self.view.filter)
        self.query_one(Detail).display = self.view.detail
        self.sort_by(self.view.sort, reverse=self.view.reverse)
        self.renew()

    @property
    def table(self) -> LiveTable[R]:
        return self.query_one(LiveTable)

    def take_focus(self) -> None:
        self.table.focus()

    def renew(self) -> None:
        """Take the board's rows, keep the cursor on its row, and draw what differs."""
        if self._filtered != self.view.filter:
            self._filtered, self.complaint = self.view.filter, ""
            try:
                self.narrow(self.view.filter)
            except BadRequest as error:
                self.complaint = error.message
        if self.table.text_selection is None:  # what is being selected must not move
            self.fill()
        self.table.renew()
        empty = self.source.count == 0
        if empty:
            words = content(("Nothing fits the filter. esc clears it.", "dim")) if self.view.filter else None
            self.query_one(".empty", Static).update(words or self.listing.empty())
        self.query_one(".empty").display = empty  # over the table, which keeps the focus: its page's keys still work
        self.draw_lead()
        self.draw_detail()

    def fill(self) -> None:
        """Bring the source up to date with the board."""
        if isinstance(self.source, ListSource):
            self.source.put(self.listing.rows())

    def narrow(self, text: str) -> None:
        """Show only what fits these words. Raises BadRequest; what held before then still does."""
        if isinstance(self.source, ListSource):
            wanted = wanted_by(text)
            self.source.wanted = (lambda row: wanted(self.listing.words(row))) if text.strip() else None

    def sort_by(self, column: str, *, reverse: bool) -> None:
        """Sort by a column's id; empty: not at all."""
        found: Column[R] | None = next((c for c in self.columns if c.id == column and c.sort), None)
        self.view.sort, self.view.reverse = (column, reverse) if found else ("", False)
        self.table.sort, self.table.reverse = self.view.sort, self.view.reverse
        self.source.order(found, reverse=reverse)
        self.table.unseen = 0
        self.table.rearrange()

    def draw_lead(self) -> None:
        """The line above the table."""
        lead = content((f" {safe(self.complaint)}", "bad")) if self.complaint else self.listing.lead(self.size.width)
        self.query_one(".lead", Static).update(lead, layout=False)

    def draw_detail(self) -> None:
        """Show the row under the cursor in the pane, if the pane is open."""
        pane, row = self.query_one(Detail), self.table.current
        if pane.display:
            pane.show(lambda width: Content("") if row is None else self.listing.detail(row, width))

    def on_input_changed(self, event: Input.Changed) -> None:
        """What is typed holds a moment later, so that typing never waits."""
        if self.view.filter != event.value:
            self.view.filter = event.value
            self.set_timer(TYPING_S, self.renew)

    def on_input_submitted(self) -> None:
        self.query_one(Input).display = bool(self.view.filter)
        self.table.focus()

    def on_live_table_opened(self) -> None:
        list_verbs.details(self)

    def on_live_table_moved(self) -> None:
        self.draw_lead()
        self.draw_detail()
