"""Tool pairs: each call of a conversation gets one result, where a server refuses a conversation without that.

Compacted and interrupted conversations lack one of the two, or have a result late or twice. A call without a result
gets one that says so; a result without a call becomes a text of the user. In chats the results are the next messages,
in Messages they begin the next one, and in the Responses API they are the next items. ``Transcript`` does the same for
channels that a request is translated for.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.transcript import NO_OUTPUT
from gateway.upstream.message_shapes import blocks_of, join_contents, role_of

PAIRS_REFUSED = lazy_pattern(
    r"(?i)must be followed by tool messages|insufficient tool messages|did not have response messages"
    r"|must be a response to a prece+ding|no previous assistant message with a tool call|unexpected role 'tool' after"
    r"|duplicate value for 'tool_call_id'|tool_call_id\W{1,4}\s*is not found|number of function (?:calls and )?response"
    r"|ids were found without `tool_result`|unexpected `tool_use_id`|`tool_use` ids must be unique"
    r"|must have a single result|no tool (?:output|call) found for|tool (?:call )?result(?: does not follow|'s tool id)"
    r"|missing required parameter: 'input\[\d+\]\.call_id'"
    r"|toolresult blocks at|mismatch between tool calls and|function response turn comes immediately after"
)
"""Matches refusals of calls without results, results without calls, and ids that occur twice."""
_OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""The type of an output by that of its call."""
_LABEL = "[tool result]"
_TOOL, _USER = rawjson.raw("tool"), rawjson.raw("user")


class _Results:
    """The results that no call has yet, in order by the ids of their calls."""

    def __init__(self, results: Iterable[tuple[str, dict[str, Any]]]) -> None:
        self._waiting: dict[str, deque[dict[str, Any]]] = {}
        self._ids = set[str]()
        """The ids of the calls so far."""
        for call_id, result in results:
            self._waiting.setdefault(call_id, deque()).append(result)

    def take(self, call_id: str) -> tuple[str, dict[str, Any]]:
        """Returns the id that a call has from now on, which no other call has, and its result; empty without one."""
        own_id, number = call_id, 0
        while not own_id or own_id in self._ids:
            number += 1
            own_id = f"{call_id or 'call'}_{number}"
        self._ids.add(own_id)
        waiting = self._waiting.get(call_id)
        return own_id, waiting.popleft() if waiting else {}

    def drop(self, call_id: str, result: dict[str, Any]) -> bool:
        """Returns whether a result still waits for a call, for which it then waits no longer."""
        waiting = self._waiting.get(call_id, deque())
        waits = any(result is other for other in waiting)
        if waits:
            waiting.popleft()
        return waits


def with_pairs(messages: list[Fields]) -> list[Fields]:
    """Returns a chat's messages with the results of calls directly after them, in their order. Ids occur once."""
    results = _Results((_text(message, "tool_call_id"), message) for message in messages if role_of(message) == "tool")
    fitting: list[Fields] = []
    for message in messages:
        if role_of(message) == "tool":
            if results.drop(_text(message, "tool_call_id"), message):
                content = join_contents([rawjson.raw(_LABEL), message.get("content", NULL)])
                fitting.append({"role": _USER, "content": content})
            continue
        calls = rawjson.list_at(message.get("tool_calls"))
        calls = calls if all(isinstance(call, dict) for call in calls) else []
        pairs = [results.take(rawjson.text_at(call, "id")) for call in calls]
        own_calls = [{**call, "id": own_id} for call, (own_id, _) in zip(calls, pairs, strict=True)]
        fitting.append(message if own_calls == calls else {**message, "tool_calls": rawjson.raw(own_calls)})
        empty = {"role": _TOOL, "content": NO_OUTPUT.raw}
        fitting += [{**empty, **result, "tool_call_id": rawjson.raw(own_id)} for own_id, result in pairs]
    return fitting


def with_block_pairs(messages: list[Fields]) -> list[Fields]:
    """Returns messages of Anthropic's API with the results of calls at the beginning of the next one."""
    contents = [blocks_of(message) for message in messages]
    blocks = (block for said in contents for block in said if _type(block) == "tool_result")
    results = _Results((rawjson.text_at(block, "tool_use_id"), block) for block in blocks)
    fitting: list[Fields] = []
    due: list[Any] = []  # the results of the last calls
    for message, said in zip(messages, contents, strict=True):
        if role_of(message) == "assistant":
            fitting += [{"role": _USER, "content": rawjson.raw(due)}] if due else []
            kept, due = _with_own_results(said, results)
        else:
            kept, due = [*due, *_without_results(said, results)], []
        if kept or not said:
            fitting.append(message if kept == said else {**message, "content": rawjson.raw(kept)})
    return [*fitting, {"role": _USER, "content": rawjson.raw(due)}] if due else fitting


def with_item_pairs(items: list[Fields]) -> list[Fields]:
    """Returns items of the Responses API with the outputs of calls directly after them."""
    results = _Results((_text(item, "call_id"), item) for item in items if _text(item, "type") in _OUTPUTS.values())
    fitting: list[Fields] = []
    due: list[Fields] = []
    for item in items:
        kind, call_id = _text(item, "type"), _text(item, "call_id")
        if kind in _OUTPUTS:
            own_id, result = results.take(call_id)
            id_field = {"call_id": rawjson.raw(own_id)}
            due.append({"output": NO_OUTPUT.raw, **result, "type": rawjson.raw(_OUTPUTS[kind]), **id_field})
            fitting.append({**item, **id_field})
            continue
        fitting += due
        due = []
        if kind not in _OUTPUTS.values():
            fitting.append(item)
        elif results.drop(call_id, item):
            parts = rawjson.raw(_as_texts(rawjson.maybe(item.get("output")), "input_text"))
            fitting.append({"type": rawjson.raw("message"), "role": _USER, "content": parts})
    return fitting + due


def _text(fields: Fields, name: str) -> str:
    return rawjson.text_at(fields.get(name))


def _type(block: Any) -> str:
    return rawjson.text_at(block, "type")


def _with_own_results(said: list[Any], results: _Results) -> tuple[list[Any], list[Any]]:
    """Returns the blocks of the assistant with ids that occur once, and the results of their calls."""
    blocks, due = list[Any](), list[Any]()
    for block in said:
        if _type(block) != "tool_use":
            blocks.append(block)
            continue
        own_id, result = results.take(rawjson.text_at(block, "id"))
        blocks.append({**block, "id": own_id})
        empty = {"type": "tool_result", "content": rawjson.value(NO_OUTPUT.raw)}
        due.append({**empty, **result, "tool_use_id": own_id})
    return blocks, due


def _without_results(said: list[Any], results: _Results) -> list[Any]:
    """Returns the blocks of a user, after the texts of the results that no call has."""
    lost, others = list[Any](), list[Any]()
    for block in said:
        if _type(block) != "tool_result":
            others.append(block)
        elif results.drop(rawjson.text_at(block, "tool_use_id"), block):
            lost += _as_texts(block.get("content"), "text")
    return [*lost, *others]


def _as_texts(content: Any, kind: str) -> list[Any]:
    """Returns a result without a call as parts of the user's, with texts of this type."""
    label = {"type": kind, "text": _LABEL}
    if isinstance(content, list):
        return [label, *content]
    return [label, {"type": kind, "text": content}] if content else [label]
