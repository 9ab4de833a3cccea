"""Recorder: writes holds and records, syncs them, and keeps records that the disk refuses until it accepts them.

The record of a good answer is written before the end of the answer is released: to the open call file, else to the
space that the disk reserve frees, else to a new file. If all of these fail, the answer is withheld: the client gets
an error, and the record has the same error and charges nothing. What could not be written stays in the ``Backlog``.
While anything is wrong, no new call may begin.

``Syncer`` is the thread that waits for the disk, so that the event loop never does. It runs a tenth of a second after
something was written, or at once if a call waits. One round serves all calls that wait by then: a group commit.
"""

import asyncio
import errno
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice

import msgspec

from gateway.domain.call import Outcome, Record, Running, usage_fields
from gateway.domain.errors import Unavailable
from gateway.domain.units import CallId, Nanos
from gateway.domain.usage import NOTHING
from gateway.store.disk_reserve import NO_SPACE, DiskReserve
from gateway.store.errors import RETRY_AFTER_S, DiskErrors
from gateway.store.files import reason
from gateway.store.inflight import Inflight
from gateway.store.log import Log
from gateway.store.tail import PartlyWritten

RETRY_S = 1.0
"""Seconds until failed or unfinished work is retried."""


class Syncer:
    """Calls ``work`` in its own thread, then notifies the waiting calls, then calls ``clean_up`` if ``work`` succeeded.

    The waiting calls get what ``work`` raises. If either function fails, or ``clean_up`` returns that work is left,
    both are called again a second later.
    """

    def __init__(self, work: Callable[[], None], clean_up: Callable[[], bool], interval_s: float = 0.1) -> None:
        self._work, self._clean_up, self._interval_s = work, clean_up, interval_s
        self._waiters: deque[Future[None]] = deque()
        self._due = threading.Event()
        """Set when there is something to sync."""
        self._urgent = threading.Event()
        """Set when a call waits, so that the round begins at once."""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tollkeeper-sync", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread after something was written, unless it is awake."""
        if not self._due.is_set():
            self._due.set()

    async def wait(self) -> None:
        """Wait until all earlier writes are safe from a power cut. Raises OSError if the disk refuses."""
        done = Future[None]()
        self._waiters.append(done)
        self._urgent.set()
        self._due.set()
        await asyncio.wrap_future(done)

    def close(self) -> None:
        """Run one more round and end the thread."""
        self._ending.set()
        self._urgent.set()
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        """Run rounds until ``close``: when something is due, or a second after a failure."""
        finished = True
        while not self._ending.is_set():
            self._due.wait(None if finished else RETRY_S)
            if self._ending.is_set():
                break
            self._urgent.wait(self._interval_s)
            finished = self._run_round()
        self._run_round()

    def _run_round(self) -> bool:
        """Do the work, notify the waiting calls, then clean up. Returns whether nothing failed and nothing is left."""
        self._due.clear()  # first, so that later writes are part of another round
        self._urgent.clear()
        waiters = [self._waiters.popleft() for _ in range(len(self._waiters))]  # those of this round
        error: Exception | None = None
        try:
            self._work()
        except Exception as exc:  # noqa: BLE001 - the thread's outermost frame: it must continue and notify
            error = exc
        for waiting in waiters:
            if not waiting.set_running_or_notify_cancel():
                continue  # it was cancelled
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
        if error is not None:
            return False  # nothing is known to be safe, and cleaning up would clear its error
        try:
            return self._clean_up()
        except Exception:  # noqa: BLE001 - the thread's outermost frame: the next round tries again
            return False


