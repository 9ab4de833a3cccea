"""Generous: an upstream that gives and bills all the output that the request it received allows, read generously.

It reads bodies by itself, with nothing of the gateway's own reading, so that the two cannot be wrong in the same way.
"""

import json
from collections.abc import Iterator
from typing import Any

from gateway.domain.channel import Channel, Dialect
from gateway.domain.order import PreparedRequest
from tests.core.ends import FakeReply, error_body

Doc = dict[str, Any]

CAPS = (
    "max_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "num_predict",
    "n_predict",
    "max_output_tokens",
    "maxOutputTokens",
    "max_length",
)
BUDGETS = ("budget_tokens", "thinking_budget", "reasoning_budget", "max_thinking_tokens")
CHOICES = ("n", "best_of")

SHORT = 10
"""Output where nothing bounds it."""
IMAGE = 1500
TOOLS = 500
"""What a vendor says to its model of tools as such."""


class GenerousUpstream:
    """Answers for all channels."""

    def __init__(self, *, cached: int = 0, written: int = 0) -> None:
        """``cached`` and ``written``: percent of the input that comes from a prompt cache or goes into one."""
        self._cached = cached
        self._written = written
        self.refuses: set[str] = set()
        """Top-level parameters that are refused by name."""
        self.broken: set[str] = set()
        """Names of channels that fail."""
        self.bounded = False
        """The last request had a cap."""

    def reply(self, channel: Channel, prepared: PreparedRequest) -> FakeReply:
        """The answer to a request."""
        if channel.name in self.broken:
            return FakeReply(error_body(), status=500)
        body = json.loads(prepared.body)
        for name in self.refuses & body.keys():
            return FakeReply(error_body(f"Unsupported parameter: '{name}'"), status=400)
        if channel.dialect is Dialect.ANTHROPIC:
            return FakeReply(self._message(body))
        if channel.dialect is Dialect.GEMINI:
            return FakeReply(self._candidates(body))
        return FakeReply(self._completion(body))

    def _parts(self, tokens: int) -> tuple[int, int]:
        cached = tokens * self._cached // 100
        return cached, min(tokens - cached, tokens * self._written // 100)

    def _message(self, body: Doc) -> bytes:
        texts = [body.get("system", []), body["messages"]]
        tokens = _input(texts, body.get("tools", []), len(body["messages"]))
        cached, written = self._parts(tokens)
        self.bounded = True
        usage = {
            "input_tokens": tokens - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": body["max_tokens"],
        }
        content = [{"type": "text", "text": "Hello."}]
        return _json({"id": "up", "type": "message", "content": content, "stop_reason": "end_turn", "usage": usage})

    def _candidates(self, body: Doc) -> bytes:
        config = body.get("generationConfig", {})
        texts = [body.get("systemInstruction", {}), body["contents"]]
        tokens = _input(texts, body.get("tools", []), len(body["contents"]))
        count = config.get("candidateCount", 1)
        thinking = config.get("thinkingConfig", {}).get("thinkingBudget", 0)
        self.bounded = "maxOutputTokens" in config or bool(thinking)
        output = count * config.get("maxOutputTokens", SHORT + thinking)
        usage = {
            "promptTokenCount": tokens,
            "cachedContentTokenCount": self._parts(tokens)[0],
            "candidatesTokenCount": output - output // 2,
            "thoughtsTokenCount": output // 2,
            "totalTokenCount": tokens + output,
        }
        content = {"role": "model", "parts": [{"text": "Hello."}]}
        found = [{"index": i, "content": content, "finishReason": "STOP"} for i in range(count)]
        return _json({"candidates": found, "usageMetadata": usage})

    def _completion(self, body: Doc) -> bytes:
        others = {name: value for name, value in body.items() if name not in ("messages", "tools", "functions")}
        found = list(_numbers(others, ""))
        caps = [number for name, number in found if name in CAPS and number > 0]
        budget = max((number for name, number in found if name in (*BUDGETS, "reasoning.max_tokens")), default=0)
        choices = max((number for name, number in found if name in CHOICES), default=1)
        predicted = _size(body.get("prediction", {})) // 3
        self.bounded = bool(caps)
        one = max(caps) if caps else SHORT
        output = choices * (one + budget + predicted)
        tokens = _input([body["messages"], body.get("documents", [])], body.get("tools", []), len(body["messages"]))
        cached, written = self._parts(tokens)
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": output,
            "total_tokens": tokens + output,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        }
        message = {"role": "assistant", "content": "Hello."}
        answers = [{"index": i, "message": message, "finish_reason": "stop"} for i in range(min(choices, 8))]
        return _json({"id": "up", "object": "chat.completion", "created": 5, "choices": answers, "usage": usage})


def _numbers(value: object, path: str) -> Iterator[tuple[str, int]]:
    """Every integer by its name, that of ``reasoning`` with its holder."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{path}.{key}" if path == "reasoning" else key)
    elif type(value) is int:
        yield path, value


def _input(texts: object, tools: list[Doc], messages: int) -> int:
    """A token for every three bytes of text, and what messages, images and tools cost as such."""
    told = TOOLS if tools else 0
    return -(-(_size(texts) + _size(tools)) // 3) + 3 * messages + IMAGE * _images(texts) + told


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(_size(inner) for key, inner in value.items() if key not in ("role", "type", "id", "tool_use_id"))
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, str):
        return 0 if value.startswith("data:") else len(value.encode())
    return 0


def _images(value: object) -> int:
    if isinstance(value, dict):
        own = value.get("type") in ("image_url", "image") or "inlineData" in value
        return own or sum(map(_images, value.values()))
    return sum(map(_images, value)) if isinstance(value, list) else 0


def _json(doc: Doc) -> bytes:
    return json.dumps({"model": "m", **doc}).encode()
