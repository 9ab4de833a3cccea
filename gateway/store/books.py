"""Books: the truth about money. What is left is never stored; it is granted - spent - held.

Granted is the sum of the grants in the configuration, spent the sum of the call log, held what running calls may cost.
One line of the log is both the record of a call and its charge, so a crash cannot separate them. A hold is on disk
before an upstream is asked; the record is on disk before the last byte of the answer goes out.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

import msgspec

from gateway.domain.call import Outcome, Record, Running
from gateway.domain.errors import InternalError
from gateway.domain.units import CallId, Millis, Nanos, TokenId
from gateway.store.calls import CallLog, is_id
from gateway.store.counters import EVER, Counters, Spent
from gateway.store.entities import Entities
from gateway.store.errors import StoreError, unavailable
from gateway.store.holds import Held, Holds, Scope
from gateway.store.recorder import Recorder

_FREE = nullcontext()

BACKLOG = 1000
"""Refused calls are no longer noted when so many records wait for the disk."""


class Books:
    """Holds and settlements. Everything but ``sync`` comes from one thread; nothing but ``synced`` waits for the disk.

    Without a recorder they can only be read: what would write raises StoreError.
    """

    def __init__(self, entities: Entities, calls: CallLog, recorder: Recorder | None) -> None:
        self._entities, self._calls, self._recorder = entities, calls, recorder
        self._holds = Holds()
        self.running: Mapping[CallId, Running] = self._holds.running
        """The calls that hold something."""
        self.write: Callable[[], None] = recorder.write if recorder else _nothing
        """Writes the records of the calls that were settled to be written soon, by one write. Raises nothing."""
        self.counters = Counters(calls, recorder.waiting, recorder.lock) if recorder else Counters(calls, list, _FREE)

    @property
    def healthy(self) -> bool:
        """False: the disk refuses. ``open`` tries once more before it raises Unavailable."""
        return not (self._recorder and self._recorder.trouble)

    def balance(self) -> Nanos:
        """Granted minus spent."""
        return Nanos(self._entities.granted - self.counters.nanos)

    def available(self) -> Nanos:
        """Balance minus held."""
        return Nanos(self.balance() - self._holds.nanos)

    def spent(self, scope: Scope, since: Millis = EVER) -> Spent:
        """What the calls that began at ``since`` or later used, if they have ended."""
        return self.counters.spent(scope, since)

    def held(self, scope: Scope) -> Held:
        """What the running calls may use."""
        return self._holds.held(scope)

    def last_used(self, token: TokenId) -> Millis | None:
        """When the token's latest call began."""
        return self.counters.last_used(token)

    def open(self, call: Running) -> None:
        """Hold what a call may cost: one line on disk, then in memory. Raises Unavailable if it cannot be written."""
        if call.id in self.running or not is_id(call.id):
            raise InternalError(f"call {call.id!r} is open already, or that is no id of a call")
        try:
            _writer(self._recorder).begin(call)
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
                _writer(self._recorder).begin(call)

    def settle(self, record: Record, *, soon: bool = False) -> Record:
        """Charge a call, write its record and end its hold; the record with the balance after it.

        ``soon``: the record is written by ``write``, to be called before anybody is told that the call has ended. A
        call that was settled before stays as it is, and its first record is returned. The disk may refuse; that never
        raises. Raises InternalError for a call that was never opened.
        """
        if self._holds.remove(record.id):
            return self._book(record, soon=soon)
        waiting = {waiting.id: waiting for waiting in _writer(self._recorder).waiting()}
        first = waiting.get(record.id) or self._calls.get(record.id)
        if first is None:
            raise InternalError(f"call {record.id} was settled but never opened")
        return first

    def note(self, record: Record) -> None:
        """Keep the record of a call that was refused and never held anything. Raises nothing."""
        if len(_writer(self._recorder).waiting()) < BACKLOG:
            self._book(record)

    def recover(self, found: Mapping[CallId, Running]) -> int:
        """Record calls that were running when the gateway died as lost, each once; how many there were."""
        recorded = self._calls.present(set(found), min((call.ts for call in found.values()), default=EVER))
        _writer(self._recorder).forget(recorded)
        for call in found.values():
            if call.id not in recorded:
                self._book(lost(call))
        return len(found) - len(recorded)

    def sync(self) -> bool:
        """Make everything written survive a power cut; whether the disk is well. Raises OSError if it refuses."""
        return _writer(self._recorder).sync()

    async def synced(self) -> None:
        """Until all that was written before is safe from a power cut. Raises Unavailable if the disk refuses."""
        try:
            await _writer(self._recorder).synced()
        except OSError as exc:
            raise unavailable(exc) from exc

    def _book(self, record: Record, *, soon: bool = False) -> Record:
        """The record is this call's own and nobody has seen it: it is completed, not copied."""
        msgspec.structs.force_setattr(record, "balance", Nanos(self.balance() - record.cost))
        _writer(self._recorder).end(record, soon=soon)
        self.counters.add(record)
        return record


def lost(call: Running) -> Record:
    """The record of a call that a crash cut off: it costs the user nothing, its channel may have billed it."""
    return Record(
        id=call.id,
        ts=call.ts,
        token=call.token,
        token_name=call.token_name,
        group=call.group,
        model=call.model,
        upstream_model=call.upstream_model,
        channel=call.channel,
        channel_name=call.channel_name,
        app=call.app,
        outcome=Outcome.LOST,
        code="gateway_stopped",
        error="the gateway stopped while this call was running",
        stream=call.stream,
        held=call.held,
        possible=call.held,
    )


def _nothing() -> None:
    """What there is to write for who only reads."""


def _writer(recorder: Recorder | None) -> Recorder:
    if recorder is None:
        raise StoreError("this process only reads the store")
    return recorder
