"""Incidents: periods in which a channel, or the store, failed for one cause; and budgets that are nearly spent.

They are made from failed attempts of settled calls and from the states of channels. Failures with another cause, kind
or HTTP status make another incident, and both may overlap.

Long: all rules of when an incident begins, continues and ends, which are read together.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.budget import WARN_SHARE, share_of, window_start
from gateway.domain.call import NOT_UPSTREAM, Attempt, FailureKind, exceeded_budget, skipped_channels
from gateway.domain.human_values import percent_text
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
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

TOO_LITTLE = "too little is left for a call"
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
    """The kind; None if only its state is known."""
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
    limit_nanos: Nanos | None = None
    """The budget's amounts when last examined; None if it has no such limit."""
    limit_tokens: int | None = None
    used: int = 0
    """The nano-dollars and tokens spent when the incident began, or when the budget last refused a call."""
    answered: bool = False
    """Whether more was spent since: it does not refuse every call."""
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

    def recurs(self, at: Millis) -> bool:
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
        """Returns whether a budget rejects calls: all of it is spent, or it was recently too small for one."""
        if not (self.budget and self.lasts(now)):
            return False
        # a call that it was too small for counts for ten minutes, unless it pays for another one
        lately = self.refused > 0 and not self.answered and now - self.last <= 600_000
        return self.reason == ALL_SPENT or lately


class ChannelState(msgspec.Struct, frozen=True):
    """What matters of a channel's or key's state."""

    name: str
    """The channel's."""
    state: str = "ok"
    reason: str = ""
    until_ms: Millis | None = None
    failing: bool = False
    """Whether its last call failed."""
    lacks_until: Millis | None = None
    """Until when some model is not requested there, because the upstream lacks it; None without such a model."""


class SpentBudget(msgspec.Struct, frozen=True):
    """A budget that is nearly spent, or was too small for a call."""

    name: str
    view: BudgetView
    refused: bool = False
    """Whether it was too small for a call since it was last examined."""


