"""Finish words: one table of all vendors' words for why an answer ended, and what they mean in chat completions.

The words are from the references of OpenAI, Anthropic, Google, Mistral, Cohere, Bedrock, DeepSeek, Zhipu, MiniMax,
GigaChat, vLLM, SGLang, TGI and llama.cpp.
"""

import re
from functools import lru_cache

_WORDS = {
    "stop": (
        "stop stopped end end_turn eos eos_token stop_sequence stop_token stop_reason_stop finish finished complete"
        " completed normal done success finish_reason_unspecified stop_reason_unspecified unspecified"
    ),
    "length": (
        "length max_tokens max_token max_length model_length max_output_tokens max_completion_tokens token_limit"
        " max_new_tokens max_output_reached model_context_window_exceeded context_window_exceeded"
        " context_length_exceeded pause_turn compaction continuation limit incomplete cutoff time_limit"
    ),
    "tool_calls": "tool_calls tool_call tool_use tooluse tools function_call function_calls function",
    "content_filter": (
        "content_filter content_filtered contentfilter content_blocked safety refusal refused sensitive blocked"
        " blocklist blacklist recitation language prohibited_content spii other escalation model_armor"
        " pup_limited_disabled no_image guardrail_intervened guardrails guardrail moderation moderated error_toxic"
        " toxic risk"
    ),
    "broken": (
        "error abort aborted cancelled canceled failed failure exception timeout insufficient_system_resource"
        " network_error engine_error internal_error server_error model_error model_failure upstream_error unknown_error"
        " eos_error malformed_function_call malformed_response malformed_model_output malformed_tool_use"
        " user_cancel unexpected_tool_call too_many_tool_calls missing_thought_signature"
    ),
}
REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""The values of ``finish_reason`` in chat completions."""
_MEANINGS = {"": "stop"} | {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_PREFIXES = ("finish_reason_", "finishreason.", "stopreason.", "stop_reason_")
_SEPARATORS = re.compile(r"[^a-z_.]+")


def meaning_of(word: str) -> str:
    """Returns the ``finish_reason`` of a word in any case; ``broken`` if the answer failed, empty if it is unknown."""
    return _meaning_of(word[:100])  # the upstream's word may have megabytes, and the cache keeps it


@lru_cache(maxsize=64)
def _meaning_of(word: str) -> str:
    name = _SEPARATORS.sub("_", word.strip().lower())
    if name not in _MEANINGS:
        name = name.removeprefix(next((prefix for prefix in _PREFIXES if name.startswith(prefix)), ""))
    return "content_filter" if name.startswith("image_") else _MEANINGS.get(name, "")


def finish_reason(word: str, *, has_calls: bool) -> str:
    """Returns the ``finish_reason`` in chat completions. Unless it was cut or filtered, ``has_calls`` decides it."""
    meaning = meaning_of(word)
    if meaning in ("length", "content_filter"):
        return meaning
    return "tool_calls" if has_calls else "stop"
