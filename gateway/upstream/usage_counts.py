"""Usage counts: reads the counts of a usage report, with one table of all vendors' names for them.

A count is accepted only if it is a whole number from 0 to ``PLAUSIBLE``. Successive reports of one answer are merged
here too, and the steps of an answer are added up.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from gateway.domain.rawjson import at, text_at
from gateway.domain.usage import CITATIONS, LONGEST_WRITE, MODALITIES, OTHER_PARTS, PARTS, Usage, UsageSource

PLAUSIBLE = 20_000_000
"""The largest count that is accepted: ten times the largest context length of any model."""

_INPUT = ("prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details")
_OUTPUT = ("completion_tokens_details", "output_tokens_details", "output_token_details")
"""OpenAI's objects of counts, ``in`` and ``out`` below."""
_NAMES: dict[str, tuple[str, ...]] = {
    "input": ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_n"),
    "output": ("completion_tokens", "output_tokens", "candidatesTokenCount", "predicted_n"),
    "total": ("total_tokens", "totalTokenCount"),
    "cached": (
        "in.cached_tokens",
        "prompt_cache_hit_tokens",  # DeepSeek
        "num_cached_tokens",  # Mistral
        "cached_tokens",  # Together
        "cache_read_input_tokens",  # Anthropic
        "cached_input_tokens",  # Vercel's AI SDK
        "cachedContentTokenCount",  # Gemini
        "cache_n",  # llama.cpp
    ),
    "write": (
        "in.cache_write_tokens",
        "in.cache_creation_tokens",
        "in.created_cache_tokens",  # vLLM
        "cache_creation_input_tokens",  # Anthropic
        "cache_write_input_tokens",  # Bedrock
    ),
    # what stays in the cache for an hour or more; part of the above
    "long": ("in.cache_write_long_tokens", "cache_creation.ephemeral_1h_input_tokens"),
    LONGEST_WRITE: ("in.cache_write_tokens_details.ttl_12h_tokens",),
    "reasoning": ("out.reasoning_tokens", "out.thinking_tokens", "thoughtsTokenCount"),
    "reasoning_apart": ("reasoning_tokens",),  # Perplexity
    "tools": ("toolUsePromptTokenCount",),
    CITATIONS: ("citation_tokens",),
    **{f"input_{kind}": (f"in.{kind}_tokens",) for kind in MODALITIES},
    **{
        f"cached_{kind}": tuple(
            f"in.{name}.{kind}_tokens" for name in ("cached_tokens_details", "cache_read_tokens_details")
        )
        for kind in MODALITIES
    },
    **{f"output_{kind}": (f"out.{kind}_tokens",) for kind in MODALITIES},
}
"""The paths of each count in a report; the first one that is present is used."""


