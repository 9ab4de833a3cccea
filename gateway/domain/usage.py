"""Usage: the tokens of one call, in a form that is the same for all upstreams."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class UsageSource(StrEnum):
    """Who counted the tokens."""

    REPORTED = "reported"
    PARTIAL = "partial"
    """Input was reported and output was estimated, because the stream ended early."""
    ESTIMATED = "estimated"
    NONE = "none"
    """Nothing was used: the call was refused or failed before any output."""

    @classmethod
    def _missing_(cls, _: object) -> "UsageSource":
        """Returns what stands for a source that only a newer version knows."""
        return cls.PARTIAL


COUNTED_HERE = frozenset({UsageSource.PARTIAL, UsageSource.ESTIMATED})
"""The sources of counts that are partly or fully the gateway's own."""

MODALITIES: Final = ("audio", "image", "video")
"""The kinds of tokens that are not text."""
INPUT_PARTS: Final = tuple(f"input_{kind}" for kind in MODALITIES)
CACHED_PARTS: Final = tuple(f"cached_{kind}" for kind in MODALITIES)
OUTPUT_PARTS: Final = tuple(f"output_{kind}" for kind in MODALITIES)
LONGEST_WRITE: Final = "cache_write_12h"
CITATIONS: Final = "citations"
SEARCHES: Final = ("searches", "file_searches")
"""Searches by tools that the vendor runs, of the web and of stored files."""
PICTURES: Final = "images"
"""The pictures in a request. Some vendors charge a fee for each."""
UNITS: Final = (*SEARCHES, PICTURES)
"""Counts of things that are not tokens, each with a price per unit."""
OTHER_PARTS: Final = ("other_input", "other_cached", "other_write", "other_write_long", "other_output")
"""Text tokens of another model that worked on the answer, at the price of that model: new input, cached input, cache
writes, long cache writes, and output."""
PARTS: Final = (*INPUT_PARTS, *CACHED_PARTS, LONGEST_WRITE, *OUTPUT_PARTS, CITATIONS, *UNITS)
"""The parts that a price may have a rate for."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The token counts of one call, all >= 0.

    ``canonical`` ensures that ``cached + cache_write <= input``, ``cache_write_long <= cache_write`` and ``reasoning <=
    output``, and that no token is in two parts.
    """

    input: int = 0
    """All input tokens, cached ones included."""
    cached: int = 0
    """Input tokens read from the upstream's prompt cache."""
    cache_write: int = 0
    """Input tokens written to the upstream's prompt cache, long-lived ones included."""
    cache_write_long: int = 0
    """The part of ``cache_write`` that is kept for an hour or more. Vendors charge more for it."""
    output: int = 0
    """All output tokens, reasoning included."""
    reasoning: int = 0
    source: UsageSource = UsageSource.NONE
    parts: Mapping[str, int] = {}
    """By the names in ``PARTS``, how much of the counts above is audio, images, video or citations, or is cached for 12
    hours, and the numbers of ``UNITS``; by the names in ``OTHER_PARTS``, how much belongs to ``other_model``. Zeros are
    left out. ``input_audio`` includes ``cached_audio``."""
    variant: str = ""
    """The processing named in the answer, such as ``flex``, unless it is the standard one."""
    other_model: str = ""
    """Another model that worked on the answer too, such as an advisor."""

    @property
    def total(self) -> int:
        return self.input + self.output


NOTHING = Usage()


def modality_counts(usage: Usage, side: str) -> dict[str, int]:
    """Returns the input or output tokens that are not text, by OpenAI's names, such as ``audio_tokens``."""
    if not usage.parts:
        return {}
    counts = {kind: usage.parts.get(f"{side}_{kind}", 0) for kind in MODALITIES}
    return {f"{kind}_tokens": count for kind, count in counts.items() if count}


def canonical(usage: Usage) -> Usage:
    """Returns the usage with counts that are lowered until its invariants hold. Negative counts become 0."""
    inputs, outputs = max(0, usage.input), max(0, usage.output)
    cached = min(max(0, usage.cached), inputs)
    write = min(max(0, usage.cache_write), inputs - cached)
    result = msgspec.structs.replace(
        usage,
        input=inputs,
        cached=cached,
        cache_write=write,
        cache_write_long=min(max(0, usage.cache_write_long), write),
        output=outputs,
        reasoning=min(max(0, usage.reasoning), outputs),
    )
    return msgspec.structs.replace(result, parts=_parts(usage.parts, result)) if usage.parts else result


def _parts(reported: Mapping[str, int], whole: Usage) -> dict[str, int]:
    """Returns the parts of a usage, without overlaps: output of all kinds and citations are at most the output."""
    counts = {name: max(0, count) for name, count in reported.items()}
    parts = _input_kinds(counts, whole)
    cached_kinds = sum(parts[name] for name in CACHED_PARTS)
    fresh_kinds = sum(parts[name] for name in INPUT_PARTS) - cached_kinds
    parts[LONGEST_WRITE] = min(counts.get(LONGEST_WRITE, 0), whole.cache_write_long)
    output_left = whole.output
    for name in (*OUTPUT_PARTS, CITATIONS):
        parts[name] = min(counts.get(name, 0), output_left)
        output_left -= parts[name]
    text_left = (
        whole.input - whole.cached - whole.cache_write - fresh_kinds,
        whole.cached - cached_kinds,
        whole.cache_write - whole.cache_write_long,
        whole.cache_write_long - parts[LONGEST_WRITE],
        output_left,
    )
    parts |= {name: min(counts.get(name, 0), left) for name, left in zip(OTHER_PARTS, text_left, strict=True)}
    parts |= {name: counts.get(name, 0) for name in UNITS}
    return {name: count for name, count in parts.items() if count}


def _input_kinds(counts: Mapping[str, int], whole: Usage) -> dict[str, int]:
    """Returns the kinds of input that are not text, and how much of each is cached.

    Input of a kind beyond what is neither cached nor written counts as cached, up to the cached input.
    """
    kinds: dict[str, int] = {}
    fresh_left, cached_left = whole.input - whole.cached - whole.cache_write, whole.cached
    for kind in MODALITIES:
        cached = min(counts.get(f"cached_{kind}", 0), cached_left)
        count = max(counts.get(f"input_{kind}", 0), cached)
        fresh = min(count - cached, fresh_left)
        cached = min(count - fresh, cached_left)
        fresh_left, cached_left = fresh_left - fresh, cached_left - cached
        kinds[f"input_{kind}"], kinds[f"cached_{kind}"] = fresh + cached, cached
    return kinds


def as_object(usage: Usage) -> dict[str, object]:
    """Returns the usage with OpenAI's names and all details, for clients. MacPaw's needs ``audio_tokens``."""
    long = {"cache_write_long_tokens": usage.cache_write_long} if usage.cache_write_long else {}
    details = {"cached_tokens": usage.cached, "audio_tokens": 0, "cache_write_tokens": usage.cache_write, **long}
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": details | modality_counts(usage, "input"),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning} | modality_counts(usage, "output"),
    }
