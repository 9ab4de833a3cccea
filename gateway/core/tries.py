"""Tries: what a call has tried in vain, and what it does next. Pure: chance is a parameter.

The retry line (``features.md`` 2.6, ``reliability.md`` 4.2): what never reached an upstream may be tried elsewhere
freely; what was sent and brought nothing may be tried once more, elsewhere. A channel that is the only one is asked a
second time, after a pause, if it could not be reached, failed by itself, or says that it is free in a moment. A
second time, and an attempt at a channel at rest, is made as far as ``Retries`` allows.
"""

import msgspec

from gateway.core.catalog import ModelEntry, Route
from gateway.core.health import KEY_KINDS, Health
from gateway.core.retries import Retries
from gateway.core.routing import Choice, Draw, choose
from gateway.core.settlement import billed_unseen
from gateway.domain.call import FailureKind
from gateway.domain.units import ChannelId
from gateway.upstream.adapter import Failure

MOST = 3
"""Attempts of one call."""
MORE_KEYS = 5
"""Attempts that are not counted, because another key of the same channel may do."""
PAUSE_MS = 500
"""Before a channel is asked again; up to as much again is added by chance."""
WAIT_S = 5.0
"""A channel that says it is free within this time is waited for."""


class Step(msgspec.Struct, frozen=True):
    """What comes next."""

    choice: Choice
    route: Route
    wait_s: float = 0.0
    """How long to pause before."""


class Tries:
    """The attempts of one call that failed, at the channels of one model."""

    def __init__(self, entry: ModelEntry) -> None:
        self._entry = entry
        self._tried: set[ChannelId] = set()
        self._left = MOST
        self._more_keys = MORE_KEYS
        self._last: Route | None = None
        self._repeated = False
        self.failures: list[Failure] = []

    def failed(self, route: Route, failure: Failure) -> None:
        """An attempt failed before the client had anything of its answer."""
        at_fault = fault_of(route, failure.kind)
        self._last = route
        self._tried.add(at_fault)
        self.failures.append(failure)
        if at_fault == route.key_id and self._more_keys:
            self._more_keys -= 1
        else:
            self._left -= 1

    def next(self, health: Health, draw: Draw, retries: Retries) -> Step | None:
        """Where to go now; None if the call has failed."""
        if self._left <= 0 or _final(self.failures):
            return None
        choice = choose(self._entry.routes, frozenset(self._tried), health, draw)
        if choice.route is not None and not choice.resting:
            return Step(choice, choice.route)
        if (again := self._again(health, draw)) is not None and retries.take():
            self._repeated = True
            return again
        if choice.route is not None and retries.take():
            return Step(choice, choice.route)
        return None

    def _again(self, health: Health, draw: Draw) -> Step | None:
        """The same channel once more, if it is the only one and there is hope."""
        route, failure = self._last, self.failures[-1]
        if route is None or self._repeated or len(self._tried) > 1:
            return None
        pause = _pause_s(failure, opened=health.state(route.channel).name == "cooling")
        if pause is None:
            return None
        wait = pause + draw(PAUSE_MS) / 1000
        return Step(Choice(route, f"once more after {wait:.1f} s", (), None), route, wait)


def fault_of(route: Route, kind: FailureKind) -> ChannelId:
    """What a failure is held against: one of several keys, or the channel."""
    return route.key_id if route.key_id and kind in KEY_KINDS else route.channel.id


def _pause_s(failure: Failure, *, opened: bool) -> float | None:
    """How long to wait before the same channel is asked again; None if it is not."""
    told = failure.retry_after_s
    if told is not None and told > WAIT_S:
        return None
    if failure.kind is FailureKind.RATE:
        return told
    broke = failure.kind is FailureKind.SERVER and not 300 <= failure.error.status < 500
    unreached = failure.kind is FailureKind.NETWORK and not failure.sent
    return max(PAUSE_MS / 1000, told or 0.0) if (broke or unreached) and not opened else None


def _final(failures: list[Failure]) -> bool:
    """Whether no other channel may be asked after these failures.

    What a dialect cannot say was never sent: another channel may speak another one.
    """
    if failures[-1].kind is FailureKind.CLIENT and failures[-1].sent:
        return True
    return sum(billed_unseen(f.kind, sent=f.sent) for f in failures) > 1
