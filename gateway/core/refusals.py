"""Refusals: calls that were turned away are recorded too, but a flood of the same refusal is recorded as one."""

from collections.abc import Callable

from gateway.core.bus import Bus
from gateway.core.call import Visit
from gateway.core.clock import Clock
from gateway.core.settlement import ERROR_TEXT
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import GatewayError
from gateway.domain.text import plain
from gateway.domain.token import Token
from gateway.domain.units import Millis

GAP_S = 1.0
"""The same refusal of the same token is recorded at most so often."""
KINDS_KEPT = 1000


class Refusals:
    """Writes one record a second for each kind of refusal; the next one tells how many were left out."""

    def __init__(self, note: Callable[[Record], None], bus: Bus, clock: Clock) -> None:
        self._note = note
        self._bus = bus
        self._clock = clock
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}

    def note(self, visit: Visit, error: GatewayError, status: int, token: Token | None, model: str) -> None:
        """Record a refusal; it costs nothing and holds nothing."""
        now = self._clock.mono()
        key = (token.id if token is not None else "", error.code, model)
        last, left_out = self._seen.get(key, (-GAP_S, 0))
        if now - last < GAP_S:
            self._seen[key] = (last, left_out + 1)
            return
        if len(self._seen) >= KINDS_KEPT:
            self._seen.clear()
        self._seen[key] = (now, 0)
        record = Record(
            id=visit.id,
            ts=visit.ts,
            token=token.id if token is not None else "",
            token_name=token.name if token is not None else "",
            group=token.group if token is not None else "",
            model=plain(model, 80),
            app=visit.app,
            status=status,
            outcome=Outcome.REFUSED,
            code=error.code,
            error=plain(error.message, ERROR_TEXT),
            ms=Millis(round((now - visit.began) * 1000)),
            retry=visit.retry,
            marks=(f"repeated={left_out}",) if left_out else (),
        )
        self._note(record)
        self._bus.settled(record)
