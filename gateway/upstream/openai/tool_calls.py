"""Tool calls and texts in chat completions: reads them from messages and deltas, and corrects wrong JSON types."""

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import ToolCallPart
from gateway.domain.rawjson import NULL
from gateway.upstream.tool_call_tracker import MAX_CALLS


class TooManyCalls(ValueError):
    """A message has too many calls to be decoded."""


def call_objects(raw: msgspec.Raw) -> list[rawjson.Fields]:
    """Returns the tool calls in a field: a list, or one call. Raises TooManyCalls, and ValueError for anything else."""
    items = rawjson.items(raw) if bytes(memoryview(raw)[:1]) != b"{" else [raw]
    if len(items) > MAX_CALLS + 1:
        raise TooManyCalls("too many tool calls")
    calls = [rawjson.fields(call) for call in items if not rawjson.is_null(call)]
    if calls == [{}]:
        raise ValueError("no call")
    return calls


def tool_call_part(call: rawjson.Fields, choice: int = 0, position: int | None = None) -> ToolCallPart:
    """Returns a tool call as a part. ``position`` is the index if it has none. Raises ValueError if it is malformed."""
    kind = tool_kind(call)
    inner = rawjson.fields(call[kind]) if not rawjson.is_null(call.get(kind)) else call
    arguments = inner.get("input") if kind == "custom" else inner.get("arguments", inner.get("parameters"))
    return ToolCallPart(
        index=lenient_index(call.get("index"), position),
        id=lenient_text(call.get("id")),
        name=lenient_text(inner.get("name", call.get("name"))),
        piece=arguments_text(arguments),
        custom=kind == "custom",
        signature=rawjson.text_at(call.get("extra_content"), "google", "thought_signature"),
        choice=choice,
    )


def tool_kind(call: rawjson.Fields) -> str:
    """Returns whether it calls a ``function`` or a ``custom`` tool. Snowflake sends both fields, one of them empty."""
    function, custom = (call.get(name, NULL) for name in ("function", "custom"))
    if rawjson.is_null(custom):
        return "function"
    return "custom" if rawjson.is_null(function) or has_content(custom) else "function"


def has_content(function: msgspec.Raw) -> bool:
    """Returns whether the inner object of a call has a name or arguments, or is not an object."""
    inner = rawjson.maybe(function)
    return not isinstance(inner, dict) or any(inner.values())


def lenient_index(value: msgspec.Raw | None, default: int | None = None) -> int | None:
    """Returns an index, which may be text or a float; the default for anything else."""
    number = rawjson.whole_number(rawjson.maybe(value))
    return default if number is None or number < 0 else number


def lenient_text(value: msgspec.Raw | None) -> str:
    """Returns an id or a name, which may be an integer; empty for anything else."""
    decoded = rawjson.maybe(value)
    return str(decoded) if type(decoded) is int else rawjson.text_at(decoded)


def arguments_text(value: msgspec.Raw | None) -> bytes:
    """Returns arguments as a JSON string, which holds the text of any other JSON value; empty if it is missing."""
    if value is None or rawjson.is_null(value):
        return b""
    data = bytes(value)
    return data if data[:1] == b'"' else rawjson.encode(data.decode("utf-8", "replace"))


def text_piece(raw: msgspec.Raw | None) -> bytes:
    """Returns a JSON string; nothing for null or an empty one. Raises ValueError for anything else."""
    if raw is None or rawjson.is_null(raw):
        return b""
    data = bytes(raw)
    if data[:1] != b'"':
        rawjson.text(raw)
    return data if data != b'""' else b""
