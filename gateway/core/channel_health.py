"""ChannelHealth: which channels and keys are paused, why, and until when. Times are monotonic seconds.

A channel is in one of these states:

- ``ok``
- ``cooling``: it is paused. The pause grows with each failure (``STEPS_S``).
- ``half_open``: the pause is over, and one call may try the channel.
- ``attention``: its key was refused. The pause lasts until the owner edits, tests or clears it; a rare call may try it.
- ``off``: the owner has switched it off. That never changes here.

``docs/channels.md`` has the rules for users; the backoff of a single call is in ``retry``.

Each of several keys has a state like a channel. A failure of one key alone (refused, limited, out of credit) leaves its
channel in use with the other keys. A channel without a usable key is paused until its first key is back.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import msgspec

from gateway.core.latency import LatencyStats
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.units import ChannelId

WINDOW_S = 60.0
"""How far back the breaker counts outcomes, in seconds."""
STEPS_S = (10.0, 30.0, 60.0, 120.0)
"""The seconds of the first, second, third pause, and of every later one."""
REFUSED_S = (60.0, 300.0, 900.0, 3600.0)
"""Like ``STEPS_S``, for a refused key. It is tried again at all because vendors err too."""

KEY_KINDS = frozenset({FailureKind.AUTH, FailureKind.UNSET, FailureKind.QUOTA, FailureKind.RATE})
"""Failures of the key rather than of the channel, if the channel has other keys."""

_QUICK_KINDS = frozenset({FailureKind.SERVER, FailureKind.NETWORK})
"""Failures that a call notices at once."""
_BREAKER_KINDS = _QUICK_KINDS | {FailureKind.SLOW, FailureKind.CUT}


class HealthState(msgspec.Struct, frozen=True):
    """The current state of a channel or key."""

    name: str
    reason: str = ""
    left_s: float = 0.0
    """Seconds left of the pause; 0 if it is not paused."""
    kind: FailureKind | None = None


OK = HealthState("ok")
_OFF = HealthState("off")


class _Failures(msgspec.Struct, eq=False):
    """The recent failures of a channel or key."""

    until: float = 0.0
    reason: str = ""
    """Why it was paused; empty if it was not, or has recovered."""
    attention: bool = False
    """Whether its key was refused."""
    kind: FailureKind | None = None
    in_a_row: int = 0
    pauses: int = 0
    """How often it was paused since its last success."""
    trial: bool = False
    """Whether a call is trying it after a pause."""
    outcomes: deque[tuple[float, bool]] = msgspec.field(default_factory=lambda: deque(maxlen=50))
    """When recent calls ended, and whether they succeeded."""
    missing: dict[str, float] = {}
    """When each model that the upstream does not know may be requested again."""

    def add_failure(self, now: float) -> bool:
        """Count a failure. Returns whether the breaker opens."""
        is_half_open = bool(self.reason)
        self.in_a_row += 1
        self.outcomes.append((now, False))
        recent = [succeeded for at, succeeded in self.outcomes if at > now - WINDOW_S]
        mostly_failures = len(recent) >= 5 and 2 * recent.count(False) >= len(recent)
        return is_half_open or self.in_a_row >= 3 or mostly_failures

    def count_pause(self, steps: Sequence[float] = STEPS_S) -> float:
        """Count a pause. Returns its seconds."""
        seconds = steps[min(self.pauses, len(steps) - 1)]
        self.pauses += 1
        return seconds

    def refuse_key(self, kind: FailureKind, reason: str, now: float) -> None:
        """Note that its key was refused. During its pause, only tests and earlier calls can be refused again."""
        if self.attention and self.until > now:
            return
        self.attention, self.kind, self.reason = True, kind, reason
        self.until = max(self.until, now + self.count_pause(REFUSED_S))

    def accept_key(self, now: float) -> bool:
        """Note that its key was accepted. Returns whether a refusal ends: in its pause, answers belong to old calls."""
        if not self.attention or self.until > now:
            return False
        self.attention = False
        return True

    def pause(self, kind: FailureKind, reason: str, seconds: float, now: float) -> None:
        """Pause the channel or key. A shorter pause never ends a longer one."""
        self.until = max(self.until, now + seconds)
        self.reason = reason
        if not self.attention:
            self.kind = kind


NO_TRIAL = nullcontext()


class ChannelHealth:
    """The states of all channels, in memory: after a restart all are healthy."""

    def __init__(
        self,
        mono: Callable[[], float],
        on_change: Callable[[], None],
        in_flight: Callable[[ChannelId], int] = lambda _: 0,
    ) -> None:
        self._mono = mono
        self._on_change = on_change
        self.latency = LatencyStats(mono)
        self.in_flight = in_flight
        """Returns how many calls a channel is answering."""
        self.failing: dict[ChannelId, _Failures] = {}
        """Channels and keys that failed recently; usually none."""
        self.renewed: defaultdict[ChannelId, float] = defaultdict(float)
        """When channels were last edited, cleared or tested well. Results of earlier calls and tests are ignored."""

    def state(self, channel: Channel) -> HealthState:
        if not channel.enabled:
            return _OFF
        if not self.failing:
            return OK
        own = self.state_of(channel.id)
        keys = [self.state_of(id) for id in channel.state_ids if channel.keys]
        has_usable_key = any(state.name != "attention" for state in keys)
        if not keys or (has_usable_key and own.name not in ("ok", "half_open")):
            return own
        return _state_with_keys(own, keys)

    def state_of(self, id: ChannelId) -> HealthState:
        """Returns the state of a channel itself, or of one of several keys (see ``key_id``)."""
        failures = self.failing.get(id)
        if failures is None:
            return OK
        left_s = failures.until - self._mono()
        if left_s > 0:
            name = "attention" if failures.attention else "cooling"
            return HealthState(name, failures.reason, left_s, failures.kind)
        return HealthState("half_open", failures.reason, kind=failures.kind) if failures.reason else OK

    def failed_last(self, id: ChannelId) -> bool:
        """Returns whether a channel, or one of several keys, had no success since its last failure."""
        failures = self.failing.get(id)
        return failures is not None and (failures.in_a_row > 0 or bool(failures.reason))

    def missing(self, channel: ChannelId) -> dict[str, float]:
        """Returns the models that are not requested from this channel now, with the seconds left."""
        failures = self.failing.get(channel)
        if failures is None or not failures.missing:
            return {}
        now = self._mono()
        return {model: until - now for model, until in failures.missing.items() if until > now}

    def is_on_trial(self, id: ChannelId) -> bool:
        """Returns whether a half-open channel or key already has its trial call."""
        failures = self.failing.get(id)
        return failures is not None and failures.trial

    @contextmanager
    def trying(self, channel: ChannelId, key: ChannelId | str = "") -> Iterator[None]:
        """Make the call in the block the trial of its channel and key, if they are half-open and have none."""
        now, candidates = self._mono(), (self.failing.get(channel), self.failing.get(ChannelId(key)))
        due = (failures for failures in candidates if failures is not None and failures.until <= now)
        trials = [failures for failures in due if failures.reason and not failures.trial]
        for failures in trials:
            failures.trial = True
        try:
            yield
        finally:
            for failures in trials:
                failures.trial = False

    def note_success(self, channel: ChannelId, key: ChannelId | str = "") -> None:
        """Note that a call succeeded: its channel and key are healthy again."""
        self._recover(channel)
        self._recover(ChannelId(key))

    def _recover(self, id: ChannelId) -> None:
        """Forget the failures, except for the recent outcomes."""
        failures = self.failing.get(id)
        if failures is None:
            return
        now, was_paused = self._mono(), bool(failures.reason)
        failures.outcomes.append((now, True))
        failures.in_a_row = failures.pauses = 0
        failures.reason, failures.until, failures.attention = "", 0.0, False
        failed_recently = any(at > now - WINDOW_S and not succeeded for at, succeeded in failures.outcomes)
        if not (failures.missing or failed_recently):
            del self.failing[id]
        if was_paused:
            self._on_change()

    def note_failure(self, id: ChannelId, kind: FailureKind, reason: str, retry_after_s: float | None = None) -> None:
        """Note that a call failed at this channel, or with this key. ``CLIENT`` failures count for neither."""
        if kind in (FailureKind.CLIENT, FailureKind.MISSING):
            return
        failures, now = self.failing.setdefault(id, _Failures()), self._mono()
        if kind in (FailureKind.AUTH, FailureKind.UNSET):
            failures.refuse_key(kind, reason, now)
        elif kind is FailureKind.QUOTA:
            failures.accept_key(now)
            failures.pause(kind, reason, retry_after_s or 3600.0, now)
        elif kind is FailureKind.RATE:
            failures.accept_key(now)
            failures.pause(kind, reason, failures.count_pause() if retry_after_s is None else retry_after_s, now)
        elif kind in _BREAKER_KINDS and failures.add_failure(now):
            if kind is FailureKind.CUT:  # an answer had begun
                failures.accept_key(now)
            pause_s = failures.count_pause()
            # a failure that is noticed at once does no harm where calls can go elsewhere
            failures.pause(kind, reason, min(pause_s, 30.0) if kind in _QUICK_KINDS else pause_s, now)
        self._on_change()

    def note_answer(self, channel: ChannelId, key: ChannelId | str, status: int) -> None:
        """Note that the upstream answered a call that then failed. Unless it refused the key, it accepted it."""
        if status in (401, 403):  # the key may be refused
            return
        for id in (channel, ChannelId(key)):
            failures = self.failing.get(id)
            if failures is not None and failures.accept_key(self._mono()):
                failures.reason, failures.pauses = "", 0
                self._on_change()

    def note_missing(self, channel: ChannelId, model: str) -> None:
        """Note that the upstream does not know this model. The channel stays in use; the model is paused there."""
        self.failing.setdefault(channel, _Failures()).missing[model] = self._mono() + 600.0
        self._on_change()

    def forget_missing(self, channel: ChannelId) -> None:
        """Forget which models the upstream does not know: the channel's models or their names have changed."""
        if (failures := self.failing.get(channel)) is not None and failures.missing:
            failures.missing.clear()
            self._on_change()

    def renumber_keys(self, before: Channel, after: Channel) -> None:
        """Move the states of the remaining keys to their new numbers. A single key owns only a refusal."""
        by_key = {
            key: self.failing.pop(id)
            for key, id in zip(before.all_keys, before.state_ids, strict=False)
            if id in self.failing and (before.keys or self.failing[id].attention)
        }
        for key, id in zip(after.all_keys, after.state_ids, strict=False):
            own, moved = self.failing.get(id), by_key.get(key)
            if moved is not None and (own is None or moved.attention or own.until <= moved.until):
                self.failing[id] = moved
        self.renewed[after.id] = self._mono()
        self._on_change()

    def clear(self, id: ChannelId, *, keys: bool = True, models: Collection[str] | None = None) -> None:
        """Forget the failures of a channel and its keys: it was edited, tested well, or cleared by hand.

        With the id of one of several keys, only that key's failures are forgotten. ``models`` are the missing models to
        forget; None means all.
        """
        self.renewed[id] = self._mono()
        ids = [other for other in self.failing if other == id or (keys and other.startswith(f"{id}#"))]
        for cleared_id in ids:
            missing = self.failing.pop(cleared_id).missing
            rest = {} if models is None else {model: until for model, until in missing.items() if model not in models}
            if rest:
                self.failing[cleared_id] = _Failures(missing=rest)
        if ids:
            self._on_change()


def _state_with_keys(own: HealthState, keys: Sequence[HealthState]) -> HealthState:
    if any(state.name == "ok" for state in keys):
        return own
    cooling = [state for state in keys if state.name == "cooling"]
    half_open = [state for state in keys if state.name == "half_open"]
    best = min(half_open[:1] or cooling or keys, key=lambda state: state.left_s)
    return HealthState(best.name, f"none of its {len(keys)} keys is available: {best.reason}", best.left_s, best.kind)
