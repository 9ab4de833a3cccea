"""Repeats a Messages request without deferred tools, for a server that refuses them.

Claude Code sends only the tools that its own search has found. They are marked ``defer_loading``, the search's results
refer to them by ``tool_reference``, and a beta allows both. A server that refuses one of these gets the request again
without the marks, and with the references as text: the tools themselves are in the request anyway.
"""

import re
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.failure import Failure
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.inbound.messages.tools import TOOL_CHANGE_TYPES, changed_tools

_DEFERRED = "defer_loading"
_BETA_HEADER = "anthropic-beta"
_REFUSAL = re.compile(
    r"defer_loading|tool[ _](?:reference|addition|removal)|tool_result|\bbeta\b|\"invalid request error\"",
    re.IGNORECASE,
)
"""Matches refusals of deferred tools. Some servers name the mark or the block, some the result that contains it, and
some only the beta; Kimi names nothing."""
_BETA = re.compile(r"tool-search-tool-|advanced-tool-use-|mid-conversation-tool-changes-")
"""Matches the betas that allow deferred tools and changes of tools."""
_DEFERRED_PARTS = re.compile(rb'"(?:defer_loading|tool_reference|tool_addition|tool_removal)"')


def without_deferred_tools(order: Order, failure: Failure) -> Order | None:
    """Returns the request without deferred and changed tools; None if it has none, or failed for another reason."""
    message = failure.verbatim.cleared(str)
    if failure.status not in (400, 422) or not _REFUSAL.search(message):
        return None
    betas = order.forward.get(_BETA_HEADER, "")
    fields: Fields = {name: order.fields[name] for name in ("tools", "messages") if name in order.fields}
    has_parts = any(_DEFERRED_PARTS.search(memoryview(raw)) for raw in fields.values())
    if not has_parts and not ("beta" in message and _BETA.search(betas)):
        return None
    if has_parts:
        try:
            fields = _with_plain_tools(fields)
        except (ValueError, BadRequest):  # invalid for the API: the upstream's error stands
            return None
    others = ",".join(name for name in map(str.strip, betas.split(",")) if name and not _BETA.match(name))
    return msgspec.structs.replace(
        order,
        fields={**order.fields, **fields},
        body=b"" if has_parts else order.body,
        forward={**order.forward, _BETA_HEADER: others} if betas else order.forward,
        removed=(*order.removed, _DEFERRED),
    )


def _with_plain_tools(fields: Fields) -> Fields:
    """Returns the tools without marks, and the messages with references as the text that other dialects get. Tools
    that the messages add are in the list, and tools that they remove are not.
    """
    plain_fields: Fields = {}
    decoded = rawjson.value(fields.get("messages"))
    messages: list[Any] = decoded if isinstance(decoded, list) else []
    changes = _remove_tool_changes(messages)
    _write_out_references(messages)
    if messages and _DEFERRED_PARTS.search(memoryview(fields["messages"])):
        filled = [message for message in messages if rawjson.at(message, "content") != []]
        plain_fields["messages"] = rawjson.raw(filled)
    if "tools" in fields or changes:
        tools = rawjson.objects(changed_tools(fields.get("tools", rawjson.NULL), changes))
        unmarked = [{name: value for name, value in tool.items() if name != _DEFERRED} for tool in tools]
        plain_fields["tools"] = rawjson.raw(unmarked)
    return plain_fields


def _remove_tool_changes(messages: list[Any]) -> list[tuple[str, msgspec.Raw]]:
    """Remove the blocks that add or remove tools. Returns the type and the tool of each."""
    changes: list[tuple[str, msgspec.Raw]] = []
    for message in messages:
        blocks = [(rawjson.text_at(block, "type"), block) for block in rawjson.list_at(message, "content")]
        removed = [(kind, rawjson.raw(block.get("tool"))) for kind, block in blocks if kind in TOOL_CHANGE_TYPES]
        if removed:
            message["content"] = [block for kind, block in blocks if kind not in TOOL_CHANGE_TYPES]
            changes += removed
    return changes


def _write_out_references(messages: list[Any]) -> None:
    """Replace each reference to a tool in the results of tools by a text."""
    for message in messages:
        for block in _objects(message, "content"):
            for part in _objects(block, "content"):
                if part.get("type") == "tool_reference":
                    name = part.get("tool_name", "")
                    part.clear()
                    part |= {"type": "text", "text": f"[tool_reference {name}]"}


def _objects(holder: object, name: str) -> list[dict[str, object]]:
    """Returns the objects in a list of the holder; none if there is no such list."""
    return [item for item in rawjson.list_at(holder, name) if isinstance(item, dict)]
