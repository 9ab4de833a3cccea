"""Clock: an event loop whose time runs faster than the wall's. Timers of minutes end in seconds; sockets stay real."""

import asyncio
import selectors
import time


class HastyLoop(asyncio.SelectorEventLoop):
    """``factor`` seconds of loop time pass in one second of the wall's."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        super().__init__(_HastySelector(factor))

    def time(self) -> float:
        return time.monotonic() * self._factor


class _HastySelector(selectors.DefaultSelector):
    """Waits shorter by the factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / self._factor)
