"""Columns: what the columns of a table show, which of them fit side by side, and how wide they are.

If the width is too small, the least important columns are dropped first. The others are dropped from the right, once
the flexible one is as narrow as it can be. If there is room, columns first grow until their texts usually fit, then
extra columns are added, and a flexible column takes the rest. If texts on the screen are still cut, their columns
borrow the cells that the texts of other columns leave empty.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tui import glyphs
from tui.text import safe

R = TypeVar("R")


class Column(msgspec.Struct, Generic[R], frozen=True):
    """One column. ``text`` returns safe text, which is cut and padded to the width."""

    id: str
    title: str
    width: int
    """The width in cells. When columns are placed side by side, a column may grow, and a flexible one may shrink."""
    text: Callable[[R], str]
    tone: Callable[[R], str] | None = None
    """Returns the meaning of a cell: ``ok``, ``bad``, ``warn``, ``live``, ``dim``, or nothing."""
    dim: bool = False
    """Whether its texts are dim; used without ``tone``."""
    rank: int = 0
    """0: always shown; else the highest rank is dropped first, and extra columns are added in this order."""
    right: bool = False
    max_width: int = 0
    """It grows up to this width if cells are free, for longer texts. A flexible one can grow further."""
    flex: bool = False
    """Whether it takes the cells that are left after all columns have grown."""
    sort: Callable[[R], Any] | None = None
    """The sort key; None: not sortable."""
    largest_on_top: bool = False
    """Whether sorting by it puts the largest first, as it does for numbers."""
    extra: bool = False
    """Whether it is shown only if it fits after all other columns, or on request."""
    short_title: str = ""
    fit_text: Callable[[R, int], str] | None = None
    """Returns the text for a number of cells: a shorter one, or a longer one if that fits. None: ``text``, cut."""

    @property
    def largest_first(self) -> bool:
        """Returns whether sorting by it puts the largest first, unless the order is reversed."""
        return self.right or self.largest_on_top

    @property
    def min_width(self) -> int:
        """Returns the width below which the column is dropped, however important it is."""
        return min(self.width, 12) if self.flex else self.width

    @property
    def full_width(self) -> int:
        """Returns the width that its texts usually need, and its whole title."""
        return max(self.width, self.max_width, len(self.title) if self.short_title else 0)

    def cell(self, row: R) -> tuple[str, str, str]:
        """Returns the text of a row, its text for the column's width, which may still be too long, and its tone."""
        text = self.text(row)
        fitted_text = text if self.fit_text is None else self.fit_text(row, self.width)
        tone = "" if self.tone is None else self.tone(row)
        return text, fitted_text, "dim" if self.dim else tone


def text_column(id: str, title: str, width: int, text: Callable[[R], str], **more: Any) -> Column[R]:
    """Returns a column of texts from outside, which it makes safe. Sorting by it ignores case."""
    return Column(id, title, width, lambda row: safe(text(row)), sort=lambda row: text(row).casefold(), **more)


def number_column(
    id: str, title: str, width: int, number: Callable[[R], float | None], show: Callable[[Any], str], **more: Any
) -> Column[R]:
    """Returns a column of numbers. A row without a number shows a dot, and is sorted as the smallest."""

    def order(row: R) -> float:
        return -1 if (value := number(row)) is None else value

    def text(row: R) -> str:
        return glyphs.NOTHING if (value := number(row)) is None else show(value)

    return Column(id, title, width, text, right=True, sort=order, **more)


def fit_columns(
    columns: Sequence[Column[R]], width: int, chosen: Collection[str] = (), needs: Mapping[str, int] | None = None
) -> list[Column[R]]:
    """Returns the columns that fit side by side, with one cell between them, in the widths that they get.

    ``chosen``: the ids of the columns to show. If it is empty, all regular columns are shown, and extra ones that still
    fit. ``needs``: the width of the widest text on the screen, by column.
    """
    shown = [c for c in columns if (c.id in chosen if chosen else not c.extra)]
    regular_count = len(shown)
    while _total(shown) > width:
        least_important = max(shown, key=lambda c: c.rank)
        if least_important.rank == 0:
            break
        shown.remove(least_important)
    fixed_columns = [c for c in shown if not c.flex]
    while fixed_columns and len(shown) > 1 and sum(c.min_width + 1 for c in shown) - 1 > width:
        shown.remove(fixed_columns.pop())
    if not chosen and len(shown) == regular_count:
        growth = sum(c.full_width - c.width for c in shown)
        for column in sorted((c for c in columns if c.extra), key=lambda c: c.rank):
            if _total([*shown, column]) + growth > width:
                break  # less important ones are not added either: wider screens never show fewer columns
            shown.append(column)
        shown = [c for c in columns if c in shown]
    return _move_cells(_grow(shown, width - _total(shown)), needs or {})


def _total(columns: Sequence[Column[R]]) -> int:
    return sum(c.width + 1 for c in columns) - 1


def _grow(shown: Sequence[Column[R]], spare: int) -> list[Column[R]]:
    """Returns the columns with their widths. Spare cells go to each in turn, up to its full width: first to fixed
    columns, then to flexible and extra ones. Flexible ones share the rest, and shrink if cells are missing.
    """
    widths = {c.id: c.width for c in shown}
    for column in shown:
        reduction = min(max(0, -spare), column.width - column.min_width)
        widths[column.id] -= reduction
        spare += reduction
    fixed = [c for c in shown if not c.flex and not c.extra]
    flexible = [c for c in shown if c.flex and not c.extra]
    for group in (fixed, flexible, [c for c in shown if c.extra]):
        while spare > 0 and (growing := [c.id for c in group if widths[c.id] < c.full_width]):
            for id_ in growing[:spare]:
                widths[id_] += 1
            spare -= min(spare, len(growing))
    flexible_ids = [c.id for c in shown if c.flex]
    for id_ in flexible_ids:
        widths[id_] += max(0, spare) // len(flexible_ids)
    return [msgspec.structs.replace(c, width=widths[c.id]) for c in shown]


def _move_cells(placed: Sequence[Column[R]], needs: Mapping[str, int]) -> list[Column[R]]:
    """Returns the columns after empty cells were moved to columns whose texts are cut, extra ones last."""
    widths = {c.id: c.width for c in placed}
    # a column of numbers gives only what it has grown by, because numbers change often
    sources = [c for c in placed if (not c.right or c.max_width or c.short_title) and c.id in needs]
    # a column needs cells itself for its texts, and for its title with a sort mark
    own_needs = {c.id: max(needs[c.id], len(c.short_title or c.title) + 1) for c in sources}
    for extra in (False, True):
        targets = [c.id for c in placed if c.extra == extra]
        while cut := [id_ for id_ in targets if widths[id_] < needs.get(id_, 0)]:
            if sum(_move_cell(id_, widths, own_needs) for id_ in cut) < len(cut):
                break
    return [msgspec.structs.replace(c, width=widths[c.id]) for c in placed]


def _move_cell(target: str, widths: dict[str, int], own_needs: Mapping[str, int]) -> bool:
    """Move a cell to this column from the one with the most to spare. Returns False if none can spare any."""
    source = max(own_needs, key=lambda id_: widths[id_] - own_needs[id_], default=None)
    if source is None or widths[source] <= own_needs[source]:
        return False
    widths[source] -= 1
    widths[target] += 1
    return True


def sortable_columns(columns: Sequence[Column[R]]) -> list[Column[R]]:
    """Returns the columns that can be sorted by, in order."""
    return [c for c in columns if c.sort is not None]
