"""Incidents: when a channel failed, how long it was paused, and where its calls went instead; as values and as text.

They are built from two sources: failed attempts of settled calls, and channel states. So incidents of the newest
calls are known as soon as a console opens, with pauses that still last. A failing store is an incident too, from the
moment the console learns of it.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence

import msgspec
from textual.content import Content

from gateway.domain.call import CHAT_API, Attempt, FailureKind
from gateway.domain.units import Millis
from gateway.domain.views import CallView, ChannelView
from tui import format as fmt
from tui.glyphs import Glyphs
from tui.text import Part, TextCard, safe

QUIET_MS = 120_000
"""Failures further apart are two incidents."""

LIMIT = 200
"""Incidents that are kept."""

FAILURE_NAMES = {
    FailureKind.AUTH: "key rejected",
    FailureKind.QUOTA: "out of credit",
    FailureKind.RATE: "rate-limited",
    FailureKind.MISSING: "unknown model",
    FailureKind.SERVER: "errors",
    FailureKind.NETWORK: "unreachable",
    FailureKind.SLOW: "too slow",
    FailureKind.CUT: "cut off",
}

NOT_UPSTREAM = ("client_closed", "cancelled", "stopped")
"""Outcomes that are not the upstream's fault, whatever its attempt looks like."""

STORE = ""
"""The channel name in incidents of the store."""

PAUSED_STATES = ("cooling", "attention")
"""States in which a channel gets no calls."""


class Incident(msgspec.Struct, kw_only=True):
    """One period of failures of a channel, or of the store."""

    channel: str
    """``STORE`` for the store."""
    kind: FailureKind | None
    """None if only its state is known."""
    reason: str
    began: Millis
    last: Millis
    """The last failure, or when it was last seen paused."""
    failures: int = 0
    """Attempts that failed."""
    unanswered: int = 0
    """Calls that no channel answered."""
    apis: Counter[str] = msgspec.field(default_factory=Counter)
    """Failed attempts by the inbound API of their calls."""
    moved: Counter[str] = msgspec.field(default_factory=Counter)
    """Calls that other channels answered, by their names."""
    until: Millis | None = None
    """When it is tried again; None while paused: when it is resumed by hand."""
    paused: bool = False
    ended: Millis | None = None
    """When it was used again after a pause."""

    @property
    def paused_ms(self) -> int | None:
        """How long it was or will be paused; None if it was not, or if there is no end."""
        end = self.ended if self.ended is not None else self.until
        return None if end is None else max(0, end - self.began)


class Incidents:
    """All there are, the oldest first."""

    def __init__(self) -> None:
        self._all: deque[Incident] = deque(maxlen=LIMIT)
        self._now = Millis(0)
        """The latest moment seen in an event."""

    def newest(self, channel: str = "") -> list[Incident]:
        """The newest first; of one channel if it is named."""
        return [one for one in reversed(self._all) if channel in ("", one.channel)]

    def add_call(self, call: CallView) -> None:
        """Record the failures of a finished call."""
        self._now = max(self._now, Millis(call.time_ms + call.duration_ms))
        if call.outcome in NOT_UPSTREAM:
            return
        answered = 200 <= call.status < 300
        seen: set[str] = set()
        for at, attempt in _failures(call):
            found = self._open(attempt.channel, at)
            if found is None:
                found = Incident(channel=attempt.channel, kind=attempt.kind, reason=attempt.reason, began=at, last=at)
                self._all.append(found)
            found.kind, found.reason = found.kind or attempt.kind, found.reason or attempt.reason
            found.last = max(found.last, at)
            found.failures += 1
            found.apis[call.api] += 1
            if attempt.channel not in seen and call.channel != attempt.channel and answered:
                found.moved[call.channel] += 1
            elif attempt.channel not in seen and not answered:
                found.unanswered += 1
            seen.add(attempt.channel)

    def update_channels(self, channels: Sequence[ChannelView], at: Millis) -> None:
        """Record the channels' states at a moment (0: that of the last call)."""
        now = at or self._now
        for channel in channels:
            found = next((one for one in reversed(self._all) if one.channel == channel.name), None)
            out = channel.state in PAUSED_STATES
            if out and (found is None or (not found.paused and now - found.last > QUIET_MS)):
                found = Incident(channel=channel.name, kind=None, reason=channel.reason, began=now, last=now)
                self._all.append(found)
            if found is not None and out:
                found.paused, found.until, found.ended = True, channel.until_ms, None
                found.last = max(found.last, now)
            elif found is not None and found.paused:
                found.paused = False
                found.ended = min(now, found.until) if found.until is not None else now

    def update_store(self, error: str, at: Millis) -> None:
        """Record the state of the store at a moment (0: that of the last call); no error means it works."""
        now = at or self._now
        found = next((one for one in reversed(self._all) if one.channel == STORE and one.paused), None)
        if error and found is None:
            self._all.append(Incident(channel=STORE, kind=None, reason=error, began=now, last=now, paused=True))
        elif error and found is not None:
            found.reason, found.last = error, now
        elif found is not None:
            found.paused, found.ended = False, now

    def _open(self, channel: str, at: Millis) -> Incident | None:
        """The incident that a failure at this moment belongs to."""
        for one in reversed(self._all):
            if one.channel == channel:
                return one if one.paused or abs(at - one.last) <= QUIET_MS else None
        return None


