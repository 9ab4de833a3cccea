"""Forecasts: how long a budget lasts at the pace of its window, and the balance at that of the last seven days.

A pace is what was spent divided by the time. The time before the first call does not count, because nothing is known of
it. The clock is a parameter.
"""

from datetime import datetime

from gateway.domain.budget import Window, window_start
from gateway.domain.incidents import spent_share
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

FAR_MS = 366 * 86_400_000
"""A forecast beyond this, in milliseconds, is not given as a date."""

DAY_MS = 86_400_000
"""With less than a day of calls the balance has no forecast."""

WEEK_MS = 7 * DAY_MS

PACE_DAYS = 7
"""The days whose spending is the pace of the balance, today included."""


def used_share(budget: BudgetView) -> float:
    """Returns the larger share that is spent, of money or of tokens; over 1 if overdrawn.

    What running calls hold does not count: most of it is returned, and a forecast would jump. A budget of nothing is
    used up.
    """
    return max(spent_share(budget), float(0 in (budget.nanos, budget.tokens)))


def forecast(budget: BudgetView, now: Millis, since: Millis) -> str:
    """Returns ``empty on Thu 16:00 at this pace``, ``lasts at this pace``, or nothing while it is too early to tell.

    The pace is that of the window so far, at most from ``since``, when its owner was created.
    """
    part = used_share(budget)
    if part >= 1:
        resets = f"; resets {_moment(budget.resets_at_ms, now)}" if budget.resets_at_ms else ""
        return f"used up{resets}"
    span, until_ms = pace_span(budget, now, since), budget.resets_at_ms
    if part == 0 or not span:
        return ""
    empty = now + round((1 - part) * span / part)
    if (until_ms is not None and empty >= until_ms) or empty - now > FAR_MS:
        return "lasts at this pace"
    return f"at this pace used up on {_moment(empty, now)}"


def pace_span(budget: BudgetView, now: Millis, since: Millis) -> int:
    """Returns the milliseconds of a budget's pace; 0 while it is too early to tell."""
    begun = max(window_start(budget.window, now), since)
    whole = (budget.resets_at_ms or now + WEEK_MS) - begun
    # before that it is too early for a forecast
    return now - begun if now - begun >= whole * 0.02 else 0


def pace_start(now: Millis) -> Millis:
    """Returns the start of the days whose spending is the pace of the balance."""
    begun = window_start(Window.DAY, now)
    for _ in range(PACE_DAYS - 1):
        begun = window_start(Window.DAY, Millis(begun - DAY_MS // 2))
    return begun


def balance_forecast(left: int, spent: int, first: Millis | None, now: Millis) -> str:
    """Returns the forecast of a balance, given what was spent since ``pace_start``.

    ``first`` is when the first call of all began; in the first day there is no forecast.
    """
    if left <= 0:
        return "empty"
    empty = balance_end(left, spent, first, now)
    if empty is None:
        return ""
    days = -(-_span(first, now) // DAY_MS)
    pace = f"at the pace of the last {f'{days} days' if days > 1 else 'day'}"
    return f"lasts over a year {pace}" if empty - now > FAR_MS else f"{pace} used up on {_moment(empty, now)}"


def balance_end(left: int, spent: int, first: Millis | None, now: Millis) -> Millis | None:
    """Returns when a balance is used up at that pace, however far off; None while it is too early to tell."""
    span = _span(first, now)
    if left <= 0:
        return now
    return None if spent <= 0 or span < DAY_MS else Millis(now + left * span // spent)


def _span(first: Millis | None, now: Millis) -> int:
    """Returns the time of the pace."""
    return now - max(pace_start(now), now if first is None else first)


def _moment(ms: int, now: int) -> str:
    """Returns ``Thu 16:00`` while that is unique, else ``3 Dec``."""
    then, today = (datetime.fromtimestamp(moment / 1000).astimezone().date() for moment in (ms, now))
    if ms >= now and (then - today).days < 7:
        return f"{datetime.fromtimestamp(ms / 1000).astimezone():%a %H:%M}"
    return f"{then.day} {then:%b}" if then.year == today.year else f"{then.day} {then:%b %Y}"
