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
from gateway.store.rollup import Counts, Dimension
from gateway.store.sums import Span

KEPT = 8
"""Moments kept for each scope: there are four windows, and yesterday's starts do not matter."""

EVER = Millis(0)

_DIMENSION: dict[str, Dimension] = {"token": "token", "group": "group", "channel": "channel"}


class Spent(msgspec.Struct, frozen=True):
    """What settled calls used; ``tokens`` are input and output tokens."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0


class Counters:
    """Counts the log and the records that still wait for the disk, which ``backlog`` tells."""

    def __init__(self, calls: CallLog, backlog: Callable[[], list[Record]]) -> None:
        self._calls, self._backlog = calls, backlog
        self._spent: dict[Scope, dict[Millis, Spent]] = {}
        self._used: dict[str, int] | None = None

    def spent(self, scope: Scope, since: Millis) -> Spent:
        moments = self._spent.setdefault(scope, {})
        found = moments.get(since)
        if found is None:
            found = self.count(scope, since)
            if len(moments) >= KEPT:
                del moments[next(iter(moments))]
            moments[since] = found
        return found

    def last_used(self, token: TokenId) -> Millis | None:
        """When the token's latest call began."""
        if self._used is None:
            self._used = {}
            for segment in self._calls.log.segments:
                self._use(segment.sums.used())
            self._use({record.token: record.ts for record in self._backlog()})
        moment = self._used.get(token)
        return None if moment is None else Millis(moment)

    def add(self, record: Record) -> None:
        """Book a call that has just ended and is in the log or in the backlog."""
        for scope in scopes(record):
            moments = self._spent.get(scope)
            if moments:
                for since, spent in moments.items():
                    if record.ts >= since:
                        moments[since] = _with(spent, record)
        if self._used is not None:
            self._use({record.token: record.ts})

    def known(self) -> list[tuple[Scope, Millis, Spent]]:
        """Everything that is kept up."""
        return [(scope, since, spent) for scope, moments in self._spent.items() for since, spent in moments.items()]

    def count(self, scope: Scope, since: Millis) -> Spent:
        """The answer from the sums, slowly."""
        kind, value = scope
        rows = sums.by_value(self._calls.log.segments, _DIMENSION.get(kind, "group"), Span(since))
        counts = sums.total(rows.values()) if scope == ACCOUNT else rows.get(value, Counts())
        spent = Spent(Nanos(counts.cost), counts.input + counts.output, counts.calls)
        for record in self._backlog():
            if record.ts >= since and scope in scopes(record):
                spent = _with(spent, record)
        return spent

    def _use(self, moments: dict[str, int]) -> None:
        used = self._used if self._used is not None else {}
        for token, moment in moments.items():
            used[token] = max(moment, used.get(token, 0))


def _with(spent: Spent, record: Record) -> Spent:
    return Spent(Nanos(spent.nanos + record.cost), spent.tokens + record.input + record.output, spent.calls + 1)
