"""Ends have five words."""

import pytest

from gateway.upstream.openai.chunks import BROKEN, REASONS, finish_reason


@pytest.mark.parametrize(
    ("word", "tools", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("eos", True, "tool_calls"),
        ("end_turn", False, "stop"),
        ("", False, "stop"),
        ("max_tokens", False, "length"),
        ("model_length", True, "length"),
        ("content_filter", True, "content_filter"),
        ("function_call", False, "function_call"),
        ("tool_calls", False, "tool_calls"),
    ],
)
def test_words(word: str, reason: str, *, tools: bool) -> None:
    assert finish_reason(word, tools=tools) == reason


def test_a_failure_is_no_end() -> None:
    assert not BROKEN & REASONS
