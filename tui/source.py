"""Source: where a table's rows come from. The first is on top; rows have keys, so that the cursor stays on its row."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from tui.columns import Column

R = TypeVar("R")


class Source(Protocol[R]):
    """Rows by index, keys by index, indexes by key."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    def row(self, index: int) -> R | None:
        """The row; None while it is not here yet."""
        ...

    def key(self, index: int) -> Hashable:
        """What names the row, whatever its index is at another time."""
        ...

    def index(self, key: Hashable) -> int | None:
        """Where the row is now; None if it is gone."""
        ...

    def order(self, column: Column[R] | None, *, reverse: bool) -> None:
        """Sort by a column, or by none."""
        ...

    def keep(self, keys: Collection[Hashable] | None) -> None:
        """Show only the rows with these keys; None: all again."""
        ...


class ListSource(Generic[R]):
    """A list of rows, filtered and sorted."""

    def __init__(self, key: Callable[[R], Hashable]) -> None:
        self._key = key
        self._all: Sequence[R] = ()
        self._shown: list[R] = []
        self._index: dict[Hashable, int] = {}
        self.wanted: Callable[[R], bool] | None = None
        self._kept: Collection[Hashable] | None = None
        self._sort: Column[R] | None = None
        self._reverse = False

    @property
    def count(self) -> int:
        return len(self._shown)

    @property
    def hidden(self) -> int:
        """How many rows the filter leaves out."""
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

    def order(self, column: Column[R] | None, *, reverse: bool) -> None:
        self._sort, self._reverse = column, reverse
        self.arrange()

    def put(self, rows: Sequence[R]) -> None:
        """These are the rows now."""
        self._all = rows
        self.arrange()

    def arrange(self) -> None:
        """Filter and sort anew."""
        self._shown = [row for row in self._all if self.wanted is None or self.wanted(row)]
        if self._kept is not None:
            self._shown = [row for row in self._shown if self._key(row) in self._kept]
        if self._sort is not None and self._sort.sort is not None:
            self._shown.sort(key=self._sort.sort, reverse=self._reverse)
        self._index = {self._key(row): i for i, row in enumerate(self._shown)}
