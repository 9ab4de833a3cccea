"""Rate limits: requests and tokens in a sliding minute or a local day, and calls in flight.

All limits of a call are checked together and taken together; a refused call costs nothing. A minute is a sliding log:
in no span of 60 seconds are more admitted than the limit. Days are read from the books, so that a restart keeps them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

import msgspec

from gateway.domain.errors import RateLimited
from gateway.domain.limits import Limits

MINUTE_S = 60.0


class Used(msgspec.Struct, frozen=True):
    """Requests and tokens since local midnight, and seconds until the next."""

    requests: int
    tokens: int
    reset_s: float


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """One party whose limits a call must respect."""

    key: tuple[str, str]
    """What kind of party, and its id."""
    label: str
    """For the message: ``token 'laptop'``."""
    limits: Limits
    today: Callable[[], Used]
    """Asked only when there is a limit by the day."""


class Ticket:
    """What one admitted call has taken; tells the true tokens at its end."""

    __slots__ = ("_entries", "_tokens")

    def __init__(self, entries: "list[_Entry]", tokens: int) -> None:
        self._entries = entries
        self._tokens = tokens

    def true_up(self, tokens: int) -> None:
        """Replace the estimate by what was really used: credit goes back, excess becomes debt of the same minute."""
        for entry in self._entries:
            if entry.log is not None:
                entry.log.total += tokens - entry.amount
                entry.amount = tokens


class Reading(msgspec.Struct, frozen=True):
    """Limit, what is left of it, and seconds until it is whole again."""

    limit: int
    left: int
    reset_s: float


class _Entry:
    __slots__ = ("amount", "at", "log")

    def __init__(self, at: float, amount: int, log: "_Log") -> None:
        self.at, self.amount = at, amount
        self.log: _Log | None = log
        """None once its minute is over: it counts no more, whatever its call turns out to have used."""


class _Log:
    """Amounts of the last minute and their sum."""

    __slots__ = ("entries", "total")

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        self.total = 0

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
        """Seconds until ``amount`` more fits below ``limit``; 0 if it does now."""
        over = self.total + amount - limit
        if over <= 0:
            return 0.0
        for entry in self.entries:
            over -= entry.amount
            if over <= 0:
                return max(0.0, entry.at + MINUTE_S - now)
        return MINUTE_S


class Limiter:
    """The logs of all parties. ``mono`` gives seconds."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._requests: dict[tuple[str, str], _Log] = {}
        self._tokens: dict[tuple[str, str], _Log] = {}
        self._flying: dict[tuple[str, str], int] = {}

    def check(self, bounds: list[Bound], tokens: int, least: int = 0) -> None:
        """Raises RateLimited for the limit that needs the longest wait; takes nothing.

        ``least`` of the estimated ``tokens`` are sure to be used; the rest may be clipped to what a window can hold.
        """
        now = self._mono()
        worst: RateLimited | None = None
        for bound in bounds:
            for refusal in self._refusals(bound, tokens, least, now):
                if refusal.retry_after_s is None:
                    raise refusal
                if worst is None or refusal.retry_after_s > (worst.retry_after_s or 0):
                    worst = refusal
        if worst is not None:
            raise worst

    @contextmanager
    def take(self, bounds: list[Bound], tokens: int) -> Iterator[Ticket]:
        """Count one call with this many estimated tokens against all of them while the block runs."""
        now = self._mono()
        entries = []
        for bound in bounds:
            if bound.limits.rpm is not None:
                self._requests.setdefault(bound.key, _Log()).add(now, 1)
            if bound.limits.tpm is not None:
                entries.append(self._tokens.setdefault(bound.key, _Log()).add(now, tokens))
            self._flying[bound.key] = self._flying.get(bound.key, 0) + 1
        try:
            yield Ticket(entries, tokens)
        finally:
            for bound in bounds:
                self._flying[bound.key] -= 1
                if not self._flying[bound.key]:
                    del self._flying[bound.key]

    def in_flight(self, key: tuple[str, str]) -> int:
        """Calls of this party that run now."""
        return self._flying.get(key, 0)

    def readings(self, bounds: list[Bound]) -> tuple[Reading | None, Reading | None]:
        """The tightest requests limit and the tightest tokens limit, for ``x-ratelimit-*`` headers."""
        now = self._mono()
        requests: list[Reading] = []
        tokens: list[Reading] = []
        for bound in bounds:
            limits = bound.limits
            _minute(requests, self._requests.get(bound.key), limits.rpm, now)
            _minute(tokens, self._tokens.get(bound.key), limits.tpm, now)
            if limits.rpd is not None or limits.tpd is not None:
                used = bound.today()
                _day(requests, limits.rpd, used.requests, used.reset_s)
                _day(tokens, limits.tpd, used.tokens, used.reset_s)
        return _tightest(requests), _tightest(tokens)

    def _refusals(self, bound: Bound, tokens: int, least: int, now: float) -> Iterator[RateLimited]:
        limits = bound.limits
        if limits.concurrent is not None and self.in_flight(bound.key) >= limits.concurrent:
            yield _refusal(bound, "calls in flight", limits.concurrent, self.in_flight(bound.key), 1.0)
        yield from self._minute_refusal(bound, self._requests, ("requests a minute", limits.rpm, 1), now)
        yield from self._minute_refusal(
            bound, self._tokens, ("tokens a minute", limits.tpm, _clipped(tokens, least, limits.tpm)), now
        )
        if limits.rpd is not None or limits.tpd is not None:
            used = bound.today()
            if limits.rpd is not None and used.requests >= limits.rpd:
                yield _refusal(bound, "requests a day", limits.rpd, used.requests, used.reset_s)
            if limits.tpd is not None:
                yield from _day_refusal(bound, limits.tpd, _clipped(tokens, least, limits.tpd), used)

    def _minute_refusal(
        self, bound: Bound, logs: dict[tuple[str, str], _Log], rule: tuple[str, int | None, int], now: float
    ) -> Iterator[RateLimited]:
        name, limit, amount = rule
        if limit is None:
            return
        if amount > limit:
            yield _never(bound, name, limit, amount)
        elif (log := logs.get(bound.key)) is not None:
            log.expire(now)
            if (wait := log.wait(limit, amount, now)) > 0:
                yield _refusal(bound, name, limit, log.total, wait)


