"""Refusals: refused calls are recorded too, but of a flood of them only a few a second.

Whatever a client sends, neither the log nor memory grows by more than a little a second: not by one refusal repeated,
and not by refusals that each name another unknown model or address. Refusals that get no record of their own are
counted, and a shared record has the count a second later, whether another refusal follows or not. If a flood lasts for
minutes, its records become rarer.

Refusals are counted apart by token, reason, API, program, and model or address, as long as these are few. Others of the
same token and reason share a record, which leaves out the fields that differ. A flood is forgotten once it has been
quiet for so long that a whole burst may be recorded again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gateway.core.call import CallOrigin
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.domain.call import REPEATED_MARK, SIZE_MARK, Outcome, Record
from gateway.domain.errors import GatewayError
from gateway.domain.group import Group
from gateway.domain.key_owners import without_keys
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.inbound.api import InboundRequest

GAP_S = 1.0
"""Seconds between two records of the same kind of refusal."""
BURST = 20
"""How many refusals of one token for one reason, of different kinds, are recorded at once; then one for each gap."""
LONG_GAP_S = 10.0
"""Seconds between two records in a long flood."""

_Kind = tuple[str, ...]
"""What tells refusals apart: token, reason, API, program, and address or model."""
_MIXED: _Kind = ()
"""Stands for all kinds that are not counted apart."""
_VARYING_FIELDS = ("app", "api", "request", "model")
"""The fields that may differ in refusals of one token for one reason."""


class _SharedRecord(msgspec.Struct):
    """Refusals that were not recorded on their own and share a record."""

    kind: _Kind
    """The kind of all of them, or ``_MIXED``."""
    first: Record
    """The first one. The record has its id, its time and its retry count."""
    last: Record
    """The last one, without the fields that differ in the others."""
    count: int = 0

    def add(self, record: Record, kind: _Kind) -> None:
        """Count one more refusal. What differs from the others is left out of the record."""
        self.count += 1
        if kind == self.kind:
            self.last = record
            return
        self.kind, last = _MIXED, self.last
        fields = {
            name: value if (value := getattr(record, name)) == getattr(last, name) else "" for name in _VARYING_FIELDS
        }
        marks = tuple(mark for mark in record.marks if not mark.startswith(SIZE_MARK))
        self.last = msgspec.structs.replace(record, marks=marks, stream=last.stream and record.stream, **fields)

    def record(self) -> Record:
        marks, first = self.last.marks, self.first
        if self.count > 1:
            marks = (f"{REPEATED_MARK}{self.count - 1}", *marks)
        return msgspec.structs.replace(self.last, id=first.id, ts=first.ts, retry=first.retry, marks=marks)


class _Flood(msgspec.Struct):
    """The refusals of one token for one reason, while fewer than ``BURST`` records may be written at once."""

    credit: int = BURST
    """How many records may be written at once. One comes back with each gap."""
    recorded: set[_Kind] = set()
    """The kinds that were recorded in this gap, or by the timer that began it."""
    shared: dict[_Kind, _SharedRecord] = {}
    """The records to write at the end of the gap: one for each kind in ``recorded``, and one for all other kinds."""
    written: int = 0
    """How many records were written since the flood began."""

    @property
    def gap_s(self) -> float:
        return GAP_S if self.written < 600 else LONG_GAP_S


@dataclass(eq=False)
class Refusals:
    """Writes the records of refused calls."""

    _store: Callable[[Record], None]
    _bus: EventBus
    _clock: Clock
    _later: Callable[[float, Callable[[], None]], object]
    """Calls a function after a number of seconds."""
    _group_of: Callable[[Token], Group | None]

    def __post_init__(self) -> None:
        self._closed = False
        self._floods: dict[tuple[str, str], _Flood] = {}
        """By token and reason."""
        self._models: set[str] = set()
        self._apps: set[str] = set()

    def note(
        self, origin: CallOrigin, error: GatewayError, token: Token | None, request: InboundRequest | None
    ) -> None:
        """Record a refusal, on its own or with others. It costs and holds nothing."""
        error.recorded = True
        now = self._clock.mono()
        record = self._record(origin, error, token, request, now)
        kind = (record.token, record.code, record.api, record.app, record.request or record.model)
        flood = self._flood(record.token, record.code)
        is_repeated = kind in flood.recorded
        if is_repeated or flood.credit < 1:
            place = kind if is_repeated else _MIXED
            flood.shared.setdefault(place, _SharedRecord(kind, record, record)).add(record, kind)
        else:
            self._write(record, kind, flood)

    def write_shared(self) -> None:
        for flood in self._floods.values():
            self._write_shared(flood)

    def close(self) -> None:
        """Write the shared records. Later refusals without a record of their own are not recorded."""
        self.write_shared()
        self._closed = True

    def _flood(self, token: str, code: str) -> _Flood:
        """Returns the flood that a refusal belongs to. A new one gets its timer."""
        flood = self._floods.get((token, code))
        if flood is None:
            flood = self._floods[token, code] = _Flood()
            self._later(flood.gap_s, lambda: self._end_gap(token, code, flood))
        return flood

    def _end_gap(self, token: str, code: str, flood: _Flood) -> None:
        """Write the shared records, and forget a flood that has been quiet for a while."""
        flood.credit += 1
        flood.recorded.clear()
        if not self._closed:
            self._write_shared(flood)
        if flood.credit < BURST and not self._closed:
            self._later(flood.gap_s, lambda: self._end_gap(token, code, flood))
        else:
            del self._floods[token, code]

    def _write_shared(self, flood: _Flood) -> None:
        shared_records, flood.shared = flood.shared, {}
        for shared in shared_records.values():
            self._write(shared.record(), shared.kind, flood)

    def _write(self, record: Record, kind: _Kind, flood: _Flood) -> None:
        """Write a record, without invented names."""
        flood.written += 1
        flood.credit -= 1
        if kind != _MIXED and flood.credit >= 0:  # otherwise it is counted with others from now on
            flood.recorded.add(kind)
        model = _limited_name(self._models, record.model) if record.code == "model_not_found" else record.model
        record = msgspec.structs.replace(record, model=model, app=_limited_name(self._apps, record.app))
        self._store(record)
        self._bus.publish_record(record)

    def _record(
        self, origin: CallOrigin, error: GatewayError, token: Token | None, request: InboundRequest | None, now: float
    ) -> Record:
        group = self._group_of(token) if token is not None else None
        is_call = error.code != "unknown_url" and (not origin.request or origin.request.startswith("POST "))
        return Record(
            id=origin.id,
            ts=origin.ts,
            token=token.id if token is not None else "",
            token_name=token.name if token is not None else "",
            group=group.id if group is not None else "",
            group_name=group.changed_name if group is not None else "",
            model=_model_of(error, request),
            app=origin.app,
            api=origin.api.name if is_call else "",
            request=without_keys(origin.request),
            stream=request is not None and request.stream,
            status=origin.api.status(error),
            outcome=Outcome.REFUSED,
            code=error.code,
            error=plain(
                without_keys(error.record_message[:2400]), 1200
            ),  # room for the end of a usual one, which says what to do
            ms=Millis(round((now - origin.began) * 1000)),
            retry=origin.retry,
            marks=tuple(error.marks),
        )


def _model_of(error: GatewayError, request: InboundRequest | None) -> str:
    """Returns the model's name. One that does not exist may be a key that was pasted into the wrong field."""
    name = "" if request is None else plain(request.model, 80)
    return without_keys(name) if error.code == "model_not_found" else name


def _limited_name(names: set[str], name: str) -> str:
    """Returns the name, or nothing once there are too many: invented names would stay in the sums for ever."""
    if name not in names:
        if len(names) >= 200:
            return ""
        names.add(name)
    return name
