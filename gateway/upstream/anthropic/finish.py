"""Finish: Anthropic's stop reasons in the words of chat completions."""

_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def finish_of(reason: object, *, tools: bool) -> str:
    """The client's word; ``stop`` for the rest. Without a call of the client's tools ``tool_use`` is the plain end."""
    found = _REASONS.get(reason, "stop") if isinstance(reason, str) else "stop"
    return "stop" if found == "tool_calls" and not tools else found
