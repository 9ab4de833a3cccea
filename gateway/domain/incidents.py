"""Incidents: times when a channel, or the store, failed for one cause; and budgets that are nearly spent.

They are derived from failed attempts of settled calls, and from the current conditions of channels, store and budgets.
Failures with another kind or HTTP status are another incident, even at the same time.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gateway.domain.budget import WARN_SHARE, share_of
from gateway.domain.call import NOT_UPSTREAM, SKIPPED_MARK, Attempt, FailureKind, exceeded_budget, mark_values
from gateway.domain.human_values import count_text, percent_text
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView, CallView

QUIET_MS = 120_000
"""The time without failures after which an incident ends, in milliseconds."""

ENDED_BY_SUCCESS = frozenset({FailureKind.AUTH, FailureKind.UNSET, FailureKind.QUOTA, FailureKind.NETWORK})
"""Kinds of failures that are over after a successful call. Others, such as rate limits, may occur between successes."""

STORE = ""
"""The channel name of incidents of the store and of budgets."""

PAUSED_STATES = ("cooling", "attention")
"""The states of a channel that gets no calls."""

ALL_SPENT = "all is spent, and calls are rejected"

_KEY_CAUSES = frozenset({FailureKind.AUTH, FailureKind.QUOTA, FailureKind.RATE})
"""Kinds of failures that concern one key, so that the others of the channel can be used."""

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


class Condition(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something that is wrong now. Its incident lasts as long as ``Incidents.update`` gets it."""

    channel: str
    """``STORE`` for the store and for budgets."""
    subject_id: str = ""
    """The id of the channel or budget, which survives renames."""
    key: str = ""
    """The number and mask of the key that failed, if only this one did; empty if the channel failed."""
    budget: str = ""
    """A budget such as ``daily budget of token 'ci'``, or a price: ``reported cost of 'gpt-4o' at channel 'c'``."""
    kind: FailureKind | None = None
    """The kind of failure; None for the store and for budgets."""
    reason: str = ""
    """The reason of the last failure, without the channel's name."""
    until: Millis | None = msgspec.field(name="until_ms", default=None)
    """When the channel is tried again, or the budget is reset. None while paused means when the owner resumes it."""
    refusing: bool = False
    """Whether the budget rejects calls, because all of it is spent or it was recently too small for one."""


class Incident(Condition, kw_only=True, omit_defaults=True):
    """One period of failures for one cause."""

    id: int
    """Its number, from 1, in order of beginning."""
    status: int = 0
    """The upstream's HTTP status; 0 if it did not answer."""
    began: Millis = msgspec.field(name="began_ms")
    last: Millis = msgspec.field(name="last_ms")
    """When the last failure was; for a pause without failures, when it began."""
    failures: int = 0
    unanswered: int = 0
    """The number of these calls that no other channel answered."""
    refused: int = 0
    """The number of calls refused because only the paused channel was left, or the budget was too small."""
    apis: dict[str, int] = msgspec.field(default_factory=dict)
    """The numbers of failed attempts, by the inbound API of their calls."""
    moved: dict[str, int] = msgspec.field(default_factory=dict)
    """The numbers of calls that failed here and were then answered by other channels, by the names of those. Calls that
    skipped a paused channel are not among them."""
    paused: bool = False
    """Whether its condition lasts: the channel is paused, the store rejects calls, or a variable is not set."""
    ended: Millis | None = msgspec.field(name="ended_ms", default=None)
    """When the channel was used again, a call succeeded, or the budget no longer needed a warning; or when the last
    failure was, if none followed for a while. None while the incident lasts."""

    @property
    def length_ms(self) -> int | None:
        """Returns how long it lasted or will last; None while its end is unknown."""
        end = self.ended if self.ended is not None else self.until
        return None if end is None else max(0, max(end, self.last) - self.began)

    @property
    def quiet_from(self) -> Millis:
        """Returns when the last failure, or the pause after it, ended."""
        return max(self.last, self.until or Millis(0))

    def includes(self, at: Millis) -> bool:
        """Returns whether a failure of the same kind at this moment belongs to the incident."""
        if self.ended is None:
            end = self.quiet_from + QUIET_MS
        else:
            end = max(self.ended, self.last) + (0 if self.kind in ENDED_BY_SUCCESS else QUIET_MS)
        return self.paused or self.began - QUIET_MS <= at <= end

    def lasts(self, now: int) -> bool:
        """Returns whether it lasts: its channel is paused, or nothing succeeded since a failure of the last minutes."""
        if self.budget:
            return self.ended is None and (self.until is None or self.until > now)
        return self.paused or (self.channel != STORE and self.ended is None and now - self.quiet_from <= QUIET_MS)

    def refuses(self, now: int) -> bool:
        return self.refusing and self.lasts(now)

    def has_cause_of(self, other: Condition) -> bool:
        """Returns whether both have one cause. The number of the key is ignored, because it may have changed."""
        return (self.subject_id, self.kind, _mask(self.key)) == (other.subject_id, other.kind, _mask(other.key))


