"""Counters: what each token, group and channel and the account have spent since a moment, kept up as calls settle.

The first question for a moment is answered from the sums of the log, once; from then on every settled call is added,
so that asking again costs nothing. Calls are booked by their start.
"""

from collections.abc import Callable

import msgspec

from gateway.domain.call import Record
from gateway.domain.units import Millis, Nanos, TokenId
from gateway.store import sums
from gateway.store.calls import CallLog
from gateway.store.holds import ACCOUNT, Scope, scopes
from gateway.store.rollup import Countable, Counts, Dimension
from gateway.store.sums import Span

KEPT = 8
"""Moments kept for each scope: there are four windows, and yesterday's starts do not matter."""

EVER = Millis(0)

DIMENSION: dict[str, Dimension] = {"account": "group", "token": "token", "group": "group", "channel": "channel"}
"""Which sums answer for a scope; those of the account are all of the groups'."""


class Spent(msgspec.Struct):
    """What settled calls used; ``tokens`` are input and output tokens."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0

    def add(self, call: Countable) -> None:
        """One more call."""
        self.nanos = Nanos(self.nanos + call.cost)
        self.tokens += call.input + call.output
        self.calls += 1

    def merge(self, counts: Counts) -> None:
        """More calls."""
        self.nanos = Nanos(self.nanos + counts.cost)
        self.tokens += counts.input + counts.output
        self.calls += counts.calls


class Counters:
    """Counts the log and the records that still wait for the disk, which ``backlog`` tells."""

    def __init__(self, calls: CallLog, backlog: Callable[[], list[Record]]) -> None:
        self._calls, self.backlog = calls, backlog
        self._spent: dict[Scope, dict[Millis, Spent]] = {}
        self._used: dict[str, int] | None = None

    def spent(self, scope: Scope, since: Millis) -> Spent:
        """As it is now; a value of the caller's own."""
        moments = self._spent.setdefault(scope, {})
        found = moments.get(since)
        if found is None:
            found = self.count(scope, since)
            if len(moments) >= KEPT:
                del moments[next(iter(moments))]
            moments[since] = found
        return Spent(found.nanos, found.tokens, found.calls)

    def last_used(self, token: TokenId) -> Millis | None:
        """When the token's latest call began."""
        if self._used is None:
            self._used = {}
            latest = [segment.sums.used() for segment in self._calls.log.segments]
            for moments in [*latest, *({record.token: int(record.ts)} for record in self.backlog())]:
                for key, moment in moments.items():
                    self._used[key] = max(moment, self._used.get(key, 0))
        found = self._used.get(token)
        return None if found is None else Millis(found)

    def add(self, record: Record) -> None:
        """Book a call that has just ended and is in the log or in the backlog."""
        for scope in scopes(record):
            moments = self._spent.get(scope)
            if moments:
                for since, spent in moments.items():
                    if record.ts >= since:
                        spent.add(record)
        used = self._used
        if used is not None and record.ts > used.get(record.token, 0):
            used[record.token] = record.ts

    def known(self) -> list[tuple[Scope, Millis, Spent]]:
        """Everything that is kept up."""
        return [(scope, since, self.spent(scope, since)) for scope, moments in self._spent.items() for since in moments]

    def count(self, scope: Scope, since: Millis) -> Spent:
        """The answer from the sums, slowly."""
        kind, value = scope
        rows = sums.by_value(self._calls.log.segments, DIMENSION[kind], Span(since))
        counts = sums.total(rows.values()) if scope == ACCOUNT else rows.get(value, Counts())
        spent = Spent()
        spent.merge(counts)
        for record in self.backlog():
            if record.ts >= since and scope in scopes(record):
                spent.add(record)
        return spent
