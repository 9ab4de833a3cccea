"""Reads the tools of a Messages request, and the choice among them.

Tools that the vendor runs on its own servers have no counterpart elsewhere: they are left out, or refused if the answer
would be worth nothing without them. The schemas of the vendor's tools that clients run are not in the request, because
its models know them; for other models they are written out.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import ToolChoice, ToolOffer, object_schema
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.prompt_size import DATED_TYPE
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.text import plain
from gateway.domain.typed_json import read_optional
from gateway.inbound.json_body import unread_members

_UNREADABLE = frozenset(
    {
        *("type", "id", "status", "execution", "call_id", "approval_request_id", "container_id", "file_id"),
        *("file_type", "media_type", "page_age", "retrieved_at", "image_url", "tools"),
        *("encrypted_content", "encrypted_index", "encrypted_stdout"),
    }
)
"""Fields of calls and results of the vendor's tools that say nothing to a model, or only to the vendor's."""
TOOL_CHANGE_TYPES = frozenset({"tool_addition", "tool_removal"})
"""The types of blocks that change which tools are offered."""
USUAL_BLOCKS = frozenset(
    {"text", "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking"}
)
"""The types of blocks that most servers of this API take."""
_KNOWN_BLOCKS = USUAL_BLOCKS | TOOL_CHANGE_TYPES | {"compaction", "tool_reference"}
_VENDOR_TOOL_ENDS = ("_tool_use", "_tool_result")
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

_TEXT = {"type": "string"}


def _editor_schema(required: list[str], *other_commands: str, **other_arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a tool that edits files, with commands and arguments of its own."""
    commands = ["view", "create", "str_replace", "insert", *other_commands]
    texts = dict.fromkeys(("path", "file_text", "old_str", "new_str"), _TEXT)
    inserted = {"insert_line": {"type": "integer"}, "insert_text": _TEXT}
    view_range = {"type": "array", "items": {"type": "integer"}}
    arguments = {**texts, **inserted, **other_arguments, "view_range": view_range}
    return object_schema(required, command={**_TEXT, "enum": commands}, **arguments)


