"""Books: the single source of every balance. A balance is never stored; it is granted - spent - held.

Granted is the sum of the grants in the configuration, spent is the sum of the call log, and held is what running calls
may cost. One line of the log is both the record of a call and its charge, so a crash cannot separate them. A hold is on
disk before the upstream request is sent; the record is on disk before the last byte of the answer goes out.

What a client saw and what its record says always agree, whatever the disk does:

- If the record of a good answer cannot be written, the answer is withheld: its client gets an error, and the call costs
  nothing. A record that is written later contains that error; if the gateway dies first, the call counts as lost.
- A record that was written is final, even if the owner wants it synced and the disk refuses that. The answer goes out,
  and no call begins until the disk syncs again.
- Records of failures, and of clients that have disconnected, may wait in memory: nobody relies on them.

``Holds`` sums what running calls may cost, in memory only. ``Counters`` sums what ended calls have cost in a given span
of time: the first query for a span reads the sums of the log; after that each ended call is added, so further queries
cost nothing. A call counts from the moment it started.

Long: holds, counters and the log are the three parts of one sum.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

import msgspec

from gateway.domain.account import Account
from gateway.domain.budget import EVER, Amounts, Window
from gateway.domain.call import ACCOUNT, Outcome, Record, Running, Scope, is_call_id, lost_record
from gateway.domain.errors import InternalError
from gateway.domain.units import CallId, Millis, Nanos, TokenId
from gateway.store import sums
from gateway.store.calls import CallLog
from gateway.store.entities import Entities
from gateway.store.errors import unavailable
from gateway.store.recorder import Recorder
from gateway.store.rollup import Counts, Dimension, total
from gateway.store.sums import Span


def scopes(call: Record | Running) -> tuple[Scope, ...]:
    """Returns the scopes that a call is charged to: account, token, group and channel."""
    return ACCOUNT, ("token", call.token), ("group", call.group), ("channel", call.channel)


class Holds:
    """What running calls hold, each from ``add`` to ``remove``. A scope's sum is cached once it was requested."""

    def __init__(self) -> None:
        self.running: dict[CallId, Running] = {}
        self._held: dict[Scope, Amounts] = {}
        self.nanos = 0

    def add(self, call: Running) -> None:
        self.running[call.id] = call
        self.nanos += call.held
        if self._held:
            self._count(call, 1)

    def replace(self, call: Running) -> None:
        """Replace the state of a running call; do nothing if the call has ended."""
        before = self.running.get(call.id)
        if before is None:
            return
        self.running[call.id] = call
        if (before.channel, before.held, before.held_tokens) != (call.channel, call.held, call.held_tokens):
            self.nanos += call.held - before.held
            self._count(before, -1)
            self._count(call, 1)

    def remove(self, call_id: CallId) -> bool:
        """End a hold. Returns whether there was one."""
        call = self.running.pop(call_id, None)
        if call is None:
            return False
        self.nanos -= call.held
        if self._held:
            self._count(call, -1)
        return True

    def held(self, scope: Scope, since: Millis = EVER) -> Amounts:
        """Returns what the running calls of a scope hold that began at or after a moment.

        The call that has run for longest tells whether any began before: only calls that waited for a slot are out of
        order.
        """
        oldest = next(iter(self.running.values()), None)
        if oldest is not None and oldest.ts < since:
            return _sum_of_holds(self.running_in(scope, since))
        held = self._held.get(scope)
        if held is None:
            if len(self._held) >= 1000:
                self._held.clear()
            held = self._held[scope] = _sum_of_holds(self.running_in(scope))
        return held

    def running_in(self, scope: Scope, since: Millis = EVER) -> list[Running]:
        """Returns the running calls of a scope that began at or after a moment."""
        return [call for call in self.running.values() if call.ts >= since and scope in scopes(call)]

    def _count(self, call: Running, sign: int) -> None:
        for scope in scopes(call):
            if (held := self._held.get(scope)) is not None:
                self._held[scope] = held.plus(sign * call.held, sign * call.held_tokens, sign)


def _sum_of_holds(calls: Sequence[Running]) -> Amounts:
    return Amounts(Nanos(sum(call.held for call in calls)), sum(call.held_tokens for call in calls), len(calls))


