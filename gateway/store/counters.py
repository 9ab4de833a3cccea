"""What calls have spent and may spend, by everything they draw on: the account, a token, a group, a channel.

``Holds`` is what running calls may cost, in memory only. ``Counters`` is what settled calls have cost since a moment.
The first question for a moment is answered from the sums of the log, once; from then on every settled call is added, so
that asking again costs nothing. Calls are booked by their start.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import msgspec

from gateway.domain.call import Outcome, Record, Running
from gateway.domain.units import CallId, Millis, Nanos, TokenId
from gateway.store import sums
from gateway.store.calls import CallLog
from gateway.store.rollup import Counts, Dimension
from gateway.store.sums import Span

Kind = Literal["account", "token", "group", "channel"]
Scope = tuple[Kind, str]
"""What calls draw on: ``("account", "")``, a token or channel by id, a group by name."""

ACCOUNT: Scope = ("account", "")


class Held(msgspec.Struct, frozen=True, gc=False):
    """What running calls may use; ``tokens`` are input and output tokens."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0


KEPT = 1000
"""Sums that are kept up."""


class HeldSums(msgspec.Struct, gc=False):
    """Nano-dollars, tokens and calls while they change."""

    nanos: int = 0
    tokens: int = 0
    calls: int = 0

    def count(self, call: Running, sign: int) -> None:
        """Add what a running call holds, or subtract it."""
        self.nanos += sign * call.held
        self.tokens += sign * call.held_tokens
        self.calls += sign


def scopes(call: Record | Running) -> tuple[Scope, ...]:
    """All that a call draws on."""
    return _scopes(call.token, call.group, call.channel)


@lru_cache(maxsize=1024)
def _scopes(token: str, group: str, channel: str) -> tuple[Scope, ...]:
    return (ACCOUNT, ("token", token), ("group", group), ("channel", channel))


class Holds:
    """Each running call holds once, from ``add`` to ``remove``. Sums are kept up for those who were asked for."""

    def __init__(self) -> None:
        self._running: dict[CallId, Running] = {}
        self._held: dict[Scope, HeldSums] = {}
        self.running: Mapping[CallId, Running] = MappingProxyType(self._running)
        self.nanos = 0
        """What all of them hold together."""

    def add(self, call: Running) -> None:
        self._running[call.id] = call
        self.nanos += call.held
        if self._held:
            self._count(call, 1)

    def replace(self, call: Running) -> None:
        """Something new is known of a call; one that runs no more is left alone."""
        before = self._running.get(call.id)
        if before is None:
            return
        self._running[call.id] = call
        if (before.channel, before.held, before.held_tokens) != (call.channel, call.held, call.held_tokens):
            self.nanos += call.held - before.held
            self._count(before, -1)
            self._count(call, 1)

    def remove(self, call_id: CallId) -> bool:
        """End a hold; whether there was one."""
        call = self._running.pop(call_id, None)
        if call is None:
            return False
        self.nanos -= call.held
        if self._held:
            self._count(call, -1)
        return True

    def held(self, scope: Scope) -> Held:
        held = self._held.get(scope)
        if held is None:
            if len(self._held) >= KEPT:
                self._held.clear()
            held = self._held[scope] = HeldSums()
            for call in self._running.values():
                if scope in scopes(call):
                    held.count(call, 1)
        return Held(Nanos(held.nanos), held.tokens, held.calls)

    def _count(self, call: Running, sign: int) -> None:
        for scope in scopes(call):
            if (held := self._held.get(scope)) is not None:
                held.count(call, sign)


MOMENTS = 8
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
    """Counts the log, and the records that still wait for the disk: ``backlog`` returns them under ``lock``."""

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
            if len(moments) >= MOMENTS:
                del moments[next(iter(moments))]
            moments[since] = found
        return Spent(Nanos(found.nanos), found.tokens, found.calls)

    @property
    def nanos(self) -> int:
        """What all calls cost together: every call asks for it."""
        return (self._total or self._all()).nanos

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
        calls = 0 if record.outcome == Outcome.REFUSED else 1
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
        """All calls there ever were."""
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
                tally.calls += record.outcome != Outcome.REFUSED
        return tally
