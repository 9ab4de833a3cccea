"""Steady: rows made anew from the board, each the same object as before while nothing of it changed.

A table repaints the rows that are other objects than before; so ages and countdowns belong into the row.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

R = TypeVar("R")


class Steady(Generic[R]):
    """Keeps the rows of the last time; rows are compared by value."""

    def __init__(self, key: Callable[[R], Hashable]) -> None:
        self._key = key
        self._known: dict[Hashable, R] = {}

    def keep(self, rows: Iterable[R]) -> list[R]:
        """The same rows; those that are equal to what they were are what they were."""
        kept = []
        for row in rows:
            known = self._known.get(self._key(row))
            kept.append(known if known is not None and known == row else row)
        self._known = {self._key(row): row for row in kept}
        return kept
