"""Clock: an event loop on which a console that has nothing to do need not be waited for.

Textual's pilot waits by the wall: after every key and pause it sleeps until the process is idle, 20 ms at least. On
this loop ``rest`` lets everything that is ready happen, and then so much time pass at once, with the timers that are
due in it. Sockets and threads are those of the system.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.fakes.clock import HastyLoop

PAUSE_S = 0.02
"""Seconds that pass in a pause, as long as Textual's own is at least."""


class ConsoleLoop(HastyLoop):
    """Its time is the wall's, and jumps when a test lets it pass."""

    def __init__(self) -> None:
        super().__init__(1)
        self._threads = 0
        """How many are at work for the loop."""

    def run_in_executor(  # type: ignore[override] # its types are those of the base class
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def rest(self, seconds: float) -> None:
        """Everything that is ready has happened, and what is due within the seconds, in its order."""
        end = self.time() + seconds
        await self._idle()
        while (due := self._due()) <= end:
            self.skip(max(0.0, due - self.time()))
            await self._idle()
        self.skip(max(0.0, end - self.time()))

    async def _idle(self) -> None:
        """Until whole rounds of the loop have nothing to do, and no thread works."""
        rounds = 0
        while rounds < 2:
            await asyncio.sleep(0.001 if self._threads else 0)
            rounds = 0 if self._ready or self._threads else rounds + 1  # type: ignore[attr-defined]

    def _due(self) -> float:
        """When the next timer rings."""
        timers = (timer.when() for timer in self._scheduled if not timer.cancelled())  # type: ignore[attr-defined]
        return min(timers, default=float("inf"))

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._threads -= 1


async def rest(seconds: float = PAUSE_S) -> None:
    """Let so much time pass for the console under test. On another loop it is the wall's."""
    loop = asyncio.get_running_loop()
    await (loop.rest(seconds) if isinstance(loop, ConsoleLoop) else asyncio.sleep(seconds))


def loop_time() -> float:
    """The time of the loop that runs, or that of the wall in tests that need none."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
