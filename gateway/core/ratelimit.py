"""Rate limits: requests and tokens in a sliding minute or a local day.

All limits of a call are checked and taken together; a refused call uses nothing. A minute is a sliding log: no span of
60 seconds admits more than the limit. Days are read from the books, so they survive a restart.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from math import ceil, inf
from typing import NamedTuple

import msgspec

from gateway.core.concurrency import ConcurrencyLimiter
from gateway.core.rate_scopes import RateScope
from gateway.domain.call import Scope
from gateway.domain.errors import RateLimited
from gateway.domain.human_values import pause_text, plural
from gateway.domain.limits import RATES

MINUTE_S = 60.0

Today = Callable[[Scope], tuple[int, int, float]]
"""Returns the requests and tokens of a scope since local midnight, and the seconds until the next, for daily limits."""


class CountedCall(msgspec.Struct, eq=False):
    """A call in the log of a scope."""

    at: float
    tokens: int
    _log: "_MinuteLog"

    def correct_tokens(self, tokens: int) -> None:
        """Replace the estimate by the tokens used. The difference counts in the minute when the call began."""
        calls = self._log.calls
        if calls and calls[0].at <= self.at:  # the oldest expire first: its own minute is not over
            self._log.tokens += tokens - self.tokens
            self.tokens = tokens


class _MinuteLog(msgspec.Struct, eq=False):
    """The calls of one scope in the last minute, and their tokens, once expired ones are removed."""

    calls: deque[CountedCall] = msgspec.field(default_factory=deque)
    tokens: int = 0

    def expire(self, now: float) -> None:
        calls = self.calls
        while calls and calls[0].at <= now - MINUTE_S:
            self.tokens -= calls.popleft().tokens

    def add(self, now: float, tokens: int) -> CountedCall:
        self.expire(now)  # so that it never grows beyond a minute's calls
        counted = CountedCall(now, tokens, self)
        self.calls.append(counted)
        self.tokens += tokens
        return counted

    def wait_s(self, excess: int, now: float, *, of_tokens: bool) -> float:
        """Returns the seconds until ``excess`` requests or tokens fewer count."""
        for counted in self.calls:
            excess -= counted.tokens if of_tokens else 1
            if excess <= 0:
                return max(0.0, counted.at + MINUTE_S - now)
        return MINUTE_S


class Limiter:
    """Checks the rates of all scopes, and has the queues at their gates. ``mono`` returns seconds."""

    def __init__(self, mono: Callable[[], float], today: Today) -> None:
        self._mono = mono
        self._today = today
        self._logs: defaultdict[Scope, _MinuteLog] = defaultdict(_MinuteLog)
        self.concurrency = ConcurrencyLimiter()

    def check(self, scopes: Iterable[RateScope], tokens: int) -> None:
        """Raises RateLimited for the limit with the longest wait. ``tokens`` is how many the call may use."""
        reached = self.first_reached(scopes, tokens)
        if reached is not None:
            raise reached.error()

    def first_reached(self, scopes: Iterable[RateScope], tokens: int) -> "LimitReached | None":
        """Returns the limit that stops the call for the longest time, the first of several; None if none does."""
        now = self._mono()
        reached = [use.check(scope, tokens, now) for scope in scopes for use in self._uses(scope, now)]
        return max(filter(None, reached), key=lambda limit: inf if limit.wait_s is None else limit.wait_s, default=None)

    def _uses(self, scope: RateScope, now: float) -> Iterator["LimitUse"]:
        limits = scope.limits
        log = self._logs.get(scope.key) or _MinuteLog()
        log.expire(now)
        reset_s = log.calls[-1].at + MINUTE_S - now if log.calls else 0.0
        for rate, limit, used in (("rpm", limits.rpm, len(log.calls)), ("tpm", limits.tpm, log.tokens)):
            if limit is not None:
                yield LimitUse(RATES[rate], limit, used, reset_s, log)
        if limits.rpd is not None or limits.tpd is not None:
            requests, tokens, reset_s = self._today(scope.key)
            for rate, limit, used in (("rpd", limits.rpd, requests), ("tpd", limits.tpd, tokens)):
                if limit is not None:
                    yield LimitUse(RATES[rate], limit, used, reset_s, None)

    def take(self, scopes: Iterable[RateScope], tokens: int) -> list[CountedCall]:
        """Count a call, with its estimated tokens, in the minute of each of these scopes."""
        now = self._mono()
        per_minute = (scope for scope in scopes if scope.limits.rpm is not None or scope.limits.tpm is not None)
        return [self._logs[scope.key].add(now, tokens) for scope in per_minute]

    def readings(self, scopes: Iterable[RateScope]) -> list["LimitUse"]:
        """Returns the tightest limit of requests, and the tightest of tokens, if there are such limits."""
        now = self._mono()
        uses = [use for scope in scopes for use in self._uses(scope, now)]
        kinds = ([use for use in uses if use.kind == kind] for kind in ("requests", "tokens"))
        return [min(uses_of_kind, key=_share_left) for uses_of_kind in kinds if uses_of_kind]

    def headers(self, scopes: Iterable[RateScope]) -> dict[str, str]:
        """Returns the ``x-ratelimit-*`` headers for these limits."""
        return headers_of(self.readings(scopes))


class LimitUse(msgspec.Struct, frozen=True):
    """What is used of one limit of a scope."""

    name: str
    """``requests a minute`` and so on."""
    limit: int
    used: int
    reset_s: float
    """Seconds until nothing of the limit is used any more."""
    log: _MinuteLog | None
    """The calls of the minute; None for a limit per day."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def kind(self) -> str:
        """Returns what it limits: ``requests`` or ``tokens``."""
        return self.name.partition(" ")[0]

    def check(self, scope: RateScope, tokens: int, now: float) -> "LimitReached | None":
        """Returns the limit if one more call, of so many tokens, would exceed it now, else None."""
        amount = tokens if self.kind == "tokens" else 1
        if amount > self.limit:
            return LimitReached(scope, self, amount, None)
        excess = self.used + amount - self.limit
        if excess <= 0:
            return None
        wait_s = self.reset_s if self.log is None else self.log.wait_s(excess, now, of_tokens=self.kind == "tokens")
        return LimitReached(scope, self, amount, wait_s) if wait_s > 0 else None


