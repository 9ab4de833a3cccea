"""Parts of a usage report: audio, images and video among its tokens, citations, searches, and how it was processed.

Each vendor's names for them are rows or a few lines here. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.domain.usage import CITATIONS, LONGEST_WRITE, MODALITIES

MOST_USES = 1_000_000
"""Searches: no call makes more."""
_DETAILS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("input", ("prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details")),
    ("output", ("completion_tokens_details", "output_tokens_details", "output_token_details")),
)
"""OpenAI's objects of counts: ``audio_tokens``, and so on."""
_CACHED = ("cached_tokens_details", "cache_read_tokens_details")
_LISTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("input", ("promptTokensDetails", "toolUsePromptTokensDetails")),
    ("cached", ("cacheTokensDetails",)),
    ("output", ("candidatesTokensDetails", "responseTokensDetails")),
)
"""Gemini's lists of ``{"modality": "AUDIO", "tokenCount": 9}``."""
TOOL_COUNTS = ("server_tool_use", "tool_usage", "server_side_tool_usage_details", "tool_calls_details")
"""Objects that count the uses of tools that the vendor runs."""
SEARCH_COUNTS = ("num_search_queries", "num_sources_used")
"""Perplexity's and xAI's counts of searches, at the top of a report."""
_FILES = ("file_search", "document_search", "collections_search", "storage_search")
_VARIANTS = ("flex", "priority", "fast", "batch")


def parts_of(report: Mapping[str, Any]) -> dict[str, int]:
    """The parts that a report names, as in ``Usage.parts``; values that are not counts are left out."""
    out: dict[str, int] = {}
    for name, count in _counts(report):
        if type(count) is int and 0 < count <= MOST_USES * 20:
            out[name] = out.get(name, 0) + count
    searches = dict[str, int]()
    for name, count in _searches(report):
        if type(count) is int and 0 < count <= MOST_USES:
            searches[name] = searches.get(name, 0) + count
    if "searches" not in searches and (named := _named_searches(report)):
        searches["searches"] = named
    return out | searches


def _counts(report: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for side, names in _DETAILS:
        details = next((found for name in names if isinstance(found := report.get(name), dict)), None)
        if details is None:
            continue
        yield from ((f"{side}_{kind}", details.get(f"{kind}_tokens")) for kind in MODALITIES)
        cached = next((found for name in _CACHED if isinstance(found := details.get(name), dict)), {})
        yield from ((f"cached_{kind}", cached.get(f"{kind}_tokens")) for kind in MODALITIES)
        written = details.get("cache_write_tokens_details")
        if isinstance(written, dict):
            yield LONGEST_WRITE, written.get("ttl_12h_tokens")
    for side, names in _LISTS:
        for name in names:
            rows = report.get(name)
            for row in rows if isinstance(rows, list) else ():
                kind = row.get("modality") if isinstance(row, dict) else None
                if isinstance(kind, str) and kind.lower() in MODALITIES:
                    yield f"{side}_{kind.lower()}", row.get("tokenCount")
    yield CITATIONS, report.get("citation_tokens")


def _searches(report: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Of each object of tools every count of a search: ``{"web_search_requests": 2}``, ``{"search_web": {...: 2}}``."""
    holder = next((found for name in TOOL_COUNTS if isinstance(found := report.get(name), dict)), {})
    for name, value in holder.items():
        if "search" in name:
            yield (
                kind_of_search(name),
                next((n for n in value.values() if type(n) is int), 0) if isinstance(value, dict) else value,
            )


def kind_of_search(name: str) -> str:
    """The part of a usage that a tool's searches are."""
    return "file_searches" if name.startswith(_FILES) else "searches"


def _named_searches(report: Mapping[str, Any]) -> int:
    return next((n for name in SEARCH_COUNTS if type(n := report.get(name)) is int and 0 < n <= MOST_USES), 0)


def variant_of(report: Mapping[str, Any]) -> str:
    """How a call was processed, as its report says: one of the variants of a price; empty: in the standard way."""
    if report.get("speed") == "fast":
        return "fast"
    names = (report.get(name) for name in ("service_tier", "serviceTier", "trafficType"))
    return next((found for name in names if (found := named_variant(name))), "")


def named_variant(name: object) -> str:
    """The variant of a service tier's name: ``flex``, Gemini's ``ON_DEMAND_FLEX``; empty if it is none."""
    last = name.lower().rsplit("_", 1)[-1] if isinstance(name, str) else ""
    return last if last in _VARIANTS else ""
