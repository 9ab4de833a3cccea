"""Anthropic's models: a table of what each one accepts. A new model needs a row, not code.

The facts are from the vendor's model pages and migration guides as of November 2026. Patterns begin with a star because
relays put a prefix before the vendor's names (``anthropic/claude-…``).
"""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec


class AnthropicModel(msgspec.Struct, frozen=True, kw_only=True):
    """What some models accept. The defaults are right for the newest ones."""

    patterns: tuple[str, ...]
    """Patterns of upstream names, in lower case."""
    max_tokens: int = 32_000
    """The output limit if the client sets none, because the API requires one."""
    max_output: int | None = 128_000
    """The highest output limit that the API accepts, including with betas; None if unknown."""
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    """Values of ``output_config.effort`` with ``thinking: {type: adaptive}``, weakest first."""
    thinking_budget: bool = False
    """Whether it has ``thinking: {type: enabled, budget_tokens}`` instead of efforts."""
    thinking_off: str = ""
    """The type of ``thinking`` that turns thinking off; empty unless it is on by default and can be turned off."""
    sampling: bool = False
    """Whether it accepts ``temperature``, ``top_p`` and ``top_k``."""
    one_sampler: bool = False
    """Whether it accepts only one of ``temperature`` and ``top_p``."""
    forced_tools: bool = True
    """Whether it can be forced to call a tool."""
    forced_thinking: bool = True
    """Whether it can be forced to call a tool while it thinks."""
    structured: bool = True
    """Whether it accepts ``output_config.format`` and strict tools."""
    system_messages: bool = True
    """Whether system messages may be among the messages, right after a message of the user."""
    prefill: bool = False
    """Whether the last message may be the assistant's, which the model then continues."""


def _older(*patterns: str, **facts: Any) -> AnthropicModel:
    """Returns models without efforts that accept sampling and prefill, and system messages only at the beginning."""
    usual: dict[str, Any] = {"efforts": (), **dict.fromkeys(("sampling", "prefill"), True)}
    usual |= dict.fromkeys(("system_messages", "forced_thinking"), False)
    return AnthropicModel(patterns=patterns, **usual | facts)


ROWS = (
    AnthropicModel(patterns=("*claude-opus-5-5*", "*claude-fable-5-*", "*claude-mythos-5-*"), forced_tools=False),
    AnthropicModel(patterns=("*claude-sonnet-5-5*",), forced_tools=False, thinking_off="between_tools"),
    AnthropicModel(patterns=("*claude-haiku-5-*", "*claude-opus-5*", "*claude-sonnet-5*"), thinking_off="disabled"),
    AnthropicModel(patterns=("*claude-fable-5*", "*claude-mythos-5*", "*claude-opus-4-8*")),
    AnthropicModel(patterns=("*claude-opus-4-7*", "*claude-mythos-*"), system_messages=False, forced_thinking=False),
    _older("*claude-opus-4-6*", efforts=("low", "medium", "high", "max"), one_sampler=True, prefill=False),
    _older("*claude-sonnet-4-6*", efforts=("low", "medium", "high"), one_sampler=True, prefill=False),
    _older(
        *("*claude-opus-4-5*", "*claude-sonnet-4-5*", "*claude-haiku-4-5*"),
        max_output=64_000,
        thinking_budget=True,
        one_sampler=True,
    ),
    _older(
        *("*claude-opus-4*", "*claude-sonnet-4*", "*claude-4-*", "*claude-3-7-*"),
        thinking_budget=True,
        one_sampler=True,
        structured=False,
    ),
    _older("*claude-3-5-*", max_tokens=8192, max_output=8192, structured=False),
    _older("*claude-3-*", "*claude-2*", "*claude-instant*", max_tokens=4096, max_output=4096, structured=False),
    AnthropicModel(patterns=("*claude-*",), max_output=None),
)
"""The first row that matches counts. An unknown Claude counts as a new one."""

UNKNOWN = _older(max_tokens=8192, max_output=None, structured=False)
"""The row of models that are not Claude. It allows only what any model accepts."""


@lru_cache(maxsize=1024)
def model_of(upstream_model: str) -> AnthropicModel:
    """Returns the row of a model, by its upstream name. ``4.6`` in it counts as ``4-6``."""
    name = upstream_model.lower().replace(".", "-")
    return next((row for row in ROWS if any(fnmatchcase(name, pattern) for pattern in row.patterns)), UNKNOWN)
