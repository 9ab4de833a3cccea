"""Clock: an event loop whose time runs faster than the wall's, or jumps. Timers of minutes end in seconds or at once;
sockets stay real.
"""

import asyncio
import selectors
import time


class HastyLoop(asyncio.SelectorEventLoop):
    """``factor`` seconds of loop time pass in one second of the wall's."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._skipped = 0.0
        super().__init__(_HastySelector(factor))

    def time(self) -> float:
        return time.monotonic() * self._factor + self._skipped

    def skip(self, seconds: float) -> None:
        """Let so much time pass at once: however busy the machine is, no other deadline comes closer meanwhile."""
        self._skipped += seconds


async def skip(seconds: float) -> None:
    """Let so much time pass at once, and what was due happen. The test has a hasty loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HastyLoop)
    loop.skip(seconds)
    for _ in range(5):
        await asyncio.sleep(0)


class _HastySelector(selectors.DefaultSelector):
    """Waits shorter by the factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / self._factor)