def _failures(call: CallView) -> Iterator[tuple[Millis, Attempt]]:
    """What failed on the upstream's side, and when."""
    at = call.time_ms
    for attempt in call.attempts:
        at = Millis(at + attempt.ms)
        if attempt.kind is not None and attempt.kind is not FailureKind.CLIENT:
            yield at, attempt


LABEL = 15


def timeline(incidents: Sequence[Incident], now: int, glyphs: Glyphs, width: int) -> Content:
    """All of them, two or three lines each."""
    card = TextCard(width, label=LABEL)
    for one in incidents:
        tone = "bad" if one.paused and one.until is None else "warn" if one.paused else "dim"
        mark = glyphs.warning if one.paused else glyphs.ok
        name = "the store" if one.channel == STORE else safe(one.channel, 40)
        card.row(fmt.moment(one.began, now), (f"{mark} ", tone), (name, "bold"), f" {what_failed(one, now)}")
        if one.reason:
            card.row("", (reason_text(one), "dim"))
        if moved := where_calls_went(one, glyphs):
            card.row("", moved)
    return card.content()


def incident_line(one: Incident, now: int, glyphs: Glyphs) -> str:
    """The same on one line, without the channel."""
    moved = where_calls_went(one, glyphs)
    return f"{fmt.moment(one.began, now).strip()} {what_failed(one, now)}{f' {moved[0]}' if moved else ''}"


def what_failed(one: Incident, now: int) -> str:
    """``rate-limited 30s``, ``errors, 4 failures until 14:02:10; retry in 12s``."""
    if one.channel == STORE:
        return "failing: calls are rejected" if one.paused else f"failed for {fmt.countdown(0, one.paused_ms or 0)}"
    text = "paused" if one.kind is None else FAILURE_NAMES.get(one.kind, "failed")
    if not one.paused and (rested := one.paused_ms) is not None:
        text += f" {fmt.countdown(0, rested)}"
    if one.failures > 1:
        text += f", {one.failures:,} failures until {fmt.moment(one.last, now).strip()}"
    if set(one.apis) - {CHAT_API}:
        text += f" ({', '.join(f'{count:,} {safe(api)}' for api, count in one.apis.most_common())})"
    if not one.paused:
        return text
    if one.until is None:
        return "paused until resumed" if one.kind is None else f"{text}; paused until resumed"
    return f"{text}; retry {f'in {fmt.countdown(now, one.until)}' if one.until > now else 'now'}"


def where_calls_went(one: Incident, glyphs: Glyphs) -> Part | None:
    """``→ 12 calls went to b, 3 to c; 1 failed``; None if no call was affected."""
    parts = []
    if one.moved:
        (first, count), *rest = one.moved.most_common()
        also = "".join(f", {number:,} to {safe(name, 40)}" for name, number in rest[:3])
        parts.append(f"{count:,} call{'' if count == 1 else 's'} went to {safe(first, 40)}{also}")
    if one.unanswered:
        parts.append(f"{one.unanswered:,} failed" if parts else f"{fmt.counted(one.unanswered, 'call')} failed")
    return (f"{glyphs.right} {'; '.join(parts)}", "warn" if one.unanswered else "ok") if parts else None


def reason_text(one: Incident) -> str:
    """Why, without the channel's name in front of it."""
    return safe(one.reason.removeprefix(f"channel '{one.channel}': "))
