"""Finish: Gemini's finish reasons in the words of chat completions."""

BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
    }
)
"""The model failed; if nothing came before, there is no answer."""

_LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "OTHER",
        "NO_IMAGE",
        "ESCALATION",
        "MODEL_ARMOR",
        "PUP_LIMITED_DISABLED",
    }
)


def finish_of(reason: str) -> str:
    """The client's word; ``stop`` for the rest. That tool calls end an answer is found out later."""
    if reason in _LENGTH:
        return "length"
    return "content_filter" if reason in _FILTERED or reason.startswith("IMAGE_") else "stop"
