"""Usage extras: what a vendor charges on top of plain tokens, and the marks of a usage report for the record.

Extras are tokens of other kinds, tools that the vendor runs, such as searches, another service tier, and another model
that worked on the answer. They are part of a call's cost if its price has a rate for them. The record shows the others,
to explain a bill that is higher than the ledger.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from gateway.domain.cost import COST_MARK
from gateway.domain.price import Price, Rates, variant_price
from gateway.domain.rawjson import at, list_at, text_at
from gateway.domain.text import plain
from gateway.domain.usage import CITATIONS, MODALITIES, OTHER_PARTS, PARTS, Usage
from gateway.upstream.usage_counts import LONG_WRITE, OPENAI_NAMES, SUMMED, iterations, sum_counts

SUSPECT_MARK = "suspect_usage"
"""The mark of a record whose report contradicted itself; see ``usage_report``."""
EXTRA_MARK = "upstream_extra"
"""The mark of a call that the upstream charges for more than its tokens."""
_LISTS = {
    "promptTokensDetails": "input",
    "toolUsePromptTokensDetails": "input",
    "cacheTokensDetails": "cached",
    "candidatesTokensDetails": "output",
    "responseTokensDetails": "output",
}
"""Gemini's lists of ``{"modality": "AUDIO", "tokenCount": 9}``."""
_TOOLS = (
    *("server_tool_use", "tool_usage", "server_side_tool_usage_details", "tool_calls_details"),
    "server_tool_use_details",
)
"""Objects that count uses of tools that the vendor runs."""
SEARCH_COUNTS = ("num_search_queries", "num_sources_used")
"""Perplexity's and xAI's counts of searches, at the top of a report."""
CITATION_TOKENS = "citation_tokens"
"""Perplexity's count of tokens in the sources that the model read."""
OTHER_STEPS = ("advisor", "fallback")
"""The prefixes of the types of Anthropic's ``iterations`` that another model made."""
_FILE_SEARCHES = ("file_search", "document_search", "collections_search", "storage_search")


def marks_of(report: Mapping[str, Any], *, suspect: bool) -> tuple[str, ...]:
    """Returns the marks of a report; ``suspect``: it contradicts itself."""
    uses = (f"{plain(name, 40)}:{count}" for name, count in tool_uses(report).items())
    extras = ",".join([*uses, *_pricing_extras(report)])
    marks = (SUSPECT_MARK,) if suspect else ()
    if extras:
        marks = (*marks, f"{EXTRA_MARK}={extras[:120]}")  # characters
    cost = reported_cost(report)
    return marks if cost is None else (*marks, f"{COST_MARK}{cost:.12g}")


def without_charged(marks: tuple[str, ...], usage: Usage, price: Price, rates: Rates) -> tuple[str, ...]:
    """Returns the marks of a call without the extras that its cost includes, such as searches or a service tier."""
    if not any(mark.startswith(EXTRA_MARK) for mark in marks):
        return marks
    charged = set(usage.parts) & set(rates.extras or ())
    if variant_price(price, usage.variant) is not None:
        charged.add(usage.variant)
    kept: list[str] = []
    for mark in marks:
        name, _, extras = mark.partition("=")
        uncharged = [extra for extra in extras.split(",") if _charged_name(extra) not in charged]
        if name != EXTRA_MARK:
            kept.append(mark)
        elif uncharged:
            kept.append(f"{EXTRA_MARK}={','.join(uncharged)}")
    return tuple(kept)


def _charged_name(extra: str) -> str:
    """Returns the part of a usage, or the variant, that stands for an extra in a price, or an empty string."""
    name, _, value = extra.partition(":")
    if name in ("service_tier", "speed"):
        return named_variant(value)
    if name == CITATION_TOKENS:
        return CITATIONS
    if name == "iteration":
        return "other_output"
    return search_part(name) if "search" in name or name in SEARCH_COUNTS else ""


def reported_cost(report: Mapping[str, Any]) -> float | None:
    """Returns the cost in dollars that OpenRouter, Perplexity, Venice, DeepInfra, xAI or Zen reports, or None.

    If OpenRouter used the owner's own key, the vendor's bill is added, because the cost does not include it.
    """
    costs, ticks = (report.get("cost"), report.get("estimated_cost")), report.get("cost_in_usd_ticks")
    cost: Any = next((cost for cost in costs if cost is not None), None)
    cost = cost.get("total_cost", cost.get("usd")) if isinstance(cost, dict) else cost
    if cost is None and type(ticks) is int:
        cost = ticks / 10_000_000_000  # xAI's parts of a dollar
    if isinstance(cost, str):  # OpenCode Zen's
        with suppress(ValueError):
            cost = float(cost)
    billed_apart = at(report, "cost_details", "upstream_inference_cost") if report.get("is_byok") is True else 0
    return cost + billed_apart if _is_cost(cost) and _is_cost(billed_apart) else None