def _places_of(name: str, paths: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yields the paths of a count, each with the count's name and its rank; the lowest rank is used."""
    for number, path in enumerate(paths):
        side, _, rest = path.partition(".")
        holders = {"in": _INPUT, "out": _OUTPUT}.get(side)
        for rank, whole in enumerate([f"{holder}.{rest}" for holder in holders] if holders else [path]):
            yield whole, (name, 10 * number + rank)


_PLACES = {path: place for name, paths in _NAMES.items() for path, place in _places_of(name, paths)}
_HOLDERS = {path[:end] for path in _PLACES for end, letter in enumerate(path) if letter == "."}
OPENAI_NAMES = frozenset(
    {"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens", *_INPUT, *_OUTPUT}
)
"""The names in OpenAI's own forms. A report with only these has no extras."""

_LISTS = {
    "promptTokensDetails": "input",
    "toolUsePromptTokensDetails": "input",
    "cacheTokensDetails": "cached",
    "candidatesTokensDetails": "output",
    "responseTokensDetails": "output",
}
"""Gemini's lists of ``{"modality": "AUDIO", "tokenCount": 9}``."""
_TOOLS = ("server_tool_use", "tool_usage", "server_side_tool_usage_details", "tool_calls_details")
"""Objects that count uses of tools that the vendor runs."""
SEARCH_COUNTS = ("num_search_queries", "num_sources_used")
"""Perplexity's and xAI's counts of searches, at the top of a report."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FILES = ("file_search", "document_search", "collections_search", "storage_search")
_VARIANTS = ("flex", "priority", "fast", "batch", "offpeak")


def counts_of(report: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """Returns the counts by our names, and whether an implausible one was ignored."""
    counts: dict[str, int] = {}
    ranks: dict[str, int] = {}
    doubt = False
    holders: list[tuple[str, Mapping[str, Any]]] = [("", report)]
    for path, holder in holders:
        for name, value in holder.items():
            place = path + name
            if value is None or place not in _PLACES:
                if isinstance(value, dict) and place in _HOLDERS:
                    holders.append((place + ".", value))
                continue
            count, rank = _PLACES[place]
            number = value if type(value) is int else _whole(value)
            if not 0 <= number <= PLAUSIBLE:
                doubt = True
            elif rank < ranks.get(count, 1000):
                counts[count], ranks[count] = number, rank
    return counts, doubt


def _whole(value: Any) -> int:
    """Returns the number, also from a float or digits; -1 for anything else."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return -1
    return int(value) if value == int(value) else -1


def with_underscores(report: dict[str, Any]) -> dict[str, Any]:
    """Returns a report with ``prompt_tokens`` instead of ``promptTokens``. Google's names end in other words."""
    if not any(name.endswith("Tokens") for name in report):
        return report
    return {
        _HUMP.sub("_", name).lower(): with_underscores(value) if isinstance(value, dict) else value
        for name, value in report.items()
    }


def parts_of(report: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the parts in a report, as in ``Usage.parts``."""
    out = {name: count for name, count in counts.items() if count and name in PARTS}
    if OPENAI_NAMES.issuperset(report):
        return out
    for name, side in _LISTS.items():
        rows = report.get(name)
        for row in rows if isinstance(rows, list) else ():
            kind, count = text_at(row, "modality").lower(), at(row, "tokenCount")
            if kind in MODALITIES and type(count) is int:
                out[f"{side}_{kind}"] = out.get(f"{side}_{kind}", 0) + count
    uses = tool_uses(report)
    for name, count in uses.items():
        if "search" in name and name not in SEARCH_COUNTS:
            kind = kind_of_search(name)
            out[kind] = out.get(kind, 0) + count
    out |= other_model_tokens(report)[1]
    named = next((uses[name] for name in SEARCH_COUNTS if name in uses), 0)
    return out if "searches" in out or not named else {**out, "searches": named}


OTHER_STEPS = ("advisor", "fallback")
"""The prefixes of the types of Anthropic's iterations that another model made."""


def other_model_tokens(report: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """Returns the other model that worked on the answer, and its tokens by ``OTHER_PARTS``.

    Both are empty without another model, with several, or with an invalid count.
    """
    others = [step for step in _steps(report) if text_at(step, "type").startswith(OTHER_STEPS)]
    models = {str(step.get("model") or "") for step in others}
    if len(models) != 1 or "" in models:
        return "", {}
    sums = _sums(others)
    fresh, output, cached, write = (sums.get(name, 0) for name in _SUMMED)
    long = at(sums, "cache_creation", _LONG_WRITE) or 0
    counts = (fresh, cached, write - long, long, output)
    return ("", {}) if min(counts) < 0 else (models.pop(), dict(zip(OTHER_PARTS, counts, strict=True)))


def tool_uses(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns how often the vendor's tools were used, by its names, and its counts of searches, citation tokens and
    seconds of audio.

    ``{"web_search_requests": 2}``, ``{"web_search": {"num_requests": 2}}``. No call makes more than a million.
    """
    holder = next((uses for name in _TOOLS if isinstance(uses := report.get(name), dict)), {})
    out: dict[str, int] = {}
    for name, value in (
        *holder.items(),
        *((name, report.get(name)) for name in (CITATION_TOKENS, *SEARCH_COUNTS, "prompt_audio_seconds")),
    ):
        count = next((n for n in value.values() if type(n) is int), 0) if isinstance(value, dict) else value
        if type(count) is int and 0 < count <= 1_000_000:
            out[name] = count
    return out


CITATION_TOKENS = "citation_tokens"
"""Perplexity's: tokens of sources that were read."""


def kind_of_search(name: str) -> str:
    """Returns the part of a usage for a tool's searches."""
    return "file_searches" if name.startswith(_FILES) else "searches"


def variant_of(report: Mapping[str, Any]) -> str:
    """Returns the variant of a price that applies according to the report; empty for standard processing."""
    if report.get("speed") == "fast":
        return "fast"
    names = (report.get(name) for name in ("service_tier", "serviceTier", "trafficType"))
    return next(filter(None, map(named_variant, names)), "")


def named_variant(name: object) -> str:
    """Returns the variant for a service tier's name: ``flex``, Gemini's ``ON_DEMAND_FLEX``; empty if unknown."""
    last = text_at(name).lower().rsplit("_", 1)[-1]
    return last if last in _VARIANTS else ""


def merge(known: dict[str, Any], more: dict[str, Any], *, may_decrease: bool) -> tuple[dict[str, Any], bool]:
    """Returns both reports merged, and whether a smaller count in the later one was ignored.

    ``may_decrease``: the vendor corrects its counts, so a smaller one is accepted unless it is zero.
    """
    out, ignored = dict(known), False
    for name, value in more.items():
        before = out.get(name)
        if value is None:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            out[name], inner = merge(before, value, may_decrease=may_decrease)
            ignored = ignored or inner
        elif (
            isinstance(before, int) and isinstance(value, int) and 0 <= value < before and not (may_decrease and value)
        ):
            ignored = True
        else:
            out[name] = value
    return out, ignored


_CACHE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def without_newly_cached(known: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the known counts without the input tokens that a later report counts as cached.

    Anthropic counts cached tokens separately. The compatible servers of Qwen and Kimi first report the whole prompt as
    input, and report the cached part only at the end, with or without the remaining input. The sum does not decrease.
    """
    before, after, cached = known.get("input_tokens"), more.get("input_tokens"), _cache_tokens(more)
    if type(before) is not int or cached <= _cache_tokens(known):
        return known
    late = after is None and known.keys().isdisjoint(_CACHE)
    if late or (type(after) is int and after < before):
        return {**known, "input_tokens": max(after or 0, before + _cache_tokens(known) - cached)}
    return known


def _cache_tokens(report: Mapping[str, Any]) -> int:
    counts = (report.get(name) for name in _CACHE)
    return sum(count for count in counts if type(count) is int)


_SUMMED = ("input_tokens", "output_tokens", *_CACHE)
_LONG_WRITE = "ephemeral_1h_input_tokens"


def sum_iterations(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns Anthropic's report with the sums of its ``iterations``, if it has any, because its total omits
    compactions.
    """
    return {**report, **_sums(_steps(report))}


def _steps(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    steps = report.get("iterations")
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _sums(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the sums of the counts that iterations have."""
    sums: dict[str, Any] = {name: _sum(step.get(name) for step in steps) for name in _SUMMED}
    sums["cache_creation"] = None
    if (long := _sum(at(step, "cache_creation", _LONG_WRITE) for step in steps)) is not None:
        sums["cache_creation"] = {_LONG_WRITE: long}
    return {name: total for name, total in sums.items() if total is not None}


def _sum(numbers: Iterable[object]) -> int | None:
    """Returns the sum; None without any count, -1 if one of them is invalid."""
    present = [number for number in numbers if number is not None]
    counts = [number for number in present if type(number) is int and number >= 0]
    return None if not present else sum(counts) if len(counts) == len(present) else -1


_Count = Annotated[int, msgspec.Meta(ge=0, le=PLAUSIBLE)]


class _UsualInput(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: Literal[0] | None = None
    cache_write_long_tokens: Literal[0] | None = None
    audio_tokens: Literal[0] | None = None


class _UsualOutput(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    reasoning_tokens: _Count | None = None
    audio_tokens: Literal[0] | None = None
    accepted_prediction_tokens: _Count | None = None
    rejected_prediction_tokens: _Count | None = None


class _UsualReport(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    prompt_tokens: _Count
    completion_tokens: _Count
    total_tokens: _Count
    prompt_tokens_details: _UsualInput | None = None
    completion_tokens_details: _UsualOutput | None = None


_USUAL = msgspec.json.Decoder(_UsualReport)


def usual_usage(report: msgspec.Raw) -> Usage | None:
    """Returns the usage of a report with only OpenAI's usual, consistent counts; None for any other report.

    The result is that of ``usage_report.read``, in a fifth of the time. Most reports are of this kind.
    """
    try:
        counts = _USUAL.decode(report)
    except (msgspec.DecodeError, RecursionError):
        return None
    inputs, outputs = counts.prompt_tokens, counts.completion_tokens
    cached = reasoning = 0
    if (details := counts.prompt_tokens_details) is not None:
        cached = details.cached_tokens or 0
    if (more := counts.completion_tokens_details) is not None:
        reasoning = more.reasoning_tokens or 0
    if inputs + outputs != counts.total_tokens or cached > inputs or reasoning > outputs:
        return None
    return Usage(input=inputs, cached=cached, output=outputs, reasoning=reasoning, source=UsageSource.REPORTED)