class Incidents:
    """The newest 200 incidents, oldest first."""

    def __init__(self, incidents: Iterable[Incident] = ()) -> None:
        self._all: deque[Incident] = deque(incidents, maxlen=200)
        self._names: Mapping[str, str] = {}
        """The current names of channels and budgets by their ids."""
        self._ids: dict[str, str] = {}
        """Their ids by all names that they had since the start."""

    def newest(self, channel: str = "") -> list[Incident]:
        """Returns all incidents, or those of a channel, newest first."""
        return [incident for incident in reversed(self._all) if channel in ("", incident.channel)]

    def put(self, incident: Incident) -> None:
        index = next((i for i, other in enumerate(self._all) if other.id == incident.id), None)
        if index is None:
            self._all.append(incident)
        else:
            self._all[index] = incident

    def copies(self) -> dict[int, Incident]:
        """Returns the incidents as they are now, by id."""
        return {incident.id: msgspec.structs.replace(incident) for incident in self._all}

    def changed_since(self, before: Mapping[int, Incident]) -> list[Incident]:
        """Returns the incidents that are not equal to any of these copies."""
        return [incident for incident in self._all if before.get(incident.id) != incident]

    def follow_names(self, names: Mapping[str, str]) -> None:
        """Rename channels and budgets in all incidents. ``names`` has the current names by ids."""
        self._names = names
        self._ids |= {name: subject for subject, name in names.items()}
        for incident in self._all:
            if incident.budget:
                incident.budget = names.get(incident.subject_id, incident.budget)
            else:
                incident.channel = names.get(incident.subject_id, incident.channel)
            incident.moved = {self._current_name(name): count for name, count in incident.moved.items()}

    def _current_name(self, name: str) -> str:
        return self._names.get(self._ids.get(name, ""), name)

    def begin(self, cause: Condition, at: Millis) -> Incident:
        number = max((other.id for other in self._all), default=0) + 1
        incident = Incident(**msgspec.structs.asdict(cause), id=number, began=at, last=at)
        self._all.append(incident)
        return incident

    def add_failures(self, call: CallView) -> None:
        """Count the attempts of a call that failed because of the upstream."""
        if call.outcome in NOT_UPSTREAM:
            return
        is_answered = 200 <= call.status < 300
        counted_channels: set[str] = set()
        at = call.time_ms
        for attempt in call.attempts:
            at = Millis(at + attempt.ms)
            if attempt.kind is None or attempt.kind is FailureKind.CLIENT:
                continue
            incident = self._incident_of_failure(attempt, at)
            _add_failure(incident, call.api, attempt, at)
            if attempt.channel not in counted_channels and not is_answered:
                incident.unanswered += 1
            elif attempt.channel not in counted_channels and attempt.channel != call.channel:
                incident.moved = _count_one_more(incident.moved, self._current_name(call.channel))
            counted_channels.add(attempt.channel)

    def _incident_of_failure(self, attempt: Attempt, at: Millis) -> Incident:
        """Returns the incident of a failure, or a new one: the newest that had begun, else the oldest."""
        name = self._current_name(attempt.channel)
        key = attempt.key if attempt.kind in _KEY_CAUSES else ""
        cause = Condition(channel=name, subject_id=self._ids.get(name, name), key=key, kind=attempt.kind)
        candidates = [
            other
            for other in self.newest()
            if other.has_cause_of(cause)
            and (other.status == attempt.status or not other.failures)
            and other.includes(at)
        ]
        incident = next((other for other in candidates if other.began <= at), candidates[-1] if candidates else None)
        return incident or self.begin(cause, at)

    def add_refusal(self, call: CallView) -> None:
        """Count a call that was refused because a budget was too small, or because channels were paused."""
        channels = [self._ids.get(name, name) for name in mark_values(call.marks, SKIPPED_MARK)]
        for subject in filter(None, (exceeded_budget(call.marks), *channels)):
            incidents = [incident for incident in self.newest() if incident.subject_id == subject]
            if not incidents:
                continue
            cause = next((incident for incident in incidents if incident.paused), incidents[0])
            cause.refused += call.count
            if cause.budget:
                cause.last = max(cause.last, Millis(call.time_ms + call.duration_ms))

    def update(
        self, conditions: Iterable[Condition], failing: Collection[tuple[str, str]], now: Millis
    ) -> list[Incident]:
        """Begin, continue and end incidents. ``conditions`` are all that exist now.

        ``failing`` are the ids of channels where nothing succeeded since a failure, each with the key that failed, or
        an empty text. Returns the incidents that are new warnings: a budget is nearly or fully spent, or too small.
        """
        lasting, warnings = set[int](), list[Incident]()
        for condition in conditions:
            present = self._incident_of_condition(condition, now)
            incident = present or self.begin(condition, now)
            was_just_spent = condition.reason == ALL_SPENT and incident.reason != ALL_SPENT
            if incident.budget and (present is None or was_just_spent):
                incident.last = now
                warnings.append(incident)
            _apply_condition(incident, condition)
            lasting.add(incident.id)
        self._end_all_but(lasting, failing, now)
        return warnings

    def _end_all_but(self, lasting: Collection[int], failing: Collection[tuple[str, str]], now: Millis) -> None:
        """End the incidents, or their pauses, without a condition. ``lasting`` are the ids of those that have one."""
        failing_subjects = {(subject, _mask(key)) for subject, key in failing}
        for incident in self._all:
            if incident.ended is None and incident.id not in lasting:
                subject = (incident.subject_id, _mask(incident.key))
                is_state = incident.kind in (FailureKind.UNSET, FailureKind.MISSING)  # it ends with its condition
                still_fails = not is_state and subject in failing_subjects
                _end_pause(incident, now, still_fails=still_fails)

    def _incident_of_condition(self, condition: Condition, now: Millis) -> Incident | None:
        """Returns the incident of a condition. If there are several, it is the one with the latest failure."""
        incidents = [incident for incident in self._all if incident.has_cause_of(condition)]
        if condition.channel == STORE:  # the incident of a budget lasts one window
            incidents = [other for other in incidents if other.ended is None and other.until == condition.until]
        else:
            incidents = [other for other in incidents if other.includes(now)]
        return max(incidents, key=lambda incident: incident.last, default=None)


