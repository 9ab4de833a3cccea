"""Incidents: periods in which a channel, or the store, failed for one cause; and budgets that are nearly spent.

They are made from failed attempts of settled calls, and from what is wrong now. Failures with another cause, kind or
HTTP status make another incident, and both may overlap.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from gateway.domain.budget import WARN_SHARE, share_of
from gateway.domain.call import NOT_UPSTREAM, Attempt, FailureKind, exceeded_budget, skipped_channels
from gateway.domain.human_values import percent_text
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView, CallView

QUIET_MS = 120_000
"""Failures further apart, in milliseconds, are two incidents."""

ENDED_BY_SUCCESS = frozenset({FailureKind.AUTH, FailureKind.UNSET, FailureKind.QUOTA, FailureKind.NETWORK})
"""Causes that a successful call disproves. Rate limits, errors and others come and go with calls between."""

LIMIT = 200
"""How many incidents are kept."""

STORE = ""
"""The channel name in incidents of the store and of budgets."""

PAUSED_STATES = ("cooling", "attention")
"""States in which a channel gets no calls."""

ALL_SPENT = "all is spent, and calls are rejected"


class Incident(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One period of failures for one cause."""

    id: int
    """Its number, from 1, in order of beginning."""
    channel: str
    """``STORE`` for the store and for budgets."""
    subject_id: str = ""
    """The id of the channel or budget, which survives renames."""
    key: str = ""
    """Which of several keys failed alone, by number and mask; empty: the channel."""
    budget: str = ""
    """The budget or price: ``daily budget of token 'ci'``, or ``reported cost of 'gpt-4o' at channel 'c'``; empty for
    failures."""
    kind: FailureKind | None = None
    """None for the store and for budgets."""
    status: int = 0
    """The upstream's HTTP status; 0 without an answer."""
    reason: str = ""
    """The reason of the last failure."""
    began: Millis = msgspec.field(name="began_ms")
    last: Millis = msgspec.field(name="last_ms")
    """The last failure; for a pause without one, its beginning."""
    failures: int = 0
    """How many attempts failed."""
    unanswered: int = 0
    """How many calls no channel answered."""
    refused: int = 0
    """How many calls had no other channel while this one was paused, so that none was tried; or found the budget too
    small."""
    apis: dict[str, int] = msgspec.field(default_factory=dict)
    """Failed attempts by the inbound API of their calls."""
    moved: dict[str, int] = msgspec.field(default_factory=dict)
    """Calls that failed here and were then answered by other channels, by channel name; not those that a pause kept
    away."""
    until: Millis | None = msgspec.field(name="until_ms", default=None)
    """When it is tried again, or the budget is reset; None while paused: when it is resumed by hand."""
    refusing: bool = False
    """Whether the budget rejects calls: all of it is spent, or it was recently too small for one."""
    paused: bool = False
    """Whether it lasts: the channel is paused, the store rejects calls, or a variable is still not set."""
    ended: Millis | None = msgspec.field(name="ended_ms", default=None)
    """When it was used again after a pause, a call succeeded, or less of the budget was spent than deserves a warning;
    the last failure if it was quiet then. None: it lasts."""

    @property
    def length_ms(self) -> int | None:
        """Returns how long it lasted or will last; None while its end is unknown."""
        end = self.ended if self.ended is not None else self.until
        return None if end is None else max(0, max(end, self.last) - self.began)

    @property
    def quiet_from(self) -> Millis:
        """Returns the last failure, or the end of the pause after it."""
        return max(self.last, self.until or Millis(0))

    def includes(self, at: Millis) -> bool:
        """Returns whether a failure with the same cause at this moment belongs to it."""
        if self.ended is None:
            end = self.quiet_from + QUIET_MS
        else:
            end = max(self.ended, self.last) + (0 if self.kind in ENDED_BY_SUCCESS else QUIET_MS)
        return self.paused or self.began - QUIET_MS <= at <= end

    def lasts(self, now: int) -> bool:
        """Returns whether it lasts: it is paused, or nothing succeeded since a failure of the last minutes."""
        if self.budget:
            return self.ended is None and (self.until is None or self.until > now)
        return self.paused or (self.channel != STORE and self.ended is None and now - self.quiet_from <= QUIET_MS)

    def refuses(self, now: int) -> bool:
        """Returns whether a budget rejects calls."""
        return self.refusing and self.lasts(now)

    def has_cause(self, subject: str, key: str, kind: FailureKind | None) -> bool:
        """Returns whether it has this cause. A key may have another number by now."""
        return (self.subject_id, self.kind, _mask(self.key)) == (subject, kind, _mask(key))


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong now. Its incident lasts as long as it is reported."""

    channel: str = STORE
    subject_id: str = ""
    key: str = ""
    budget: str = ""
    kind: FailureKind | None = None
    reason: str = ""
    until: Millis | None = None
    """None: unknown, or as before."""
    refusing: bool = False


class Incidents:
    """All incidents, the oldest first."""

    def __init__(self, known: Iterable[Incident] = ()) -> None:
        self._all: deque[Incident] = deque(known, maxlen=LIMIT)
        self._names: Mapping[str, str] = {}
        """The present names of channels and budgets by their ids."""
        self._ids: dict[str, str] = {}
        """Their ids by every name they had since the start."""

    def newest(self, channel: str = "") -> list[Incident]:
        """Returns incidents, the newest first; only a channel's if it is named."""
        return [incident for incident in reversed(self._all) if channel in ("", incident.channel)]

    def put(self, incident: Incident) -> None:
        """Add an incident, or replace it."""
        at = next((i for i, other in enumerate(self._all) if other.id == incident.id), None)
        if at is None:
            self._all.append(incident)
        else:
            self._all[at] = incident

    def copies(self) -> dict[int, Incident]:
        """Returns the incidents as they are now, by id."""
        return {incident.id: msgspec.structs.replace(incident) for incident in self._all}

    def changed_since(self, before: Mapping[int, Incident]) -> list[Incident]:
        """Returns the incidents that are new, or different from these copies."""
        return [incident for incident in self._all if before.get(incident.id) != incident]

    def follow_names(self, names: Mapping[str, str]) -> None:
        """Use the present names of channels and budgets, by their ids."""
        self._names = names
        self._ids |= {name: subject for subject, name in names.items()}
        for incident in self._all:
            if incident.budget:
                incident.budget = names.get(incident.subject_id, incident.budget)
            else:
                incident.channel = names.get(incident.subject_id, incident.channel)
            incident.moved = {self._present_name(name): count for name, count in incident.moved.items()}

    def _present_name(self, name: str) -> str:
        return self._names.get(self._ids.get(name, ""), name)

    def begin(self, **fields: object) -> Incident:
        """Add an incident."""
        incident = Incident(id=max((other.id for other in self._all), default=0) + 1, **fields)  # type: ignore[arg-type]
        self._all.append(incident)
        return incident

    def add_failures(self, call: CallView) -> None:
        """Record the failed attempts of a finished call."""
        if call.outcome in NOT_UPSTREAM:
            return
        answered = 200 <= call.status < 300
        seen: set[str] = set()
        for at, attempt in _failures(call):
            incident = self._of(attempt, at)
            incident.status = attempt.status
            incident.reason = plain(attempt.reason) or incident.reason
            incident.last = max(incident.last, at)
            if incident.ended is not None and incident.ended < at:
                incident.ended = None
            incident.failures += 1
            incident.apis = _one_more(incident.apis, call.api)
            if attempt.channel not in seen and call.channel != attempt.channel and answered:
                incident.moved = _one_more(incident.moved, self._present_name(call.channel))
            elif attempt.channel not in seen and not answered:
                incident.unanswered += 1
            seen.add(attempt.channel)

    def _of(self, attempt: Attempt, at: Millis) -> Incident:
        """Returns the incident that a failure at this moment belongs to, perhaps a new one."""
        name, key = self._present_name(attempt.channel), attempt.key if attempt.kind in _KEY_CAUSES else ""
        subject = self._ids.get(name, name)
        mine = [
            other
            for other in self.newest()
            if other.has_cause(subject, key, attempt.kind)
            and (other.status == attempt.status or not other.failures)
            and other.includes(at)
        ]
        incident = next((other for other in mine if other.began <= at), mine[-1] if mine else None)
        return incident or self.begin(channel=name, subject_id=subject, key=key, kind=attempt.kind, began=at, last=at)

    def add_refusal(self, call: CallView) -> None:
        """Count a call that was refused because a budget was too small, or because channels were paused."""
        channels = [self._ids.get(name, name) for name in skipped_channels(call.marks)]
        for subject in filter(None, (exceeded_budget(call.marks), *channels)):
            mine = [incident for incident in self.newest() if incident.subject_id == subject]
            cause = next((incident for incident in mine if incident.paused), mine[0] if mine else None)
            if cause is not None:
                cause.refused += call.count
                cause.last = max(cause.last, Millis(call.time_ms + call.duration_ms)) if cause.budget else cause.last

    def update(self, wrong: Iterable[Condition], failing: Collection[tuple[str, str]], now: Millis) -> list[Incident]:
        """Begin, continue and end incidents, given all that is wrong now.

        ``failing`` are the ids of channels where nothing succeeded since a failure, each with a key or an empty one.
        Returns new warnings: that a budget is nearly or fully spent, or too small for a call.
        """
        lasting, warnings = set[int](), list[Incident]()
        for condition in wrong:
            incident = self._lasting(condition, now)
            if incident is None:
                incident = self.begin(
                    channel=condition.channel,
                    subject_id=condition.subject_id,
                    budget=condition.budget,
                    kind=condition.kind,
                    began=now,
                    last=now,
                )
            if incident.budget and (not incident.reason or condition.reason == ALL_SPENT != incident.reason):
                incident.last = now
                warnings.append(incident)
            _continue(incident, condition)
            lasting.add(incident.id)
        subjects = {(subject, _mask(key)) for subject, key in failing}
        for other in self._all:
            if other.ended is None and other.id not in lasting:
                fails = other.kind not in _STATE_KINDS and (other.subject_id, _mask(other.key)) in subjects
                _stop(other, now, fails=fails)
        return warnings

    def _lasting(self, condition: Condition, now: Millis) -> Incident | None:
        """Returns the incident of what is wrong: that with the last failure."""
        mine = [
            incident
            for incident in self._all
            if incident.has_cause(condition.subject_id, condition.key, condition.kind)
        ]
        if condition.channel == STORE:
            mine = [incident for incident in mine if incident.ended is None and incident.until == condition.until]
        else:
            mine = [incident for incident in mine if incident.includes(now)]
        return max(mine, key=lambda incident: incident.last, default=None)


