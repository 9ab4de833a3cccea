"""Books: the truth about money. What is left is never stored; it is granted - spent - held.

Granted is the sum of the grants in the configuration, spent the sum of the call log, held what running calls may cost.
One line of the log is both the record of a call and its charge, so a crash cannot separate them. A hold is on disk
before the upstream request; the record is on disk before the last byte of the answer goes out.

What a client was shown and what its record says is the same, whatever the disk does:

- A good answer whose record cannot be written is withheld. Its client gets an error, and the call costs nothing: should
  the disk take the record later, it contains that error; should the gateway die before, the call is found as lost.
- A good answer whose record was written, but cannot be synced although its owner wants that, is withheld as well, and
  the record is replaced where it stands. Where the disk refuses even that, the record stands and the answer goes out.
- Records of failures, and of clients who have left, may wait in memory: nobody relies on them.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, cast

import msgspec

from gateway.domain.call import Record, Running
from gateway.domain.errors import InternalError
from gateway.domain.units import CallId, Nanos
from gateway.store.calls import CallLog, is_id
from gateway.store.counters import EVER, Counters, Holds
from gateway.store.entities import Entities
from gateway.store.errors import StoreError, Trouble, unavailable
from gateway.store.files import reason
from gateway.store.inflight import lost, withheld
from gateway.store.recorder import Recorder

_FREE = nullcontext()

BACKLOG = 1000
"""Refused calls are no longer noted when so many records wait for the disk."""


class Books:
    """Holds and settlements. Everything but ``sync`` comes from one thread; nothing but ``synced`` waits for the disk.

    Without a recorder they can only be read: what would write raises StoreError.
    """

    def __init__(self, entities: Entities, calls: CallLog, recorder: Recorder | None) -> None:
        self._entities, self._calls = entities, calls
        self._recorder = recorder or cast("Recorder", _NoRecorder())
        self._holds = Holds()
        self.running: Mapping[CallId, Running] = self._holds.running
        """The calls that hold something."""
        self._withheld: dict[CallId, Record] = {}
        """Records that replace those of withheld answers, until ``kept`` returns them."""
        self.write: Callable[[], None] = recorder.write if recorder else _nothing
        """Writes the records of the calls that were settled to be written soon, by one write. Raises nothing."""
        self.counters = Counters(calls, recorder.waiting, recorder.lock) if recorder else Counters(calls, list, _FREE)
        self.spent = self.counters.spent
        """What the calls used that began at a moment or later, if they have ended."""
        self.last_used = self.counters.last_used
        """When a token's latest call began."""
        self.held = self._holds.held
        """What the running calls may use."""
        self.trouble = recorder.trouble if recorder else Trouble()
        if recorder:
            recorder.on_withheld = self._withhold

    @property
    def healthy(self) -> bool:
        """False: the disk refuses. ``open`` tries once more before it raises Unavailable."""
        return not self.trouble.text

    def balance(self) -> Nanos:
        """Granted minus spent."""
        return Nanos(self._entities.granted - self.counters.nanos)

    def available(self) -> Nanos:
        """Balance minus held."""
        return Nanos(self.balance() - self._holds.nanos)

    def open(self, call: Running) -> None:
        """Hold what a call may cost: one line on disk, then in memory. Raises Unavailable if it cannot be written."""
        if call.id in self.running or not is_id(call.id):
            raise InternalError(f"call {call.id!r} is already open, or its id is not valid")
        try:
            self._recorder.begin(call)
        except OSError as exc:
            raise unavailable(exc) from exc
        self._holds.add(call)

    def update(self, call: Running) -> None:
        """Replace what is known of a running call; one that has ended is left alone.

        Another channel is written down as well, if the disk takes it: should the gateway die, the one that may bill the
        call is known. All else is kept in memory only.
        """
        before = self.running.get(call.id)
        self._holds.replace(call)
        if before is not None and before.channel != call.channel:
            with suppress(OSError):
                self._recorder.begin(call)

    def settle(self, record: Record, *, soon: bool = False) -> Record:
        """Charge a call, write its record and end its hold; the record as it is kept, with the balance after it.

        If the disk refuses, a good answer is to be withheld, and the record says so. ``soon``: the record is written by
        ``write``, to be called before the end of the call is reported; then ``kept`` gives it. A call that was settled
        before stays as it is, and its first record is returned. Raises InternalError for a call that was never opened.
        """
        if self._holds.remove(record.id):
            return self._book(record, soon=soon)
        waiting = {waiting.id: waiting for waiting in self._recorder.waiting()}
        first = waiting.get(record.id) or self._calls.get(record.id)
        if first is None:
            raise InternalError(f"call {record.id} was settled but never opened")
        return first

    def kept(self, record: Record) -> Record:
        """The record as ``write`` has left it: the same, or once the one in its place if the answer is withheld."""
        return self._withheld.pop(record.id, record)

    async def confirmed(self, record: Record) -> Record:
        """The record, once it is safe from a power cut. If the disk refuses, the answer is withheld and it says so.

        It stays as it is if it can no longer be replaced: it is safe by now, or the disk refuses that as well.
        """
        recorder = self._recorder
        try:
            await recorder.synced()
        except OSError as exc:
            new = withheld(record, reason(exc))
            if not record.failed and recorder.amend(record, new):
                self.counters.replace(record, new)
                return new
        return record

    def note(self, record: Record) -> None:
        """Keep the record of a call that was refused and never held anything. Raises nothing."""
        if len(self._recorder.waiting()) < BACKLOG:
            self._book(record)

    def recover(self, found: Mapping[CallId, Running]) -> int:
        """Record calls that were running when the gateway died as lost, each once; how many there were."""
        recorded = self._calls.present(set(found), min((call.ts for call in found.values()), default=EVER))
        self._recorder.forget(recorded)
        for call in found.values():
            if call.id not in recorded:
                self._book(lost(call))
        return len(found) - len(recorded)

    def sync(self) -> bool:
        """Make everything written survive a power cut; whether the disk is well. Raises OSError if it refuses."""
        return self._recorder.sync()

    async def synced(self) -> None:
        """Until all that was written before is safe from a power cut. Raises Unavailable if the disk refuses."""
        try:
            await self._recorder.synced()
        except OSError as exc:
            raise unavailable(exc) from exc

    def _book(self, record: Record, *, soon: bool = False) -> Record:
        """The record is this call's own and nobody has seen it: it is completed, not copied."""
        msgspec.structs.force_setattr(record, "balance", Nanos(self.balance() - record.cost))
        recorder = self._recorder
        recorder.end(record)
        self.counters.add(record)
        if not soon:
            recorder.write()
        return self.kept(record) if self._withheld else record

    def _withhold(self, old: Record, new: Record) -> None:
        self.counters.replace(old, new)
        self._withheld[old.id] = new


def _nothing() -> None:
    """What there is to write for who only reads."""


class _NoRecorder:
    """Stands for the recorder of who only reads."""

    def __getattr__(self, name: str) -> Any:
        raise StoreError("this process only reads the store")
