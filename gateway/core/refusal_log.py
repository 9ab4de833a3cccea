"""Refusals: refused calls are recorded too, but a flood of them only as a trickle.

Whatever a client sends, neither the log nor memory grows by more than a little a second: not by one refusal repeated,
and not by refusals that differ each time in the name of an unknown model or address. What is left out is counted, and a
record has the count a second later, whether another refusal follows or not. A flood that lasts for minutes is recorded
more rarely.

Counts are kept apart for each token, reason, program, API, and model or address, as long as these are few. The rest
share a record, which leaves out the fields in which they differ.
"""

from collections.abc import Callable, Iterator

import msgspec

from gateway.core.call import CallOrigin
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.quota_refusals import WHILE_HELD
from gateway.domain.budget import BALANCE_ID, budget_id
from gateway.domain.call import EXCEEDED_MARK, REPEATED_MARK, SKIPPED_MARK, Outcome, Record, RequestSize
from gateway.domain.errors import GatewayError, NoChannel, QuotaExceeded
from gateway.domain.events import CallRepeated
from gateway.domain.group import Group
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.domain.views import call_view
from gateway.inbound.api import InboundRequest

SHOWN_GAP_S = 0.2
"""Seconds between two reports of a growing flood's count to watchers."""
GAP_S = 1.0
"""Seconds between two records of the same refusal of the same token."""
BURST = 20
"""How many refusals of one token for one reason, with different models, are recorded at once; then one a second."""
LONG_FLOOD = 600
"""After so many records of one flood, the gap between them is ``LONG_GAP_S``."""
LONG_GAP_S = 10.0
REFUSAL_TEXT = 1200
"""Characters kept of a refusal: all of a usual one, because its end says what to do."""
KINDS_KEPT = 1000
STRANGERS = 200
"""How many names of unknown models and of refused programs are recorded; later records omit the name."""


_About = tuple[str, ...]
"""Token, reason, API, program, and address or model."""
_OTHERS: _About = ()
"""Stands for those that are too many to be counted apart."""


class _Refusal(msgspec.Struct, frozen=True):
    """What a record is made of."""

    about: _About
    """Of refusals with the same value, one a second is recorded."""
    visit: CallOrigin
    app: str
    api: str
    request: str
    ms: Millis
    status: int
    code: str
    message: str
    token: Token | None
    group: Group | None
    model: str
    stream: bool
    skipped: tuple[str, ...]
    """The channels that could not serve it because of earlier failures."""
    budget: str
    """The id of the budget that was too small."""
    size: RequestSize | None


class _Repeats:
    """Refusals that were left out and share a record."""

    __slots__ = ("count", "first", "last", "since")

    def __init__(self, first: _Refusal, since: float) -> None:
        self.first = first
        """The record is made of this one."""
        self.last = first
        """The last one, without the fields in which others differ."""
        self.count = 0
        self.since = since
        """When they were last recorded, or when the first of them came."""

    def add(self, refusal: _Refusal) -> None:
        self.count += 1
        if refusal.about == self.last.about:
            self.last = refusal
            return
        common = {name: value for name in _NAMES if (value := getattr(refusal, name)) == getattr(self.last, name)}
        stream = self.last.stream and refusal.stream
        names = dict.fromkeys(_NAMES, "") | common
        self.last = msgspec.structs.replace(refusal, about=_OTHERS, size=None, stream=stream, **names)


_NAMES = ("app", "api", "request", "model")
"""The fields in which refusals of one token for one reason differ."""


