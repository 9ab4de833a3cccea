"""Forecasts: how long a budget and the balance last at the pace of the last days. The clock is a parameter."""

from datetime import datetime

from gateway.domain.budget import window_start
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

MIN_ELAPSED = 0.02
"""Share of a window that must have passed before a forecast is made."""

FAR_MS = 366 * 86_400_000
"""A forecast beyond this is not given as a date."""

WEEK_MS = 7 * 86_400_000
"""The days whose spending is the pace of the balance."""


def used_share(budget: BudgetView) -> float:
    """The larger share that is spent, of money or of tokens; over 1 if it is overdrawn.

    What running calls hold does not count: most of it comes back, and a forecast from it would jump.
    """
    shares = [0.0]
    if budget.nanos is not None:
        shares.append(budget.spent_nanos / budget.nanos if budget.nanos else 1.0)
    if budget.tokens is not None:
        shares.append(budget.spent_tokens / budget.tokens if budget.tokens else 1.0)
    return max(shares)


def forecast(budget: BudgetView, now: Millis, since: Millis) -> str:
    """``empty on Thu 16:00 at this pace``, ``lasts at this pace``, or nothing while it is too early to tell.

    The pace is that of the window so far; ``since`` is where a window without a beginning began.
    """
    part = used_share(budget)
    if part >= 1:
        resets = f"; resets {_moment(budget.resets_at_ms, now)}" if budget.resets_at_ms else ""
        return f"used up{resets}"
    begun = window_start(budget.window, now) or since
    until_ms = budget.resets_at_ms
    whole = (until_ms or now + WEEK_MS) - begun
    if part == 0 or now - begun < whole * MIN_ELAPSED:
        return ""
    empty = now + round((1 - part) * (now - begun) / part)
    if (until_ms is not None and empty >= until_ms) or empty - now > FAR_MS:
        return "lasts at this pace"
    return f"at this pace used up on {_moment(empty, now)}"


def balance_forecast(left: int, spent: int, span_ms: int, now: Millis) -> str:
    """The same for a balance, from what was spent in the last ``span_ms``."""
    if left <= 0:
        return "empty"
    if spent <= 0:
        return ""
    empty = now + left * span_ms // spent
    return (
        "lasts over a year at this pace" if empty - now > FAR_MS else f"at this pace used up on {_moment(empty, now)}"
    )


def _moment(ms: int, now: int) -> str:
    then = datetime.fromtimestamp(ms / 1000).astimezone()
    if 0 <= ms - now < WEEK_MS:
        return f"{then:%a} {then:%H:%M}"
    this_year = then.year == datetime.fromtimestamp(now / 1000).astimezone().year
    return f"{then.day} {then:%b}" if this_year else f"{then.day} {then:%b %Y}"
