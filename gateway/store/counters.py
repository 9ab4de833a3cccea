"""Counters: what each token, group and channel and the account have spent since a moment, kept up as calls settle.

The first question for a moment is answered from the sums of the log, once; from then on every settled call is added,
so that asking again costs nothing. Calls are booked by their start.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from gateway.domain.call import Record
from gateway.domain.units import Millis, Nanos, TokenId
from gateway.store import sums
from gateway.store.calls import CallLog
from gateway.store.holds import ACCOUNT, HeldSums, Scope, scopes
from gateway.store.rollup import Counts, Dimension, is_refused
from gateway.store.sums import Span

KEPT = 8
"""Moments kept for each scope: there are four windows, and yesterday's starts do not matter."""

EVER = Millis(0)

DIMENSION: dict[str, Dimension] = {"account": "group", "token": "token", "group": "group", "channel": "channel"}
"""Which sums answer for a scope; those of the account are all of the groups'."""


class Spent(msgspec.Struct, frozen=True, gc=False):
    """What settled calls used; ``tokens`` are input and output tokens, ``calls`` those that were not refused."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0


_NO_MOMENTS: dict[Millis, HeldSums] = {}


class Counters:
    """Counts the log, and the records that still wait for the disk: ``backlog`` tells them, ``lock`` keeps them so."""

    def __init__(
        self, calls: CallLog, backlog: Callable[[], list[Record]], lock: AbstractContextManager[object]
    ) -> None:
        self._calls, self.backlog, self.lock = calls, backlog, lock
        self._spent: dict[Scope, dict[Millis, HeldSums]] = {}
        self._used: dict[str, int] | None = None
        self._total: HeldSums | None = None

    def spent(self, scope: Scope, since: Millis = EVER) -> Spent:
        if scope == ACCOUNT and since == EVER:
            total = self._all()
            return Spent(Nanos(total.nanos), total.tokens, total.calls)
        moments = self._spent.setdefault(scope, {})
        found = moments.get(since)
        if found is None:
            with self.lock:
                found = self._count(scope, since)
            if len(moments) >= KEPT:
                del moments[next(iter(moments))]
            moments[since] = found
        return Spent(Nanos(found.nanos), found.tokens, found.calls)

    @property
    def nanos(self) -> int:
        """What all calls cost together."""
        return self._all().nanos

    def last_used(self, token: TokenId) -> Millis | None:
        """When the token's latest call began."""
        if self._used is None:
            self._used = {}
            with self.lock:
                latest = [segment.sums.used() for segment in self._calls.log.segments]
                latest += [{record.token: int(record.ts)} for record in self.backlog()]
            for moments in latest:
                for key, moment in moments.items():
                    self._used[key] = max(moment, self._used.get(key, 0))
        found = self._used.get(token)
        return None if found is None else Millis(found)

    def replace(self, old: Record, new: Record) -> None:
        """Another record of the same call takes the place of one that was added."""
        cost, tokens = new.cost - old.cost, new.input + new.output - old.input - old.output
        tallies = [self._total] if self._total is not None else []
        for scope in scopes(old) if self._spent else ():
            tallies += [tally for since, tally in self._spent.get(scope, _NO_MOMENTS).items() if old.ts >= since]
        for tally in tallies:
            tally.nanos += cost
            tally.tokens += tokens

    def add(self, record: Record) -> None:
        """Book a call that has just ended and is in the log or in the backlog."""
        ts, cost, tokens = record.ts, record.cost, record.input + record.output
        calls = 0 if is_refused(record) else 1
        if (total := self._total) is not None:
            total.nanos += cost
            total.tokens += tokens
            total.calls += calls
        if self._spent:
            for scope in scopes(record):
                for since, tally in self._spent.get(scope, _NO_MOMENTS).items():
                    if ts >= since:
                        tally.nanos += cost
                        tally.tokens += tokens
                        tally.calls += calls
        used = self._used
        if used is not None and ts > used.get(record.token, 0):
            used[record.token] = ts

    def known(self) -> list[tuple[Scope, Millis, Spent]]:
        """Everything that is kept up."""
        asked = [(scope, since) for scope, moments in self._spent.items() for since in moments]
        return [(scope, since, self.spent(scope, since)) for scope, since in [(ACCOUNT, EVER), *asked]]

    def _all(self) -> HeldSums:
        """All calls there ever were: every call asks for what they cost."""
        if self._total is None:
            with self.lock:
                self._total = self._count(ACCOUNT, EVER)
        return self._total

    def _count(self, scope: Scope, since: Millis) -> HeldSums:
        kind, value = scope
        rows = sums.by_value(self._calls.log.segments, DIMENSION[kind], Span(since))
        counts = sums.total(rows.values()) if scope == ACCOUNT else rows.get(value, Counts())
        tally = HeldSums(counts.cost, counts.input + counts.output, counts.admitted)
        for record in self.backlog():
            if record.ts >= since and scope in scopes(record):
                tally.nanos += record.cost
                tally.tokens += record.input + record.output
                tally.calls += not is_refused(record)
        return tally
