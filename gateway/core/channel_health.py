"""Which channels and keys are paused, why, and until when.

States: ``ok``; ``cooling`` until a moment; ``half_open``, when that moment has come and one call may try;
``attention``, when the key is refused: until the owner edits, tests or clears it, and one call may try now and then;
``off`` is the owner's own switch and is never changed here. The pause grows with each failure (``STEPS_S``); the
backoff of a single call is in ``retry``. ``docs/channels.md`` has the rules for users. Times are monotonic seconds.

A key has states like a channel. A failure of one key alone (refused, limited, out of credit) leaves its channel in use
with the other keys. A channel without a usable key is paused until its first key is back.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import msgspec

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, key_id
from gateway.domain.units import ChannelId

WINDOW_S = 60.0
STEPS_S = (10.0, 30.0, 60.0, 120.0)
"""Seconds for which a channel is paused the first, second, third time, and from then on."""
REFUSED_S = (60.0, 300.0, 900.0, 3600.0)
"""Seconds for which a refused key is not tried, the first, second, third time, and from then on. Vendors err too."""
OUT_OF_CREDIT_S = 3600.0
LONGEST_S = 600.0
"""The longest Retry-After that is believed, in seconds."""

KEY_KINDS = frozenset({FailureKind.AUTH, FailureKind.UNSET, FailureKind.QUOTA, FailureKind.RATE})
"""Failures of the key rather than of the channel, if the channel has other keys."""

_QUICK_KINDS = frozenset({FailureKind.SERVER, FailureKind.NETWORK})
_BREAKER_KINDS = frozenset({FailureKind.SERVER, FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT})

_REFUSAL_KINDS = frozenset({FailureKind.AUTH, FailureKind.UNSET})

_KEY_REFUSED = frozenset({401, 403})
"""The HTTP statuses that may refuse the key. With any other, the upstream accepted it."""


class HealthState(msgspec.Struct, frozen=True):
    """A channel's present state."""

    name: str
    reason: str = ""
    left_s: float = 0.0
    """Seconds left of the pause; 0 if it has no end, or is not paused."""
    kind: FailureKind | None = None
    """The kind of the failure that paused it."""


OK = HealthState("ok")
_OFF = HealthState("off")


class _ChannelState(msgspec.Struct, eq=False):
    """What is remembered of one channel or key."""

    until: float = 0.0
    reason: str = ""
    attention: bool = False
    kind: FailureKind | None = None
    in_a_row: int = 0
    steps: int = 0
    trial: bool = False
    outcomes: deque[tuple[float, bool]] = msgspec.field(default_factory=lambda: deque(maxlen=50))
    models: dict[str, float] = {}

    def failed_lately(self, now: float) -> bool:
        """Returns how many calls failed within the breaker's window."""
        return any(at > now - WINDOW_S and not ok for at, ok in self.outcomes)

    def trips(self, now: float) -> bool:
        """Count a failure. Returns whether the breaker opens."""
        half_open = bool(self.reason)
        self.in_a_row += 1
        self.outcomes.append((now, False))
        recent = [ok for at, ok in self.outcomes if at > now - WINDOW_S]
        half_fail = len(recent) >= 5 and 2 * recent.count(False) >= len(recent)
        return half_open or self.in_a_row >= 3 or half_fail

    def step(self) -> float:
        """Returns how long it is paused this time."""
        step = STEPS_S[min(self.steps, len(STEPS_S) - 1)]
        self.steps += 1
        return step

    def refused(self, kind: FailureKind, reason: str, now: float) -> None:
        """Its key was refused. While it is paused, only tests and earlier calls can be refused again."""
        if self.attention and self.until > now:
            return
        self.attention, self.kind, self.reason = True, kind, reason
        self.until = max(self.until, now + REFUSED_S[min(self.steps, len(REFUSED_S) - 1)])
        self.steps += 1

    def accepted(self, now: float) -> bool:
        """Its key was accepted, by a call that began after the refusal. Returns whether it had been refused."""
        if not self.attention or self.until > now:
            return False
        self.attention = False
        return True

    def rest(self, kind: FailureKind, reason: str, seconds: float, now: float) -> None:
        """Pause it. The later deadline stays: a short pause never ends a long one."""
        most = max(LONGEST_S, OUT_OF_CREDIT_S) if seconds == OUT_OF_CREDIT_S else LONGEST_S
        self.until = max(self.until, now + min(max(seconds, 0.0), most))
        self.reason = reason
        if not self.attention:
            self.kind = kind


NO_TRIAL = nullcontext()


TOKENS = 200
"""How many output tokens the answer has by which channels are compared."""
STALE_S = 600.0
"""Seconds after which a measurement is stale: the channel is tried again."""


class _ModelLatency(msgspec.Struct):
    """The measurements of one model at one channel."""

    first_s: float
    token_s: float
    at: float


