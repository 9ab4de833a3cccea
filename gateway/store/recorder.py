"""Recorder: writes holds and records, keeps the records that the disk refuses, and writes them as soon as it can.

A call that ended is never refused: its record goes to the disk, then into the space that the ballast held, then into
memory. As long as anything is not as it should be, no new call may begin.
"""

import errno
import threading
from collections.abc import Iterable
from contextlib import suppress

from gateway.domain.call import Record, Running
from gateway.domain.units import CallId
from gateway.store.ballast import Ballast
from gateway.store.calls import CallLog
from gateway.store.inflight import Inflight
from gateway.store.syncer import Syncer


class Recorder:
    """All methods may be used from the event loop's thread; ``sync`` comes from the syncer's, if there is one.

    ``sync_s`` is the pause between two syncs in seconds; with 0 there is no thread, and ``sync`` is the caller's task.
    """

    def __init__(self, calls: CallLog, inflight: Inflight, ballast: Ballast, *, sync_s: float) -> None:
        self._calls, self._inflight, self._ballast = calls, inflight, ballast
        self.lock = threading.Lock()
        """While it is held, no record moves from memory to the disk."""
        self._backlog: dict[CallId, Record] = {}
        self._ended: list[CallId] = []
        """Calls whose records are written; the first ``_safe`` of them are safe from a power cut."""
        self._safe = 0
        self._sync_lock = threading.Lock()
        """Between several who sync at a time."""
        self._full = ""
        self._refused = False
        """The disk did not take what is in memory now."""
        self._unsynced = ""
        try:
            ballast.take()
        except OSError as exc:
            self._full = f"the disk is full: {exc}"
        self._syncer = Syncer(self._make_safe, self._tidy, sync_s) if sync_s > 0 else None

    @property
    def trouble(self) -> str:
        """What the disk said; empty: all is well."""
        return self._full or self._unsynced

    def waiting(self) -> list[Record]:
        """Records that are not on the disk."""
        return list(self._backlog.values())

    def begin(self, call: Running) -> None:
        """Write the hold of a call. Raises OSError; then nothing is held. First tries to end what is in the way."""
        with self.lock:
            if self._unsynced:
                raise OSError(errno.EIO, self._unsynced)
            if self._full:
                self._recover()
            try:
                self._inflight.begin(call)
            except OSError as exc:
                self._full = f"the disk refuses to write: {exc}"
                raise
        if self._syncer:
            self._syncer.dirty()

    def end(self, record: Record, *, soon: bool = False) -> None:
        """Write the record of a call, and then that it is no longer running. Raises nothing.

        ``soon``: ``write`` does it, in a moment and for several calls at a time.
        """
        with self.lock:
            self._backlog[record.id] = record
        if not soon:
            self.write()

    def write(self) -> None:
        """Write the records that came last. Raises nothing: what the disk has refused waits for the next hold or sync,
        so that not every call tries again.
        """
        with self.lock, suppress(OSError):
            if self._backlog and not self._refused:
                self._flush()
        if self._syncer:
            self._syncer.dirty()

    def forget(self, call_ids: Iterable[CallId]) -> None:
        """Take calls off the running ones at the next sync: their records are there."""
        with self.lock:
            self._ended += call_ids

    def sync(self) -> bool:
        """Make everything survive a power cut; whether all is well. Raises OSError if the disk refuses."""
        self.write()
        self._make_safe()
        return self._tidy()

    async def synced(self) -> None:
        """Until everything written before is safe from a power cut. Raises OSError."""
        if self._syncer:
            self.write()
            await self._syncer.wait()
        else:
            self.sync()

    def close(self) -> None:
        """End the thread; a last sync is part of it."""
        if self._syncer:
            self.write()
            self._syncer.close()
        else:
            with suppress(OSError):
                self.sync()
        self._inflight.close()

    def _make_safe(self) -> None:
        """Sync the records: this is what those wait for who want to be sure."""
        with self._sync_lock:
            count = len(self._ended)
            try:
                self._calls.log.sync()
            except OSError as exc:
                self._unsynced = f"the disk refuses to sync: {exc}"
                raise
            self._safe = count

    def _tidy(self) -> bool:
        """All the rest: ends of holds, seals, and what the disk refused before. Whether nothing is left to do."""
        with self._sync_lock:
            self._end_holds()
            self._unsynced = ""
            self._calls.log.seal()
            if not self._full:
                return True
            with self.lock, suppress(OSError):
                self._recover()
            return False  # what was written just now is to be synced, too

    def _end_holds(self) -> None:
        with self.lock:
            safe, self._safe = self._ended[: self._safe], 0
            del self._ended[: len(safe)]
        try:
            self._inflight.end(safe)
            if self._inflight.grown:
                with suppress(OSError):  # no room for another file; this one will do
                    self._inflight.compact()
            self._inflight.sync()
        except OSError as exc:
            self._unsynced = f"the disk refuses to sync: {exc}"
            raise

    def _flush(self) -> None:
        """Write what is in memory, into the space of the ballast if there is no other. Raises OSError."""
        records = self._backlog.values()
        for last in (False, True):
            try:
                self._calls.append(records)
                break
            except OSError as exc:
                self._full = f"the disk refuses to write: {exc}"
                if last or not self._ballast.give_up():
                    self._refused = True
                    raise
            except Exception as exc:  # by a bug of ours: no call may begin whose record would wait behind this one
                self._full, self._refused = f"a record cannot be written: {exc}", True
                raise OSError(errno.EIO, self._full) from exc
        self._ended += self._backlog
        self._backlog.clear()
        self._refused = False

    def _recover(self) -> None:
        """Do what could not be done. Raises OSError while the disk is as it was."""
        if self._backlog:
            self._flush()
        self._ballast.take()
        self._inflight.probe()
        self._full = ""
