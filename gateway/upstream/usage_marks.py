"""Marks of a usage report for the record: that it contradicts itself, and what costs something beside tokens.

Such extras (searches that a vendor makes, a faster tier) are part of a call's cost if its price has a rate for them.
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
    iterations,
    named_variant,
    search_part,
    tool_uses,
    variant_of,
)

SUSPECT = "suspect_usage"
"""The mark of a record whose report contradicted itself; see ``usage_report``."""
EXTRA = "upstream_extra"
"""The mark of a call that costs something at the upstream beside its tokens."""
_UNPRICED_REGIONS = frozenset({"", "global", "not_available", "unknown"})


def marks_of(report: Mapping[str, Any], *, suspect: bool) -> tuple[str, ...]:
    """Returns the marks of a report; ``suspect``: it contradicts itself."""
    uses = (f"{plain(name, 40)}:{count}" for name, count in tool_uses(report).items())
    extras = ",".join([*uses, *_other_prices(report)])
    marks = (SUSPECT,) if suspect else ()
    if extras:
        marks = (*marks, f"{EXTRA}={extras[:120]}")  # characters
    cost = reported_cost(report)
    return marks if cost is None else (*marks, f"upstream_cost={cost:.12g}")


def without_charged(marks: tuple[str, ...], usage: Usage, price: Price, rates: Rates) -> tuple[str, ...]:
    """Returns the marks of a call without the extras that its cost includes: searches, citations, a service tier,
    another model's advice.
    """
    if not any(mark.startswith(EXTRA) for mark in marks):
        return marks
    charged = set(usage.parts) & set(rates.extras or ())
    if variant_price(price, usage.variant) is not None:
        charged.add(usage.variant)
    uncharged = []
    for mark in marks:
        name, _, items = mark.partition("=")
        if name == EXTRA:
            items = ",".join(item for item in items.split(",") if _charged_as(item) not in charged)
        if name != EXTRA or items:
            uncharged.append(f"{name}={items}" if items else mark)
    return tuple(uncharged)


def _charged_as(extra: str) -> str:
    """Returns the part of a usage, or the variant, that a price charges for an extra; empty if there is none."""
    name, _, value = extra.partition(":")
    if name in ("service_tier", "speed"):
        return named_variant(value)
    if name == CITATION_TOKENS:
        return CITATIONS
    if name == "iteration":
        return "other_output"
    return search_part(name) if "search" in name or name in SEARCH_COUNTS else ""


def reported_cost(report: Mapping[str, Any]) -> float | None:
    """Returns the call's cost in dollars according to the upstream (OpenRouter, Perplexity, xAI); None if it reports
    none.
    """
    cost = at(report, "cost", "total_cost") if isinstance(report.get("cost"), dict) else report.get("cost")
    ticks = report.get("cost_in_usd_ticks")
    if cost is None and type(ticks) is int:
        cost = ticks / 10_000_000_000  # xAI's parts of a dollar
    plausible = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1_000_000
    return cost if plausible else None


def _other_prices(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields what makes the price of the tokens another one."""
    if report.get("speed") == "fast":
        yield "speed:fast"
    region, tier = report.get("inference_geo"), variant_of({**report, "speed": None})
    if tier:
        yield f"service_tier:{tier}"
    if isinstance(region, str) and region not in _UNPRICED_REGIONS:
        yield f"inference_geo:{plain(region, 40)}"
    for step in iterations(report):
        if (kind := text_at(step, "type")).startswith(OTHER_STEPS):
            yield f"iteration:{plain(kind, 40)}"
