"""Usage: the tokens of one call in one canonical form, whatever the upstream called them."""

from enum import StrEnum

import msgspec


class UsageSource(StrEnum):
    """How a usage is known."""

    REPORTED = "reported"
    PARTIAL = "partial"
    """Input was reported, output was estimated: the stream ended early."""
    ESTIMATED = "estimated"
    NONE = "none"
    """Nothing was used: the call was refused or failed before any output."""


COUNTED_HERE = frozenset({UsageSource.PARTIAL, UsageSource.ESTIMATED})
"""Some of it, or all, is the gateway's own count."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Token counts of one call, all >= 0.

    ``cached + cache_write <= input``, ``cache_write_long <= cache_write`` and ``reasoning <= output`` hold by
    construction of ``canonical``.
    """

    input: int = 0
    """All input tokens, cached ones included."""
    cached: int = 0
    """Input tokens read from the upstream's prompt cache."""
    cache_write: int = 0
    """Input tokens written to the upstream's prompt cache, long-lived ones included."""
    cache_write_long: int = 0
    """Those of them that are kept there for an hour or more: vendors charge more for these."""
    output: int = 0
    """All output tokens, reasoning included."""
    reasoning: int = 0
    source: UsageSource = UsageSource.NONE

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input + self.output


NOTHING = Usage()


def canonical(usage: Usage) -> Usage:
    """The same usage with its invariants enforced by clamping; negative counts become 0."""
    inputs, outputs = max(0, usage.input), max(0, usage.output)
    cached = min(max(0, usage.cached), inputs)
    write = min(max(0, usage.cache_write), inputs - cached)
    return Usage(
        input=inputs,
        cached=cached,
        cache_write=write,
        cache_write_long=min(max(0, usage.cache_write_long), write),
        output=outputs,
        reasoning=min(max(0, usage.reasoning), outputs),
        source=usage.source,
    )
