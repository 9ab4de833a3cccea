"""Retries: decides where a call goes after a failed attempt, after which pause, and how often. Pure.

A request that never reached an upstream may be tried elsewhere freely. One that was sent without success may be tried
once more, elsewhere. The only channel is tried a second time, after a pause, if it could not be reached, failed by
itself, or says that it will be free in a moment. Then come the channels of the fallback models.

The ``RetryBudget`` limits second attempts and attempts at a paused channel, so that broken upstreams are not flooded: a
fifth of the calls in flight, but at least three, and over time no more than a fifth of the calls and three a second. An
attempt at another healthy channel does not count: ``channel_health`` limits those, and pauses failing channels. After
its first attempt, a call may go to a paused channel freely once: for a fallback model that it has not tried, at a
channel where it has not failed.
"""

from collections.abc import Callable

import msgspec

from gateway.core.channel_health import KEY_KINDS, ChannelHealth
from gateway.core.model_entry import ModelEntry, Route
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.routing import Draw, LimitCheck, RouteChoice, choose
from gateway.core.settlement import may_be_billed
from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamError
from gateway.domain.units import ChannelId

RETRY_SHARE = 0.2
MIN_RETRIES = 3.0


class RetryBudget:
    """The retry budget of the whole gateway. ``in_flight`` returns how many calls run."""

    def __init__(self, mono: Callable[[], float], in_flight: Callable[[], int]) -> None:
        self._mono = mono
        self._in_flight = in_flight
        self._credit = MIN_RETRIES
        self._updated = mono()
        self.calls = 0
        """How many calls came since the credit was updated."""

    def take(self) -> bool:
        """Take one retry if it is allowed. Returns whether it is."""
        now = self._mono()
        earned = RETRY_SHARE * self.calls + MIN_RETRIES * (now - self._updated)
        self._credit = min(max(MIN_RETRIES, RETRY_SHARE * self._in_flight()), self._credit + earned)
        self.calls, self._updated = 0, now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


MAX_TRIES = 3
"""The maximum number of attempts of a call at the channels of one model."""
MORE_KEYS = 5
"""How many failures of a key do not count as attempts, because another key of the same channel may work."""
PAUSE_MS = 500
"""The pause before a channel is tried again; a random part of up to the same length is added."""


class NextStep(msgspec.Struct, frozen=True):
    """What a call does next."""

    route: Route
    reason: str
    """Why this route is taken, for the answer's headers."""
    wait_s: float = 0.0
    """Seconds to wait before."""


