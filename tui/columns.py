"""Columns: what a table shows of a row, and which columns fit into a width: those that matter least leave first."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeVar

import msgspec

R = TypeVar("R")

Tone = str
"""What a cell means: ``ok``, ``bad``, ``warn``, ``live``, ``dim``, or empty."""


class Column(msgspec.Struct, Generic[R], frozen=True):
    """One column. ``text`` gives safe text; it is cut and padded to the width."""

    id: str
    title: str
    width: int
    text: Callable[[R], str]
    tone: Callable[[R], Tone] | None = None
    rank: int = 0
    """0: never leaves; else the highest leaves first when it gets narrow."""
    right: bool = False
    flex: bool = False
    """Takes what width is left over."""
    sort: Callable[[R], Any] | None = None
    """What it sorts by; None: it does not sort."""
    extra: bool = False
    """Shown only if it was chosen."""


class Placed(msgspec.Struct, Generic[R], frozen=True):
    """A column with the width it got."""

    column: Column[R]
    width: int


def fit(columns: Sequence[Column[R]], width: int, chosen: Collection[str] = ()) -> list[Placed[R]]:
    """The columns that fit side by side with one cell between them, and the widths they get.

    ``chosen``: the ids to show; if empty, all but the extra ones.
    """
    shown = [c for c in columns if (c.id in chosen if chosen else not c.extra)]
    while sum(c.width + 1 for c in shown) > width + 1:
        worst = max(shown, key=lambda c: c.rank)
        if worst.rank == 0:
            break
        shown.remove(worst)
    spare = width + 1 - sum(c.width + 1 for c in shown)
    flexible = [c for c in shown if c.flex]
    extra = {c.id: spare // len(flexible) if spare > 0 else 0 for c in flexible}
    return [Placed(c, c.width + extra.get(c.id, 0)) for c in shown]


def sorting(columns: Sequence[Column[R]]) -> list[Column[R]]:
    """Those that can be sorted by, in order."""
    return [c for c in columns if c.sort is not None]
