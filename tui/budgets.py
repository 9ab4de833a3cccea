"""Budgets as text: the gauge with its percentage and amounts, its tone, and the column of a table."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from gateway.domain.budget import WARN_SHARE
from gateway.domain.forecast import used_share
from gateway.domain.human_values import brief_count
from gateway.domain.money import dollars
from gateway.domain.units import DOLLAR
from gateway.domain.views import BudgetView
from tui.charts import gauge
from tui.columns import Column
from tui.format import CENT, percent

R = TypeVar("R")


def by_unit(budgets: Sequence[BudgetView]) -> list[BudgetView]:
    """Returns the budgets with one amount each: a budget in dollars and in tokens becomes two."""
    split = []
    for budget in budgets:
        if budget.nanos is not None:
            split.append(msgspec.structs.replace(budget, tokens=None))
        if budget.tokens is not None:
            split.append(msgspec.structs.replace(budget, nanos=None))
    return split


def tightest(budgets: Sequence[BudgetView]) -> BudgetView | None:
    """Returns the budget with the highest share used, in dollars or in tokens, whichever is scarcer."""
    return max(by_unit(budgets), key=used_share, default=None)


def highest_share(budgets: Sequence[BudgetView]) -> float:
    """Returns the highest share used; 0 if the list is empty."""
    return max(map(used_share, budgets), default=0.0)


def budget_column(budgets: Callable[[R], Sequence[BudgetView]], rank: int = 0) -> Column[R]:
    """Returns the column of the budget with the highest share used."""

    def text(row: R) -> str:
        budget = tightest(budgets(row))
        return "unlimited" if budget is None else budget_line(budget, 8)

    def share(row: R) -> float:
        return highest_share(budgets(row))

    return Column(
        "budget", "Budget", 24, text, rank=rank, tone=lambda r: budget_tone(share(r)), sort=share, largest_on_top=True
    )


def budget_tone(share: float) -> str:
    """Returns the tone of a budget whose used share is this."""
    if share >= 1:
        return "bad"
    return "warn" if share >= WARN_SHARE else ""


def budget_line(budget: BudgetView, width: int) -> str:
    """Returns gauge, percentage and amounts on one line; ``width`` is the width of the gauge."""
    share = used_share(budget)
    return f"{gauge(share, width)} {percent(share):>4} {amounts(budget)}"


def budget_parts(budget: BudgetView, width: int, text: str = "") -> list[tuple[str, str]]:
    """Returns the budget's line in its tone, the amount that running calls hold, and ``text``, such as its forecast."""
    held = f" + {dollars(budget.held_nanos)} held by running calls" if budget.nanos and budget.held_nanos else ""
    line = (budget_line(budget, width), budget_tone(used_share(budget)))
    return [line, (held, "dim"), (f"   {text}" if text else "", "")]


def amounts(budget: BudgetView) -> str:
    """Returns ``$12.44/20``, with as many decimals as fit; tokens for a budget without an amount in dollars."""
    if budget.nanos is None:
        return f"{brief_count(budget.spent_tokens)}/{brief_count(budget.tokens or 0)} tok"
    limit = budget.nanos
    spent_texts = (_spent_text(budget.spent_nanos, places, limit) for places in (2, 1, 0))
    texts = [f"${spent}/{_exact_text(limit)}" for spent in spent_texts]  # zeros stay, so that the width rarely changes
    return next((text for text in texts if len(text) <= 10), texts[-1])  # cells of a column


def _spent_text(nanos: int, places: int, limit: int) -> str:
    """Returns the spent amount, rounded to ``places`` decimals: ``12.40``, ``0.04``, ``1250``; below a cent ``0.0004``.

    It reads as the limit only if the limit is reached. With a limit below a dollar it has as many decimals as the
    limit: ``0.053`` of ``0.055``.
    """
    if nanos < CENT:
        return _exact_text(nanos)
    if limit < DOLLAR:
        places = max(2, len(_exact_text(limit).partition(".")[2]))
    elif nanos < DOLLAR:
        places = 2
    step = DOLLAR // 10**places
    rounded = (2 * nanos + step) // (2 * step) * step
    if nanos < limit <= rounded:
        if limit < DOLLAR:  # a cent is a large part of such a limit
            places = max(3, places)
            step = DOLLAR // 10**places
        rounded = nanos // step * step
    return f"{rounded / DOLLAR:.{places}f}"


def _exact_text(nanos: int) -> str:
    """Returns an amount without trailing zeros: ``20``, ``2.5``, ``0.50``, ``0.055``, ``0.0004``."""
    if 0 < nanos < DOLLAR // 10_000:
        return "<0.0001"
    text = f"{nanos / DOLLAR:.4f}".rstrip("0").rstrip(".")
    return f"{nanos / DOLLAR:.2f}" if nanos < DOLLAR and len(text) == len("0.5") else text
