"""Retries: what a call has tried, what it does next, after which pause, and how many attempts it may make. Pure.

A request that never reached an upstream may be tried elsewhere freely. One that was sent without success may be tried
once more, elsewhere. The only channel is tried a second time, after a pause, if it could not be reached, failed by
itself, or says that it will be free in a moment. Then come the channels of the fallback models.

The ``RetryBudget`` limits second attempts and attempts at a paused channel, so that broken upstreams are not flooded: a
fifth of the calls in flight, but at least three, and over time no more than a fifth of the calls and three a second. An
attempt at another channel that is well does not count: ``channel_health`` limits those, and pauses failing channels.
After its first attempt, a call may go to a paused channel freely once: for a fallback model that it has not tried, at a
channel where it has not failed.
"""

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from hashlib import blake2b

import msgspec

from gateway.core.catalog import ModelEntry, Route
from gateway.core.channel_health import KEY_KINDS, ChannelHealth
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.routing import Draw, RouteCapacity, RouteChoice, choose
from gateway.core.settlement import billed_unseen
from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamError
from gateway.domain.units import ChannelId
from gateway.inbound.api import InboundRequest

RETRY_SHARE = 0.2
LEAST_RETRIES = 3.0


class RetryBudget:
    """The retry budget of the whole gateway. ``in_flight`` returns how many calls run."""

    def __init__(self, mono: Callable[[], float], in_flight: Callable[[], int]) -> None:
        self._mono = mono
        self._in_flight = in_flight
        self._credit = LEAST_RETRIES
        self._then = mono()
        self.calls = 0
        """How many calls there were."""

    def take(self) -> bool:
        """Take one retry if it is allowed. Returns whether it is."""
        now = self._mono()
        earned = RETRY_SHARE * self.calls + LEAST_RETRIES * (now - self._then)
        self._credit = min(max(LEAST_RETRIES, RETRY_SHARE * self._in_flight()), self._credit + earned)
        self.calls, self._then = 0, now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


KEEP_FAILURE_S = 2.0
MOST_FAILURES = 256


class RecentFailures:
    """Calls of the last seconds that failed before their answer began, at every channel that could be tried.

    Some clients repeat a failed call at once, up to thirty times. A repetition gets the same failure, without another
    attempt at the upstreams.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._known: OrderedDict[bytes, tuple[UpstreamError, float]] = OrderedDict()

    def note(self, token: str, body: bytes, error: UpstreamError) -> None:
        """Remember that the call failed now. A mistake in the request does not count."""
        if error.http_status < 500:
            return
        kept = copy(error).with_traceback(None)
        self._known[_digest(token, body)] = kept, self._mono()
        while len(self._known) > MOST_FAILURES:
            self._known.popitem(last=False)

    def of(self, token: str, body: bytes) -> UpstreamError | None:
        """Returns the failure of the same call a moment ago."""
        if not self._known:
            return None
        known = _digest(token, body)
        error, then = self._known.get(known, (None, 0.0))
        if error is None or self._mono() - then <= KEEP_FAILURE_S:
            return None if error is None else copy(error)
        del self._known[known]
        return None


class BrokenStreams:
    """Streams of the last seconds that broke after part of the answer was sent.

    Claude Code and other programs then make the whole call again, at once and often without a stream. It is paid for
    twice, so the second call is marked.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self.known: OrderedDict[bytes, float] = OrderedDict()
        """When each conversation's stream broke."""

    def note(self, token: str, request: InboundRequest) -> None:
        """Remember that the stream broke now."""
        self.known[_conversation(token, request)] = self._mono()
        while len(self.known) > MOST_FAILURES:
            self.known.popitem(last=False)

    def repeated(self, token: str, request: InboundRequest) -> bool:
        """Returns whether this is the same call again. Only the first repetition of each break counts."""
        then = self.known.pop(_conversation(token, request), None)
        return then is not None and self._mono() - then <= 5.0


