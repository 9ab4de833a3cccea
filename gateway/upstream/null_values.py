"""Null values: members of a request that say nothing, such as ``tools: []``, are left out for servers that refuse them.

OpenAI takes most of them, so many programs send them; typed servers do not. Leaving them out changes nothing.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import EMPTY_LIST, NULL, Fields

NULLS = "null"
"""Stands for such members in a refusal."""
NULLS_REFUSED = lazy_pattern(
    r"(?i)\bnull\b.{0,60}\b(?:expected|instead|not|want|allowed)\b"
    r"|\b(?:expected|got|received|found|was|cannot be|must not be|invalid type:?)\W{0,3}null\b"
    r"|\bnone is not\b|nonetype|input should be a valid (?:boolean|string|list|dictionary|integer|number)"
    r"|must be an array when provided|\[\] is too short|empty array|tools must not be empty|minimum number of items"
    r"|(?:at least|>=) ?(?:1|one) (?:item|element|tool|function)|only allowed when .?tools\b|\btools\W{1,3}must be set"
)
"""Matches refusals of a null or of an empty list, as pydantic, Zod, serde and JSON schemas write them."""

_TOOLS = ("tools", "functions")
_OPTIONAL_LISTS = frozenset({*_TOOLS, "tool_calls", "stop", "stop_sequences", "required"})
"""Lists that mean the same when empty as when left out."""
_DATA = frozenset({"arguments", "input", "enum", "const", "default", "examples"})
"""Members whose nulls are data: what a model wrote, and values in a schema."""


def without_nulls(request: Fields) -> Fields:
    """Returns the request without members that are null, and without lists of tools, calls and stops that are empty.

    A message's content becomes an empty text, because it must not be missing. A choice of tools goes with the tools.
    """
    kept = {name: _clean_raw(raw) for name, raw in request.items() if not _is_left_out(name, raw)}
    if not any(name in kept for name in _TOOLS):
        about_tools = ("tool_choice", "function_call", "parallel_tool_calls")
        kept = {name: raw for name, raw in kept.items() if name not in about_tools}
    return kept


def _clean_raw(raw: msgspec.Raw) -> msgspec.Raw:
    data = bytes(raw)
    if b"null" not in data and b"[]" not in data:
        return raw
    try:
        value = rawjson.value(raw)
        kept = _clean(value)
    except (RecursionError, ValueError):  # the upstream will say so
        return raw
    return raw if kept == value else rawjson.raw(kept)


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item if name in _DATA else _clean(item) for name, item in value.items()}
    if "role" in value and kept.get("content", "") in (None, []):
        kept["content"] = ""
    return {name: item for name, item in kept.items() if name in _DATA or not _is_left_out(name, item)}


def _is_left_out(name: str, value: Any) -> bool:
    return value in (None, NULL) or (name in _OPTIONAL_LISTS and value in ([], EMPTY_LIST))
