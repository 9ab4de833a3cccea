"""Tasks: starts all background tasks, so that each has a name and none fails silently."""

import asyncio
import logging
from collections.abc import Coroutine

_log = logging.getLogger("tollkeeper")


class Tasks:
    """Keeps every task it starts until it ends; logs what a task raised, once."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task %s ended in %r", task.get_name(), error)

    async def close(self) -> None:
        """Cancel all running tasks, and wait until they have ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