def _continue(incident: Incident, condition: Condition) -> None:
    """Let it last as the condition says."""
    incident.key, incident.refusing = condition.key, condition.refusing
    if not incident.failures:
        incident.reason = plain(condition.reason)
    if condition.until is not None:
        incident.until = _steady(incident.until, condition.until)
    incident.paused, incident.ended = not incident.budget, None


def _stop(incident: Incident, now: Millis, *, fails: bool) -> None:
    """End a pause; and the incident, unless its channel still fails and it is not quiet for long."""
    paused, incident.paused = incident.paused, False
    lasts = incident.lasts(now)
    if not (fails and lasts):
        unknown = incident.until is None if paused else lasts
        incident.ended = now if unknown else min(now, incident.quiet_from)


def _mask(key: str) -> str:
    """Returns a key's name without its number."""
    return key.partition(" ")[2]


def _one_more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1}


_STATE_KINDS = frozenset({FailureKind.UNSET, FailureKind.MISSING})
"""Causes that end with their condition, whatever else fails at the channel."""

_KEY_CAUSES = frozenset({FailureKind.AUTH, FailureKind.QUOTA, FailureKind.RATE})
"""Failures of one key; the channel's others may be used."""

_CAUSES = {
    FailureKind.AUTH: "key rejected",
    FailureKind.UNSET: "variable not set",
    FailureKind.QUOTA: "out of credit",
    FailureKind.RATE: "rate-limited",
    FailureKind.MISSING: "unknown model",
    FailureKind.SERVER: "errors",
    FailureKind.NETWORK: "unreachable",
    FailureKind.SLOW: "too slow",
    FailureKind.CUT: "cut off",
}