class Recorder:
    """Writes and syncs holds and records. Its methods belong to the event loop's thread."""

    def __init__(
        self, log: Log, inflight: Inflight, reserve: DiskReserve, syncer: Callable[..., Syncer] = Syncer
    ) -> None:
        self._log, self._inflight, self._reserve = log, inflight, reserve
        self.lock = threading.Lock()
        """While it is held, no record moves from memory to the disk."""
        self.disk_errors = DiskErrors()
        self._backlog = Backlog(log, reserve, self.disk_errors)
        self.waiting = self._backlog.waiting
        """Returns the records that are not in the log yet, oldest first: many if the disk refuses them."""
        self._synced_count = 0
        """The number of calls at the beginning of ``Backlog.written`` whose records are safe from a power cut."""
        self.on_withheld: Callable[[Record, Record], None] = lambda _old, _new: None
        """Called by ``write`` with the record of an answer that must be withheld, and with its replacement."""
        try:
            reserve.acquire()
        except OSError as exc:
            problem = "the disk is full" if exc.errno in NO_SPACE else "no space can be kept back"
            self.disk_errors.set(write=f"{problem}: {reason(exc)}")
        self._syncer = syncer(self._sync_records, self._clean_up)

    def begin(self, call: Running) -> None:
        """Write the hold of a call, after retrying what failed before. Raises OSError; then nothing is held."""
        with self.lock:
            if self.disk_errors.sync:
                raise OSError(errno.EIO, self.disk_errors.sync)
            if self.disk_errors.write:
                self._recover()
            try:
                self._inflight.begin(call)
            except OSError as exc:
                self.disk_errors.set(write=f"the disk refuses to write: {reason(exc)}")
                raise
        self._syncer.wake()

    def end(self, record: Record) -> None:
        """Queue the record of an ended call for the next ``write``. Raises nothing."""
        with self.lock:
            self._backlog.fresh[record.id] = record

    def write(self, record: Record | None = None) -> None:
        """Write the queued records and this one. Raises nothing: see ``on_withheld``."""
        with self.lock:
            if record is not None:
                self._backlog.fresh[record.id] = record
            withheld = self._backlog.write()
        for old, new in withheld:
            self.on_withheld(old, new)
        self._syncer.wake()

    def forget(self, call_ids: Iterable[CallId]) -> None:
        """Remove calls whose records are written from the file of running calls, at the next sync."""
        with self.lock:
            self._backlog.written += call_ids

    async def wait_until_synced(self) -> None:
        """Wait until all earlier writes are safe from a power cut. Raises OSError."""
        self.write()
        await self._syncer.wait()

    def close(self) -> None:
        """End the thread, which syncs once more."""
        self.write()
        self._syncer.close()
        self._inflight.close()

    def _sync_records(self) -> None:
        """Sync the records. Calls may wait for that. Raises OSError."""
        count = len(self._backlog.written)
        try:
            self._log.sync()
        except OSError as exc:
            self.disk_errors.set(sync=f"the disk refuses to sync: {reason(exc)}")
            raise
        except Exception as exc:  # a bug of ours: nothing is known to be safe
            self.disk_errors.set(sync=f"the records cannot be synced: {exc}")
            raise OSError(errno.EIO, self.disk_errors.sync) from exc
        self._synced_count = count

    def _clean_up(self) -> bool:
        """End holds of synced calls, seal segments, retry what the disk refused. Returns whether nothing is left."""
        self._end_holds()
        self.disk_errors.set(sync="")
        self._log.seal()
        if not self.disk_errors.write:
            return True
        with self.lock, suppress(OSError):
            self._recover()
        return False  # what was written just now must be synced, too

    def _end_holds(self) -> None:
        """Remove calls whose records are synced from the file of running calls. Raises OSError."""
        with self.lock:
            written = self._backlog.written
            synced, self._synced_count = written[: self._synced_count], 0
            del written[: len(synced)]
        try:
            self._inflight.end(synced)
            if self._inflight.needs_compaction:
                with suppress(OSError):  # the disk has no space for another file; the current one stays in use
                    self._inflight.compact()
            self._inflight.sync()
        except OSError as exc:
            self.disk_errors.set(sync=f"the disk refuses to sync: {reason(exc)}")
            raise

    def _recover(self) -> None:
        """Retry what failed before. Raises OSError while the disk still refuses."""
        if self._backlog.refused:
            self._backlog.flush()
        self._reserve.acquire()
        self._inflight.probe()
        self.disk_errors.set(write="")