class LimitReached(NamedTuple):
    """A limit that stops a call."""

    scope: RateScope
    use: LimitUse
    amount: int
    wait_s: float | None
    """Seconds until the amount fits; None if it never does."""

    @property
    def reason(self) -> str:
        """Returns why a channel is skipped."""
        if self.wait_s is None:
            return f"the call needs about {self.amount} of its {self._limit_text}"
        return f"at its limit of {self._limit_text}, free in {pause_text(ceil(self.wait_s))}"

    @property
    def _limit_text(self) -> str:
        return f"{self.use.limit} {plural(self.use.limit, self.use.name)}"

    def error(self) -> RateLimited:
        label, use = self.scope.label, self.use
        details: dict[str, object] = {"limit": use.limit, "limit_name": use.name, "limit_of": self.scope.key[0]}
        if self.wait_s is None:
            msg = (
                f"this call needs about {self.amount} {use.kind}, and {label} may use at most "
                f"{self._limit_text}; make it shorter, lower its max_tokens, or raise the limit"
            )
            code, details = "request_too_large_for_limit", {**details, "requested": self.amount}
            return RateLimited(msg, code=code, details=details)
        wait = pause_text(ceil(self.wait_s))
        msg = f"{label} has reached its limit of {self._limit_text}; try again in {wait}"
        error = RateLimited(msg, retry_after_s=max(self.wait_s, 0.001), details={**details, "used": use.used})
        error.limit_headers = headers_of([msgspec.structs.replace(use, reset_s=self.wait_s)])
        return error


def _share_left(reading: LimitUse) -> float:
    return reading.left / reading.limit if reading.limit else 0.0


def headers_of(readings: Iterable[LimitUse]) -> dict[str, str]:
    """Returns the ``x-ratelimit-*`` headers for these limits."""
    headers: dict[str, str] = {}
    for reading in readings:
        headers[f"x-ratelimit-limit-{reading.kind}"] = str(reading.limit)
        headers[f"x-ratelimit-remaining-{reading.kind}"] = str(reading.left)
        headers[f"x-ratelimit-reset-{reading.kind}"] = duration(reading.reset_s)
    return headers


def duration(seconds: float) -> str:
    """Returns a duration in the form of ``x-ratelimit-reset-*``: ``1.2s``, ``6m0s``, ``23h5m0s``."""
    if seconds < MINUTE_S:
        return f"{max(0.0, seconds):.1f}s"
    minutes, whole_seconds = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{whole_seconds}s" if hours else f"{minutes}m{whole_seconds}s"