SPANS = 2 * len(Window)
"""The number of spans that are cached for a scope: its windows, and as many earlier ones."""

DIMENSION: dict[str, Dimension] = {"account": "group", "token": "token", "group": "group", "channel": "channel"}
"""The dimension of the log's sums for each kind of scope. The account has the sums of all groups."""


class Counters:
    """What ended calls have used in given spans of time, including those whose records still wait for the disk."""

    def __init__(
        self, calls: CallLog, backlog: Callable[[], list[Record]], lock: AbstractContextManager[object]
    ) -> None:
        """``backlog`` returns the records that are not in the log; while ``lock`` is held, no record moves there."""
        self._calls, self.backlog, self.lock = calls, backlog, lock
        self._spent: dict[Scope, dict[Span, Amounts]] = {}
        self._rows: dict[tuple[Dimension, Span], dict[str, Counts]] = {}
        """The sums of all values, for the other scopes of a span, until the next call ends."""
        self.total: Amounts | None = None
        """The sum of all calls ever made, once ``grand_total`` has counted them."""

    def spent(self, scope: Scope, since: Millis = EVER, until: Millis | None = None) -> Amounts:
        """Returns what ended calls of a scope used that began in a window, or after it while the clock was ahead."""
        span = Span(since) if until is None else Span(since, until)
        if scope == ACCOUNT and span == Span():
            return self.grand_total()
        spans = self._spent.setdefault(scope, {})
        amounts = spans.get(span)
        if amounts is None:
            with self.lock:
                amounts = self._count(scope, span)
            if len(spans) >= SPANS:
                del spans[next(iter(spans))]
            spans[span] = amounts
        return amounts

    def last_used(self, token: TokenId) -> Millis | None:
        """Returns when the token's latest call began; None if it had none."""
        with self.lock:
            starts = [int(record.ts) for record in self.backlog() if record.token == token]
            starts += [segment.sums.last_used.get(token, 0) for segment in self._calls.log.segments]
        latest = max(starts, default=0)
        return Millis(latest) if latest else None

    def add(self, record: Record, sign: int = 1) -> None:
        """Count a call that has just ended and is in the log or the backlog. A ``sign`` of -1 takes it back."""
        self._rows.clear()
        nanos, tokens = sign * record.cost, sign * (record.input + record.output)
        calls = sign * (record.outcome != Outcome.REFUSED)
        if self.total is not None:
            self.total = self.total.plus(nanos, tokens, calls)
        for scope in scopes(record) if self._spent else ():
            if (spans := self._spent.get(scope)) is not None:
                for span, amounts in spans.items():
                    if span.since <= record.ts < span.until:
                        spans[span] = amounts.plus(nanos, tokens, calls)

    def cached_totals(self) -> list[tuple[Scope, Span, Amounts]]:
        cached = [(scope, span, amounts) for scope, spans in self._spent.items() for span, amounts in spans.items()]
        return [(ACCOUNT, Span(), self.grand_total()), *cached]

    def grand_total(self) -> Amounts:
        if self.total is None:
            with self.lock:
                self.total = self._count(ACCOUNT, Span())
        return self.total

    def _count(self, scope: Scope, span: Span) -> Amounts:
        """Returns the sum of the log and the backlog. The caller holds the lock."""
        kind, value = scope
        by = DIMENSION[kind]
        rows = self._rows.get((by, span))
        if rows is None:
            rows = self._rows[by, span] = sums.by_value(self._calls.log.segments, by, span)
            for record in self.backlog():
                if span.since <= record.ts < span.until:
                    rows.setdefault(sums.value_of(record, by), Counts()).add(record)
        counts = total(rows.values()) if scope == ACCOUNT else rows.get(value, Counts())
        return Amounts(Nanos(counts.cost), counts.input + counts.output, counts.admitted)


