"""ChooseColumns: which columns a table shows."""

from collections.abc import Collection, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.columns import Column
from tui.widgets.checks import Checks


class ChooseColumns(ModalScreen[list[str] | None]):
    """The ids of the columns to show; an empty list for the usual ones; None if nothing is to change."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave(False)", "Cancel"),
        Binding("enter", "leave(True)", "Done"),
        Binding("r", "usual", "Usual"),
    ]

    def __init__(self, columns: Sequence[Column[Any]], chosen: Collection[str]) -> None:
        super().__init__()
        self._columns = columns
        self._chosen = chosen or [c.id for c in columns if not c.extra]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled("Columns", "bold"), classes="title")
            with VerticalScroll(classes="choices", can_focus=False):
                yield Checks([(c.id, c.title or c.id) for c in self._columns], self._chosen)
            yield Static(Content("space changes, enter is done, r the usual ones, esc as it was"), classes="hint")

    def action_leave(self, done: bool) -> None:  # noqa: FBT001 - Textual calls it
        on = self.query_one(Checks).on
        self.dismiss([c.id for c in self._columns if c.id in on] if done else None)

    def action_usual(self) -> None:
        self.dismiss([])
