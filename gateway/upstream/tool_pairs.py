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
from gateway.domain.rawjson import JsonObject
from gateway.domain.transcript import NO_OUTPUT
from gateway.upstream.message_shapes import blocks_of, join_contents, role_of

_OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""The type of an output by the type of its call."""
_LABEL = "[tool result]"
_NO_OUTPUT = rawjson.text(NO_OUTPUT.raw)


class _Results:
    """The results that no call has yet, in order by the ids of their calls."""

    def __init__(self, id_field: str, results: Iterable[JsonObject], **empty: str) -> None:
        """``id_field`` has the id of a result's call. ``empty`` is the result of a call without one."""
        self._id_field = id_field
        self._empty = empty
        self._waiting: dict[str, deque[JsonObject]] = {}
        self._ids = dict[str, int]()
        """The ids of the calls so far, with the last number that was put at the end of each."""
        for result in results:
            self._waiting.setdefault(rawjson.text_at(result, id_field), deque()).append(result)

    def take(self, call: JsonObject, id_field: str = "id") -> tuple[JsonObject, JsonObject]:
        """Returns a call with an id that no other call has, and its result."""
        call_id = rawjson.text_at(call, id_field)
        own_id = call_id
        while not own_id or own_id in self._ids:
            self._ids[call_id] = self._ids.get(call_id, 0) + 1
            own_id = f"{call_id or 'call'}_{self._ids[call_id]}"
        self._ids[own_id] = 0
        waiting = self._waiting.get(call_id)
        result = waiting.popleft() if waiting else {}
        return {**call, id_field: own_id}, {**self._empty, **result, self._id_field: own_id}

    def drop(self, result: JsonObject) -> bool:
        """Returns whether a result still waits for this call, and ends that wait."""
        waiting = self._waiting.get(rawjson.text_at(result, self._id_field), deque())
        is_waiting = any(result is other for other in waiting)
        if is_waiting:
            waiting.popleft()
        return is_waiting


def with_pairs(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns a chat's messages with the results of calls directly after them, in their order. Ids occur once."""
    tool_messages = (message for message in messages if role_of(message) == "tool")
    results = _Results("tool_call_id", tool_messages, role="tool", content=_NO_OUTPUT)
    fitting: list[JsonObject] = []
    for message in messages:
        calls = rawjson.list_at(message, "tool_calls")
        if role_of(message) == "tool":
            if results.drop(message):
                fitting.append({"role": "user", "content": join_contents([_LABEL, message.get("content")])})
        elif calls and all(isinstance(call, dict) for call in calls):
            pairs = [results.take(call) for call in calls]
            fitting.append({**message, "tool_calls": [call for call, _ in pairs]})
            fitting += [result for _, result in pairs]
        else:
            fitting.append(message)
    return fitting


def with_block_pairs(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns messages of Anthropic's API with the results of calls at the beginning of the next one."""
    contents = [blocks_of(message) for message in messages]
    own_results = (block for blocks in contents for block in blocks if _type(block) == "tool_result")
    results = _Results("tool_use_id", own_results, type="tool_result", content=_NO_OUTPUT)
    fitting: list[JsonObject] = []
    due: list[Any] = []  # the results of the last calls
    for message, blocks in zip(messages, contents, strict=True):
        if role_of(message) == "assistant":
            fitting += [{"role": "user", "content": due}] if due else []
            pairs = [results.take(block) if _type(block) == "tool_use" else (block, None) for block in blocks]
            kept, due = [block for block, _ in pairs], [result for _, result in pairs if result is not None]
        else:
            kept, due = [*due, *_without_results(blocks, results)], []
        if kept or not blocks:
            fitting.append(message if kept == blocks else {**message, "content": kept})
    return [*fitting, {"role": "user", "content": due}] if due else fitting


def with_item_pairs(items: list[JsonObject]) -> list[JsonObject]:
    """Returns items of the Responses API with the outputs of calls directly after them."""
    outputs = (item for item in items if _type(item) in _OUTPUTS.values())
    results = _Results("call_id", outputs, output=_NO_OUTPUT)
    fitting: list[JsonObject] = []
    due: list[JsonObject] = []
    for item in items:
        kind = _type(item)
        if kind in _OUTPUTS:
            call, result = results.take(item, "call_id")
            fitting.append(call)
            due.append({**result, "type": _OUTPUTS[kind]})
            continue
        fitting += due
        due = []
        if kind not in _OUTPUTS.values():
            fitting.append(item)
        elif results.drop(item):
            parts = _as_texts(item.get("output"), "input_text")
            fitting.append({"type": "message", "role": "user", "content": parts})
    return fitting + due


def _type(block: Any) -> str:
    return rawjson.text_at(block, "type")


def _without_results(blocks: list[Any], results: _Results) -> list[Any]:
    """Returns the blocks of a user, after the texts of the results that no call has."""
    lost, others = list[Any](), list[Any]()
    for block in blocks:
        if _type(block) != "tool_result":
            others.append(block)
        elif results.drop(block):
            lost += _as_texts(block.get("content"), "text")
    return [*lost, *others]


def _as_texts(content: Any, kind: str) -> list[Any]:
    """Returns a result without a call as parts of the user's, with texts of this type."""
    label = {"type": kind, "text": _LABEL}
    if isinstance(content, list):
        return [label, *content]
    return [label, {"type": kind, "text": content}] if content else [label]
