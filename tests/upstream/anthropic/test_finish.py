"""Stop reasons become the five words clients know."""

import pytest

from gateway.upstream.anthropic.response import finish_of


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("compaction", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("something new", "stop"),
        (None, "stop"),
    ],
)
def test_every_stop_reason(reason: str | None, finish: str) -> None:
    assert finish_of(reason, tools=True) == finish


def test_a_tool_that_is_not_the_clients_is_the_end() -> None:
    assert finish_of("tool_use", tools=False) == "stop"
