"""Listing: what a page of entities shows of its rows, as pure functions of the board: columns, lead, detail, words.

Everything it returns is safe text: foreign strings went through ``tui/safe.py``.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from textual.content import Content

from tui.columns import Column
from tui.session import Session
from tui.tones import content

R = TypeVar("R")


class Listing(Generic[R]):
    """To be filled in, one a page. ``noun`` names a row in sentences."""

    noun = "row"
    hint = "words that must all be there, !word that must not"
    """Stands in the empty filter."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def columns(self) -> Sequence[Column[R]]:
        """All columns, those that matter most first."""
        raise NotImplementedError

    def rows(self) -> Sequence[R]:
        """All rows on the board now."""
        raise NotImplementedError

    def key(self, row: R) -> Hashable:
        """What names a row for good."""
        raise NotImplementedError

    def name(self, row: R) -> str:
        """What ``y`` copies."""
        raise NotImplementedError

    def twin(self, row: R) -> str:
        """The command (or the curl) that ``Y`` copies."""
        raise NotImplementedError

    def lead(self, width: int) -> Content:
        """The line above the table, in at most so many cells."""
        raise NotImplementedError

    def detail(self, row: R, width: int) -> Content:
        """The pane about a row."""
        raise NotImplementedError

    def empty(self) -> Content:
        """What stands there instead of an empty table, and says what to do."""
        return content((f"No {self.noun}s yet.", "dim"))

    def words(self, row: R) -> str:
        """What the filter looks in."""
        return " ".join(column.text(row) for column in self.columns())