class Incidents:
    """All incidents, the oldest first."""

    def __init__(self, known: Iterable[Incident] = ()) -> None:
        self._all: deque[Incident] = deque(known, maxlen=LIMIT)
        self._now = Millis(0)
        """The latest moment seen in an event."""
        self._store_failed = Millis(0)
        """When the store was last seen to fail."""
        self._names = _Names()

    def newest(self, channel: str = "") -> list[Incident]:
        """Returns incidents, the newest first; only a channel's if it is named."""
        return [one for one in reversed(self._all) if channel in ("", one.channel)]

    def put(self, incident: Incident) -> None:
        """Add an incident, or replace it."""
        at = next((i for i, one in enumerate(self._all) if one.id == incident.id), None)
        if at is None:
            self._all.append(incident)
        else:
            self._all[at] = incident

    def follow_names(self, names: Mapping[str, str], at: Millis) -> None:
        """Use the present names of channels and budgets, by their ids. A removed channel is not paused."""
        self._names.update(names)
        for one in self._all:
            one.subject_id = one.subject_id or self._names.id_of(one.budget or one.channel)
            if one.budget:
                one.budget = names.get(one.subject_id, one.budget)
            else:
                one.channel = names.get(one.subject_id, one.channel)
            one.moved = _with_new_names(one.moved, self._names)
            if one.paused and one.channel != STORE and one.subject_id not in names:
                _end_pause(one, at)

    def copies(self) -> dict[int, Incident]:
        """Returns the incidents as they are now, by id."""
        return {one.id: msgspec.structs.replace(one) for one in self._all}

    def changed_since(self, before: Mapping[int, Incident]) -> list[Incident]:
        """Returns the incidents that are new, or different from these copies."""
        return [one for one in self._all if before.get(one.id) != one]

    def add_call(self, call: CallView) -> None:
        """Record the failures of a finished call."""
        self._now = max(self._now, Millis(call.time_ms + call.duration_ms))
        if call.outcome in NOT_UPSTREAM:
            return
        if (spent := _spent_budget(self.newest(STORE), call)) is not None:
            spent.refused += call.count
            spent.last = max(spent.last, self._now)
        for channel in skipped_channels(call.marks):
            if (cause := _cause_of_refusal(self.newest(self._names.now(channel)), self._now)) is not None:
                cause.refused += call.count
        answered = 200 <= call.status < 300
        seen: set[str] = set()
        for at, attempt in _failures(call):
            found = self._of(attempt, at)
            found.reason = plain(attempt.reason) or found.reason
            found.last = max(found.last, at)
            if found.ended is not None and found.ended < at:
                found.ended = None
            found.failures += 1
            found.apis = _one_more(found.apis, call.api)
            if attempt.channel not in seen and call.channel != attempt.channel and answered:
                found.moved = _one_more(found.moved, self._names.now(call.channel))
            elif attempt.channel not in seen and not answered:
                found.unanswered += 1
            seen.add(attempt.channel)

    def update_channels(self, channels: Iterable[ChannelState], at: Millis) -> None:
        """Record the channels' states at a moment (0: that of the last call)."""
        now = at or self._now
        for channel in channels:
            self._update_pause(channel, "", now)
            _update_missing(self.newest(channel.name), channel, now)
        for one in self._all:
            if one.ended is None and one.channel + one.budget != STORE and not one.lasts(now):
                one.ended = one.until if one.budget and one.until is not None else min(now, one.quiet_from)

    def update_keys(self, states: Mapping[tuple[str, str], ChannelState], at: Millis) -> None:
        """Record the states of the keys of channels that have several, by channel and key; of others, nothing lasts."""
        for (_, key), state in states.items():
            if (found := _under_other_number(self.newest(state.name), state, key)) is not None:
                found.key = key
            self._update_pause(state, key, at)
        for one in self._all:
            if one.key and one.paused and (one.channel, one.key) not in states:
                one.paused, one.ended = False, at

    def _update_pause(self, channel: ChannelState, key: str, now: Millis) -> None:
        mine = [one for one in self.newest(channel.name) if one.key == key and one.kind not in _NOT_THE_CHANNELS]
        for one in mine:
            if not channel.failing and one.lasts(now) and not one.paused:
                one.ended = now
        out = channel.state in PAUSED_STATES
        found = _cause_of_pause(mine, channel, now) if out else _pause_of(mine, channel.reason)
        if out and (found is None or not found.recurs(now)):
            rejected = {"kind": FailureKind.AUTH} if channel.state == "attention" else {}
            cause = rejected | _same_cause(self.newest(channel.name), channel, key, now)
            found = self.begin(channel=channel.name, key=key, reason=channel.reason, began=now, last=now, **cause)
        if found is None or not (out or found.paused):
            return
        if channel.state == "half_open" and found.kind is FailureKind.AUTH:
            return  # only an accepted key, or another one, ends it
        if out:
            found.paused, found.until, found.ended = True, _steady(found.until, channel.until_ms), None
            for former in (one for one in mine if one.paused and one is not found):
                _end_pause(former, now)
        elif channel.failing:
            found.paused = False  # it is tried again, but nothing succeeded yet
        else:
            _end_pause(found, now)

    def update_unset(self, missing: Mapping[str, str], at: Millis) -> None:
        """Record which channels refer to variables that are not set, with the reason. Only this ends these
        incidents.
        """
        known = {one.channel: one for one in self._all if one.kind is FailureKind.UNSET}
        for channel, reason in missing.items():
            found = known.pop(channel, None)
            if found is None or not found.recurs(at):
                self.begin(channel=channel, kind=FailureKind.UNSET, reason=reason, began=at, last=at, paused=True)
            else:
                found.paused, found.ended, found.reason = True, None, reason
        for over in known.values():
            if over.paused:
                over.paused, over.ended = False, at

    def update_store(self, error: str, at: Millis) -> None:
        """Record the state of the store at a moment (0: that of the last call); no error means it works."""
        now = at or self._now
        found = next((o for o in reversed(self._all) if o.channel == STORE and not o.budget and o.paused), None)
        if error and found is None:
            self.begin(channel=STORE, reason=error, began=now, last=now, paused=True)
        elif error and found is not None:
            found.reason, self._store_failed = error, now
        elif found is not None:
            found.paused, found.last, found.ended = False, max(found.last, self._store_failed), now

    def update_budgets(self, spent: Mapping[str, SpentBudget], at: Millis) -> list[Incident]:
        """Returns new warnings: that a budget is nearly or fully spent, the first time in its window.

        ``spent``: all budgets that are nearly spent, or were recently too small for a call, by id. All others were
        raised, removed, or reset.
        """
        lasting, found = dict[str, Incident](), list[Incident]()
        for one in (one for one in self._all if one.budget and one.ended is None):
            if one.subject_id in spent:
                lasting[one.subject_id] = one
            else:
                one.ended = at if one.until is None else min(at, one.until)
        for subject, budget in spent.items():
            known, reason, view = lasting.get(subject), _spent_text(budget.view), budget.view
            if known is not None:
                _note_use(known, budget)
            if known is not None and known.refused and _was_raised(known, view):
                known.ended = at  # what it refused is over, also if most of it is still spent
                if budget.refused or spent_share(view) >= WARN_SHARE:
                    again = self.begin(began=at, last=at, **_warning(subject, budget))
                    found += [again] if budget.refused else []
            elif known is None or known.began < window_start(view.window, at):
                found.append(self.begin(began=at, last=at, **_warning(subject, budget)))
            elif (known.reason, *_limits(known)) != (reason, view.nanos, view.tokens):
                if reason != known.reason and ALL_SPENT in (known.reason, reason):
                    known.last = at
                    found += [known] if reason == ALL_SPENT else []
                known.reason, known.limit_nanos, known.limit_tokens = reason, view.nanos, view.tokens
        return found

    def begin(self, **fields: object) -> Incident:
        """Add an incident."""
        found = Incident(id=max((one.id for one in self._all), default=0) + 1, **fields)  # type: ignore[arg-type]
        found.subject_id = found.subject_id or self._names.id_of(found.channel)
        self._all.append(found)
        return found

    def _of(self, attempt: Attempt, at: Millis) -> Incident:
        """Returns the incident that a failure at this moment belongs to, perhaps a new one."""
        key, channel = attempt.key if attempt.kind in _KEY_CAUSES else "", self._names.now(attempt.channel)
        kind, status = attempt.kind, attempt.status
        causes = [(kind, status), (None, 0)]
        if kind is FailureKind.AUTH:
            causes.append((kind, 0))  # a key that a test found rejected
        same = [one for one in self.newest(channel) if one.key == key and (one.kind, one.status) in causes]
        mine = [one for one in same if one.recurs(at)]
        found = next((one for one in mine if one.began <= at), mine[-1] if mine else None)
        if found is None:
            return self.begin(channel=channel, key=key, kind=kind, status=status, began=at, last=at)
        found.kind, found.status = kind, status
        return found


