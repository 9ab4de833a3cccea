"""ChooseColumns: which columns a table shows."""

from collections.abc import Collection, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from tui.columns import Column


class ChooseColumns(ModalScreen[list[str] | None]):
    """The ids of the columns to show; an empty list for the usual ones; None if nothing is to change."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave(False)", "Cancel"),
        Binding("enter", "leave(True)", "Done", priority=True),
        Binding("r", "usual", "Usual"),
    ]

    def __init__(self, columns: Sequence[Column[Any]], chosen: Collection[str]) -> None:
        super().__init__()
        self._columns = columns
        self._chosen = chosen or [c.id for c in columns if not c.extra]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled("Columns", "bold"), classes="title")
            yield SelectionList(
                *(Selection(Content(c.title or c.id), c.id, c.id in self._chosen) for c in self._columns)
            )
            yield Static(Content("space chooses, enter is done, r the usual ones, esc leaves all as it was"))

    def action_leave(self, done: bool) -> None:  # noqa: FBT001 - Textual calls it
        picked = set(self.query_one(SelectionList).selected)
        self.dismiss([c.id for c in self._columns if c.id in picked] if done else None)

    def action_usual(self) -> None:
        self.dismiss([])
