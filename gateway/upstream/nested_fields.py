"""Nested fields: what a server refuses inside of contents, tool calls and tools is left out."""

import re
from collections.abc import Collection, Sequence
from typing import Any

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields

_HOLDERS = {"content": "messages[].content[].", "tool_calls": "messages[].tool_calls[].", "tools": "tools[]."}
"""The prefix of a rule's name by the list that has the objects with the field."""
_NEEDED = {
    "content": frozenset({"type", "text", "image_url", "input_audio", "file"}),
    "tool_calls": frozenset({"id", "type", "function"}),
    "tools": frozenset({"type", "function", "name", "parameters", "description"}),
}
"""The fields of these objects that have the content itself."""


def nested_name(path: str) -> str:
    """Returns the name of the rule for the field at a path, such as ``messages[].tool_calls[].index`` for
    ``messages.1.assistant.tool_calls.0.index``; empty for other paths, and for fields that must stay. A member of a
    cache mark has its own name, whatever is marked.
    """
    parts = [part for part in re.split(r"[.\[\]/]+", path.removeprefix("body.")) if part and not part.isdigit()]
    if "cache_control" in parts[:-1]:
        return parts[-1]
    root, *inner = parts or [""]
    holder = (
        "tools" if root == "tools" else next((part for part in inner[:-1] if part in ("content", "tool_calls")), "")
    )
    is_schema = holder == "tools" and inner[:-1] not in ([], ["function"])
    if not inner or root not in ("messages", "tools") or not holder or is_schema or inner[-1] in _NEEDED[holder]:
        return ""
    return _HOLDERS[holder] + inner[-1]


def remove_nested(fields: Fields, learned: Collection[str]) -> list[str]:
    """Remove what the rules among ``learned`` name. Returns their names, as far as something was removed."""
    removed = []
    for root in ("messages", "tools"):
        names = [name for name in learned if name.startswith(root) and name.startswith(tuple(_HOLDERS.values()))]
        if names and root in fields:
            values = rawjson.value(fields[root])
            found = [name for name in names if _remove_field(values, name)]
            if found:
                fields[root] = rawjson.raw(values)
            removed += found
    return removed


def _remove_field(values: Any, name: str) -> bool:
    """Remove the field that a rule names. Tools may have it in their functions, too. Returns whether there was one."""
    path = name.replace("[]", "").split(".")[1:]
    removed = [remove_path(values, path), remove_path(values, ["function", *path])]
    return any(removed)


def remove_path(value: Any, path: Sequence[str]) -> bool:
    """Remove the members at a path, through all elements of lists. Returns whether there was one."""
    if isinstance(value, list):
        removed = [remove_path(each, path) for each in value]
        return any(removed)
    if not path or not isinstance(value, dict):
        return not path
    if len(path) > 1:
        return remove_path(value.get(path[0]), path[1:])
    is_there = path[0] in value
    value.pop(path[0], None)
    return is_there