def _conversation(token: str, request: InboundRequest) -> bytes:
    """Returns a short name of the conversation, the same for a stream and a plain call."""
    said = request.fields.get(request.turns) or request.fields.get("prompt") or b""
    about = f"{request.session}\0{request.model}\0".encode("utf-8", "replace")
    view = memoryview(said)
    return _digest(token, about + b"%d\0" % len(view) + view[: 64 << 10] + view[-(64 << 10) :])


def _digest(token: str, body: bytes) -> bytes:
    return blake2b(body, key=token.encode()[:64], digest_size=16).digest()


MOST_TRIES = 3
"""The most attempts of one call at the channels of one model."""
MORE_KEYS = 5
"""Attempts that do not count, because another key of the same channel may work."""
PAUSE_MS = 500
"""The pause before a channel is tried again; a random part of up to the same length is added."""


class NextStep(msgspec.Struct, frozen=True):
    """What a call does next."""

    choice: RouteChoice
    route: Route
    entry: ModelEntry
    """The model to call: the one the client named, or one that may answer for it."""
    wait_s: float = 0.0
    """Seconds to wait before."""


class RetryState:
    """The failed attempts of one call."""

    def __init__(self, entry: ModelEntry, first: ModelEntry) -> None:
        """``first`` is the model that is tried first: that of the call, or one that may answer for it."""
        self._original, self._entry = entry, first
        self._others = [other for other in entry.fallbacks if other is not first]
        if first is not entry:
            self._others.append(entry)
        self._tried: set[ChannelId] = set()
        self._left = MOST_TRIES
        self._more_keys = MORE_KEYS
        self._last: Route | None = None
        self._repeated = False
        self._dead: set[ChannelId] = set()
        """Channels that could not be reached or did not answer, whichever model was requested."""
        self._failed_at: dict[str, set[ChannelId]] = {}
        """The channels where a model failed, by model."""
        self._put_off: set[str] = set()
        self._rested = False
        """Whether it went to a paused channel after its first attempt."""
        self._failing: set[ChannelId] = set()
        """Channels where it failed, with any key or model."""
        self.failures: list[UpstreamError] = []
        self.gates: tuple[ConcurrencyGate, ...] = ()
        """Where a place may come free for a call without a next step."""

    def failed(self, route: Route, failure: UpstreamError) -> None:
        """Add an attempt that failed before the client had any of its answer."""
        at_fault = fault_of(route, failure.kind)
        self._last = route
        self._tried.add(at_fault)
        self._failing.add(route.channel.id)
        self._failed_at.setdefault(self._entry.name, set()).add(at_fault)
        if failure.kind in (FailureKind.NETWORK, FailureKind.SLOW):
            self._dead.add(at_fault)
        self.failures.append(failure)
        if at_fault == route.key_id and self._more_keys:
            self._more_keys -= 1
        else:
            self._left -= 1

    def next(
        self, health: ChannelHealth, draw: Draw, retries: RetryBudget, room: RouteCapacity | None = None
    ) -> NextStep | None:
        """Returns where to go now; None if the call has failed."""
        if _spent(self.failures) or len(self.failures) >= 6 + MORE_KEYS - self._more_keys:
            return None
        self.gates = ()
        step = None if is_refused(self.failures[-1]) else self._here(health, draw, retries, room)
        while step is None and self._others:
            other = self._others.pop(0)
            if may_help(self.failures[-1], self._original, other):
                self._turn_to(other)
                step = self._here(health, draw, retries, room)
        return step

    def _turn_to(self, other: ModelEntry) -> None:
        """Return to a channel that failed with another model, if it can be reached."""
        self._entry, self._left, self._repeated, self._last = other, MOST_TRIES, False, None
        self._tried = self._dead | self._failed_at.get(other.name, set())

    def _here(
        self, health: ChannelHealth, draw: Draw, retries: RetryBudget, room: RouteCapacity | None
    ) -> NextStep | None:
        """Returns the next attempt at the same model."""
        if self._left <= 0:
            return None
        choice = choose(self._entry.routes, frozenset(self._tried), health, draw, room)
        self.gates = choice.gates
        if choice.route is not None and not choice.resting:
            return self._step(choice, choice.route)
        if (again := self._again(health, draw)) is not None and retries.take():
            self._repeated = True
            return again
        if choice.route is None or self._puts_off() or not (self._is_free(choice.route) or retries.take()):
            return None
        self._rested = True
        return self._step(choice, choice.route)

    def _puts_off(self) -> bool:
        """Returns whether a paused channel waits until the other models were tried; once for each model."""
        if not self._others or self._entry.name in self._put_off:
            return False
        self._put_off.add(self._entry.name)
        self._others.append(self._entry)
        return True

    def _is_free(self, route: Route) -> bool:
        """Returns whether a paused channel may be called outside of the retry budget, like by a call of the fallback
        model itself.

        This holds once in a call, for the first attempt of a fallback, and not where the call has already failed.
        """
        new = self._entry is not self._original and self._entry.name not in self._failed_at
        return new and not self._rested and route.channel.id not in self._failing

    def _step(self, choice: RouteChoice, route: Route) -> NextStep:
        if self._entry is not self._original:
            choice = as_fallback(choice, self._original)
        return NextStep(choice, route, self._entry)

    def _again(self, health: ChannelHealth, draw: Draw) -> NextStep | None:
        """Returns the same channel again, if it is the only one and may work."""
        route, failure = self._last, self.failures[-1]
        if route is None or self._repeated or len(self._tried) > 1:
            return None
        pause = _pause_s(failure, opened=health.state(route.channel).name == "cooling")
        if pause is None:
            return None
        wait = pause + draw(PAUSE_MS) / 1000
        return NextStep(RouteChoice(route, f"retried after {wait:.1f} s", (), None), route, self._entry, wait)


