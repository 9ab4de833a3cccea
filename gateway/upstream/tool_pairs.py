"""Tool pairs: each call of a chat gets one result, directly after it, where a server refuses a chat without that.

Compacted and interrupted conversations lack one of the two, or have a result late or twice. A call without a result
gets one that says so; a result without a call becomes a text of the user. ``Transcript`` does the same for channels
that a request is translated for.
"""

from collections import deque
from typing import Any

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.transcript import NO_OUTPUT
from gateway.upstream.message_shapes import blocks_of, join_contents, role_of

PAIRS_REFUSED = lazy_pattern(
    r"(?i)must be followed by tool messages|insufficient tool messages|did not have response messages"
    r"|must be a response to a preceding|no previous assistant message with a tool call|unexpected role 'tool' after"
    r"|duplicate value for 'tool_call_id'|tool_call_id\W{1,4}\s*is not found|number of function (?:calls and )?response"
    r"|ids were found without `tool_result`|unexpected `tool_use_id`|`tool_use` ids must be unique"
    r"|must have a single result"
    r"|toolresult blocks at|function response turn comes immediately after"
)
"""Matches refusals of calls without results, results without calls, and ids that occur twice."""
_TOOL, _USER = rawjson.raw("tool"), rawjson.raw("user")


def with_pairs(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with the results of calls directly after them, in their order. Ids occur once."""
    results: dict[str, deque[Fields]] = {}
    for message in filter(_is_result, messages):
        results.setdefault(rawjson.text_at(message.get("tool_call_id")), deque()).append(message)
    fitting: list[Fields] = []
    ids, claimed = set[str](), set[int]()
    for message in messages:
        if _is_result(message):
            if id(message) not in claimed:  # of those with its id it is the first one that is left
                fitting.append(_as_users(results[rawjson.text_at(message.get("tool_call_id"))].popleft()))
            continue
        calls = rawjson.list_at(message.get("tool_calls"))
        calls = calls if all(isinstance(call, dict) for call in calls) else []
        own_calls = [{**call, "id": _new_id(rawjson.text_at(call, "id"), ids)} for call in calls]
        fitting.append(message if own_calls == calls else {**message, "tool_calls": rawjson.raw(own_calls)})
        for call, own_call in zip(calls, own_calls, strict=True):
            waiting = results.get(rawjson.text_at(call, "id"))
            result = waiting.popleft() if waiting else {"role": _TOOL, "content": NO_OUTPUT.raw}
            claimed.add(id(result))
            is_its = rawjson.text_at(result.get("tool_call_id")) == own_call["id"]
            fitting.append(result if is_its else {**result, "tool_call_id": rawjson.raw(own_call["id"])})
    return fitting


def _is_result(message: Fields) -> bool:
    return role_of(message) == "tool"


def _new_id(given: str, ids: set[str]) -> str:
    """Returns the id, or one made of it if it is empty or among ``ids``, to which it is added."""
    new, number = given, 0
    while not new or new in ids:
        number += 1
        new = f"{given or 'call'}_{number}"
    ids.add(new)
    return new


def _as_users(result: Fields) -> Fields:
    """Returns a result as a message of the user, which says what it is."""
    return {"role": _USER, "content": join_contents([rawjson.raw("[tool result]"), result.get("content", NULL)])}


def with_block_pairs(messages: list[Fields]) -> list[Fields]:
    """Does for messages of Anthropic's API what ``with_pairs`` does for chats: results begin the message after."""
    contents = [blocks_of(message) for message in messages]
    results: dict[str, deque[Any]] = {}
    for block in (block for said in contents for block in said if _type(block) == "tool_result"):
        results.setdefault(rawjson.text_at(block, "tool_use_id"), deque()).append(block)
    fitting: list[Fields] = []
    ids, due = set[str](), list[Any]()  # ``due`` are the results of the last calls
    for message, said in zip(messages, contents, strict=True):
        if role_of(message) != "assistant":
            others = [block for block in said if _type(block) != "tool_result"]
            lost = [block for block in said if _is_left(block, results)]
            blocks = [*due, *(part for block in lost for part in _result_texts(block)), *others]
            due = []
        else:
            fitting += [{"role": _USER, "content": rawjson.raw(due)}] if due else []
            blocks, due = _with_own_results(said, results, ids)
        if blocks or not said:
            fitting.append(message if blocks == said else {**message, "content": rawjson.raw(blocks)})
    return [*fitting, {"role": _USER, "content": rawjson.raw(due)}] if due else fitting


def _type(block: Any) -> str:
    return rawjson.text_at(block, "type")


def _is_left(block: Any, results: dict[str, deque[Any]]) -> bool:
    """Returns whether a result has no call. It is then no longer one of ``results``."""
    waiting = results.get(rawjson.text_at(block, "tool_use_id"), deque())
    is_left = _type(block) == "tool_result" and any(block is other for other in waiting)
    if is_left:
        waiting.popleft()
    return is_left


def _with_own_results(said: list[Any], results: dict[str, deque[Any]], ids: set[str]) -> tuple[list[Any], list[Any]]:
    """Returns the blocks of the assistant with ids that occur once, and the results of their calls."""
    blocks, due = list[Any](), list[Any]()
    for block in said:
        if _type(block) == "tool_use":
            given = rawjson.text_at(block, "id")
            own_id = _new_id(given, ids)
            waiting = results.get(given)
            result = waiting.popleft() if waiting else {"type": "tool_result", "content": rawjson.value(NO_OUTPUT.raw)}
            due.append(result if result.get("tool_use_id") == own_id else {**result, "tool_use_id": own_id})
            block = block if own_id == given else {**block, "id": own_id}  # noqa: PLW2901 - the block as it is sent
        blocks.append(block)
    return blocks, due


def _result_texts(result: Any) -> list[Any]:
    """Returns a result without a call as texts of the user."""
    content = rawjson.at(result, "content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    return [{"type": "text", "text": "[tool result]"}, *parts]