class LatencyStats:
    """How fast channels answered recently, model by model, for groups with policy ``fastest``; in memory.

    For streams the wait for the first byte and the rate after it are kept apart; plain answers show only the total.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._measured: dict[tuple[ChannelId, str], _ModelLatency] = {}

    def note(self, channel: ChannelId, model: str, *, first_s: float | None, whole_s: float, tokens: int) -> None:
        """Add an answer: its first byte came after ``first_s`` (None: not a stream), all of it after ``whole_s``."""
        if tokens < 8:  # so few say nothing about the rate
            return
        first, rest = (0.0, whole_s) if first_s is None else (first_s, max(0.0, whole_s - first_s))
        rate, now, key = rest / tokens, self._mono(), (channel, model)
        known = self._measured.get(key)
        if known is None or now - known.at > STALE_S:
            if len(self._measured) >= 4096:
                self._measured.clear()
            self._measured[key] = _ModelLatency(first, rate, now)
            return
        known.first_s += 0.3 * (first - known.first_s)
        known.token_s += 0.3 * (rate - known.token_s)
        known.at = now

    def expected_s(self, channel: ChannelId, model: str) -> float | None:
        """Returns the seconds that a typical answer takes there; None if that was not measured recently."""
        known = self._measured.get((channel, model))
        if known is None or self._mono() - known.at > STALE_S:
            return None
        return known.first_s + TOKENS * known.token_s


class ChannelHealth:
    """The states of all channels, in memory: after a restart all are well."""

    def __init__(
        self,
        mono: Callable[[], float],
        changed: Callable[[], None],
        in_flight: Callable[[ChannelId], int] = lambda _: 0,
    ) -> None:
        self._mono = mono
        self._changed = changed
        self.pace = LatencyStats(mono)
        """How fast the channels are."""
        self.in_flight = in_flight
        """Returns how many calls a channel is answering."""
        self.failing: dict[ChannelId, _ChannelState] = {}
        """Channels and keys that failed recently; usually none."""

    def state(self, channel: Channel) -> HealthState:
        """Returns the state as the owner sees it."""
        if not channel.enabled:
            return _OFF
        if not self.failing:
            return OK
        own = self.state_of(channel.id)
        if not channel.keys or own.name not in ("ok", "half_open"):
            return own
        return _with_keys(own, [self.state_of(id) for id in _key_ids(channel.id, len(channel.all_keys))])

    def state_of(self, id: ChannelId) -> HealthState:
        """Returns the state of a channel itself, or of one of several keys (see ``key_id``)."""
        channel_state = self.failing.get(id)
        if channel_state is None:
            return OK
        left = channel_state.until - self._mono()
        if left > 0:
            name = "attention" if channel_state.attention else "cooling"
            return HealthState(name, channel_state.reason, left, channel_state.kind)
        return HealthState("half_open", channel_state.reason, kind=channel_state.kind) if channel_state.reason else OK

    def failed_last(self, id: ChannelId) -> bool:
        """Returns whether nothing succeeded since the last failure of a channel, or of one of several keys."""
        channel_state = self.failing.get(id)
        return channel_state is not None and (channel_state.in_a_row > 0 or bool(channel_state.reason))

    def missing(self, channel: ChannelId) -> dict[str, float]:
        """Returns the models that are not requested from this channel now, with the seconds left."""
        channel_state = self.failing.get(channel)
        if channel_state is None or not channel_state.models:
            return {}
        now = self._mono()
        return {model: until - now for model, until in channel_state.models.items() if until > now}

    def on_trial(self, channel: ChannelId) -> bool:
        """Returns whether a half-open channel or key already has its trial call."""
        channel_state = self.failing.get(channel)
        return channel_state is not None and channel_state.trial

    @contextmanager
    def trying(self, channel: ChannelId, key: ChannelId | str = "") -> Iterator[None]:
        """Marks a call that runs during the block: the trial of a half-open channel or key without one."""
        now, states = self._mono(), (self.failing.get(channel), self.failing.get(ChannelId(key)))
        trials = [
            state for state in states if state is not None and state.reason and state.until <= now and not state.trial
        ]
        for state in trials:
            state.trial = True
        try:
            yield
        finally:
            for state in trials:
                state.trial = False

    def succeeded(self, channel: ChannelId, key: ChannelId | str = "") -> None:
        """A call succeeded: forget everything but the recent outcomes."""
        self._recover(channel)
        if key:
            self._recover(ChannelId(key))

    def _recover(self, channel: ChannelId) -> None:
        channel_state = self.failing.get(channel)
        if channel_state is None:
            return
        known = bool(channel_state.reason)
        channel_state.outcomes.append((self._mono(), True))
        channel_state.in_a_row = channel_state.steps = 0
        channel_state.reason, channel_state.until, channel_state.attention = "", 0.0, False
        if not channel_state.models and not channel_state.failed_lately(self._mono()):
            del self.failing[channel]
        if known:
            self._changed()

    def failed(self, channel: ChannelId, kind: FailureKind, reason: str, retry_after_s: float | None = None) -> None:
        """A call failed at this channel, or with this key. ``CLIENT`` failures count for neither."""
        if kind in (FailureKind.CLIENT, FailureKind.MISSING):
            return
        channel_state, now = self.failing.setdefault(channel, _ChannelState()), self._mono()
        if kind in _REFUSAL_KINDS:
            channel_state.refused(kind, reason, now)
        elif kind is FailureKind.QUOTA:
            channel_state.accepted(now)
            channel_state.rest(kind, reason, retry_after_s or OUT_OF_CREDIT_S, now)
        elif kind is FailureKind.RATE:
            channel_state.accepted(now)
            channel_state.rest(kind, reason, channel_state.step() if retry_after_s is None else retry_after_s, now)
        elif kind in _BREAKER_KINDS and channel_state.trips(now):
            if kind is FailureKind.CUT:  # an answer had begun
                channel_state.accepted(now)
            step = channel_state.step()
            # a failure that shows at once does no harm where calls can go elsewhere
            channel_state.rest(kind, reason, min(step, 30.0) if kind in _QUICK_KINDS else step, now)
        self._changed()

    def answered(self, channel: ChannelId, key: ChannelId | str, status: int) -> None:
        """The upstream answered a call that then failed. Unless it refused the key, it accepted it."""
        if status in _KEY_REFUSED:
            return
        for id in (channel, ChannelId(key)):
            channel_state = self.failing.get(id)
            if channel_state is not None and channel_state.accepted(self._mono()):
                channel_state.reason, channel_state.steps = "", 0
                self._changed()

    def lacks(self, channel: ChannelId, model: str) -> None:
        """The upstream does not know this model. The channel stays in use; the model is paused there."""
        channel_state = self.failing.setdefault(channel, _ChannelState())
        channel_state.models[model] = self._mono() + 600.0
        self._changed()

    def relearn_models(self, channel: ChannelId) -> None:
        """Forget which models it does not know: its models or their names have changed."""
        if (channel_state := self.failing.get(channel)) is not None and channel_state.models:
            channel_state.models.clear()
            self._changed()

    def follow_keys(self, channel: ChannelId, before: Sequence[str], after: Sequence[str]) -> None:
        """A channel's keys changed: move the states of the keys that it keeps to their new numbers.

        While a channel has one key, only a refusal is a state of that key. All other failures are the channel's.
        """
        known = {
            key: self.failing[id]
            for key, id in zip(before, _key_ids(channel, len(before)), strict=True)
            if id in self.failing and (id != channel or self.failing[id].attention)
        }
        for id in [id for id in self.failing if id.startswith(f"{channel}#")]:
            del self.failing[id]
        if self.failing.get(channel) in known.values():
            del self.failing[channel]
        for key, id in zip(after, _key_ids(channel, len(after)), strict=True):
            if key in known and not _outlasts(self.failing.get(id), known[key]):
                self.failing[id] = known[key]
        self._changed()

    def clear(self, channel: ChannelId, *, keys: bool = True, models: Collection[str] | None = None) -> None:
        """Forget the failures of a channel, its keys and its models: it was edited, tested well, or cleared by hand.

        With the id of one of several keys, only that key's failures. ``models`` are those to forget; None: all.
        """
        mine = [id for id in self.failing if id == channel or (keys and id.startswith(f"{channel}#"))]
        for id in mine:
            known = self.failing.pop(id).models
            missing = {} if models is None else {name: until for name, until in known.items() if name not in models}
            if missing:
                self.failing[id] = _ChannelState()
                self.failing[id].models = missing
        if mine:
            self._changed()


def _with_keys(own: HealthState, keys: Sequence[HealthState]) -> HealthState:
    """Returns the state of a usable channel, given the states of its keys."""
    if any(state.name == "ok" for state in keys):
        return own
    cooling = [state for state in keys if state.name == "cooling"]
    halves = [state for state in keys if state.name == "half_open"]
    best = min(halves[:1] or cooling or keys, key=lambda state: state.left_s)
    return HealthState(best.name, f"none of its {len(keys)} keys is available: {best.reason}", best.left_s, best.kind)


def _outlasts(own: _ChannelState | None, key: _ChannelState) -> bool:
    """Returns whether a channel's own pause outlasts that of its only key left."""
    return own is not None and not key.attention and own.until > key.until


def _key_ids(channel: ChannelId, count: int) -> list[ChannelId]:
    """Returns the ids under which the states of a channel's keys are kept."""
    return [channel] if count == 1 else [key_id(channel, number) for number in range(1, count + 1)]
