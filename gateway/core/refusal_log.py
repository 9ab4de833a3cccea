"""Refusals: calls that were turned away are recorded too, but a flood of them is recorded as a trickle.

Whatever a client sends, neither the log nor memory grows by more than a little a second: not by one refusal again and
again, and not by one that differs each time in the name of a model that does not exist.
"""

from collections.abc import Callable

from gateway.core.call import Visit
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.settlement import ERROR_TEXT
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import GatewayError
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis

GAP_S = 1.0
"""The same refusal of the same token is recorded at most so often."""
BURST = 20
"""So many refusals of one token for one reason, with different models, are recorded at once; then one a second."""
KINDS_KEPT = 1000
STRANGERS = 200
"""Names of models that do not exist, and of refused programs, are recorded up to so many; then without the name."""


class _Flood:
    """The refusals of one token for one reason."""

    __slots__ = ("at", "left", "left_out")

    def __init__(self, now: float) -> None:
        self.at, self.left, self.left_out = now, float(BURST), 0

    def admits(self, now: float) -> bool:
        self.left = min(BURST, self.left + (now - self.at) / GAP_S)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Refusals:
    """Writes one record a second for each kind of refusal; the next one tells how many were left out."""

    def __init__(self, note: Callable[[Record], None], bus: EventBus, clock: Clock) -> None:
        self._note = note
        self._bus = bus
        self._clock = clock
        self._seen: dict[tuple[str, str, str], float] = {}
        """When each was recorded last, the oldest first."""
        self._floods: dict[tuple[str, str], _Flood] = {}
        self._models: set[str] = set()
        self._apps: set[str] = set()

    def note(self, visit: Visit, error: GatewayError, token: Token | None, model: str) -> None:
        """Record a refusal; it costs nothing and holds nothing."""
        now = self._clock.mono()
        who = token.id if token is not None else ""
        flood = self._flood(who, error.code, now)
        if now - self._seen.get((who, error.code, model), -GAP_S) < GAP_S or not flood.admits(now):
            flood.left_out += 1
            return
        left_out, flood.left_out = flood.left_out, 0
        self._remember((who, error.code, model), now)
        name = plain(model, 80)
        record = Record(
            id=visit.id,
            ts=visit.ts,
            token=who,
            token_name=token.name if token is not None else "",
            group=token.group if token is not None else "",
            model=_known(self._models, name) if error.code == "model_not_found" else name,
            app=_known(self._apps, visit.app),
            api=visit.api.name,
            status=visit.api.status(error),
            outcome=Outcome.REFUSED,
            code=error.code,
            error=plain(error.record_message, ERROR_TEXT),
            ms=Millis(round((now - visit.began) * 1000)),
            retry=visit.retry,
            marks=(f"repeated={left_out}",) if left_out else (),
        )
        self._note(record)
        self._bus.settled(record)

    def _flood(self, who: str, code: str, now: float) -> _Flood:
        found = self._floods.get((who, code))
        if found is None:
            if len(self._floods) >= KINDS_KEPT:
                del self._floods[next(iter(self._floods))]
            found = self._floods[who, code] = _Flood(now)
        return found

    def _remember(self, key: tuple[str, str, str], now: float) -> None:
        self._seen.pop(key, None)
        if len(self._seen) >= KINDS_KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = now


def _known(names: set[str], name: str) -> str:
    """The name, if it is not one too many: what clients make up would stay in the sums of calls for ever."""
    if name not in names:
        if len(names) >= STRANGERS:
            return ""
        names.add(name)
    return name
