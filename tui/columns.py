"""Columns: what the columns of a table show, which of them fit side by side, and how wide they are.

The least important columns are dropped first when the width runs out; those that always stay are dropped from the
right, once the flexible one is as narrow as it can be. If there is room, columns first grow until their texts usually
fit, then extra columns are added, and a flexible column takes the rest. If texts on the screen are still cut, their
columns get the cells that the texts of other columns leave empty.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tui import glyphs
from tui.text import safe

R = TypeVar("R")

Tone = str
"""The meaning of a cell: ``ok``, ``bad``, ``warn``, ``live``, ``dim``, or empty."""


class Column(msgspec.Struct, Generic[R], frozen=True):
    """One column. ``text`` returns safe text, which is cut and padded to the width."""

    id: str
    title: str
    width: int
    """The width in cells. It never gets fewer, unless it is flexible."""
    text: Callable[[R], str]
    tone: Callable[[R], Tone] | None = None
    dim: bool = False
    """Whether its texts are dim; used without ``tone``."""
    rank: int = 0
    """0: always shown; otherwise the column with the highest rank is dropped first when space is short. Extra columns
    are added in this order."""
    right: bool = False
    most: int = 0
    """The cells that it grows to if they are free, so that longer texts are not cut. A flexible column can grow
    further."""
    flex: bool = False
    """Whether it takes the cells that are left after all columns have grown."""
    sort: Callable[[R], Any] | None = None
    """The sort key; None: not sortable."""
    descends: bool = False
    """Whether sorting by it puts the largest on top, as for numbers."""
    extra: bool = False
    """Whether it is shown only if it fits after all other columns, or on request."""
    short: str = ""
    """The title to use if the whole title does not fit."""
    fitted: Callable[[R, int], str] | None = None
    """The text for a number of cells: a shorter one, or a longer one if that fits. None: the usual text, cut."""

    @property
    def largest_first(self) -> bool:
        """Returns whether sorting by it puts the largest on top, unless it is reversed."""
        return self.right or self.descends

    def head(self, width: int, mark: str = "") -> str:
        """Returns the title, or its short form if the title and a mark do not fit."""
        return self.title if len(self.title) + len(mark) <= width else self.short or self.title

    @property
    def least(self) -> int:
        """Returns the width below which even the most important column is dropped."""
        return min(self.width, 12) if self.flex else self.width

    @property
    def wanted(self) -> int:
        """Returns the width that its texts and its whole title need."""
        return max(self.width, self.most, len(self.title) if self.short else 0)

    @property
    def lends(self) -> bool:
        """Returns whether it can give cells to other columns. Columns of numbers cannot: numbers change all
        the time.
        """
        return not self.right or self.most > 0 or bool(self.short)


def text_column(id: str, title: str, width: int, text: Callable[[R], str], **more: Any) -> Column[R]:
    """Returns a column of texts from outside, which are made safe; sorting ignores case."""
    return Column(id, title, width, lambda row: safe(text(row)), sort=lambda row: text(row).casefold(), **more)


def number_column(
    id: str,
    title: str,
    width: int,
    number: Callable[[R], float | None],
    show: Callable[[Any], str],
    **more: Any,
) -> Column[R]:
    """Returns a column of numbers. A row without a number shows the mark for nothing, and is sorted as the smallest."""

    def order(row: R) -> float:
        return -1 if (value := number(row)) is None else value

    def text(row: R) -> str:
        return glyphs.NOTHING if (value := number(row)) is None else show(value)

    return Column(id, title, width, text, right=True, sort=order, **more)


class PlacedColumn(msgspec.Struct, Generic[R], frozen=True):
    """A column with the width it got."""

    column: Column[R]
    width: int

    def drawn(self, row: R) -> str:
        """Returns the text of a row at this width, not yet cut."""
        return self.column.text(row) if self.column.fitted is None else self.column.fitted(row, self.width)


def fit_columns(
    columns: Sequence[Column[R]], width: int, chosen: Collection[str] = (), needs: Mapping[str, int] | None = None
) -> list[PlacedColumn[R]]:
    """Returns the columns that fit side by side with one cell between them, and their widths.

    ``chosen``: the ids to show; if empty, all but the extra ones, and also these if there is room. ``needs``: the
    widths of the widest texts on the screen, by column.
    """
    shown = [c for c in columns if (c.id in chosen if chosen else not c.extra)]
    usual = len(shown)
    while _total(shown) > width:
        worst = max(shown, key=lambda c: c.rank)
        if worst.rank == 0:
            break
        shown.remove(worst)
    fixed = [c for c in shown if not c.flex]
    while fixed and len(shown) > 1 and sum(c.least + 1 for c in shown) - 1 > width:
        shown.remove(fixed.pop())
    if not chosen and len(shown) == usual:
        shown = _with_extra(columns, shown, width)
    return _share_cells(_grown(shown, width - _total(shown)), needs or {})


def _total(columns: Sequence[Column[R]]) -> int:
    """Returns the least width of these columns side by side."""
    return sum(c.width + 1 for c in columns) - 1


def _with_extra(columns: Sequence[Column[R]], shown: Sequence[Column[R]], width: int) -> list[Column[R]]:
    """Returns the columns with extra ones by rank, up to the first that does not fit: a wider screen never
    shows fewer.
    """
    wanted = list(shown)
    growth = sum(c.wanted - c.width for c in shown)
    for column in sorted((c for c in columns if c.extra), key=lambda c: c.rank):
        if _total([*wanted, column]) + growth > width:
            break
        wanted.append(column)
    return [c for c in columns if c in wanted]


def _grown(shown: Sequence[Column[R]], spare: int) -> list[PlacedColumn[R]]:
    """Give each column a cell in turn up to its most, flexible and extra ones last; flexible ones share the rest."""
    widths = {c.id: c.width for c in shown}
    for column in shown:
        yields = min(max(0, -spare), column.width - column.least)
        widths[column.id] -= yields
        spare += yields
    for turn in range(3):
        turns = [c for c in shown if turn == (2 if c.extra else int(c.flex))]
        while spare > 0 and (growing := [c.id for c in turns if widths[c.id] < c.wanted]):
            for id_ in growing[:spare]:
                widths[id_] += 1
            spare -= min(spare, len(growing))
    flexible = [c.id for c in shown if c.flex]
    for id_ in flexible:
        widths[id_] += max(0, spare) // len(flexible)
    return [PlacedColumn(c, widths[c.id]) for c in shown]


def _share_cells(placed: Sequence[PlacedColumn[R]], needs: Mapping[str, int]) -> list[PlacedColumn[R]]:
    """Move empty cells to columns whose texts are cut; to extra ones last."""
    widths = {place.column.id: place.width for place in placed}
    least = {p.column.id: _least(p.column, needs) for p in placed if p.column.lends and p.column.id in needs}
    for extra in (False, True):
        cut = [p.column.id for p in placed if p.column.extra == extra]
        while short := [id_ for id_ in cut if widths[id_] < needs.get(id_, 0)]:
            if sum(_lend_cell(id_, widths, least) for id_ in short) < len(short):
                break
    return [PlacedColumn(place.column, widths[place.column.id]) for place in placed]


def _lend_cell(to: str, widths: dict[str, int], least: Mapping[str, int]) -> bool:
    """Give a column a cell of the one with most to spare. Returns False if none has any."""
    lender = max(least, key=lambda one: widths[one] - least[one], default=None)
    if lender is None or widths[lender] <= least[lender]:
        return False
    widths[lender] -= 1
    widths[to] += 1
    return True


def _least(column: Column[R], needs: Mapping[str, int]) -> int:
    """Returns the cells that its texts need, or its title with a sort mark."""
    return max(needs[column.id], len(column.short or column.title) + 1)


def sortable_columns(columns: Sequence[Column[R]]) -> list[Column[R]]:
    """Returns the columns that can be sorted by, in order."""
    return [c for c in columns if c.sort is not None]
