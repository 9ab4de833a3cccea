"""Tools of a Messages request as functions of a chat completion request, and the choice among them.

Tools that the vendor runs on its own servers have no counterpart: they are left out, or refused where the answer would
be worth nothing without them. Those of its own that the client runs have a form that the vendor's models know by heart:
other models get it written out. Names that are too long for OpenAI are spelled shorter, and mapped back in answers.
"""

import re
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.rawjson import NULL, Fields
from gateway.upstream.translate.request import unsupported_param
from gateway.upstream.translate.tool_names import Spelling

OPENAI_TOOLS = Spelling(fit=re.compile(r"[A-Za-z0-9_-]{1,64}"), odd=re.compile(r"[^A-Za-z0-9_-]"), limit=64)

_SERVER = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset", "advisor")
_SCREEN = ("computer", "browser")
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_TEXT = {"type": "string"}
_RANGE = {"type": "array", "items": {"type": "integer"}}
_EDITS = ["view", "create", "str_replace", "insert"]
_KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "bash": (
        "Run a command in a persistent bash session.",
        _object([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor": (
        "View, create and edit files.",
        _object(
            ["command", "path"],
            command={"type": "string", "enum": _EDITS},
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line={"type": "integer"},
            insert_text=_TEXT,
            view_range=_RANGE,
        ),
    ),
    "memory": (
        "View and edit files in the memory directory /memories.",
        _object(
            ["command"],
            command={"type": "string", "enum": [*_EDITS, "delete", "rename"]},
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line={"type": "integer"},
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
            view_range=_RANGE,
        ),
    ),
}
"""Description and schema by the beginning of the type."""


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: msgspec.Raw = NULL
    input_schema: msgspec.Raw = NULL
    strict: bool | None = None


class _Choice(msgspec.Struct, gc=False):
    type: str = "auto"
    name: str = ""
    disable_parallel_tool_use: bool | None = None


_TOOLS = msgspec.json.Decoder(list[_Tool])
_CHOICE = msgspec.json.Decoder(_Choice)


class TranslatedTools(msgspec.Struct, frozen=True):
    """What goes into the request."""

    fields: Fields
    """``tools``, ``tool_choice`` and ``parallel_tool_calls``, as far as there are any."""
    names: dict[str, str]
    """The client's names by those that are sent, where they differ."""
    dropped: tuple[str, ...]
    rename: bool

    def sent(self, name: str) -> str:
        """A name as it is sent."""
        return OPENAI_TOOLS.sent(name) if self.rename else name


def translate_tools(fields: Fields, *, rename: bool) -> TranslatedTools:
    """The tools. ``rename``: names must be fit for OpenAI. Raises BadRequest for what cannot be left out."""
    tools = _decode(_TOOLS, fields.get("tools", NULL), "tools") or []
    choice = _decode(_CHOICE, fields.get("tool_choice", NULL), "tool_choice")
    functions: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    dropped: list[str] = []
    for position, tool in enumerate(tools):
        function = _function(tool, position)
        if function is None:
            dropped.append(f"tools.{tool.name or tool.type}")
            continue
        sent = OPENAI_TOOLS.sent(tool.name) if rename else tool.name
        if sent != tool.name:
            names[sent] = tool.name
        functions.append({"type": "function", "function": {"name": sent, **function}})
    lost = {tool.name for tool in tools} - {names.get(f["function"]["name"], f["function"]["name"]) for f in functions}
    if dropped and (not functions or (choice is not None and choice.name in lost)):
        gone = ", ".join(name.removeprefix("tools.") for name in dropped)
        raise unsupported_param(
            "tools", f"{gone}: the vendor's own servers run it; only a channel of dialect anthropic has it"
        )
    out: Fields = {"tools": rawjson.raw(functions)} if functions else {}
    if choice is not None and functions:
        out["tool_choice"] = rawjson.raw(_choice(choice, rename=rename))
        if choice.disable_parallel_tool_use:
            out["parallel_tool_calls"] = msgspec.Raw(b"false")
    return TranslatedTools(out, names, tuple(dropped), rename)


def _function(tool: _Tool, position: int) -> dict[str, Any] | None:
    """The function that a tool is, without its name; None if the vendor runs it."""
    kind = tool.type or "custom"
    if kind.startswith(_SCREEN):
        raise unsupported_param(f"tools.{position}", f"a tool of type '{kind}' has no counterpart there")
    if kind.startswith(_SERVER):
        return None
    for name, (description, schema) in _KNOWN.items():
        if kind.startswith(name + "_"):
            return {"description": description, "parameters": schema}
    out: dict[str, Any] = {}
    if not rawjson.is_null(tool.description):
        out["description"] = tool.description
    out["parameters"] = _NO_ARGUMENTS if rawjson.is_null(tool.input_schema) else tool.input_schema
    if tool.strict is not None:
        out["strict"] = tool.strict
    return out


def _choice(choice: _Choice, *, rename: bool) -> object:
    match choice.type:
        case "any":
            return "required"
        case "tool":
            return {"type": "function", "function": {"name": OPENAI_TOOLS.sent(choice.name) if rename else choice.name}}
        case "auto" | "none":
            return choice.type
    raise BadRequest("tool_choice.type must be auto, any, tool or none", param="tool_choice.type")


def _decode(decoder: Any, raw: msgspec.Raw, where: str) -> Any:
    if rawjson.is_null(raw):
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        what, _, path = str(error).partition(" - at `$")
        place = where + path.rstrip("`")
        raise BadRequest(f"{place}: {what}", code="invalid_type", param=place) from error
