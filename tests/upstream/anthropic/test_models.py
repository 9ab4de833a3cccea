"""Models are found by name, under whatever name a relay gives them; requests to unknown ones have nothing special."""

import pytest

from gateway.upstream.anthropic.models import UNKNOWN, model_of


@pytest.mark.parametrize(
    ("model", "thinking", "sampling", "structured", "forced_tools", "system_messages"),
    [
        ("claude-opus-5-5", "efforts", False, True, False, True),
        ("claude-fable-5-1", "efforts", False, True, False, True),
        ("claude-fable-5", "efforts", False, True, True, True),
        ("claude-haiku-5-5", "efforts", False, True, True, True),
        ("claude-opus-5", "efforts", False, True, True, True),
        ("claude-opus-4-8", "efforts", False, True, True, True),
        ("claude-opus-4-7", "efforts", False, True, True, False),
        ("claude-opus-4-6", "efforts", True, True, True, False),
        ("claude-sonnet-4-5-20250929", "budget", True, True, True, False),
        ("claude-opus-4-1-20250805", "budget", True, False, True, False),
        ("claude-3-5-haiku-20241022", "", True, False, True, False),
        ("claude-3-haiku-20240307", "", True, False, True, False),
        ("claude-opus-9", "efforts", False, True, True, True),
    ],
)
def test_models_differ(
    model: str, thinking: str, sampling: bool, structured: bool, forced_tools: bool, system_messages: bool
) -> None:
    row = model_of(model)
    assert thinking == ("efforts" if row.efforts else "budget" if row.thinking_budget else "")
    assert (row.sampling, row.structured) == (sampling, structured)
    assert (row.forced_tools, row.system_messages) == (forced_tools, system_messages)


@pytest.mark.parametrize("model", ["anthropic.claude-opus-5-5", "anthropic/claude-opus-5.5", "Claude-Opus-5-5@x"])
def test_relays_names_are_understood(model: str) -> None:
    assert model_of(model) is model_of("claude-opus-5-5")


def test_another_model_is_unknown() -> None:
    assert model_of("kimi-k3") is UNKNOWN


@pytest.mark.parametrize(
    ("model", "prefill"),
    [
        ("claude-opus-5-5", False),
        ("claude-opus-4-6", False),
        ("anthropic/claude-sonnet-4.6", False),
        ("claude-haiku-4-5", True),
        ("claude-3-haiku-20240307", True),
        ("kimi-k3", True),
    ],
)
def test_newer_models_continue_no_message_of_the_assistant(model: str, prefill: bool) -> None:
    assert model_of(model).prefill is prefill
