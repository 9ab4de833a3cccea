"""Deadlines: one timer for all answers of a pool that are waited for.

To set and to cancel a timer costs more than all else a connection does for a call; to note a moment costs nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Calls ``expire`` for what is still noted when its time is over, no more than a turn of the loop later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Item, float], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._due: dict[Item, tuple[float, float]] = {}
        """The moment, and how many seconds were given."""
        self._next = 0.0
        """When the timer goes off, if there is one."""
        self._timer: asyncio.TimerHandle | None = None

    def note(self, item: Item, seconds: float) -> None:
        """It must be struck out within so many seconds."""
        at = self._loop.time() + seconds
        self._due[item] = at, seconds
        if self._timer is None or at < self._next:
            self._set(at)

    def strike(self, item: Item) -> None:
        """It has come to its end."""
        self._due.pop(item, None)

    def close(self) -> None:
        """Nothing expires any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for item, (_, seconds) in [entry for entry in self._due.items() if entry[1][0] <= now]:
            del self._due[item]
            self._expire(item, seconds)
        if self._due:
            self._set(min(at for at, _ in self._due.values()))
