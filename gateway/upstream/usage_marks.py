"""Marks of a usage report for the record: that it cannot be true, and what costs something beside tokens.

Such extras (searches that a vendor makes, a faster tier) are in the cost of a call if its price has a rate for them.
The record shows the others, so that a bill that is higher than the ledger can be explained.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.domain.price import Price, Rates, variant_price
from gateway.domain.rawjson import at, text_at
from gateway.domain.text import plain
from gateway.domain.usage import CITATIONS, Usage
from gateway.upstream.usage_counts import (
    CITATION_TOKENS,
    OTHER_STEPS,
    SEARCH_COUNTS,
    kind_of_search,
    named_variant,
    tool_uses,
    variant_of,
)

SUSPECT = "suspect_usage"
"""The mark of a record whose report contradicted itself; see ``usage_report``."""
EXTRA = "upstream_extra"
"""The mark of a call that costs something at the upstream beside its tokens."""
_USUAL_PLACES = frozenset({"", "global", "not_available", "unknown"})


def marks_of(report: Mapping[str, Any], *, suspect: bool) -> tuple[str, ...]:
    """Returns the marks of one report."""
    uses = (f"{plain(name, 40)}:{count}" for name, count in tool_uses(report).items())
    extras = ",".join([*uses, *_other_prices(report)])
    marks = (SUSPECT,) if suspect else ()
    if extras:
        marks = (*marks, f"{EXTRA}={extras[:120]}")  # characters
    cost = reported_cost(report)
    return marks if cost is None else (*marks, f"upstream_cost={cost:.12g}")


def without_charged(marks: tuple[str, ...], usage: Usage, price: Price, at: Rates) -> tuple[str, ...]:
    """Returns the marks of a call, without the extras that its price charges: searches, citations, a service tier,
    advice.
    """
    if not any(mark.startswith(EXTRA) for mark in marks):
        return marks
    charged = set(usage.parts) & set(at.extras or ())
    if variant_price(price, usage.variant) is not None:
        charged.add(usage.variant)
    left = []
    for mark in marks:
        name, _, items = mark.partition("=")
        if name == EXTRA:
            items = ",".join(item for item in items.split(",") if _part_of(item) not in charged)
        if name != EXTRA or items:
            left.append(f"{name}={items}" if items else mark)
    return tuple(left)


def _part_of(extra: str) -> str:
    """Returns the part of a usage, or the variant, of an extra; empty: none."""
    name, _, value = extra.partition(":")
    if name in ("service_tier", "speed"):
        return named_variant(value)
    if name == CITATION_TOKENS:
        return CITATIONS
    if name == "iteration":
        return "other_output"
    return kind_of_search(name) if "search" in name or name in SEARCH_COUNTS else ""


def reported_cost(report: Mapping[str, Any]) -> float | None:
    """Returns what the upstream says the call cost, in dollars: OpenRouter's, Perplexity's or xAI's; None if it does
    not.
    """
    cost = at(report, "cost", "total_cost") if isinstance(report.get("cost"), dict) else report.get("cost")
    ticks = report.get("cost_in_usd_ticks")
    if cost is None and type(ticks) is int:
        cost = ticks / 10_000_000_000  # xAI's parts of a dollar
    named = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1_000_000
    return cost if named else None


def _other_prices(report: Mapping[str, Any]) -> Iterator[str]:
    if report.get("speed") == "fast":
        yield "speed:fast"
    place, tier = report.get("inference_geo"), variant_of({**report, "speed": None})
    if tier:
        yield f"service_tier:{tier}"
    if isinstance(place, str) and place not in _USUAL_PLACES:
        yield f"inference_geo:{plain(place, 40)}"
    steps = report.get("iterations")
    for step in steps if isinstance(steps, list) else ():
        if (kind := text_at(step, "type")).startswith(OTHER_STEPS):
            yield f"iteration:{plain(kind, 40)}"
