"""Calls: the newest calls, running and finished, in the order they started. Older calls are only counted.

Finished calls are numbered in the order they ended; 1 is the oldest record that the server keeps. The ring holds those
with the highest numbers. A call keeps its place from start to end: settling changes it in place. A running call has the
fields of a finished one, so filters, columns and receipts handle both.
"""

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from gateway.domain.budget import BALANCE_ID
from gateway.domain.call import Running, exceeded_budget, lost_record
from gateway.domain.units import CallId, Millis
from gateway.domain.views import CallView, call_view, running_view

LIMIT = 20_000
"""The number of ended calls kept in memory."""

AnyCall = CallView | Running


class CallRing:
    """The newest calls. Ids sort by time, so the calls are in the order of their ids."""

    def __init__(self, limit: int = LIMIT, slack: int = 1_000) -> None:
        """``slack``: the number of calls that are dropped at once, because dropping is linear in the ring's length."""
        self._limit = limit
        self._slack = slack
        self.order: list[CallId] = []
        """The ids, oldest first. This list is changed in place."""
        self.by_id: dict[CallId, AnyCall] = {}
        self.running: dict[CallId, Running] = {}
        self.below = 0
        """The number of the newest record that the ring does not hold, which is also how many there are."""
        self.version = 0
        """A number that grows with every change."""
        self._ended: deque[CallId] = deque()
        """The ids of the ended calls, in the order they ended."""

    @property
    def total(self) -> int:
        """Returns the number of all calls: running ones, those in the ring, and those below it."""
        return len(self.order) + self.below

    def holds_ended(self, call: CallView) -> bool:
        return isinstance(self.by_id.get(CallId(call.id)), CallView)

    def count_waiting(self) -> Counter[str]:
        return Counter(call.waits_for for call in self.running.values() if call.waits_for)

    @property
    def first_ended(self) -> CallId | None:
        """Returns the id of the call that ended first among those in the ring; None if all of them run."""
        return self._ended[0] if self._ended else None

    def load_snapshot(self, below: int, recent: Sequence[CallView], running: Iterable[Running]) -> None:
        """Load the newest records, newest first, above ``below`` older ones, and the running calls. Older calls of the
        ring stay unless some are missing between them and ``recent``.
        """
        newer = {CallId(call.id): call for call in reversed(recent)}
        is_gapless = self.below + len(self._ended) == below or next(iter(newer), None) in self._ended
        older = [call for call in self._ended if call not in newer] if is_gapless else []
        self.below = max(0, below - len(older))
        self.by_id = {**{call: self.by_id[call] for call in older}, **newer}
        self._ended = deque([*older, *newer])
        self.running = {call.id: call for call in running if call.id not in self.by_id}
        self.by_id |= self.running
        self.order = sorted(self.by_id)
        self.version += 1

    def update_running(self, call: Running) -> None:
        """Add or update a call that started or progressed. A late event of an ended call is ignored."""
        previous = self.by_id.get(call.id)
        if isinstance(previous, CallView):
            return
        if previous is None:
            insort(self.order, call.id)  # its place is nearly always the end
        self.by_id[call.id] = self.running[call.id] = call
        self.version += 1

    def remove_waiting(self, call_id: CallId) -> None:
        """Remove a waiting call that was not admitted; one that ended stays."""
        if self.running.pop(call_id, None) is not None:
            del self.by_id[call_id]
            self.order.remove(call_id)
            self.version += 1

    def mark_running_lost(self) -> None:
        """Show running calls as lost, as their records will after the server stopped, and remove waiting calls."""
        waiting_ids = [call.id for call in self.running.values() if call.waits_for and not call.attempt]
        for call_id in waiting_ids:
            self.remove_waiting(call_id)
        self.by_id |= {call.id: call_view(lost_record(call)) for call in self.running.values()}
        self.running = {}
        self.version += 1

    def settle(self, call: CallView) -> None:
        call_id = CallId(call.id)
        previous = self.by_id.get(call_id)
        if isinstance(previous, CallView):
            return
        if previous is None:
            insort(self.order, call_id)
        self.running.pop(call_id, None)
        self.by_id[call_id] = call
        self._ended.append(call_id)
        self.version += 1
        if len(self._ended) >= self._limit + self._slack:
            dropped = {self._ended.popleft() for _ in range(self._slack)}
            for dropped_id in dropped:
                del self.by_id[dropped_id]
            self.order = [id_ for id_ in self.order if id_ not in dropped]
            self.below += len(dropped)


def as_view(call: AnyCall, now: Millis) -> CallView:
    """Returns the call as a row of the Live page."""
    return call if isinstance(call, CallView) else running_view(call, now)


_REFUSALS: Mapping[str, str] = {
    "account_suspended": "suspended",
    "group_quota_exceeded": "budget",
    "insufficient_quota": "no money",
    "invalid_api_key": "bad key",
    "key_replaced": "old key",
    "model_not_found": "no model",
    "no_channel_available": "no channel",
    "rate_limit_exceeded": "rate limit",
    "token_quota_exceeded": "budget",
}
"""Words for error codes of refusals, short enough for a narrow column."""


def channel_text(call: CallView) -> str:
    """Returns the channel's name, or in parentheses why a refused call did not reach one: ``(rate limit)``."""
    if call.channel or not call.code:
        return call.channel
    budget = exceeded_budget(call.marks)
    if budget not in ("", BALANCE_ID):  # a budget of the account has the same code as an empty balance
        return "(budget)"
    return f"({_REFUSALS.get(call.code, call.code.replace('_', ' '))})"
