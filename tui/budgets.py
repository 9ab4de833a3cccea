"""Budgets: the gauge with its percentage and amounts, the forecast, and the form fields of tokens and groups."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gateway.domain.human_values import brief_count
from gateway.domain.limits import Window, window_start
from gateway.domain.units import DOLLAR, Millis
from gateway.domain.views import BudgetView
from tui.alerts import ALERT_SHARE, used_share
from tui.charts import gauge
from tui.format import percent
from tui.glyphs import Glyphs

MIN_ELAPSED = 0.02
"""Share of a window that must have passed before a forecast is made."""

FAR_MS = 366 * 86_400_000
"""A forecast beyond this is not given as a date."""

WEEK_MS = 7 * 86_400_000

WINDOWS = {Window.DAY: "today", Window.WEEK: "this week", Window.MONTH: "this month", Window.EVER: "in total"}


def by_unit(budgets: Sequence[BudgetView]) -> list[BudgetView]:
    """The same with each amount by itself: a budget in dollars and in tokens becomes two."""
    found = []
    for budget in budgets:
        if budget.nanos is not None:
            found.append(msgspec.structs.replace(budget, tokens=None))
        if budget.tokens is not None:
            found.append(msgspec.structs.replace(budget, nanos=None))
    return found


def tightest(budgets: Sequence[BudgetView]) -> BudgetView | None:
    """The one that is used most, relatively."""
    return max(budgets, key=used_share, default=None)


def budget_tone(part: float) -> str:
    """How much a share of a budget matters."""
    return "bad" if part >= 1 else "warn" if part >= ALERT_SHARE else ""


def budget_line(budget: BudgetView, width: int, glyphs: Glyphs) -> str:
    """Gauge, percentage and amounts on one line; ``width`` is the gauge's."""
    part = used_share(budget)
    return f"{gauge(part, width, glyphs)} {percent(part):>4} {amounts(budget)}"


def amounts(budget: BudgetView) -> str:
    """``$12.4/20``, or the tokens where they are what is short."""
    in_money = budget.nanos is not None
    if in_money and budget.tokens is not None:
        money = _share(budget.spent_nanos + budget.held_nanos, budget.nanos)
        in_money = money >= _share(budget.spent_tokens, budget.tokens)
    if in_money:
        return f"${_dollars(budget.spent_nanos + budget.held_nanos)}/{_dollars(budget.nanos or 0)}"
    return f"{brief_count(budget.spent_tokens)}/{brief_count(budget.tokens or 0)} tok"


def _share(part: int, whole: int | None) -> float:
    """A share; a limit of 0 is used up."""
    return part / whole if whole else 1.0


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
    return f"{then.day} {then:%b}" if ms - now < FAR_MS else f"{then.day} {then:%b %Y}"


def _dollars(nanos: int) -> str:
    """Short: ``12.4``, ``0.04``, ``1250``; less than a cent ``0.0004``."""
    tenths = nanos * 10 // DOLLAR
    if 0 < nanos < DOLLAR // 100:
        return f"{nanos / DOLLAR:.4f}".rstrip("0") if nanos >= DOLLAR // 10_000 else "<0.0001"
    if nanos and tenths < 10:
        return f"{nanos / DOLLAR:.2f}"
    return f"{tenths // 10}" if tenths % 10 == 0 or tenths >= 1000 else f"{tenths // 10}.{tenths % 10}"