def _under_other_number(newest: Iterable[Incident], channel: ChannelState, key: str) -> Incident | None:
    """Returns the lasting incident of a paused key that had another number, or was the channel's only key."""
    lasting = [one for one in newest if one.paused and one.ended is None]
    if channel.state not in PAUSED_STATES or any(one.key == key for one in lasting):
        return None
    (_, _, mask), reason = key.partition(" "), plain(channel.reason)
    same = (one for one in lasting if one.reason == reason and (not one.key or one.key.endswith(f" {mask}")))
    return next(same, None)


def _same_cause(newest: Iterable[Incident], channel: ChannelState, key: str, now: Millis) -> dict[str, Any]:
    """Returns the cause of a pause known under the key's former number, or while it was the channel's only key."""
    reason, (_, _, mask) = plain(channel.reason), key.partition(" ")
    for one in newest:
        same_key = not (key and one.key) or one.key.endswith(f" {mask}")
        if same_key and one.reason == reason and one.kind is not None and one.recurs(now):
            return {"kind": one.kind, "status": one.status}
    return {}


def _pause_of(newest: Sequence[Incident], reason: str = "") -> Incident | None:
    """Returns the incident for which a channel or key is or was last paused; else the one with this reason, or any."""
    paused = next((one for one in newest if one.paused), None)
    return paused or next((one for one in newest if one.reason == reason), newest[0] if newest else None)


def _cause_of_refusal(newest: Sequence[Incident], at: Millis) -> Incident | None:
    """Returns the incident for which a channel could not be used: a pause that lasts, or a rejected key.

    The channel's state may be read only later: a rejected key does not pause yet, a pause that is over still does.
    """
    pauses = (one for one in newest if one.paused and (one.until is None or one.until > at))
    rejected = next((one for one in newest if one.kind is FailureKind.AUTH and one.ended is None and not one.key), None)
    return rejected or next(pauses, None) or _pause_of(newest)


def _spent_budget(newest: Iterable[Incident], call: CallView) -> Incident | None:
    """Returns the warning of the budget that refused a call."""
    subject = exceeded_budget(call.marks)
    found = next((one for one in newest if subject and one.budget and one.subject_id == subject), None)
    return found if found is not None and (found.ended is None or found.ended >= call.time_ms) else None


