"""Forms: answers in the form of chat completions, made from what another dialect brought."""

from typing import Any

import msgspec

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import as_object

Json = dict[str, Any]


class Completion(msgspec.Struct, frozen=True):
    """A whole answer of another dialect, as a chat completion."""

    body: bytes
    """JSON."""
    suspect: bool
    """Its usage cannot be true as it was reported."""


def chunk(id: str, *choices: Json, usage: Usage | None = None) -> Json:
    """One chunk of a stream; what it lacks is added on the way to the client."""
    out: Json = {"id": id, "choices": list(choices)}
    if usage is not None:
        out["usage"] = report(usage)
    return out


def delta(index: int = 0, *, finish: str | None = None, **said: object) -> Json:
    """One choice of a chunk."""
    return {"index": index, "delta": said, "logprobs": None, "finish_reason": finish}


def tool_call(number: int | None, id: str, name: str, arguments: str, **more: object) -> Json:
    """A tool call; in a stream it has a number."""
    place = {} if number is None else {"index": number}
    return {**place, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def arguments_delta(number: int, arguments: str | msgspec.Raw) -> Json:
    """More of a tool call's arguments."""
    return {"index": number, "function": {"arguments": arguments}}


def message(content: str, *, reasoning: str = "", calls: list[Json] | None = None, **more: object) -> Json:
    """An assistant's message. Without text, ``content`` is null if there are calls, else empty."""
    out: Json = {"role": "assistant", "content": content if content or not calls else None, "refusal": None}
    if reasoning:
        out["reasoning_content"] = reasoning
    if calls:
        out["tool_calls"] = calls
    return out | more


def completion(id: str, choices: list[tuple[Json, str]], usage: Usage | None) -> Json:
    """A whole answer of messages and their finish reasons."""
    out: Json = {
        "id": id,
        "choices": [
            {"index": i, "message": said, "logprobs": None, "finish_reason": finish}
            for i, (said, finish) in enumerate(choices)
        ],
    }
    if usage is not None:
        out["usage"] = report(usage)
    return out


def report(usage: Usage) -> Json:
    """The usage as clients read it; what was not reported stays out, so that it is estimated."""
    out = as_object(usage)
    if usage.source is UsageSource.PARTIAL:
        del out["completion_tokens"], out["total_tokens"]
    return out
