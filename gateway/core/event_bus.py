"""Informs watchers of what happens to calls. It never waits for them, and does almost nothing while nobody watches.

- The beginnings and ends of calls are queued in order. A newer progress of a call replaces an older one.

- A queue is bounded. A watcher that falls behind gets a notice instead of its queue, and must read the present state
again.

- The end is a state and not a message, so a full queue cannot hide it.

All of it runs on one event loop. Nothing here may be called from another thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from gateway.domain.call import Record, Running, has_incident_mark
from gateway.domain.events import CallProgress, CallStarted, Event
from gateway.domain.price_gap import price_gap
from gateway.domain.units import CallId

RECENT_LIMIT = 1000
"""How many settled calls are kept for snapshots."""


Notice = Event | Record
"""An event without its number; of a call that ended or was refused, its record."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What happened since the watcher last looked; empty if its wait ended first."""

    notices: list[Notice] = []
    changed: bool = False
    """Configuration, health or balances changed."""
    behind: bool = False
    """Events were lost: the watcher must read the present state."""


class Watcher:
    """One watcher, and a bounded queue of what it has not read yet."""

    def __init__(self) -> None:
        self._queue: deque[Notice] = deque()
        self._moved: dict[CallId, Running] = {}
        self._changed = False
        self._behind = False
        self._awake = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when the bus is closed: nothing more will come."""
        self.on_end: Callable[[], None] | None = None
        """Called then, for a watcher that is busy sending."""

    def offer(self, notice: Notice) -> None:
        """Queue what must not be replaced."""
        if isinstance(notice, Record):
            self._moved.pop(notice.id, None)
        if len(self._queue) >= 1000:
            self._lose()
        elif not self._behind:
            self._queue.append(notice)
        self._awake.set()

    def move(self, call: Running) -> None:
        """Keep the newest state of a running call until it may be sent."""
        self._moved[call.id] = call
        self._awake.set()

    def change(self) -> None:
        """Remember that something other than calls changed."""
        self._changed = True
        self._awake.set()

    def end(self) -> None:
        """End the watcher: nothing more will come."""
        self.ended.set()
        self._awake.set()
        if self.on_end is not None:
            self.on_end()

    async def take(self, patience_s: float) -> Batch:
        """Returns what happened, in order. Waits for it at most ``patience_s`` seconds, then returns an empty batch."""
        if not (self._awake.is_set() or self.ended.is_set()):
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._awake.wait()
        self._awake.clear()
        return self._collect()

    def _collect(self) -> Batch:
        if self._behind:
            self._behind = self._changed = False
            return Batch(behind=True)
        moved = [CallProgress(call=call) for call in self._moved.values()]
        batch = Batch(notices=[*self._queue, *moved], changed=self._changed)
        self._queue.clear()
        self._moved.clear()
        self._changed = False
        return batch

    def _lose(self) -> None:
        self._queue.clear()
        self._moved.clear()
        self._behind = True


class EventBus:
    """The pipeline reports here, and watchers listen."""

    def __init__(self) -> None:
        self.watched_by: set[Watcher] = set()
        self.consoles = 0
        """How many watchers are consoles. The others follow the log, or are programs."""
        self._closed = False
        self.recent: deque[Record] = deque(maxlen=RECENT_LIMIT)
        """The newest settled calls, oldest first."""
        self.noteworthy: deque[Record] = deque(maxlen=5000)
        """Those of them that ``IncidentWatch`` examines: calls that failed, needed several attempts, met only paused
        channels or too small a budget, or whose upstream reports another cost."""
        self.on_noteworthy: Callable[[], None] = lambda: None
        """Called when another one is added."""

    def tell(self, notice: Notice) -> None:
        """Report it in its order."""
        for watcher in self.watched_by:
            watcher.offer(notice)

    def started(self, call: Running) -> None:
        """A call was admitted and its hold is written."""
        self.tell(CallStarted(call=call))

    def progress(self, call: Running) -> None:
        """A running call moved."""
        for watcher in self.watched_by:
            watcher.move(call)

    def settled(self, record: Record) -> None:
        """A call ended or was refused, and its record is written."""
        self.recent.append(record)
        failed = (record.status != 200 or len(record.attempts) > 1) and (
            record.attempts or has_incident_mark(record.marks)
        )
        if failed or (record.marks and price_gap(record) is not None):
            self.noteworthy.append(record)
            self.on_noteworthy()
        self.tell(record)

    def changed(self) -> None:
        """Configuration, a channel's health or the granted money changed."""
        for watcher in self.watched_by:
            watcher.change()

    def close(self) -> None:
        """End every watcher: nothing more will be sent."""
        self._closed = True
        for watcher in self.watched_by:
            watcher.end()

    @contextmanager
    def watch(self, *, console: bool = False) -> Iterator[Watcher]:
        """Listen while the block runs. ``console``: on a screen that people read."""
        watcher = Watcher()
        if self._closed:
            watcher.end()
        self.watched_by.add(watcher)
        self.consoles += console
        try:
            yield watcher
        finally:
            self.watched_by.discard(watcher)
            self.consoles -= console