class _Flood:
    """The refusals of one token for one reason."""

    __slots__ = ("at", "due", "left", "recorded", "shown", "waiting")

    def __init__(self, now: float) -> None:
        self.at, self.left = now, float(BURST)
        self.waiting: dict[_About, _Repeats] = {}
        """What was left out since the last record."""
        self.recorded = 0
        """How many records were written since it was quiet."""
        self.due = False
        """Whether the left-out refusals are due to be recorded."""
        self.shown = False
        """Whether watchers will get the counts soon."""

    @property
    def gap_s(self) -> float:
        return GAP_S if self.recorded < LONG_FLOOD else LONG_GAP_S

    def admits(self, now: float) -> bool:
        self.left = min(BURST, self.left + (now - self.at) / self.gap_s)
        self.at = now
        if self.left >= BURST:
            self.recorded = 0
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Refusals:
    """Writes one record a second for each kind of refusal, with the number left out before it."""

    def __init__(
        self,
        note: Callable[[Record], None],
        bus: EventBus,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], None],
        group_of: Callable[[Token], Group | None],
    ) -> None:
        """``later`` calls a function after so many seconds."""
        self._note = note
        self._bus = bus
        self._clock = clock
        self._later = later
        self._group_of = group_of
        self._closed = False
        self._seen: dict[_About, float] = {}
        """When each kind was last recorded, the oldest first."""
        self._floods: dict[tuple[str, str], _Flood] = {}
        self._models: set[str] = set()
        self._apps: set[str] = set()

    def note(self, visit: CallOrigin, error: GatewayError, token: Token | None, request: InboundRequest | None) -> None:
        """Record a refusal, which costs and holds nothing."""
        error.recorded = True
        now, code = self._clock.mono(), error.code
        who = token.id if token is not None else ""
        group = self._group_of(token) if token is not None else None
        model = "" if request is None else request.model
        called = code != "unknown_url" and (not visit.request or visit.request.startswith("POST "))
        api = visit.api.name if called else ""
        about = (who, code, api, visit.app, visit.request or model)
        flood = self._flood(who, code, now)
        refusal = _Refusal(
            about=about,
            visit=visit,
            app=visit.app,
            api=api,
            request=visit.request,
            ms=Millis(round((now - visit.began) * 1000)),
            status=visit.api.status(error),
            code=code,
            message=error.record_message,
            token=token,
            model=model,
            stream=request is not None and request.stream,
            skipped=error.skipped if isinstance(error, NoChannel) else (),
            group=group,
            budget=_budget_of(error, token, group),
            size=error.request_size,
        )
        seen = self._seen.get(about, -LONG_GAP_S)
        repeats = flood.waiting.get(about)
        if repeats is None and _OTHERS not in flood.waiting and flood.admits(now):
            if now - seen >= flood.gap_s:
                self._write(refusal, refusal.visit, flood, 0)
                return
            repeats = flood.waiting[about] = _Repeats(refusal, seen)
        elif repeats is None:
            repeats = flood.waiting.setdefault(_OTHERS, _Repeats(refusal, now))
        repeats.add(refusal)
        if now - repeats.since >= flood.gap_s:
            self._write_repeats(flood, about if about in flood.waiting else _OTHERS)
        else:
            self._wait(flood)

    def _wait(self, flood: _Flood) -> None:
        """Schedule the report and the record of left-out refusals."""
        if self._bus.watched_by and not flood.shown and not self._closed:
            flood.shown = True
            self._later(SHOWN_GAP_S, lambda: self._show(flood))
        if not flood.due and not self._closed:
            flood.due = True
            self._later(flood.gap_s, lambda: self._catch_up(flood))

    def catch_up(self) -> None:
        """Record what was left out so far."""
        for flood in self._floods.values():
            self._catch_up(flood)

    def close(self) -> None:
        """Record what was left out so far. Later left-out refusals are not recorded."""
        self.catch_up()
        self._closed = True

    def _catch_up(self, flood: _Flood) -> None:
        """Record what was left out."""
        flood.due = False
        if not self._closed:
            for about in list(flood.waiting):
                self._write_repeats(flood, about)

    def _show(self, flood: _Flood) -> None:
        """Report to watchers how many were left out so far."""
        flood.shown = False
        if not self._closed:
            for repeats in flood.waiting.values():
                record = self._record(repeats.last, repeats.first.visit, repeats.count - 1)
                self._bus.tell(CallRepeated(call=call_view(record)))

    def _write_repeats(self, flood: _Flood, about: _About) -> None:
        repeats = flood.waiting.pop(about)
        if about == _OTHERS:
            flood.admits(self._clock.mono())  # it counts as one of those recorded in this second
        self._write(repeats.last, repeats.first.visit, flood, repeats.count - 1)

    def _write(self, refusal: _Refusal, visit: CallOrigin, flood: _Flood, left_out: int) -> None:
        flood.recorded += 1
        if refusal.about != _OTHERS:
            self._remember(refusal.about, self._clock.mono())
        record = self._record(refusal, visit, left_out)
        self._note(record)
        self._bus.settled(record)

    def _record(self, refusal: _Refusal, visit: CallOrigin, left_out: int) -> Record:
        token, group, name = refusal.token, refusal.group, plain(refusal.model, 80)
        return Record(
            id=visit.id,
            ts=visit.ts,
            token=token.id if token is not None else "",
            token_name=token.name if token is not None else "",
            group=group.id if group is not None else "",
            group_name=group.new_name if group is not None else "",
            model=_known_name(self._models, name) if refusal.code == "model_not_found" else name,
            app=_known_name(self._apps, refusal.app),
            api=refusal.api,
            request=refusal.request,
            stream=refusal.stream,
            status=refusal.status,
            outcome=Outcome.REFUSED,
            code=refusal.code,
            error=plain(refusal.message, REFUSAL_TEXT),
            ms=refusal.ms,
            retry=visit.retry,
            marks=tuple(_marks(refusal, left_out)),
        )

    def _flood(self, who: str, code: str, now: float) -> _Flood:
        found = self._floods.get((who, code))
        if found is None:
            if len(self._floods) >= KINDS_KEPT:
                self._catch_up(self._floods.pop(next(iter(self._floods))))
            found = self._floods[who, code] = _Flood(now)
        return found

    def _remember(self, key: _About, now: float) -> None:
        self._seen.pop(key, None)
        if len(self._seen) >= KINDS_KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = now


def _marks(refusal: _Refusal, left_out: int) -> Iterator[str]:
    if left_out:
        yield f"{REPEATED_MARK}{left_out}"
    for channel in refusal.skipped:
        yield SKIPPED_MARK + channel
    if refusal.budget:
        yield EXCEEDED_MARK + refusal.budget
    if refusal.size is not None:
        yield refusal.size.mark()


def _budget_of(error: GatewayError, token: Token | None, group: Group | None) -> str:
    """Returns the id of the budget that was too small for the call; empty if it was refused for another reason.

    A budget of which running calls hold the rest for a while is not too small.
    """
    if error.details.get(WHILE_HELD):
        return ""
    window, kind = error.details.get("budget_window"), error.details.get("budget_of")
    if isinstance(error, QuotaExceeded) and error.code == error.default_code and window is None:
        return BALANCE_ID
    if token is None or not isinstance(window, str) or not isinstance(kind, str):
        return ""
    owner = {"token": token.id, "group": group.id if group is not None else ""}
    return budget_id(window, kind, owner.get(kind, ""))


def _known_name(names: set[str], name: str) -> str:
    """Returns the name unless there are too many: invented names would stay in the sums for ever."""
    if name not in names:
        if len(names) >= STRANGERS:
            return ""
        names.add(name)
    return name
