"""Nested fields: what a server refuses inside of contents, tool calls and tools is left out."""

import re
from collections.abc import Iterator
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
    ``messages.1.assistant.tool_calls.0.index``; empty for other paths, and for fields that must stay.
    """
    parts = [part for part in re.split(r"[.\[\]/]+", path.removeprefix("body.")) if part and not part.isdigit()]
    root, *inner = parts or [""]
    holder = (
        "tools" if root == "tools" else next((part for part in inner[:-1] if part in ("content", "tool_calls")), "")
    )
    is_schema = holder == "tools" and inner[:-1] not in ([], ["function"])
    if not inner or root not in ("messages", "tools") or not holder or is_schema or inner[-1] in _NEEDED[holder]:
        return ""
    return _HOLDERS[holder] + inner[-1]


def remove_nested(fields: Fields, learned: tuple[str, ...]) -> list[str]:
    """Remove what the rules among ``learned`` name. Returns their names, as far as something was removed."""
    removed = []
    for holder, prefix in _HOLDERS.items():
        names = [name for name in learned if name.startswith(prefix)]
        root = "tools" if holder == "tools" else "messages"
        if names and root in fields:
            values = rawjson.value(fields[root])
            found = [name for name in names if _remove(values, holder, name.removeprefix(prefix))]
            if found:
                fields[root] = rawjson.raw(values)
            removed += found
    return removed


def _remove(values: Any, holder: str, field: str) -> bool:
    """Remove a field from each object. Returns whether one had it."""
    holders = [each for each in _objects(values, holder) if field in each]
    for each in holders:
        del each[field]
    return bool(holders)


def _objects(values: Any, holder: str) -> Iterator[dict[str, Any]]:
    """Yields the objects that may have the field: tools with their functions, parts of contents, or calls."""
    for value in values if isinstance(values, list) else ():
        for each in [value] if holder == "tools" else rawjson.list_at(value, holder):
            if isinstance(each, dict):
                yield each
            if holder == "tools" and isinstance(function := rawjson.at(each, "function"), dict):
                yield function
