"""Shapes: what OpenAI's clients rely on in completions, streams and errors, as checks that list every breach.

After OpenAI's own API document (openai/openai-openapi, info.version 2.3.0) and the rules of stream order that its SDKs
depend on. ``lax`` forgives a missing ``logprobs`` or ``refusal``: many compatible servers omit them, and the gateway
passes an answer on as it is.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.fakes.client import events

Doc = dict[str, Any]
Usage = Literal["yes", "no", "any"]

FINISHES = ("stop", "length", "tool_calls", "content_filter", "function_call")


def error_faults(doc: object) -> list[str]:
    """An error body: ``{"error": {message, type, param, code}}``, all four there, the first two said."""
    error = doc.get("error") if isinstance(doc, dict) else None
    if not isinstance(error, dict):
        return [f"no error object in {doc!r}"]
    texts = [f"{key} is {error.get(key)!r}" for key in ("message", "type") if not _said(error.get(key))]
    missing = [f"{key} is absent" for key in ("param", "code") if key not in error]
    odd = [f"{key} is {error[key]!r}" for key in ("param", "code") if not isinstance(error.get(key), str | None)]
    return texts + missing + odd


def completion_faults(doc: object, *, lax: bool = False) -> list[str]:
    if not isinstance(doc, dict):
        return [f"not an object: {doc!r}"]
    faults = _envelope_faults(doc, "chat.completion")
    for choice in doc.get("choices") or []:
        faults += _choice_faults(choice, lax=lax)
    return faults + ([] if doc.get("usage") is None else usage_faults(doc["usage"]))


def usage_faults(usage: object) -> list[str]:
    """Three counts that are integers, details that are."""
    if not isinstance(usage, dict):
        return [f"usage is {usage!r}"]
    counts = {key: usage.get(key) for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    for group in ("prompt_tokens_details", "completion_tokens_details"):
        counts |= {f"{group}.{key}": value for key, value in (usage.get(group) or {}).items()}
    return [f"usage.{key} is {value!r}" for key, value in counts.items() if type(value) is not int or value < 0]


def stream_faults(body: bytes, *, usage: Usage = "any", error: bool = False) -> list[str]:
    """A whole streamed body. ``error``: it is to end in an error event and without ``[DONE]``."""
    try:
        datas = events(body)
    except AssertionError as fault:
        return [f"framing: {fault}"]
    watch = _Watch()
    for number, data in enumerate(datas):
        watch.take(number, data, last=number == len(datas) - 1)
    return watch.faults + watch.end(error=error) + _usage_faults(watch, usage)


def _envelope_faults(doc: Doc, kind: str) -> list[str]:
    checks = {
        "id": _said(doc.get("id")),
        "object": doc.get("object") == kind,
        "created": type(doc.get("created")) is int,
        "model": _said(doc.get("model")),
        "choices": isinstance(doc.get("choices"), list),
    }
    return [f"{key} is {doc.get(key)!r}" for key, good in checks.items() if not good]


def _choice_faults(choice: Doc, *, lax: bool) -> list[str]:
    message = choice.get("message")
    if not isinstance(message, dict):
        return [f"message is {message!r}"]
    checks = {
        "index": type(choice.get("index")) is int,
        "finish_reason": choice.get("finish_reason") in FINISHES,
        "logprobs": lax or "logprobs" in choice,
        "role": message.get("role") == "assistant",
        "content": "content" in message and isinstance(message["content"], str | None),
        "refusal": (lax or "refusal" in message) and isinstance(message.get("refusal"), str | None),
        "tool_calls": all(map(_whole_call, message.get("tool_calls", [{}]) or [])) or "tool_calls" not in message,
    }
    return [f"choice {choice.get('index')}: {key}" for key, good in checks.items() if not good]


def _whole_call(call: Doc) -> bool:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        return False
    return _said(call.get("id")) and _said(function.get("name")) and isinstance(function.get("arguments"), str)


@dataclass
class _Choice:
    """What one choice of a stream has shown so far."""

    roles: int = 0
    finishes: int = 0
    tools: set[int] = field(default_factory=set)


@dataclass
class _Watch:
    """Reads a stream in order and notes what is against the rules."""

    faults: list[str] = field(default_factory=list)
    choices: dict[int, _Choice] = field(default_factory=lambda: defaultdict(_Choice))
    ids: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    chunks: int = 0
    with_usage: list[int] = field(default_factory=list)
    """Which of the chunks, counted from 1."""
    errors: int = 0
    dones: int = 0

    def take(self, number: int, data: bytes, *, last: bool) -> None:
        if data == b"[DONE]":
            self.dones += 1
            self._blame(number, not last, "[DONE] is not last")
            return
        doc = json.loads(data)
        if doc.get("error"):
            self.errors += 1
            self._blame(number, not last, "an error event is not last")
            self.faults += error_faults(doc)
        else:
            self._chunk(number, doc)

    def end(self, *, error: bool) -> list[str]:
        """What can be said at the end only."""
        found = [f"{len(self.ids)} ids", f"{len(self.models)} models"]
        faults = [text for text, values in zip(found, (self.ids, self.models), strict=True) if len(values) > 1]
        if (self.errors, self.dones) != ((1, 0) if error else (0, 1)):
            faults.append(f"{self.errors} error events, {self.dones} [DONE]")
        for index, choice in self.choices.items():
            if choice.roles != 1 or (not error and choice.finishes != 1):
                faults.append(f"choice {index}: {choice.roles} roles, {choice.finishes} finish reasons")
        return faults

    def _chunk(self, number: int, doc: Doc) -> None:
        self.chunks += 1
        self.ids.add(doc.get("id", ""))
        self.models.add(doc.get("model", ""))
        self.faults += [f"event {number}: {fault}" for fault in _envelope_faults(doc, "chat.completion.chunk")]
        if doc.get("usage") is not None:
            self.with_usage.append(self.chunks)
            self._blame(number, bool(doc["choices"]), "usage beside choices")
            self.faults += usage_faults(doc["usage"])
        self._blame(number, not doc["choices"] and doc.get("usage") is None, "neither choices nor usage")
        for choice in doc["choices"]:
            self._choice(number, choice)

    def _choice(self, number: int, choice: Doc) -> None:
        state = self.choices[choice["index"]]
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not isinstance(delta.get("content"), str | None):
            self.faults.append(f"event {number}: delta {delta!r}")
            return
        self._blame(number, state.finishes > 0, "a choice goes on after its finish reason")
        self._blame(number, choice.get("finish_reason", 0) not in (*FINISHES, None), "finish_reason")
        state.roles += "role" in delta
        self._blame(number, delta.get("role", "assistant") != "assistant", "role")
        state.finishes += choice.get("finish_reason") is not None
        for call in delta.get("tool_calls") or []:
            self._call(number, call, state)

    def _call(self, number: int, call: Doc, state: _Choice) -> None:
        function = call.get("function") or {}
        if (index := call.get("index")) in state.tools:
            again = [key for key in ("id", "type") if key in call] + (["name"] if "name" in function else [])
            self._blame(number, bool(again), f"tool call {index} repeats {again}")
            return
        self._blame(number, index != len(state.tools), f"tool index {index} is not dense")
        first = _whole_call({**call, "function": {"arguments": "", **function}})
        self._blame(number, not first, f"tool call {index} begins without id, type or name")
        state.tools.add(len(state.tools))

    def _blame(self, number: int, wrong: bool, text: str) -> None:
        if wrong:
            self.faults.append(f"event {number}: {text}")


def _usage_faults(watch: _Watch, usage: Usage) -> list[str]:
    if usage == "yes" and watch.with_usage != [watch.chunks]:
        return [f"usage in chunks {watch.with_usage} of {watch.chunks}; wanted in the last alone"]
    if usage == "no" and watch.with_usage:
        return [f"usage in chunks {watch.with_usage}; it was not asked for"]
    return []


def _said(value: object) -> bool:
    return isinstance(value, str) and value != ""
