"""Listing: what a table page shows: its columns, rows, lead line and detail pane, as functions of the board.

A ``RowSource`` holds the rows, first on top. Rows have keys, so the cursor stays on its row. A table repaints only rows
that differ from what it has painted, so ages and countdowns belong in the row. All returned text is safe: text from
outside passed ``tui/text.py``.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from textual.content import Content

from tui import format as fmt
from tui.cli_commands import cli_command
from tui.columns import Column
from tui.session import ConsoleSession
from tui.text import content, lines, safe
from tui.trends import Trends

R = TypeVar("R")


class RowSource(Protocol[R]):
    """Rows by index, keys by index, indexes by key."""

    @property
    def count(self) -> int:
        """Returns the number of rows."""
        ...

    def row(self, index: int) -> R | None:
        """Returns the row; None if it is not loaded yet."""
        ...

    def key(self, index: int) -> Hashable:
        """Returns the row's stable key. Its index may change."""
        ...

    def index(self, key: Hashable) -> int | None:
        """Returns the row's current index; None if it is gone."""
        ...

    def order(self, column: Column[R] | None, *, descending: bool) -> None:
        """Sort by a column, or not at all."""
        ...

    def keep(self, keys: Collection[Hashable] | None) -> None:
        """Show only the rows with these keys; None: all rows again."""
        ...

    def pin(self, key: Hashable) -> None:
        """Keep showing this row, even if it changes so that the filter would hide it."""
        ...


class ListRows(Generic[R]):
    """A list of rows, filtered and sorted."""

    def __init__(self, key: Callable[[R], Hashable]) -> None:
        self._key = key
        self._all: Sequence[R] = ()
        self._shown: list[R] = []
        self._index: dict[Hashable, int] = {}
        self.wanted: Callable[[R], bool] | None = None
        self._kept: Collection[Hashable] | None = None
        self._pinned: Hashable = None
        self._sort: Column[R] | None = None
        self._descending = False

    @property
    def count(self) -> int:
        return len(self._shown)

    @property
    def hidden(self) -> int:
        """Returns the number of rows that the filter hides."""
        return len(self._all) - len(self._shown)

    def row(self, index: int) -> R | None:
        return self._shown[index]

    def key(self, index: int) -> Hashable:
        return self._key(self._shown[index])

    def index(self, key: Hashable) -> int | None:
        return self._index.get(key)

    def keep(self, keys: Collection[Hashable] | None) -> None:
        self._kept = keys
        self.arrange()

    def pin(self, key: Hashable) -> None:
        self._pinned = key

    def order(self, column: Column[R] | None, *, descending: bool) -> None:
        self._sort, self._descending = column, descending
        self.arrange()

    def put(self, rows: Sequence[R]) -> None:
        """Replace the rows."""
        self._all = rows
        self.arrange()

    def arrange(self) -> None:
        """Filter and sort again."""
        fits, pinned = self.wanted, self._pinned
        self._shown = [row for row in self._all if fits is None or self._key(row) == pinned or fits(row)]
        if self._kept is not None:
            self._shown = [row for row in self._shown if self._key(row) in self._kept]
        if self._sort is not None and self._sort.sort is not None:
            self._shown.sort(key=self._sort.sort, reverse=self._descending)
        self._index = {self._key(row): i for i, row in enumerate(self._shown)}


def row_filter(text: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a row's words match the filter; case does not matter."""
    words = text.casefold().split()
    there = [word for word in words if not word.startswith("!")]
    missing = [word[1:] for word in words if len(word) > 1 and word.startswith("!")]

    def fits(row: str) -> bool:
        row = row.casefold()
        return all(word in row for word in there) and not any(word in row for word in missing)

    return fits


class PageListing(Generic[R]):
    """The base class of listings, with one subclass for each page. ``noun`` names a row in sentences."""

    noun = "row"
    hint = "words to match, !word to exclude"
    """The placeholder of the filter."""
    by = "id"
    """The attribute of a row's view that is its stable key."""

    def __init__(self, session: ConsoleSession) -> None:
        self.session = session
        self.trends = Trends()
        """Sums of the last days or hours, for pages that fetch them."""
        self.shown: int | None = None
        """The number of rows shown, if the filter or the marks hide some."""
        self.searching = False
        """Whether older rows are still being searched."""

    def counted(self, total: int) -> str:
        """Returns ``25 models``, or ``3 of 25 models`` if not all of them are shown."""
        whole = fmt.count_text(total, self.noun)
        return whole if self.shown is None else f"{self.shown:,} of {whole}"

    def columns(self) -> Sequence[Column[R]]:
        """Returns all columns, the most important first."""
        raise NotImplementedError

    def rows(self) -> Sequence[R]:
        """Returns all rows on the board now."""
        raise NotImplementedError

    def key(self, row: R) -> Hashable:
        """Returns the row's stable key."""
        key: Hashable = getattr(self.exported(row), self.by)
        return key

    def name(self, row: R) -> str:
        """Returns the text that ``y`` copies."""
        return str(self.exported(row).name)

    def exported(self, row: R) -> Any:
        """Returns the row as an export writes it: the server's view, without values that only the screen needs."""
        return getattr(row, "view", row)

    def command(self, row: R) -> str:
        """Returns the command (or the curl) that ``Y`` copies."""
        return "tollkeeper " + cli_command(self.noun, "show", safe(self.name(row)))

    def lead(self, width: int) -> Content:
        """Returns the line above the table, in at most ``width`` cells."""
        raise NotImplementedError

    def detail(self, row: R, width: int) -> Content:
        """Returns the detail pane of a row."""
        raise NotImplementedError

    def empty(self) -> Content:
        """Returns the text shown instead of an empty table. It says what to do next."""
        return content((f"No {self.noun}s yet.", "dim"))

    def no_match(self, text: str) -> Content:
        """Returns the text shown instead of the table if no row matches the filter, or no marked row is here."""
        if not text:
            all_rows = self.session.key("list.marked")
            return content((f"No marked {self.noun} is here. ", "dim"), (all_rows, "key"), (" shows all.", "dim"))
        if self.searching:
            return content((f"Searching older {self.noun}s for ", "dim"), (safe(text, 60), "bold"), (" ...", "dim"))
        words = content(f"No {self.noun} matches ", (safe(text, 60), "bold"), ".")
        clear, change = self.session.key("list.back"), self.session.key("list.filter")
        keys = content((clear, "key"), (" clears the filter   ", "dim"), (change, "key"), (" changes it", "dim"))
        return lines(words, content(""), keys)

    def searched(self, row: R, columns: Sequence[Column[R]]) -> str:
        """Returns the text that a filter searches: the words of a row and its column texts, without numbers."""
        return " ".join([self.words(row), *(column.text(row) for column in columns if not column.right)])

    def words(self, row: R) -> str:
        """Returns more text for the filter to search."""
        return ""