class RetryState:
    """The failed attempts of one call, and what it may still try."""

    def __init__(self, requested: ModelEntry, first: str) -> None:
        """``first`` is the model that is tried first: the requested one, or one that may answer for it."""
        models = (*requested.fallbacks, requested)
        self._requested = requested
        self._entry = next(model for model in models if model.name == first)
        self._other_models = [model for model in models if model is not self._entry]
        self._attempts: list[tuple[Route, UpstreamError]] = []
        """The failed attempts."""
        self._tries_left = MAX_TRIES
        self._more_keys = MORE_KEYS
        self._last: tuple[Route, UpstreamError] | None = None
        """The last route that was tried with the current model, and its failure."""
        self._repeated = False
        """Whether that route was tried twice."""
        self._postponed: set[str] = set()
        """Models whose paused channels wait until the other models were tried."""
        self._used_paused = False
        """Whether the call went to a paused channel after its first attempt."""
        self.gates: tuple[ConcurrencyGate, ...] = ()
        """Where a slot may come free for a call without a next step."""

    @property
    def failures(self) -> list[UpstreamError]:
        return [failure for _, failure in self._attempts]

    def add_failure(self, route: Route, failure: UpstreamError) -> None:
        """Add an attempt that failed before the client had any of its answer."""
        self._attempts.append((route, failure))
        if failure.kind is not FailureKind.UNSET:
            self._last = route, failure
        if fault_of(route, failure.kind) == route.key_id and self._more_keys:
            self._more_keys -= 1
        elif failure.kind is not FailureKind.UNSET:
            self._tries_left -= 1

    def next(
        self, health: ChannelHealth, draw: Draw, retries: RetryBudget, limit_check: LimitCheck | None = None
    ) -> NextStep | None:
        """Returns where to go now; None if the call has failed."""
        failures = self.failures
        sent = sum(may_be_billed(failure.kind, sent=failure.sent) for failure in failures)
        if sent > 1 or len(failures) >= 6 + MORE_KEYS - self._more_keys:
            return None
        self.gates = ()
        step = None
        if not is_refused(failures[-1]):
            step = self._next_with_model(health, draw, retries, limit_check)
        while step is None and self._other_models:
            other = self._other_models.pop(0)
            if may_answer(failures[-1], self._requested, other):
                self._entry, self._tries_left, self._repeated, self._last = other, MAX_TRIES, False, None
                step = self._next_with_model(health, draw, retries, limit_check)
        return step

    def _faults(self) -> dict[ChannelId, FailureKind]:
        """Returns the channels and keys that are not tried again with the current model, each with its failure: those
        where it failed, and with any model those that could not be reached or did not answer.
        """
        return {
            fault_of(route, failure.kind): failure.kind
            for route, failure in self._attempts
            if route.served.name == self._entry.name or failure.kind in (FailureKind.NETWORK, FailureKind.SLOW)
        }

    def _next_with_model(
        self, health: ChannelHealth, draw: Draw, retries: RetryBudget, limit_check: LimitCheck | None
    ) -> NextStep | None:
        if self._tries_left <= 0:
            return None
        choice = choose(self._entry.routes, frozenset(self._faults()), health, draw, limit_check)
        self.gates = choice.gates
        if choice.route is not None and not choice.paused:
            return self._step(choice, choice.route)
        if (repetition := self._repetition(health, draw)) is not None and retries.take():
            self._repeated = True
            return repetition
        if choice.route is None or self._postpone() or not (self._may_use_freely(choice.route) or retries.take()):
            return None
        self._used_paused = True
        return self._step(choice, choice.route)

    def _postpone(self) -> bool:
        """Let a paused channel wait until other models were tried, once for each model. Returns whether it waits."""
        if not self._other_models or self._entry.name in self._postponed:
            return False
        self._postponed.add(self._entry.name)
        self._other_models.append(self._entry)
        return True

    def _may_use_freely(self, route: Route) -> bool:
        """Returns whether a paused channel may be called outside of the retry budget, as if the fallback was requested.

        This holds once in a call, for the first attempt of a fallback, and not where the call has already failed.
        """
        tried_routes = [tried for tried, _ in self._attempts]
        has_failed = any(r.served.name == self._entry.name or r.channel.id == route.channel.id for r in tried_routes)
        return self._entry is not self._requested and not self._used_paused and not has_failed

    def _step(self, choice: RouteChoice, route: Route) -> NextStep:
        if self._entry is not self._requested:
            choice = as_fallback(choice, self._requested)
        return NextStep(route, choice.reason)

    def _repetition(self, health: ChannelHealth, draw: Draw) -> NextStep | None:
        """Returns another attempt at the same channel, if it is the only one and may work."""
        others = [kind for kind in self._faults().values() if kind is not FailureKind.UNSET]
        if self._last is None or self._repeated or len(others) > 1:
            return None
        route, failure = self._last
        pause_s = _pause_s(failure, paused=health.state(route.channel).name == "cooling")
        if pause_s is None:
            return None
        wait_s = pause_s + draw(PAUSE_MS) / 1000
        return NextStep(route, f"retried after {wait_s:.1f} s", wait_s)


def fault_of(route: Route, kind: FailureKind) -> ChannelId:
    """Returns the id at fault: one of several keys, or the channel."""
    return route.key_id if route.key_id and kind in KEY_KINDS else route.channel.id


def _pause_s(failure: UpstreamError, *, paused: bool) -> float | None:
    """Returns the seconds before another try of the channel, or None. ``paused``: the failure paused it for all."""
    retry_after_s = failure.retry_after_s
    if retry_after_s is not None and retry_after_s > 5.0:  # too long for a waiting client
        return None
    if failure.kind is FailureKind.RATE:
        return retry_after_s
    # 498: Groq lacks capacity at this moment
    is_broken = failure.kind is FailureKind.SERVER and (failure.status == 498 or not 300 <= failure.status < 500)
    is_unreached = failure.kind is FailureKind.NETWORK and not (failure.sent or failure.lasting)
    return max(PAUSE_MS / 1000, retry_after_s or 0.0) if (is_broken or is_unreached) and not paused else None


def as_fallback(choice: RouteChoice, requested: ModelEntry) -> RouteChoice:
    """Returns the choice of a channel for a fallback of the requested model, and says so in its reason."""
    return msgspec.structs.replace(choice, reason=f"fallback for {requested.name}, {choice.reason}")


def is_refused(failure: UpstreamError) -> bool:
    """Returns whether an upstream found a fault in the request, so that no other channel may be called for the model.

    A request that a dialect cannot express was never sent: a channel of another dialect may take it.
    """
    return failure.kind is FailureKind.CLIENT and failure.sent


def is_too_long(failure: UpstreamError) -> bool:
    """Returns whether a request was refused for its length."""
    return failure.code == "context_length_exceeded"


def may_answer(failure: UpstreamError, requested: ModelEntry, other: ModelEntry) -> bool:
    """Returns whether another model may answer: not if the request is at fault, unless it is only too long."""
    has_longer_context = other.context is not None and (requested.context is None or other.context > requested.context)
    return not is_refused(failure) or (has_longer_context and is_too_long(failure))
