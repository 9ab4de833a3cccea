"""Backlog: records of calls that have ended, on their way to the disk.

A record goes to the open call file, else there into the space that the ballast held, else into a new file. If all of
these refuse, the record of a good answer becomes that of a failure which charges nothing (see ``records``): its answer
is withheld. What could not be written stays here until the disk takes it.
"""

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from gateway.domain.call import Record
from gateway.domain.units import CallId, Nanos
from gateway.store.ballast import Ballast
from gateway.store.calls import CallLog
from gateway.store.errors import Trouble
from gateway.store.files import reason
from gateway.store.records import withheld
from gateway.store.tail import PartlyWritten

_NO_SPACE = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})


class Backlog:
    """Everything here needs the recorder's lock."""

    def __init__(self, calls: CallLog, ballast: Ballast, trouble: Trouble) -> None:
        self._calls, self._ballast, self._trouble = calls, ballast, trouble
        self._fresh: dict[CallId, Record] = {}
        """Records that came last: they are written before anybody is told that their calls have ended."""
        self._refused: dict[CallId, Record] = {}
        """Records that the disk has refused."""
        self.written: list[CallId] = []
        """Calls whose records are on the disk, for the recorder to end their holds."""

    def __bool__(self) -> bool:
        """Whether the disk has refused any."""
        return bool(self._refused)

    def add(self, record: Record) -> None:
        """A call has ended."""
        self._fresh[record.id] = record

    def waiting(self) -> list[Record]:
        """Records that are not on the disk."""
        return [*self._refused.values(), *self._fresh.values()]

    def write(self) -> Sequence[tuple[Record, Record]]:
        """Write the records that came last. Raises nothing.

        Gives the records of answers that are to be withheld, each with the one that is now in its place.
        """
        if not self._fresh:
            return ()
        fresh, self._fresh = self._fresh, {}
        self._refused.update(fresh)
        if self._trouble.write and all(record.failed for record in fresh.values()):
            return ()  # nobody waits for them: the next hold or sync tries again, not every call
        try:
            self.flush()
        except OSError as exc:
            return self._withhold(fresh, reason(exc))
        return ()

    def flush(self) -> None:
        """Write what the disk has refused. Raises OSError."""
        try:
            self._append()
        except OSError as exc:
            first = exc
        else:
            return
        if first.errno in _NO_SPACE and self._ballast.give_up():
            self._trouble.say(write=f"the disk is full: {reason(first)}")
            with suppress(OSError):
                self._append()
        if self._refused:
            with suppress(OSError):
                self._append(in_new_file=True)
                self._calls.log.tell(f"a call file cannot be written ({reason(first)}); calls go on in a new one")
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
        except Exception as exc:  # by a bug of ours: no call may begin whose record would wait behind this one
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
