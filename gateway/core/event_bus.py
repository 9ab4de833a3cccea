"""EventBus: informs watchers of what happens to calls, without waiting for them.

The beginnings and ends of calls are queued in order. A newer progress of a call replaces an older one. A queue is
bounded: a watcher that falls behind gets a notice instead of its queue, and must read the current state again. The end
is a state and not a message, so a full queue cannot hide it.

It does almost nothing while nobody watches. All of it runs on one event loop; no other thread may call it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from gateway.domain.call import Record, Running, has_incident_mark
from gateway.domain.cost import price_gap
from gateway.domain.events import CallProgress, Event
from gateway.domain.units import CallId

Notice = Event | Record
"""An event; of a call that ended or was refused, its record."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What happened since the watcher's last batch."""

    notices: list[Notice] = []
    changed: bool = False
    """Whether configuration, health or balances changed."""
    behind: bool = False
    """Whether events were dropped, so that the watcher must read the current state."""


class Watcher:
    """One watcher, and a bounded queue of what it has not read yet."""

    def __init__(self) -> None:
        self._queue: deque[Notice] = deque()
        self._progress: dict[CallId, Running] = {}
        self._changed = False
        self._behind = False
        self._awake = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when the bus is closed: no batches follow."""
        self.on_end: Callable[[], None] | None = None
        """Called when the bus is closed, for a watcher that is busy sending."""

    def enqueue(self, notice: Notice) -> None:
        """Queue a notice that must not be replaced."""
        if isinstance(notice, Record):
            self._progress.pop(notice.id, None)
        if len(self._queue) >= 1000:
            self._queue.clear()
            self._progress.clear()
            self._behind = True
        elif not self._behind:
            self._queue.append(notice)
        self._awake.set()

    def update_progress(self, call: Running) -> None:
        """Keep the newest state of a running call for the next batch."""
        self._progress[call.id] = call
        self._awake.set()

    def note_change(self) -> None:
        """Remember that something other than calls changed."""
        self._changed = True
        self._awake.set()

    def end(self) -> None:
        self.ended.set()
        self._awake.set()
        if self.on_end is not None:
            self.on_end()

    async def next_batch(self, timeout_s: float) -> Batch:
        """Returns what happened, in order. If nothing does within ``timeout_s`` seconds, the batch is empty."""
        if not (self._awake.is_set() or self.ended.is_set()):
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._awake.wait()
        self._awake.clear()
        if self._behind:
            self._behind = self._changed = False
            return Batch(behind=True)
        progress = [CallProgress(call=call) for call in self._progress.values()]
        batch = Batch(notices=[*self._queue, *progress], changed=self._changed)
        self._queue.clear()
        self._progress.clear()
        self._changed = False
        return batch


class EventBus:
    """The pipeline reports here, and watchers listen."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.consoles = 0
        """How many watchers are consoles. The others follow the log, or are other programs."""
        self._closed = False
        self.noteworthy: deque[Record] = deque(maxlen=5000)
        """The settled calls that ``IncidentWatch`` will examine: those that failed, needed several attempts, met only
        paused channels or too small a budget, or whose upstream reports another cost."""
        self.on_noteworthy: Callable[[], None] = lambda: None

    def publish(self, notice: Notice) -> None:
        for watcher in self.watchers:
            watcher.enqueue(notice)

    def publish_progress(self, call: Running) -> None:
        for watcher in self.watchers:
            watcher.update_progress(call)

    def publish_record(self, record: Record) -> None:
        """Report that a call ended or was refused, once its record is written or refused by the disk."""
        has_failure = record.status != 200 or len(record.attempts) > 1
        is_incident = has_failure and (record.attempts or has_incident_mark(record.marks))
        if is_incident or (record.marks and price_gap(record) is not None):
            self.noteworthy.append(record)
            self.on_noteworthy()
        self.publish(record)

    def publish_change(self) -> None:
        """Report that the configuration, a channel's health or the granted money changed."""
        for watcher in self.watchers:
            watcher.note_change()

    def close(self) -> None:
        self._closed = True
        for watcher in self.watchers:
            watcher.end()

    @contextmanager
    def watch(self, *, console: bool = False) -> Iterator[Watcher]:
        """Yields a watcher, which gets what happens while the block runs. ``console``: it is an owner's console."""
        watcher = Watcher()
        if self._closed:
            watcher.end()
        self.watchers.add(watcher)
        self.consoles += console
        try:
            yield watcher
        finally:
            self.watchers.discard(watcher)
            self.consoles -= console
