"""Worker: a thread beside the event loop for what is large, so that small calls need not wait for it.

There is one: large work is done one after another, in order. Python runs one thread at a time, and a call into C runs
to its end: so work for this thread keeps such calls short, and ``share_fairly`` makes the loop get its turn at once.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SWITCH_S = 0.0005
"""How long the loop waits for its turn while this thread runs Python code; usually 5 ms, for each of its events."""

Result = TypeVar("Result")


class Worker:
    """The thread. It begins with its first work."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "tollkeeper-large")

    async def run(self, work: Callable[[], Result]) -> Result:
        """The work's result, or its exception. Work that nobody waits for any more is not begun."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Begin no more work."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def share_fairly() -> None:
    """For the whole process. It costs nothing while no other thread wants to run."""
    sys.setswitchinterval(SWITCH_S)
