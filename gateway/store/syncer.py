"""Syncer: one thread that waits for the disk, so that the event loop never does.

It works when something was written: a tenth of a second later, or at once if somebody waits. Everybody who began to
wait before a round of work began is served by that round: a group commit.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

AGAIN_S = 1.0
"""How long after work that failed, or was not finished, it is tried again."""

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Syncer:
    """Calls ``work`` in its own thread, and ``tidy`` when those who waited have been told.

    What ``work`` raises is for those who wait. When one of them fails, or ``tidy`` says that not all is done, they are
    called again a second later.
    """

    def __init__(self, work: Callable[[], None], tidy: Callable[[], bool], interval_s: float) -> None:
        self._work, self._tidy, self._interval_s = work, tidy, interval_s
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._dirty = threading.Event()
        self._urgent = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tollkeeper-sync", daemon=True)
        self._thread.start()

    def dirty(self) -> None:
        """Something was written."""
        if not self._dirty.is_set():
            self._dirty.set()

    async def wait(self) -> None:
        """Until everything written before is on the disk. Raises OSError if the disk refuses."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiters.append((loop, done))
        self._urgent.set()
        self._dirty.set()
        await done

    def close(self) -> None:
        """Work once more and end the thread."""
        self._ending.set()
        self._urgent.set()
        self._dirty.set()
        self._thread.join()

    def _run(self) -> None:
        done = True
        while not self._ending.is_set():
            self._dirty.wait(None if done else AGAIN_S)
            if self._ending.is_set():
                break
            self._urgent.wait(self._interval_s)
            done = self._round()
        self._round()

    def _round(self) -> bool:
        self._dirty.clear()
        self._urgent.clear()
        with self._lock:
            waiters, self._waiters = self._waiters, []
        error = _error_of(self._work)
        for loop, waiting in waiters:
            with suppress(RuntimeError):  # its loop has ended; nobody waits any more
                loop.call_soon_threadsafe(_tell, waiting, error)
        done: list[bool] = []
        return not (error or _error_of(lambda: done.append(self._tidy()))) and all(done)


def _error_of(do: Callable[[], None]) -> Exception | None:
    try:
        do()
    except Exception as exc:  # noqa: BLE001 - the thread's outermost frame: it must go on, and who waits must be told
        return exc
    return None


def _tell(waiting: "asyncio.Future[None]", error: Exception | None) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)
