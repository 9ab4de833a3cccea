"""Listing: what a page with a table shows: columns, rows, the line above and the pane below, computed from the board.

A ``RowSource`` holds the rows from the top down. Rows have keys, so that the cursor stays on its row. All returned
texts are safe: those from outside have passed ``tui/text.py``.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from textual.content import Content

from tui import format as fmt
from tui.columns import Column
from tui.session import ConsoleSession
from tui.text import content, lines, safe
from tui.trends import Trends

R = TypeVar("R")


class RowSource(Protocol[R]):
    """The rows of a table, by index from the top down."""

    @property
    def count(self) -> int:
        """Returns the number of rows."""

    def row(self, index: int) -> R | None:
        """Returns the row; None if it is not loaded yet."""

    def key(self, index: int) -> Hashable:
        """Returns the row's stable key. Its index may change."""

    def index(self, key: Hashable) -> int | None:
        """Returns the row's current index; None if it is gone."""

    def order(self, column: Column[R] | None, *, descending: bool) -> None:
        """Sort by a column; without one, use the original order."""

    def restrict(self, keys: Collection[Hashable] | None) -> None:
        """Show only the rows with these keys; None: all rows again."""

    def pin(self, key: Hashable) -> None:
        """Show this row even after it has changed so that the filter would hide it."""


class ListRows(Generic[R]):
    """A list of rows, filtered and sorted."""

    def __init__(self, key: Callable[[R], Hashable]) -> None:
        self._key = key
        self._all: Sequence[R] = ()
        self._shown: list[R] = []
        self._index: dict[Hashable, int] = {}
        self.matches: Callable[[R], bool] | None = None
        """The filter; None: it shows all rows."""
        self._allowed_keys: Collection[Hashable] | None = None
        self._pinned: Hashable = None
        self._sort: Column[R] | None = None
        self._descending = False

    @property
    def count(self) -> int:
        return len(self._shown)

    @property
    def hidden(self) -> int:
        return len(self._all) - len(self._shown)

    def row(self, index: int) -> R | None:
        return self._shown[index]

    def key(self, index: int) -> Hashable:
        return self._key(self._shown[index])

    def index(self, key: Hashable) -> int | None:
        return self._index.get(key)

    def restrict(self, keys: Collection[Hashable] | None) -> None:
        self._allowed_keys = keys
        self.arrange()

    def pin(self, key: Hashable) -> None:
        self._pinned = key

    def order(self, column: Column[R] | None, *, descending: bool) -> None:
        self._sort, self._descending = column, descending
        self.arrange()

    def set_rows(self, rows: Sequence[R]) -> None:
        self._all = rows
        self.arrange()

    def arrange(self) -> None:
        matches, pinned, allowed_keys = self.matches, self._pinned, self._allowed_keys
        self._shown = [row for row in self._all if matches is None or self._key(row) == pinned or matches(row)]
        if allowed_keys is not None:
            self._shown = [row for row in self._shown if self._key(row) in allowed_keys]
        if self._sort is not None and self._sort.sort is not None:
            self._shown.sort(key=self._sort.sort, reverse=self._descending)
        self._index = {self._key(row): i for i, row in enumerate(self._shown)}


def row_filter(text: str) -> Callable[[str], bool]:
    """Returns a filter: a text must have all words, and none of those after ``!``. Case does not matter."""
    words = text.casefold().split()
    required = [word for word in words if not word.startswith("!")]
    excluded = [word[1:] for word in words if len(word) > 1 and word.startswith("!")]

    def matches(row: str) -> bool:
        row = row.casefold()
        return all(word in row for word in required) and not any(word in row for word in excluded)

    return matches


class PageListing(Generic[R]):
    """What a page with a table shows. Each page overrides what is different; ``noun`` is the word for a row."""

    session: ConsoleSession
    noun = "row"
    guide: Sequence[str] = ()
    """What is shown instead of an empty table: a heading, and below it what to do next, as for ``hint``."""
    hint = "words to match, !word to exclude"
    key_field = "id"
    """The attribute of a row that is its stable key."""

    trends = Trends()
    """Sums of the last days or hours, for pages that fetch them."""
    shown_count: int | None = None
    """The number of shown rows if some are hidden, otherwise None."""
    searching = False

    @property
    def creation_hint(self) -> str:
        """Returns how to get a first row, as a sentence."""
        return f"Press {self.session.key('entity.new')} to create one."

    def count_rows(self, total: int) -> str:
        """Returns ``25 models``, or ``3 of 25 models`` if not all of them are shown."""
        text = fmt.count_text(total, self.noun)
        return text if self.shown_count is None else f"{self.shown_count:,} of {text}"

    def all_columns(self) -> Iterable[Column[R]]:
        """Returns all columns, the most important first."""
        raise NotImplementedError

    def rows(self) -> Sequence[R]:
        raise NotImplementedError

    def key(self, row: R) -> Hashable:
        """Returns the row's stable key."""
        key: Hashable = getattr(row, self.key_field)
        return key

    def row_name(self, row: R) -> str:
        """Returns the name or id of a row, which ``y`` copies."""
        return str(row.name)  # type: ignore[attr-defined] # all rows but calls have one

    def export_view(self, row: R) -> Any:
        """Returns the row as an export writes it."""
        return row

    def command(self, row: R) -> str:
        """Returns the command line that ``Y`` copies."""
        return "tollkeeper " + fmt.cli_command(self.noun, "show", self.row_name(row))

    def list_state(self) -> Content:
        """Returns what the line above the table begins with, such as whether it follows."""
        return Content("")

    def lead(self, width: int) -> Content:
        """Returns the line above the table, in at most ``width`` cells."""
        raise NotImplementedError

    def detail(self, row: R, width: int) -> Content:
        raise NotImplementedError

    def empty(self) -> Content:
        """Returns the text shown instead of an empty table."""
        heading, *rows = self.guide
        return lines(content((heading, "bold")), content(""), *(content(*self.session.hint(row)) for row in rows))

    def no_match(self, text: str) -> Content:
        """Returns the text shown instead of a table if no row matches the filter, or no marked row is left."""
        if not text:
            return content(*self.session.hint(f"No marked {self.noun} is here. {{list.marked}} shows all.", "dim"))
        if self.searching:
            return content((f"Searching older {self.noun}s for ", "dim"), (safe(text, 60), "bold"), (" ...", "dim"))
        words = content(f"No {self.noun} matches ", (safe(text, 60), "bold"), ".")
        keys = self.session.hint("{list.back} clears the filter   {list.filter} changes it", "dim")
        return lines(words, content(""), content(*keys))

    def search_text(self, row: R, columns: Sequence[Column[R]]) -> str:
        """Returns the text that a filter searches: the texts of the columns, without numbers, and ``words``."""
        return " ".join([self.words(row), *(column.text(row) for column in columns if not column.right)])

    def words(self, row: R) -> str:
        """Returns words of a row that no column shows, for the filter."""
        return ""
