"""Finish: why an answer ended, in the five words clients know."""

REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})

BROKEN = frozenset({"error", "insufficient_system_resource", "network_error"})
"""No end but a failure of the upstream."""

_OTHER = {"max_tokens": "length", "model_length": "length"}


def finish_reason(word: str, *, tools: bool) -> str:
    """The client's word for the upstream's; ``stop`` for what is unknown. After tool calls ``stop`` means them."""
    reason = word if word in REASONS else _OTHER.get(word, "stop")
    return "tool_calls" if tools and reason == "stop" else reason
