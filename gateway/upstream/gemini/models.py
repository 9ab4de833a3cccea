"""Google's models: what each of them accepts, as one table. A new model needs a row, not code.

The facts are from the vendor's model pages and migration guides as of November 2026.
"""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec

LEVELS = ("minimal", "low", "medium", "high")


class GeminiModel(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of one row accept. The defaults are right for the newest models."""

    patterns: tuple[str, ...]
    """Patterns of upstream names, in lower case."""
    max_output: int | None = 65_536
    """The highest ``maxOutputTokens`` that the API accepts for any of them; None if unknown."""
    levels: tuple[str, ...] = LEVELS[1:]
    """The values of ``thinkingLevel``, weakest first. No level turns thinking off. Models without levels may have a
    ``thinkingBudget`` instead; both together are refused.
    """
    budget_off: int = 0
    """The ``thinkingBudget`` for no thinking; the smallest one for models that always think."""
    budget_minimal: int = 128
    """The smallest ``thinkingBudget`` with thinking, in tokens; 0 for models that do not think."""
    sampling: bool = False
    """Whether they accept ``temperature``, ``topP``, ``topK`` and penalties; others ignore or refuse them."""
    logprobs: bool = False
    signatures: bool = True
    """Whether function calls must be sent back with their signatures."""
    fetches_urls: bool = True
    """Whether they fetch media from https addresses themselves."""
    media_results: bool = True
    """Whether function responses may contain media."""
    json_with_tools: bool = True
    """Whether they accept a JSON format together with functions; others refuse the request."""


def _older(*patterns: str, **facts: Any) -> GeminiModel:
    """Returns models that accept sampling, sign nothing, want media after results, and write JSON without functions."""
    known: dict[str, Any] = {
        "levels": (),
        **dict.fromkeys(("sampling", "logprobs"), True),
        **dict.fromkeys(("signatures", "media_results", "json_with_tools"), False),
    }
    return GeminiModel(patterns=patterns, **known | facts)


ROWS = (
    GeminiModel(patterns=("*gemini-3.6-*", "*gemini-3.5-flash-lite*"), levels=LEVELS),
    GeminiModel(patterns=("*gemini-3.5-*", "*gemini-3.1-flash*", "*gemini-3-flash*"), levels=LEVELS, sampling=True),
    GeminiModel(patterns=("*gemini-3.1-*", "*gemini-3-pro*"), sampling=True),
    _older("*gemini-2.5-pro*", budget_off=128),
    _older("*gemini-2.5-flash-lite*", budget_minimal=512),
    _older("*gemini-2.5-*"),
    _older("*gemini-2.0-*", "*gemini-1*", budget_minimal=0, fetches_urls=False),
    GeminiModel(patterns=("*gemini-*",), max_output=None),
)
"""The first row that matches applies. An unknown Gemini is taken for a new one."""

UNKNOWN = _older(max_output=None, budget_minimal=0, logprobs=False, fetches_urls=False)
"""The row of models that are not Gemini: only what all of them accept."""


@lru_cache(maxsize=1024)
def model_of(upstream_model: str) -> GeminiModel:
    """Returns the row of a model, by its upstream name."""
    name = upstream_model.lower()
    return next((row for row in ROWS if any(fnmatchcase(name, pattern) for pattern in row.patterns)), UNKNOWN)
