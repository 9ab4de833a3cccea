"""Logprobs: Gemini's probabilities of tokens in the form of chat completions."""

from typing import Any

from gateway.upstream.chat.forms import Json


def logprobs_of(result: Any) -> Json | None:
    """The ``logprobs`` of a choice; None if there are none."""
    chosen = result.get("chosenCandidates") if isinstance(result, dict) else None
    if not isinstance(chosen, list):
        return None
    tops = result.get("topCandidates") or []
    content = [
        {**_token(token), "top_logprobs": [_token(other) for other in _others(tops, i)]}
        for i, token in enumerate(chosen)
        if isinstance(token, dict)
    ]
    return {"content": content, "refusal": None}


def _token(token: dict[str, Any]) -> Json:
    text = str(token.get("token", ""))
    number = token.get("logProbability")
    return {
        "token": text,
        "logprob": number if isinstance(number, int | float) else -9999.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }


def _others(tops: Any, i: int) -> list[dict[str, Any]]:
    found = tops[i].get("candidates") if isinstance(tops, list) and i < len(tops) and isinstance(tops[i], dict) else ()
    return [token for token in found or () if isinstance(token, dict)]
