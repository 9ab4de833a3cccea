"""Rate limits: requests and tokens in a sliding minute or a local day.

All limits of a call are checked and taken together; a refused call uses nothing. A minute is a sliding log: no span of
60 seconds admits more than the limit. Days are read from the books, so they survive a restart.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from math import ceil, inf
from typing import NamedTuple

import msgspec

from gateway.core.concurrency import ConcurrencyLimiter
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.domain.call import Scope
from gateway.domain.errors import RateLimited
from gateway.domain.human_values import plural
from gateway.domain.limits import LimitReading, Readings

MINUTE_S = 60.0


class UsedToday(msgspec.Struct, frozen=True):
    """Requests and tokens since local midnight, and seconds until the next one."""

    requests: int
    tokens: int
    reset_s: float


Today = Callable[[Scope], UsedToday]
"""Returns what a party used today; called only for limits by the day."""


class LimitReached(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that stops a call."""

    label: str
    whose: str
    """``token``, ``group`` or ``channel``."""
    name: str
    """Its name, such as ``requests a minute``."""
    limit: int
    used: int
    amount: int
    """The amount that the call needs."""
    wait_s: float | None
    """Seconds until it fits; None: never."""

    @property
    def reason(self) -> str:
        """Returns why a channel is skipped."""
        if self.wait_s is None:
            return f"the call needs about {self.amount} of its {self._limit_text}"
        return f"at its limit of {self._limit_text}, free in {ceil(self.wait_s)} s"

    @property
    def _limit_text(self) -> str:
        return f"{self.limit} {plural(self.limit, self.name)}"

    def error(self) -> RateLimited:
        """Returns the error."""
        details: dict[str, object] = {"limit": self.limit, "limit_name": self.name, "limit_of": self.whose}
        if self.wait_s is None:
            msg = (
                f"this call needs about {self.amount} of {self.name}, more than {self.label} may ever use at once "
                f"({self.limit}); make it shorter, lower its max_tokens, or raise the limit"
            )
            code, details = "request_too_large_for_limit", {**details, "requested": self.amount}
            return RateLimited(msg, code=code, details=details)
        wait_s = ceil(self.wait_s)
        msg = f"{self.label} has reached its limit of {self._limit_text}; try again in {wait_s} s"
        return RateLimited(msg, retry_after_s=max(self.wait_s, 0.001), details={**details, "used": self.used})


class Ticket(msgspec.Struct, eq=False):
    """What one admitted call took: places until ``close``, and tokens, corrected at the end."""

    _entries: "list[_Entry]"
    _lines: ConcurrencyLimiter
    _gates: Collection[ConcurrencyGate]

    def close(self) -> None:
        """Free the places: the call has ended."""
        if self._gates:
            self._lines.leave(self._gates)
            self._gates = ()

    def correct_tokens(self, tokens: int) -> None:
        """Replace the estimate by what was used: credit returns, excess becomes debt of the same minute."""
        for entry in self._entries:
            if entry.log is not None:
                entry.log.total += tokens - entry.amount
                entry.amount = tokens


class _Entry(msgspec.Struct, eq=False):
    at: float
    amount: int
    log: "_Log | None"
    """None once its minute is over: the call then no longer counts."""


class _Log(msgspec.Struct, eq=False):
    """The amounts of the last minute and their sum."""

    entries: deque[_Entry] = msgspec.field(default_factory=deque)
    total: int = 0

    def expire(self, now: float) -> None:
        entries = self.entries
        while entries and entries[0].at <= now - MINUTE_S:
            gone = entries.popleft()
            self.total -= gone.amount
            gone.log = None

    def add(self, now: float, amount: int) -> _Entry:
        entry = _Entry(now, amount, self)
        self.entries.append(entry)
        self.total += amount
        return entry

    def wait(self, limit: int, amount: int, now: float) -> float:
        """Returns the seconds until ``amount`` more fits below ``limit``; 0 if it does now."""
        over = self.total + amount - limit
        if over <= 0:
            return 0.0
        for entry in self.entries:
            over -= entry.amount
            if over <= 0:
                return max(0.0, entry.at + MINUTE_S - now)
        return MINUTE_S


