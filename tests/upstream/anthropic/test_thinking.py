"""An effort becomes a budget, a word or nothing, as the model takes it."""

from typing import Any

import pytest

from gateway.upstream.anthropic.models import ALL_EFFORTS, AnthropicModel, AnthropicThinking
from gateway.upstream.anthropic.request import ThinkingPlan, plan_thinking
from gateway.upstream.translate.request import ChatFields

BUDGET = AnthropicModel(patterns=(), thinking=AnthropicThinking.BUDGET)
ADAPTIVE = AnthropicModel(patterns=(), thinking=AnthropicThinking.ADAPTIVE)
NONE = AnthropicModel(patterns=(), thinking=AnthropicThinking.NONE)


def _plan(effort: str | None, row: AnthropicModel, max_tokens: int = 32_000, *, bound: bool = False) -> ThinkingPlan:
    return plan_thinking(ChatFields(reasoning_effort=effort), row, max_tokens, bound=bound)


@pytest.mark.parametrize(
    ("effort", "tokens"),
    [("minimal", 1024), ("low", 1024), ("medium", 2048), ("high", 4096), ("xhigh", 8192), ("max", 16384)],
)
def test_budgets(effort: str, tokens: int) -> None:
    assert _plan(effort, BUDGET).fields == {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("effort", "word"),
    [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh"), ("max", "max")],
)
def test_words(effort: str, word: str) -> None:
    found = _plan(effort, ADAPTIVE)
    assert found.fields["output_config"] == {"effort": word}
    assert (found.fields["thinking"], found.on) == ({"type": "adaptive", "display": "summarized"}, True)


def test_a_word_the_model_does_not_know_becomes_the_next_weaker_one() -> None:
    row = AnthropicModel(patterns=(), efforts=("low", "medium", "high", "max"))
    assert _plan("xhigh", row).fields["output_config"] == {"effort": "high"}


def test_a_budget_stays_below_the_output_limit() -> None:
    assert _plan("high", BUDGET, 2000).fields["thinking"]["budget_tokens"] == 1999


@pytest.mark.parametrize(
    ("effort", "row", "more"),
    [
        ("high", NONE, {}),
        ("high", BUDGET, {"max_tokens": 1024}),
        ("high", BUDGET, {"bound": True}),
        ("enormous", ADAPTIVE, {}),
    ],
)
def test_what_cannot_be_said_is_dropped(effort: str, row: AnthropicModel, more: dict[str, Any]) -> None:
    assert _plan(effort, row, **more) == ThinkingPlan(dropped=True)


def test_adaptive_thinking_is_bound_by_nothing() -> None:
    assert _plan("high", ADAPTIVE, 1024, bound=True).on


@pytest.mark.parametrize("row", [BUDGET, ADAPTIVE, NONE])
def test_nothing_asked_is_nothing_said(row: AnthropicModel) -> None:
    assert (_plan(None, row), _plan("none", row)) == (ThinkingPlan(), ThinkingPlan())


def test_thinking_that_is_on_by_default_is_turned_off_where_it_can_be() -> None:
    row = AnthropicModel(patterns=(), off="disabled")
    assert (_plan("none", row).fields, _plan("none", row).on) == ({"thinking": {"type": "disabled"}}, False)


def test_every_word_has_its_place() -> None:
    assert ADAPTIVE.efforts == ALL_EFFORTS