def _clipped(tokens: int, least: int, limit: int | None) -> int:
    """The tokens that are asked of a window: no more than it can hold, if what is sure to be used fits."""
    return tokens if limit is None or least > limit else min(tokens, limit)


def _day_refusal(bound: Bound, limit: int, tokens: int, used: Used) -> Iterator[RateLimited]:
    name = "tokens a day"
    if tokens > limit:
        yield _never(bound, name, limit, tokens)
    elif used.tokens + tokens > limit:
        yield _refusal(bound, name, limit, used.tokens, used.reset_s)


def _minute(into: list[Reading], log: _Log | None, limit: int | None, now: float) -> None:
    if limit is None:
        return
    if log is None:
        into.append(Reading(limit, limit, 0.0))
        return
    log.expire(now)
    newest = log.entries[-1].at + MINUTE_S - now if log.entries else 0.0
    into.append(Reading(limit, max(0, limit - log.total), newest))


def _day(into: list[Reading], limit: int | None, used: int, reset_s: float) -> None:
    if limit is not None:
        into.append(Reading(limit, max(0, limit - used), reset_s))


def _tightest(readings: list[Reading]) -> Reading | None:
    return min(readings, key=lambda r: r.left / r.limit if r.limit else 0.0, default=None)


def _refusal(bound: Bound, name: str, limit: int, used: int, wait_s: float) -> RateLimited:
    msg = f"{bound.label} has reached its limit of {limit} {name}; come back in {ceil(wait_s)} s"
    details = {"limit": limit, "limit_name": name, "used": used}
    return RateLimited(msg, retry_after_s=max(wait_s, 0.001), details=details)


def _never(bound: Bound, name: str, limit: int, amount: int) -> RateLimited:
    msg = (
        f"this call needs about {amount} of {name}, more than {bound.label} may ever use at once ({limit}); "
        "make it shorter, lower its max_tokens, or raise the limit"
    )
    details = {"limit": limit, "limit_name": name, "requested": amount}
    return RateLimited(msg, code="request_too_large_for_limit", details=details)


def duration(seconds: float) -> str:
    """A span in the form of ``x-ratelimit-reset-*``: ``1.2s``, ``6m0s``, ``23h5m0s``."""
    if seconds < MINUTE_S:
        return f"{max(0.0, seconds):.1f}s"
    whole = ceil(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}h{minutes}m{secs}s" if hours else f"{minutes}m{secs}s"
