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
from gateway.domain.call import EXCEEDED_MARK, REPEATED_MARK, SIZE_MARK, SKIPPED_MARK, Outcome, Record
from gateway.domain.errors import GatewayError, NoChannel, QuotaExceeded
from gateway.domain.group import Group
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.inbound.api import InboundRequest

GAP_S = 1.0
"""Seconds between two records of the same refusal of the same token."""
BURST = 20
"""How many refusals of one token for one reason, with different models, are recorded at once; then one a second."""
LONG_GAP_S = 10.0
KINDS_KEPT = 1000


_About = tuple[str, ...]
"""Token, reason, API, program, and address or model."""
_OTHERS: _About = ()
"""Stands for those that are too many to be counted apart."""


class _Repeats:
    """Refusals that were left out and share a record."""

    __slots__ = ("about", "count", "first", "last")

    def __init__(self, about: _About, first: Record) -> None:
        self.about = about
        self.first = first
        """The record has its id, its moment and its retry count."""
        self.last = first
        """The last one, without the fields in which others differ."""
        self.count = 0

    def add(self, record: Record, about: _About) -> None:
        self.count += 1
        if about == self.about:
            self.last = record
            return
        self.about, last = _OTHERS, self.last
        common = {name: value for name in _NAMES if (value := getattr(record, name)) == getattr(last, name)}
        marks = tuple(mark for mark in record.marks if not mark.startswith(SIZE_MARK))
        names, stream = dict.fromkeys(_NAMES, "") | common, last.stream and record.stream
        self.last = msgspec.structs.replace(record, marks=marks, stream=stream, **names)

    def record(self) -> Record:
        """Returns the record of all of them."""
        marks, first = self.last.marks, self.first
        if self.count > 1:
            marks = (f"{REPEATED_MARK}{self.count - 1}", *marks)
        return msgspec.structs.replace(self.last, id=first.id, ts=first.ts, retry=first.retry, marks=marks)


_NAMES = ("app", "api", "request", "model")
"""The fields in which refusals of one token for one reason differ."""


class _Flood:
    """The refusals of one token for one reason."""

    __slots__ = ("at", "due", "left", "recorded", "waiting")

    def __init__(self, now: float) -> None:
        self.at, self.left = now, float(BURST)
        self.waiting: dict[_About, _Repeats] = {}
        """What was left out since the last record."""
        self.recorded = 0
        """How many records were written since it was quiet."""
        self.due = False
        """Whether the left-out refusals will be recorded soon."""

    @property
    def gap_s(self) -> float:
        return GAP_S if self.recorded < 600 else LONG_GAP_S

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

    def note(
        self, origin: CallOrigin, error: GatewayError, token: Token | None, request: InboundRequest | None
    ) -> None:
        """Record a refusal, which costs and holds nothing."""
        error.recorded = True
        now = self._clock.mono()
        record = self._record(origin, error, token, request, now)
        about = (record.token, record.code, record.api, record.app, record.request or record.model)
        flood = self._flood(record.token, record.code, now)
        repeats = flood.waiting.get(about)
        if repeats is None:
            known = _OTHERS if _OTHERS in flood.waiting or not flood.admits(now) else about
            if known == about and now - self._seen.get(about, -LONG_GAP_S) >= flood.gap_s:
                self._write(record, about, flood)
                return
            repeats = flood.waiting.setdefault(known, _Repeats(about, record))
        repeats.add(record, about)
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
            waiting, flood.waiting = flood.waiting, {}
            for known, repeats in waiting.items():
                if known == _OTHERS:
                    flood.admits(self._clock.mono())  # it counts as one of those recorded in this second
                self._write(repeats.record(), repeats.about, flood)

    def _write(self, record: Record, about: _About, flood: _Flood) -> None:
        flood.recorded += 1
        if about != _OTHERS:
            self._remember(about, self._clock.mono())
        model = _known_name(self._models, record.model) if record.code == "model_not_found" else record.model
        record = msgspec.structs.replace(record, model=model, app=_known_name(self._apps, record.app))
        self._note(record)
        self._bus.settled(record)

    def _record(
        self,
        origin: CallOrigin,
        error: GatewayError,
        token: Token | None,
        request: InboundRequest | None,
        now: float,
    ) -> Record:
        group = self._group_of(token) if token is not None else None
        called = error.code != "unknown_url" and (not origin.request or origin.request.startswith("POST "))
        return Record(
            id=origin.id,
            ts=origin.ts,
            token=token.id if token is not None else "",
            token_name=token.name if token is not None else "",
            group=group.id if group is not None else "",
            group_name=group.changed_name if group is not None else "",
            model="" if request is None else plain(request.model, 80),
            app=origin.app,
            api=origin.api.name if called else "",
            request=origin.request,
            stream=request is not None and request.stream,
            status=origin.api.status(error),
            outcome=Outcome.REFUSED,
            code=error.code,
            error=plain(error.record_message, 1200),  # all of a usual one: its end says what to do
            ms=Millis(round((now - origin.began) * 1000)),
            retry=origin.retry,
            marks=tuple(_marks(error, token, group)),
        )

    def _flood(self, who: str, code: str, now: float) -> _Flood:
        flood = self._floods.get((who, code))
        if flood is None:
            if len(self._floods) >= KINDS_KEPT:
                self._catch_up(self._floods.pop(next(iter(self._floods))))
            flood = self._floods[who, code] = _Flood(now)
        return flood

    def _remember(self, key: _About, now: float) -> None:
        self._seen.pop(key, None)
        if len(self._seen) >= KINDS_KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = now


def _marks(error: GatewayError, token: Token | None, group: Group | None) -> Iterator[str]:
    for channel in error.skipped if isinstance(error, NoChannel) else ():
        yield SKIPPED_MARK + channel
    if budget := _budget_of(error, token, group):
        yield EXCEEDED_MARK + budget
    if error.request_size is not None:
        yield error.request_size.mark()


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
        if len(names) >= 200:
            return ""
        names.add(name)
    return name