def _add_failure(incident: Incident, api: str, attempt: Attempt, at: Millis) -> None:
    """Count a failed attempt, which continues an incident that had ended before."""
    incident.status = attempt.status
    incident.reason = plain(attempt.reason) or incident.reason
    incident.last = max(incident.last, at)
    if incident.ended is not None and incident.ended < at:
        incident.ended = None
    incident.failures += 1
    incident.apis = _count_one_more(incident.apis, api)


def _apply_condition(incident: Incident, condition: Condition) -> None:
    incident.key, incident.refusing = condition.key, condition.refusing
    if not incident.failures:
        incident.reason = plain(condition.reason)
    until = condition.until
    if until is not None and (incident.until is None or abs(until - incident.until) >= 2_000):
        incident.until = until  # the same moment, computed twice, may differ a little
    incident.paused, incident.ended = not incident.budget, None


def _end_pause(incident: Incident, now: Millis, *, still_fails: bool) -> None:
    """End the pause of an incident. The incident itself ends too, unless its channel failed again recently."""
    paused, incident.paused = incident.paused, False
    is_ongoing = incident.lasts(now)
    if not (still_fails and is_ongoing):
        ends_now = incident.until is None if paused else is_ongoing
        incident.ended = now if ends_now else min(now, incident.quiet_from)


def _mask(key: str) -> str:
    """Returns a key's name without its number."""
    return key.partition(" ")[2]


def _count_one_more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    """Returns new counts: ``Incidents.copies`` have the old ones."""
    return {**counts, name: counts.get(name, 0) + 1}


def cause_text(incident: Incident) -> str:
    """Returns what failed: ``rate-limited``, ``errors (503)``, ``paused``, ``key 1 …7890 rejected``."""
    if incident.kind is None:
        return f"key {incident.key} paused" if incident.key else "paused"
    if incident.status == 529:  # Anthropic's status for too many calls of all customers together
        return "overloaded"
    text = _CAUSES.get(incident.kind, "failed")
    if incident.key:
        return f"key {incident.key} {text.removeprefix('key ')}"
    return f"{text} ({incident.status})" if incident.kind is FailureKind.SERVER and incident.status else text


def effects_text(incident: Incident) -> str:
    """Returns where its calls went: ``12 calls retried at b, 3 at c; 1 failed; 7 refused``; or an empty string."""
    parts = []
    if incident.moved:
        (first, count), *others = sorted(incident.moved.items(), key=lambda item: -item[1])
        others_text = "".join(f", {number:,} at {plain(name, 40)}" for name, number in others[:3])
        parts.append(f"{count_text(count, 'call')} retried at {plain(first, 40)}{others_text}")
    for count, result in ((incident.unanswered, "failed"), (incident.refused, "refused")):
        if count:
            parts.append(f"{count:,} {result}" if parts else f"{count_text(count, 'call')} {result}")
    return "; ".join(parts)


def spent_share(budget: BudgetView) -> float:
    """Returns the share that is spent, of money or of tokens, whichever is larger. Holds do not count."""
    return share_of(budget, budget.spent_nanos, budget.spent_tokens)


def spent_text(budget: BudgetView) -> str:
    """Returns ``85% is spent``, or a text that calls are rejected."""
    share = spent_share(budget)
    if share >= 1 or 0 in (budget.nanos, budget.tokens):
        return ALL_SPENT
    text = f"{percent_text(share)} is spent"
    return text if share >= WARN_SHARE else f"too little is left for a call; {text}"