class Books:
    """Opens and settles calls. All methods belong to one thread; only ``wait_until_synced`` waits."""

    def __init__(self, entities: Entities, calls: CallLog, recorder: Recorder) -> None:
        self._entities, self._calls, self._recorder = entities, calls, recorder
        self._holds = Holds()
        self.running: Mapping[CallId, Running] = self._holds.running
        """The running calls. All of them have a hold."""
        self._withheld: dict[CallId, Record] = {}
        """The records that replaced the records of withheld answers, until ``final_record`` returns them."""
        self.write: Callable[[], None] = recorder.write
        """Writes the records of all calls that were settled with ``deferred``, at once. Raises nothing."""
        self.counters = Counters(calls, recorder.waiting, recorder.lock)
        self.spent = self.counters.spent
        self.held = self._holds.held
        self.running_in = self._holds.running_in
        self.last_used = self.counters.last_used
        self.disk_errors = recorder.disk_errors
        self.waiting = recorder.waiting
        recorder.on_withheld = self._withhold

    @property
    def healthy(self) -> bool:
        """Returns False while the disk refuses writes. ``open`` tries once more before it raises Unavailable."""
        return not self.disk_errors.text

    def account(self) -> Account:
        return self._entities.registry.account

    def balance(self) -> Nanos:
        """Returns granted minus spent."""
        total = self.counters.total or self.counters.grand_total()
        return Nanos(self._entities.granted - total.nanos)

    def available(self) -> Nanos:
        """Returns the balance minus all holds."""
        return Nanos(self.balance() - self._holds.nanos)

    def open(self, call: Running) -> None:
        """Hold what a call may cost, first on disk, then in memory. Raises Unavailable if the write fails."""
        if call.id in self.running or not is_call_id(call.id):
            raise InternalError(f"call {call.id!r} is already open, or its id is not valid")
        try:
            self._recorder.begin(call)
        except OSError as exc:
            raise unavailable(exc) from exc
        self._holds.add(call)

    def update(self, call: Running) -> None:
        """Replace the state of a running call; do nothing if the call has ended.

        A change of channel is also written to disk if possible, so that after a crash the channel that may bill the
        call is known. Everything else is in memory only.
        """
        before = self.running.get(call.id)
        self._holds.replace(call)
        if before is not None and before.channel != call.channel:
            with suppress(OSError):
                self._recorder.begin(call)

    def settle(self, record: Record, *, deferred: bool = False) -> Record:
        """Charge a call, write its record and end its hold. Returns the final record, with the balance after the call.

        If the disk refuses the record of a good answer, the answer must be withheld, and the returned record says so.
        With ``deferred`` the record is written by the next ``write``, which must run before the end of the call is
        reported; after that ``final_record`` returns it. Raises InternalError for a call that is not open.
        """
        if not self._holds.remove(record.id):
            raise InternalError(f"call {record.id} was settled but is not open")
        return self._book(record, deferred=deferred)

    def final_record(self, record: Record) -> Record:
        """Returns a record after ``write``: itself, or the first time its replacement if the answer is withheld."""
        return self._withheld.pop(record.id, record)

    def record_refusal(self, record: Record) -> None:
        """Record a call that was refused, and so never held anything. Raises nothing."""
        if len(self.waiting()) < 1000:  # while the disk refuses, memory must not fill up
            self._book(record)

    def recover(self, unfinished: Mapping[CallId, Running]) -> int:
        """Record the calls that were running when the gateway died as lost, once each. Returns their number."""
        earliest = min((call.ts for call in unfinished.values()), default=EVER)
        recorded = self._calls.recorded_ids(set(unfinished), earliest)
        self._recorder.forget(recorded)
        for call in unfinished.values():
            if call.id not in recorded:
                self._book(lost_record(call))
        return len(unfinished) - len(recorded)

    async def wait_until_synced(self) -> None:
        """Wait until all earlier writes are safe from a power cut. Raises Unavailable if the disk refuses."""
        try:
            await self._recorder.wait_until_synced()
        except OSError as exc:
            raise unavailable(exc) from exc

    def _book(self, record: Record, *, deferred: bool = False) -> Record:
        """Set the balance in the record, count it and write it. Nothing else has a reference to the record yet."""
        msgspec.structs.force_setattr(record, "balance", Nanos(self.balance() - record.cost))
        self.counters.add(record)
        if deferred:
            self._recorder.end(record)
        else:
            self._recorder.write(record)
        return self.final_record(record) if self._withheld else record

    def _withhold(self, old: Record, new: Record) -> None:
        self.counters.add(old, -1)
        self.counters.add(new)
        self._withheld[old.id] = new