def _cause_of_pause(newest: Sequence[Incident], channel: ChannelState, now: Millis) -> Incident | None:
    """Returns the incident for which a channel or key is paused now: that of its last failure, if known."""
    reason, recent = plain(channel.reason), [one for one in newest if one.recurs(now)]
    if channel.state == "attention":  # whatever else failed, a key is rejected
        kinds = (FailureKind.AUTH, None)
        return next((o for o in recent if o.kind in kinds and (o.kind or o.reason == reason)), None)
    return next((one for one in recent if one.reason == reason), _pause_of(newest, channel.reason))


class _Names:
    """The names of channels and budgets, which may change."""

    def __init__(self) -> None:
        self._now: Mapping[str, str] = {}
        """By their ids."""
        self._ids: dict[str, str] = {}
        """By every name they had since the start."""

    def update(self, names: Mapping[str, str]) -> None:
        """Set the present names by ids."""
        self._now = names
        self._ids |= {name: one for one, name in names.items()}

    def id_of(self, name: str) -> str:
        """Returns the id of what has or had this name; empty if unknown."""
        return self._ids.get(name, "")

    def now(self, name: str) -> str:
        """Returns the present name of what has or had this name."""
        return self._now.get(self.id_of(name), name)


def _with_new_names(counts: dict[str, int], names: _Names) -> dict[str, int]:
    """Returns the counts by present names."""
    found: dict[str, int] = {}
    for name, count in counts.items():
        found[names.now(name)] = found.get(names.now(name), 0) + count
    return found


def _one_more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1}


def _update_missing(newest: Iterable[Incident], channel: ChannelState, now: Millis) -> None:
    """Extend a channel's newest incident while a model is not requested there."""
    lasts = channel.lacks_until is not None
    for one in (one for one in newest if one.kind is FailureKind.MISSING):
        if lasts and one.recurs(now):
            one.paused, one.until, one.ended = True, _steady(one.until, channel.lacks_until), None
            lasts = False  # older ones are over
        elif one.lasts(now):
            _end_pause(one, now)


def _end_pause(incident: Incident, now: Millis) -> None:
    incident.paused = False
    incident.ended = min(now, incident.quiet_from) if incident.until is not None else now


_NOT_THE_CHANNELS = frozenset({FailureKind.UNSET, FailureKind.MISSING})
"""Causes that do not pause the whole channel."""

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


def _spent_text(budget: BudgetView) -> str:
    share = spent_share(budget)
    if share >= 1 or 0 in (budget.nanos, budget.tokens):
        return ALL_SPENT
    text = f"{percent_text(share)} is spent"
    return text if share >= WARN_SHARE else f"{TOO_LITTLE}; {text}"


def _limits(incident: Incident) -> tuple[Nanos | None, int | None]:
    return incident.limit_nanos, incident.limit_tokens


def _was_raised(incident: Incident, budget: BudgetView) -> bool:
    """Returns whether the budget allows more than when the incident was last examined."""
    pairs = zip(_limits(incident), (budget.nanos, budget.tokens), strict=True)
    return any(before is not None and (now is None or now > before) for before, now in pairs)


def _note_use(known: Incident, budget: SpentBudget) -> None:
    """Note whether a call was answered since the budget last refused one."""
    use = budget.view.spent_nanos + budget.view.spent_tokens
    known.answered = not budget.refused and (known.answered or use > known.used)
    if budget.refused:
        known.used = use


def _warning(subject: str, budget: SpentBudget) -> dict[str, Any]:
    """Returns the fields of an incident that say whose budget it is and how much of it is spent."""
    return {
        "channel": STORE,
        "subject_id": subject,
        "budget": budget.name,
        "reason": _spent_text(budget.view),
        "until": budget.view.resets_at_ms,
        "limit_nanos": budget.view.nanos,
        "limit_tokens": budget.view.tokens,
        "used": budget.view.spent_nanos + budget.view.spent_tokens,
    }


def _steady(before: Millis | None, now: Millis | None) -> Millis | None:
    # a moment that is computed again differs by less
    return before if before is not None and now is not None and abs(now - before) < 2_000 else now


def _failures(call: CallView) -> Iterator[tuple[Millis, Attempt]]:
    """Yields what failed on the upstream's side, and when."""
    at = call.time_ms
    for attempt in call.attempts:
        at = Millis(at + attempt.ms)
        if attempt.kind is not None and attempt.kind is not FailureKind.CLIENT:
            yield at, attempt
