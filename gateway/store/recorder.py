"""Writes holds and records, syncs them, and keeps records that the disk refuses until it accepts them.

The record of a good answer is written before the answer's end is released. It goes to the open call file, else into the
space that the disk reserve held there, else into a new file. If all of these refuse, the record becomes that of a
failure which charges nothing (``inflight.withheld``), and the answer is withheld. What could not be written stays in
the ``Backlog``. While anything is wrong, no new call may begin.

``Syncer`` is the thread that waits for the disk, so that the event loop never does. It works when something was
written: a tenth of a second later, or at once if a call waits. One round serves all calls that began to wait before it:
a group commit.
"""

import asyncio
import errno
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from gateway.domain.call import Record, Running
from gateway.domain.units import CallId, Nanos
from gateway.store.calls import CallLog
from gateway.store.disk_reserve import NO_SPACE, DiskReserve
from gateway.store.errors import Trouble
from gateway.store.files import reason
from gateway.store.inflight import Inflight, withheld
from gateway.store.tail import PartlyWritten

AGAIN_S = 1.0
"""Seconds until failed or unfinished work is tried again."""

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Syncer:
    """Calls ``work`` in its own thread, then notifies the waiting calls, then calls ``tidy``.

    Those who wait get what ``work`` raises. If either fails, or ``tidy`` says that work is left, both are called again
    a second later.
    """

    def __init__(self, work: Callable[[], None], tidy: Callable[[], bool], interval_s: float) -> None:
        self._work, self._tidy, self._interval_s = work, tidy, interval_s
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self.dirty = False
        """Something was written since the last round of work began."""
        self._due = threading.Event()
        self._urgent = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tollkeeper-sync", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell the thread that something was written. Not needed while ``dirty`` is set."""
        self.dirty = True
        self._due.set()

    async def wait(self) -> None:
        """Wait until all earlier writes are on the disk. Raises OSError if the disk refuses."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiters.append((loop, done))
        self._urgent.set()
        self._due.set()
        await done

    def close(self) -> None:
        """Work once more and end the thread."""
        self._ending.set()
        self._urgent.set()
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        done = True
        while not self._ending.is_set():
            self._due.wait(None if done else AGAIN_S)
            if self._ending.is_set():
                break
            self._urgent.wait(self._interval_s)
            done = self._round()
        self._round()

    def _round(self) -> bool:
        self._due.clear()
        self.dirty = False  # after the event: earlier writes are part of this round
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
    except Exception as exc:  # noqa: BLE001 - the thread's outermost frame: it must go on and notify
        return exc
    return None


def _tell(waiting: "asyncio.Future[None]", error: Exception | None) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)


class Recorder:
    """Its methods belong to the event loop's thread, but ``sync`` to the syncer's, if it exists.

    ``sync_s`` is the pause between two syncs in seconds. With 0 no thread is started, and the caller must call
    ``sync``.
    """

    def __init__(self, calls: CallLog, inflight: Inflight, reserve: DiskReserve, *, sync_s: float) -> None:
        self._calls, self._inflight, self._reserve = calls, inflight, reserve
        self.lock = threading.Lock()
        """While it is held, no record moves from memory to the disk."""
        self.trouble = Trouble()
        self._backlog = Backlog(calls, reserve, self.trouble)
        self._safe = 0
        """How many of the calls with written records are safe from a power cut."""
        self._sync_lock = threading.Lock()
        """Lets only one thread sync at a time."""
        self.on_withheld: Callable[[Record, Record], None] = lambda _old, _new: None
        """Called by ``write`` with the record of an answer to withhold, and with its replacement."""
        try:
            reserve.take()
        except OSError as exc:
            what = "the disk is full" if exc.errno in NO_SPACE else "no space can be kept back"
            self.trouble.say(write=f"{what}: {reason(exc)}")
        self._syncer = Syncer(self._make_safe, self._tidy, sync_s) if sync_s > 0 else None

    def waiting(self) -> list[Record]:
        """Records that are not on the disk."""
        return self._backlog.waiting()

    def begin(self, call: Running) -> None:
        """Write the hold of a call, after clearing an earlier failure. Raises OSError, and then nothing is held."""
        with self.lock:
            if self.trouble.sync:
                raise OSError(errno.EIO, self.trouble.sync)
            if self.trouble.write:
                self._recover()
            try:
                self._inflight.begin(call)
            except OSError as exc:
                self.trouble.say(write=f"the disk refuses to write: {reason(exc)}")
                raise
        if self._syncer and not self._syncer.dirty:
            self._syncer.wake()

    def end(self, record: Record) -> None:
        """Take the record of an ended call. ``write`` writes it, together with others. Raises nothing."""
        with self.lock:
            self._backlog.fresh[record.id] = record

    def write(self, record: Record | None = None) -> None:
        """Write the latest records and this one. Raises nothing: see ``on_withheld``."""
        with self.lock:
            if record is not None:
                self._backlog.fresh[record.id] = record
            changed = self._backlog.write()
        for old, new in changed:
            self.on_withheld(old, new)
        if self._syncer and not self._syncer.dirty:
            self._syncer.wake()

    def forget(self, call_ids: Iterable[CallId]) -> None:
        """Remove calls that have their records from the running ones, at the next sync."""
        with self.lock:
            self._backlog.written += call_ids

    def sync(self) -> bool:
        """Make everything survive a power cut. Returns whether no work is left. Raises OSError if the disk refuses."""
        self.write()
        self._make_safe()
        return self._tidy()

    async def synced(self) -> None:
        """Wait until all earlier writes are safe from a power cut. Raises OSError."""
        if self._syncer:
            self.write()
            await self._syncer.wait()
        else:
            self.sync()

    def close(self) -> None:
        """End the thread, which syncs once more."""
        if self._syncer:
            self.write()
            self._syncer.close()
        else:
            with suppress(OSError):
                self.sync()
        self._inflight.close()

    def _make_safe(self) -> None:
        """Sync the records. Calls that want to be sure wait for this."""
        with self._sync_lock:
            count = len(self._backlog.written)
            try:
                self._calls.log.sync()
            except OSError as exc:
                self.trouble.say(sync=f"the disk refuses to sync: {reason(exc)}")
                raise
            except Exception as exc:  # a bug of ours: the waiting calls cannot rely on anything
                self.trouble.say(sync=f"the records cannot be synced: {exc}")
                raise OSError(errno.EIO, self.trouble.sync) from exc
            self._safe = count

    def _tidy(self) -> bool:
        """Do the rest: ends of holds, seals, and records the disk refused before. Returns whether nothing is left."""
        with self._sync_lock:
            self._end_holds()
            self.trouble.say(sync="")
            self._calls.log.seal()
            if not self.trouble.write:
                return True
            with self.lock, suppress(OSError):
                self._recover()
            return False  # what was written just now is to be synced, too

    def _end_holds(self) -> None:
        with self.lock:
            written = self._backlog.written
            safe, self._safe = written[: self._safe], 0
            del written[: len(safe)]
        try:
            self._inflight.end(safe)
            if self._inflight.grown:
                with suppress(OSError):  # no room for another file; this one will do
                    self._inflight.compact()
            self._inflight.sync()
        except OSError as exc:
            self.trouble.say(sync=f"the disk refuses to sync: {reason(exc)}")
            raise

    def _recover(self) -> None:
        """Do what failed before. Raises OSError while the disk still refuses."""
        if self._backlog:
            self._backlog.flush()
        self._reserve.take()
        self._inflight.probe()
        self.trouble.say(write="")


class Backlog:
    """Records that are not on the disk yet. Callers hold the recorder's lock."""

    def __init__(self, calls: CallLog, reserve: DiskReserve, trouble: Trouble) -> None:
        self._calls, self._reserve, self._trouble = calls, reserve, trouble
        self.fresh: dict[CallId, Record] = {}
        """The latest records. They are written before the end of their calls is reported."""
        self._refused: dict[CallId, Record] = {}
        """Records that the disk refused."""
        self.written: list[CallId] = []
        """Calls whose records are on the disk, so that the recorder can end their holds."""

    def __bool__(self) -> bool:
        """Returns whether the disk refused any."""
        return bool(self._refused)

    def waiting(self) -> list[Record]:
        """Records that are not on the disk."""
        return [*self._refused.values(), *self.fresh.values()]

    def write(self) -> Sequence[tuple[Record, Record]]:
        """Write the latest records. Raises nothing.

        Returns the records of answers to withhold, each with its replacement.
        """
        if not self.fresh:
            return ()
        fresh, self.fresh = self.fresh, {}
        self._refused.update(fresh)
        if self._trouble.write and all(record.failed for record in fresh.values()):
            return ()  # no call waits for them: the next hold or sync tries again
        try:
            self._append()
        except OSError as first:
            try:
                self._find_room(first)
            except OSError as exc:
                return self._withhold(fresh, reason(exc))
        return ()

    def flush(self) -> None:
        """Write the records that the disk refused. Raises OSError."""
        try:
            self._append()
        except OSError as exc:
            self._find_room(exc)

    def _find_room(self, first: OSError) -> None:
        """Write it elsewhere after the disk refused it with this error, which is raised if that fails too."""
        if first.errno in NO_SPACE and self._reserve.release():
            self._trouble.say(write=f"the disk is full: {reason(first)}")
            with suppress(OSError):
                self._append()
        if self._refused:
            with suppress(OSError):
                self._append(in_new_file=True)
                self._calls.log.tell(f"a call file cannot be written ({reason(first)}); calls continue in a new one")
        if self._refused:
            self._trouble.say(write=f"the disk refuses to write: {reason(first)}")
            raise first

    def _append(self, *, in_new_file: bool = False) -> None:
        try:
            self._calls.append(self._refused.values(), in_new_file=in_new_file)
        except PartlyWritten as exc:
            done = list(islice(self._refused, exc.count))
            self.written += done
            for call_id in done:
                del self._refused[call_id]
            raise
        except OSError:
            raise
        except Exception as exc:  # a bug of ours: no call may begin whose record would wait after this one
            raise OSError(errno.EIO, f"a record cannot be written: {exc}") from exc
        self.written += self._refused
        self._refused.clear()

    def _withhold(self, fresh: Mapping[CallId, Record], why: str) -> list[tuple[Record, Record]]:
        changed: list[tuple[Record, Record]] = []
        back = 0
        for call_id, record in fresh.items():
            if call_id not in self._refused:
                continue
            new = self._refused[call_id] = record if record.failed else withheld(record, why)
            if new.balance is not None:
                msgspec.structs.force_setattr(new, "balance", Nanos(new.balance + back))
            if new is not record:
                back += record.cost
                changed.append((record, new))
        return changed
