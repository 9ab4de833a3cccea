"""Forecast: how long a budget lasts at the pace of its window, and the balance at the pace of the last seven days.

A pace is an amount spent divided by its time. The time before the first call does not count.
"""

from gateway.domain.budget import days, window_start
from gateway.domain.incidents import spent_share
from gateway.domain.units import DAY_MS, Millis, local_datetime
from gateway.domain.views import BudgetView

FAR_MS = 366 * DAY_MS
"""The span in milliseconds beyond which a forecast names no date."""

PACE_DAYS = 7
"""The number of days whose spending is the pace of the balance, including today."""


def used_share(budget: BudgetView) -> float:
    """Returns the share that is spent, of money or of tokens, whichever is larger; over 1 if overdrawn.

    What running calls hold does not count, because most of it is returned. A budget of 0 is used up.
    """
    minimum = 1.0 if 0 in (budget.nanos, budget.tokens) else 0.0
    return max(spent_share(budget), minimum)


def forecast(budget: BudgetView, now: Millis, since: Millis) -> str:
    """Returns ``at this pace used up on Thu 16:00``, ``lasts at this pace``, or nothing while it is too early to tell.

    The pace is the window's so far, but not from before ``since``, when its owner was created.
    """
    share = used_share(budget)
    if share >= 1:
        resets = f"; resets {_moment(budget.resets_at_ms, now)}" if budget.resets_at_ms else ""
        return f"used up{resets}"
    span, until_ms = pace_span(budget, now, since), budget.resets_at_ms
    if share == 0 or not span:
        return ""
    empties_at = now + round((1 - share) * span / share)
    if (until_ms is not None and empties_at >= until_ms) or empties_at - now > FAR_MS:
        return "lasts at this pace"
    return f"at this pace used up on {_moment(empties_at, now)}"


def pace_span(budget: BudgetView, now: Millis, since: Millis) -> int:
    """Returns the span of a budget's pace in milliseconds; 0 before 2% of the window has passed."""
    start = max(window_start(budget.window, now), since)
    window_ms = (budget.resets_at_ms or now + 7 * DAY_MS) - start
    return now - start if now - start >= window_ms * 0.02 else 0


def pace_start(now: Millis) -> Millis:
    """Returns the start of the days whose spending is the pace of the balance."""
    return days(PACE_DAYS, now)[0]


def balance_forecast(left: int, spent: int, first: Millis | None, now: Millis) -> str:
    """Returns a forecast such as ``at the pace of the last 7 days used up on 3 Dec``; empty on the first day.

    ``left`` is the balance, ``spent`` what was spent since ``pace_start``, ``first`` when the first of all calls began.
    """
    if left <= 0:
        return "empty"
    empties_at = balance_end(left, spent, first, now)
    if empties_at is None:
        return ""
    count = -(-_balance_span(first, now) // DAY_MS)
    pace = f"at the pace of the last {f'{count} days' if count > 1 else 'day'}"
    return f"lasts over a year {pace}" if empties_at - now > FAR_MS else f"{pace} used up on {_moment(empties_at, now)}"


def balance_end(left: int, spent: int, first: Millis | None, now: Millis) -> Millis | None:
    """Returns when a balance is used up at that pace, however far away; None before a day of calls."""
    span = _balance_span(first, now)
    if left <= 0:
        return now
    return None if spent <= 0 or span < DAY_MS else Millis(now + left * span // spent)


def _balance_span(first: Millis | None, now: Millis) -> int:
    """Returns the span of the balance's pace in milliseconds."""
    return now - max(pace_start(now), now if first is None else first)


def _moment(ms: int, now: int) -> str:
    """Returns ``Thu 16:00`` while that is unique, else ``3 Dec``."""
    date, today = (local_datetime(moment).date() for moment in (ms, now))
    if ms >= now and (date - today).days < 7:
        return f"{local_datetime(ms):%a %H:%M}"
    return f"{date.day} {date:%b}" if date.year == today.year else f"{date.day} {date:%b %Y}"