def fault_of(route: Route, kind: FailureKind) -> ChannelId:
    """Returns the id at fault: one of several keys, or the channel."""
    return route.key_id if route.key_id and kind in KEY_KINDS else route.channel.id


def _pause_s(failure: UpstreamError, *, opened: bool) -> float | None:
    """Returns how long to wait before the same channel is tried again; None if it is not."""
    retry_after = failure.retry_after_s
    if retry_after is not None and retry_after > 5.0:  # nobody waits so long
        return None
    if failure.kind is FailureKind.RATE:
        return retry_after
    # Groq lacks capacity at this moment
    broke = failure.kind is FailureKind.SERVER and (failure.status == 498 or not 300 <= failure.status < 500)
    unreached = failure.kind is FailureKind.NETWORK and not failure.sent
    return max(PAUSE_MS / 1000, retry_after or 0.0) if (broke or unreached) and not opened else None


def as_fallback(choice: RouteChoice, original: ModelEntry) -> RouteChoice:
    """Returns the choice of a channel for a fallback of the requested model, with that in its reason."""
    return msgspec.structs.replace(choice, why=f"fallback for {original.name}, {choice.why}")


def is_refused(failure: UpstreamError) -> bool:
    """Returns whether an upstream found a fault in the request, so that no other channel may be called for the model.

    A request that a dialect cannot express was never sent: a channel of another dialect may take it.
    """
    return failure.kind is FailureKind.CLIENT and failure.sent


def is_too_long(failure: UpstreamError) -> bool:
    """Returns whether a request was refused for its length."""
    return failure.code == "context_length_exceeded"


def may_help(failure: UpstreamError, original: ModelEntry, other: ModelEntry) -> bool:
    """Returns whether another model may answer: not if the request is at fault, unless it is too long."""
    longer = other.context is not None and (original.context is None or other.context > original.context)
    return not is_refused(failure) or (longer and is_too_long(failure))


def _spent(failures: list[UpstreamError]) -> bool:
    """Returns whether the call was sent twice without success: it is not sent again."""
    return sum(billed_unseen(f.kind, sent=f.sent) for f in failures) > 1