def reason_text(reason: str) -> str:
    """Returns why a channel failed or is paused, without its name, which may have changed since."""
    return _CHANNEL.sub("", reason, count=1)


_CHANNEL = re.compile(r"channel '.*?': ")


def cause_text(incident: Incident) -> str:
    """``rate-limited``, ``errors (503)``, ``paused``, ``key 1 …7890 rejected``."""
    if incident.kind is None:
        return f"key {incident.key} paused" if incident.key else "paused"
    if incident.status == 529:  # all of Anthropic's customers together send too many calls
        return "overloaded"
    text = _CAUSES.get(incident.kind, "failed")
    if incident.key:
        return f"key {incident.key} {text.removeprefix('key ')}"
    return f"{text} ({incident.status})" if incident.kind is FailureKind.SERVER and incident.status else text


def spent_share(budget: BudgetView) -> float:
    """Returns the larger share that is spent, of money or of tokens. What running calls hold does not count."""
    return share_of(budget, budget.spent_nanos, budget.spent_tokens)


def spent_text(budget: BudgetView) -> str:
    """Returns ``85% is spent``, or that calls are rejected."""
    share = spent_share(budget)
    if share >= 1 or 0 in (budget.nanos, budget.tokens):
        return ALL_SPENT
    text = f"{percent_text(share)} is spent"
    return text if share >= WARN_SHARE else f"too little is left for a call; {text}"


def _steady(before: Millis | None, now: Millis) -> Millis:
    # a moment that is computed again differs by less
    return before if before is not None and abs(now - before) < 2_000 else now


def _failures(call: CallView) -> Iterator[tuple[Millis, Attempt]]:
    """Yields what failed on the upstream's side, and when."""
    at = call.time_ms
    for attempt in call.attempts:
        at = Millis(at + attempt.ms)
        if attempt.kind is not None and attempt.kind is not FailureKind.CLIENT:
            yield at, attempt