_CLIENT_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash": (
        "Run a command in a persistent bash session.",
        object_schema([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor": ("View, create and edit files.", _editor_schema(["command", "path"])),
    "memory": (
        "View and edit files in the memory directory /memories.",
        _editor_schema(["command"], "delete", "rename", old_path=_TEXT, new_path=_TEXT),
    ),
}
"""The description and the schema of the vendor's tools that clients run, by the start of the type."""


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: str | None = None
    cache_control: msgspec.Raw = NULL
    input_schema: msgspec.Raw = NULL
    strict: bool | None = None


_READ_FIELDS = frozenset({*_Tool.__struct_fields__, "defer_loading", "eager_input_streaming"})
"""Fields of tools that are read, or say only when a tool or its arguments are sent."""

_MODES = {"auto": "auto", "none": "none", "any": "required", "tool": "named"}


def read_tools(fields: Fields) -> tuple[tuple[ToolOffer, ...], ToolChoice, list[str]]:
    """Returns the tools, the choice among them, and the paths of what is left out: tools that the vendor runs, and
    fields of others. Raises BadRequest for a tool that cannot be left out.
    """
    tools = read_optional(list[_Tool], fields.get("tools", NULL), "tools") or []
    choice = rawjson.maybe(fields.get("tool_choice"))
    kind, name = rawjson.text_at(choice, "type"), rawjson.text_at(choice, "name")
    all_offers = [_offer(tool, f"tools.{position}") for position, tool in enumerate(tools)]
    offers = tuple(offer for offer in all_offers if offer is not None)
    server_tools = [tool for tool, offer in zip(tools, all_offers, strict=True) if offer is None]
    is_chosen = choice is not None and any(tool.name == name for tool in server_tools)
    if server_tools and (is_chosen or not offers):
        tool_names = ", ".join(tool.name or tool.type or "" for tool in server_tools)
        reason = "the vendor's own servers run it; only a channel of dialect anthropic has it"
        raise unsupported_param("tools", f"{tool_names}: {reason}")
    raw_tools = rawjson.objects(fields["tools"]) if tools else []
    offered = [raw for raw, offer in zip(raw_tools, all_offers, strict=True) if offer is not None]
    dropped = [f"tools.{tool.name or tool.type}" for tool in server_tools]
    dropped += unread_members(offered, "tools[].", _READ_FIELDS)
    if not offers or choice is None:
        return offers, ToolChoice(), dropped
    if kind not in _MODES:
        raise BadRequest("tool_choice.type must be auto, any, tool or none", param="tool_choice.type")
    return offers, ToolChoice(mode=_MODES[kind], name=name if kind == "tool" else ""), dropped


def changed_tools(tools: msgspec.Raw, changes: list[tuple[str, msgspec.Raw]]) -> msgspec.Raw:
    """Returns the tools after these changes, each of a type in ``TOOL_CHANGE_TYPES`` and a tool. Raises BadRequest."""
    if not changes:
        return tools
    listed = read_optional(list[msgspec.Raw], tools, "tools") or ()
    definitions = {rawjson.text_at(tool, "name"): tool for tool in listed}
    offered = dict(definitions)
    for change_type, tool in changes:
        definition = rawjson.maybe_fields(tool).get("definition", NULL)  # without it, ``tool`` names one
        name = rawjson.text_at(tool if rawjson.is_null(definition) else definition, "name")
        if change_type == "tool_removal":
            offered.pop(name, None)
        elif not rawjson.is_null(definition):
            definitions[name] = offered[name] = definition
        elif name in definitions:
            offered[name] = definitions[name]
    return rawjson.raw([*offered.values()])


def _offer(tool: _Tool, param: str) -> ToolOffer | None:
    """Returns the offer; None if the vendor runs the tool. Raises BadRequest for screen control, or without a name."""
    kind = tool.type or "custom"
    if kind.startswith(("computer", "browser")):
        raise unsupported_param(param, f"a tool of type '{plain(kind, 40)}' has no counterpart there")
    offer = ToolOffer(name=tool.name, cache=tool.cache_control, param=f"{param}.input_schema")
    for name, (description, schema) in _CLIENT_TOOLS.items():
        if kind.startswith(name + DATED_TYPE.decode()):  # only those are held for
            return msgspec.structs.replace(offer, description=description, parameters=rawjson.raw(schema))
    if kind not in ("custom", "function"):
        return None
    if not tool.name:
        raise BadRequest(f"{param}.name: Field required", code="missing_required_parameter", param=f"{param}.name")
    parameters = rawjson.raw(_NO_ARGUMENTS) if rawjson.is_null(tool.input_schema) else tool.input_schema
    return msgspec.structs.replace(offer, description=tool.description or "", parameters=parameters, strict=tool.strict)


def is_known_block(kind: str) -> bool:
    """Returns whether blocks of this type are translated, which those about the vendor's own tools are, too."""
    return kind in _KNOWN_BLOCKS or kind.endswith(_VENDOR_TOOL_ENDS)


def is_refused_block(kind: str, refused: str) -> bool:
    """Returns whether blocks of this type fail as the ``refused`` one does, which is empty if it was not named."""
    return kind == refused or (kind not in USUAL_BLOCKS and (not refused or refused.endswith(_VENDOR_TOOL_ENDS)))


def readable_texts(value: Any) -> Iterator[str]:
    """Yields the texts in the call or the result of a vendor's tool, whatever its form."""
    members: Iterable[Any] = ()
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list):
        members = value
    elif isinstance(value, dict) and value.get("type") != "base64":
        members = [member for name, member in value.items() if name not in _UNREADABLE]
    for member in members:
        yield from readable_texts(member)