class Limiter:
    """The logs of all parties, and the queues at their gates. ``mono`` returns seconds."""

    def __init__(self, mono: Callable[[], float], today: Today) -> None:
        self._mono = mono
        self._today = today
        self._requests: dict[Scope, _Log] = {}
        self._tokens: dict[Scope, _Log] = {}
        self.lines = ConcurrencyLimiter()

    def check(self, bounds: Iterable[RateScope], tokens: int) -> None:
        """Raises RateLimited for the limit that needs the longest wait. Takes nothing.

        ``tokens``: what the call may use, with the output that its caps allow.
        """
        over = self.against(bounds, tokens)
        if over is not None:
            raise over.error()

    def against(self, bounds: Iterable[RateScope], tokens: int) -> LimitReached | None:
        """Returns the limit that stops the call for the longest time, if any does; of equals, the first."""
        now = self._mono()
        reached = [
            use.reached(bound, tokens if use.of_tokens else 1, now)
            for bound in bounds
            for use in self._uses(bound, now)
        ]
        return max(filter(None, reached), key=lambda over: inf if over.wait_s is None else over.wait_s, default=None)

    def _uses(self, bound: RateScope, now: float) -> Iterator["_Use"]:
        """Yields all the limits of a party, with what is used of them."""
        limits = bound.limits
        for logs, of_tokens, limit in ((self._requests, False, limits.rpm), (self._tokens, True, limits.tpm)):
            if limit is not None:
                log = logs.get(bound.key) or _Log()
                log.expire(now)
                newest = log.entries[-1].at + MINUTE_S - now if log.entries else 0.0
                yield _Use("minute", of_tokens, limit, log.total, newest, log)
        if bound.daily:
            today = self._today(bound.key)
            for of_tokens, limit, used in ((False, limits.rpd, today.requests), (True, limits.tpd, today.tokens)):
                if limit is not None:
                    yield _Use("day", of_tokens, limit, used, today.reset_s, None)

    def take(
        self,
        bounds: Iterable[RateScope],
        tokens: int,
        gates: Collection[ConcurrencyGate] = (),
        held: Collection[ConcurrencyGate] = (),
    ) -> Ticket:
        """Count one call with an estimate of its tokens against all scopes, and take places at all gates.

        Places at the gates, also those ``held`` before, are freed by ``Ticket.close``.
        """
        if gates:
            self.lines.enter(gates, held)
        entries: list[_Entry] = []
        for bound in bounds:
            now = self._mono()
            if bound.limits.rpm is not None:
                _log_of(self._requests, bound.key, now).add(now, 1)
            if bound.limits.tpm is not None:
                entries.append(_log_of(self._tokens, bound.key, now).add(now, tokens))
        return Ticket(entries, self.lines, gates)

    def readings(self, bounds: Iterable[RateScope]) -> Readings:
        """Returns the tightest limits of requests and of tokens, for ``x-ratelimit-*`` headers."""
        now = self._mono()
        uses = [use for bound in bounds for use in self._uses(bound, now)]
        return (
            _tightest([use.reading() for use in uses if not use.of_tokens]),
            _tightest([use.reading() for use in uses if use.of_tokens]),
        )


class _Use(NamedTuple):
    """A limit and what is used of it."""

    span: str
    """``minute`` or ``day``."""
    of_tokens: bool
    limit: int
    used: int
    reset_s: float
    log: _Log | None
    """The calls of the minute."""

    def reached(self, bound: RateScope, amount: int, now: float) -> LimitReached | None:
        """Returns why so much more does not fit; None if it does."""
        wait: float | None = None
        if amount <= self.limit:
            over = self.used + amount > self.limit
            wait = self.log.wait(self.limit, amount, now) if self.log is not None else self.reset_s * over
            if wait <= 0:
                return None
        return LimitReached(
            label=bound.label,
            whose=bound.key[0],
            name=f"{'tokens' if self.of_tokens else 'requests'} a {self.span}",
            limit=self.limit,
            used=self.used,
            amount=amount,
            wait_s=wait,
        )

    def reading(self) -> LimitReading:
        """Returns what is left of it."""
        return LimitReading(self.limit, max(0, self.limit - self.used), self.reset_s)


def _log_of(logs: dict[Scope, _Log], key: Scope, now: float) -> _Log:
    """Returns the log without expired entries: it never grows beyond a minute's calls."""
    log = logs.get(key)
    if log is None:
        log = logs[key] = _Log()
    else:
        log.expire(now)
    return log


def _tightest(readings: list[LimitReading]) -> LimitReading | None:
    if len(readings) < 2:
        return readings[0] if readings else None
    return min(readings, key=lambda r: r.left / r.limit if r.limit else 0.0, default=None)


def headers_of(readings: Readings) -> dict[str, str]:
    """Returns ``x-ratelimit-*`` headers of the tightest limits, if any."""
    out: dict[str, str] = {}
    for kind, reading in zip(("requests", "tokens"), readings, strict=True):
        if reading is not None:
            out[f"x-ratelimit-limit-{kind}"] = str(reading.limit)
            out[f"x-ratelimit-remaining-{kind}"] = str(reading.left)
            out[f"x-ratelimit-reset-{kind}"] = duration(reading.reset_s)
    return out


def duration(seconds: float) -> str:
    """Returns a span in the form of ``x-ratelimit-reset-*``: ``1.2s``, ``6m0s``, ``23h5m0s``."""
    if seconds < MINUTE_S:
        return f"{max(0.0, seconds):.1f}s"
    whole = ceil(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}h{minutes}m{secs}s" if hours else f"{minutes}m{secs}s"
