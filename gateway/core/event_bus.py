"""Informs watchers of what happens to calls. It never waits for them, and does almost nothing while nobody watches.

- The beginnings and ends of calls are queued in order. A newer progress of a call replaces an older one, and is sent at
most five times a second.

- A queue is bounded. A watcher that falls behind loses its queue, and is told so: it must read the present state
again.

- The end is a state and not a message, so a full queue cannot hide it.

All of it runs on one event loop. Nothing here may be called from another thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from gateway.domain.call import Record, Running, refused_for
from gateway.domain.events import CallProgress, CallStarted, Event
from gateway.domain.price_gap import price_gap
from gateway.domain.units import CallId

RECENT_LIMIT = 1000
"""How many settled calls are kept for snapshots."""


PROGRESS_GAP_S = 0.2
"""Seconds between two reports of one call's progress."""


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

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._queue: deque[Notice] = deque()
        self._moved: dict[CallId, Running] = {}
        self._sent_at: dict[CallId, float] = {}
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
            self._sent_at.pop(notice.id, None)
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
        deadline = self._clock() + patience_s
        while True:
            batch = self._collect()
            if batch.notices or batch.changed or batch.behind or self.ended.is_set():
                return batch
            now = self._clock()
            if now >= deadline:
                return batch
            await self._sleep(min(deadline, self._due(now)) - now)

    async def _sleep(self, seconds: float) -> None:
        self._awake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            return

    def _collect(self) -> Batch:
        if self._behind:
            self._behind = self._changed = False
            return Batch(behind=True)
        now = self._clock()
        ready = [call for call in self._moved.values() if self._may_tell(call.id, now)]
        for call in ready:
            del self._moved[call.id]
            self._sent_at[call.id] = now
        moved = [CallProgress(call=call) for call in ready]
        batch = Batch(notices=[*self._queue, *moved], changed=self._changed)
        self._queue.clear()
        self._changed = False
        return batch

    def _may_tell(self, call: CallId, now: float) -> bool:
        sent_at = self._sent_at.get(call)
        return sent_at is None or now - sent_at >= PROGRESS_GAP_S

    def _due(self, now: float) -> float:
        """Returns when the next delayed progress may be sent."""
        return min(
            (self._sent_at[call] + PROGRESS_GAP_S for call in self._moved if call in self._sent_at), default=now + 3600
        )

    def _lose(self) -> None:
        self._queue.clear()
        self._moved.clear()
        self._sent_at.clear()
        self._behind = True


class EventBus:
    """The pipeline reports here, and watchers listen."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` returns monotonic seconds."""
        self._clock = clock
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

    @property
    def watchers(self) -> int:
        """Returns how many watchers there are."""
        return len(self.watched_by)

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
        failed = (record.status != 200 or len(record.attempts) > 1) and (record.attempts or refused_for(record.marks))
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
        watcher = Watcher(self._clock)
        if self._closed:
            watcher.end()
        self.watched_by.add(watcher)
        self.consoles += console
        try:
            yield watcher
        finally:
            self.watched_by.discard(watcher)
            self.consoles -= console