class Backlog:
    """Records that are not on the disk yet. Callers hold the recorder's lock."""

    def __init__(self, log: Log, reserve: DiskReserve, disk_errors: DiskErrors) -> None:
        self._log, self._reserve, self._disk_errors = log, reserve, disk_errors
        self.fresh: dict[CallId, Record] = {}
        """Records for the next ``write``, before which the end of their calls is not reported."""
        self.refused: dict[CallId, Record] = {}
        """Records that the disk refused."""
        self.written: list[CallId] = []
        """Calls whose records are on the disk, so that the recorder can end their holds."""

    def waiting(self) -> list[Record]:
        return [*self.refused.values(), *self.fresh.values()]

    def write(self) -> Sequence[tuple[Record, Record]]:
        """Write the fresh records. Returns the records to withhold, each with its replacement. Raises nothing."""
        if not self.fresh:
            return ()
        fresh, self.fresh = self.fresh, {}
        self.refused.update(fresh)
        if self._disk_errors.write and all(record.failed for record in fresh.values()):
            return ()  # no answer depends on them: the next hold or sync tries again
        try:
            self.flush()
        except OSError as exc:
            return self._withhold(fresh, reason(exc))
        return ()

    def flush(self) -> None:
        """Write the records that the disk refused. Raises OSError."""
        try:
            self._append()
        except OSError as exc:
            self._write_elsewhere(exc)

    def _write_elsewhere(self, first: OSError) -> None:
        """Write what the disk refused with this error to reserved space or a new file. Raises it if that fails."""
        if first.errno in NO_SPACE and self._reserve.release():
            self._disk_errors.set(write=f"the disk is full: {reason(first)}")
            with suppress(OSError):
                self._append()
        if self.refused:
            with suppress(OSError):
                self._append(in_new_file=True)
                self._log.report(f"a call file cannot be written ({reason(first)}); calls continue in a new one")
        if self.refused:
            self._disk_errors.set(write=f"the disk refuses to write: {reason(first)}")
            raise first

    def _append(self, *, in_new_file: bool = False) -> None:
        """Write the refused records. Raises OSError; then those that are not on the disk are still refused."""
        try:
            self._log.append(self.refused.values(), in_new_file=in_new_file)
        except PartlyWritten as exc:
            appended = list(islice(self.refused, exc.count))
            self.written += appended
            for call_id in appended:
                del self.refused[call_id]
            raise
        except OSError:
            raise
        except Exception as exc:  # a bug of ours: no call may begin whose record would wait after this one
            raise OSError(errno.EIO, f"a record cannot be written: {exc}") from exc
        self.written += self.refused
        self.refused.clear()

    def _withhold(self, fresh: Mapping[CallId, Record], reason: str) -> list[tuple[Record, Record]]:
        """Replace the refused records of good answers by records of failures. Returns the old ones and the new ones.

        What a withheld answer would have cost is added to the balance in the records after it.
        """
        replaced: list[tuple[Record, Record]] = []
        refunded = 0
        for call_id, record in fresh.items():
            if call_id not in self.refused:
                continue
            new = self.refused[call_id] = record if record.failed else withheld_record(record, reason)
            if new.balance is not None:
                msgspec.structs.force_setattr(new, "balance", Nanos(new.balance + refunded))
            if new is not record:
                refunded += record.cost
                replaced.append((record, new))
        return replaced


def withheld_record(record: Record, reason: str) -> Record:
    """Returns the record of a call whose answer is withheld. Its cost becomes a possible cost of its channel."""
    return msgspec.structs.replace(
        record,
        status=503,
        outcome=Outcome.ERROR,
        code="store_failed",
        error=(
            f"the gateway could not keep the record of this call ({reason}), so its answer is withheld and nothing is "
            "charged. Try again; calls are refused until the store works again"
        ),
        finish="",
        **usage_fields(NOTHING),
        cost=Nanos(0),
        rates=None,
        balance=record.balance if record.balance is None else Nanos(record.balance + record.cost),
        possible=record.cost,
    )


def withheld_error(record: Record) -> Unavailable:
    """Returns the error that the client of a withheld answer gets, with the text of the record."""
    return Unavailable(record.error or "the answer is withheld", code=record.code, retry_after_s=RETRY_AFTER_S)