def _is_cost(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1_000_000


def _pricing_extras(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the extras that change the price of tokens, such as a service tier."""
    if report.get("speed") == "fast":
        yield "speed:fast"
    region, tier = report.get("inference_geo"), variant_of({**report, "speed": None})
    if tier:
        yield f"service_tier:{tier}"
    if isinstance(region, str) and region not in ("", "global", "not_available", "unknown"):
        yield f"inference_geo:{plain(region, 40)}"
    if at(report, "fallback_credit", "status", "type") == "redeemed":  # Anthropic bills written tokens as read ones
        yield "fallback_credit:redeemed"
    for step in iterations(report):
        if (kind := text_at(step, "type")).startswith(OTHER_STEPS):
            yield f"iteration:{plain(kind, 40)}"


def read_parts(report: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the parts in a report, as in ``Usage.parts``; ``counts`` are from ``read_counts``."""
    own_parts = {name: count for name, count in counts.items() if count and name in PARTS}
    if OPENAI_NAMES.issuperset(report):
        return own_parts
    parts = Counter(own_parts)
    for name, side in _LISTS.items():
        for row in list_at(report, name):
            modality, count = text_at(row, "modality").lower(), at(row, "tokenCount")
            if modality in MODALITIES and type(count) is int:
                parts[f"{side}_{modality}"] += count
    uses = tool_uses(report)
    for name, count in uses.items():
        if "search" in name and name not in SEARCH_COUNTS:
            parts[search_part(name)] += count
    parts.update(other_model_tokens(report)[1])
    totals = [uses[name] for name in SEARCH_COUNTS if name in uses]
    if totals and "searches" not in parts:
        parts["searches"] = totals[0]
    return dict(parts)


def other_model_tokens(report: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """Returns the other model of an answer, and its tokens by ``OTHER_PARTS``; empty unless it is exactly one."""
    others = [step for step in iterations(report) if text_at(step, "type").startswith(OTHER_STEPS)]
    models = {str(step.get("model") or "") for step in others}
    if len(models) != 1 or "" in models:
        return "", {}
    sums = sum_counts(others)
    fresh, output, cached, write = (sums.get(name, 0) for name in SUMMED)
    long = at(sums, "cache_creation", LONG_WRITE) or 0
    counts = (fresh, cached, write - long, long, output)
    return ("", {}) if min(counts) < 0 else (models.pop(), dict(zip(OTHER_PARTS, counts, strict=True)))


def tool_uses(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns how often each of the vendor's tools was used, and its searches, citation tokens and seconds of audio.

    A count is a number, ``{"web_search_requests": 2}``, or in an object, ``{"web_search": {"num_requests": 2}}``.
    """
    tools = next((holder for name in _TOOLS if isinstance(holder := report.get(name), dict)), {})
    fields = {name: report.get(name) for name in (CITATION_TOKENS, *SEARCH_COUNTS, "prompt_audio_seconds")}
    uses: dict[str, int] = {}
    for name, value in (*tools.items(), *fields.items()):
        count = next((n for n in value.values() if type(n) is int), 0) if isinstance(value, dict) else value
        if type(count) is int and 0 < count <= 1_000_000:  # no call makes more
            uses[name] = count
    return uses


def search_part(name: str) -> str:
    """Returns the part of a usage that the searches of this tool count as."""
    return "file_searches" if name.startswith(_FILE_SEARCHES) else "searches"


def variant_of(report: Mapping[str, Any]) -> str:
    """Returns the price variant that a report names, such as ``flex``; empty for standard processing."""
    if report.get("speed") == "fast":
        return "fast"
    names = map(report.get, ("service_tier", "serviceTier", "trafficType"))
    compatible = at(report, "extra_properties", "google", "traffic_type")  # in Google's compatible API
    return next(filter(None, map(named_variant, (*names, compatible))), "")


def named_variant(name: object) -> str:
    """Returns the variant for a service tier's name: ``flex``, Gemini's ``ON_DEMAND_FLEX``; empty if unknown."""
    last = text_at(name).lower().rsplit("_", 1)[-1]
    return last if last in ("flex", "priority", "fast", "ultrafast", "batch", "offpeak") else ""
