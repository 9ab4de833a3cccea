"""Translates the tools of the Responses API to functions, and calls of these functions back to the tools.

Functions stay functions. A custom tool becomes a function with one string, ``input``. The functions of a namespace get
its name in front. Tools that the client runs itself (a shell, patches, the search for tools) become functions with the
documented arguments. Tools that the vendor runs have no counterpart elsewhere: they are left out and named, unless the
request insists on one.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import ToolChoice, ToolOffer, object_schema
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.json_text import contains, plain_escapes
from gateway.domain.prompt_size import BOUND_TOOL, BOUND_TOOLS_TOKENS
from gateway.domain.rawjson import NULL
from gateway.domain.text import plain
from gateway.domain.typed_json import read_typed
from gateway.inbound.chat.conversation import MODES, read_mode

MAX_NAMESPACE = 256
"""The maximum length of a namespace's name, which is repeated for each of its functions."""


class ToolKind(StrEnum):
    """The kinds of tools whose calls reach the client, by the ``type`` of the tool."""

    FUNCTION = "function"
    CUSTOM = "custom"
    TOOL_SEARCH = "tool_search"
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"


_KINDS = frozenset(ToolKind)
_WRITTEN_KINDS = [f'"{kind}"'.encode() for kind in ToolKind if kind is not ToolKind.FUNCTION]
"""Types of tools whose schemas a translation writes, as in JSON."""


class ClientTool(msgspec.Struct, frozen=True):
    """The kind and name that the client gave a tool, which a translation sends as a function."""

    kind: ToolKind
    name: str
    namespace: str = ""


_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": _TEXT}
_COUNT: Mapping[str, Any] = {"type": "integer"}
_CUSTOM_PARAMETERS = {**object_schema(["input"], input=_TEXT), "additionalProperties": False}
_CLIENT_TOOLS: Mapping[ToolKind, tuple[str, Mapping[str, Any]]] = {
    ToolKind.LOCAL_SHELL: (
        "Runs a program on the user's computer and returns its output.",
        object_schema(
            ["command"],
            command={**_TEXTS, "description": "The program and its arguments."},
            working_directory=_TEXT,
            timeout_ms=_COUNT,
            env={"type": "object", "additionalProperties": _TEXT},
        ),
    ),
    ToolKind.SHELL: (
        "Runs shell commands and returns their output.",
        object_schema(
            ["commands"],
            commands={**_TEXTS, "description": "Shell commands, run in this order."},
            timeout_ms=_COUNT,
            max_output_length=_COUNT,
        ),
    ),
    ToolKind.APPLY_PATCH: (
        "Creates, updates or deletes one file.",
        object_schema(
            ["type", "path"],
            type={**_TEXT, "enum": ["create_file", "update_file", "delete_file"]},
            path={**_TEXT, "description": "The path of the file, relative to the workspace."},
            diff={**_TEXT, "description": "V4A diff of the file; omitted to delete it."},
        ),
    ),
    ToolKind.TOOL_SEARCH: (
        "Searches for further tools that can be called afterwards.",
        object_schema(["query"], query=_TEXT),
    ),
}
"""The description and the documented parameters of the tools that the client runs itself."""


class _ToolFields(msgspec.Struct, frozen=True):
    """The fields of a tool, or of a choice of one, that are read."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = NULL
    strict: bool | None = None
    format: msgspec.Raw = NULL
    tools: list[msgspec.Raw] | None = None
    namespace: str | None = None
    mode: str = "auto"
    execution: str | None = None
    environment: msgspec.Raw = NULL


TOOL_FIELDS = frozenset({*_ToolFields.__struct_fields__, "defer_loading"})
"""Fields of tools that are read, or change nothing."""


class ToolTable:
    """The tools of one request, wherever they are in it."""

    def __init__(self) -> None:
        self.offers: list[ToolOffer] = []
        self.omitted: list[str] = []
        """The types of tools without a counterpart."""
        self._tools: dict[str, ClientTool] = {}
        """Maps the name of each function to the tool that it stands for."""
        self._names: dict[ClientTool, str] = {}
        """The same, the other way round."""

    def add(self, tools: Iterable[msgspec.Raw], param: str = "tools") -> list[str]:
        """Offer the tools of a list in the request, each once. Returns their functions' names. Raises BadRequest."""
        names = list[str]()
        for number, raw in enumerate(tools):
            place = f"{param}[{number}]"
            tool = read_typed(_ToolFields, raw, place)
            add = self._add_namespace if tool.type == "namespace" else self._add_tool
            names += add(tool, place)
        return names

    def client_tool(self, name: str) -> ClientTool:
        """Returns the tool behind a function; a name that was not offered is a plain function's."""
        return self._tools.get(name) or ClientTool(ToolKind.FUNCTION, name)

    def function_name(self, tool: ClientTool) -> str:
        """Returns the name of a tool's function. The tool may have been offered in an earlier request only."""
        return self._names.get(tool) or _function_name(tool)

    def read_choice(self, raw: msgspec.Raw) -> ToolChoice:
        """Returns the choice that ``tool_choice`` makes among the tools. Raises BadRequest."""
        if rawjson.is_null(raw):
            return ToolChoice()
        if rawjson.is_text(raw):
            return self._read_mode(rawjson.text(raw))
        choice = read_typed(_ToolFields, raw, "tool_choice")
        if choice.type == "allowed_tools":
            return self._read_allowed(choice)
        if choice.type in MODES:
            return self._read_mode(choice.type)
        if choice.type == ToolKind.FUNCTION and not choice.name:
            param = "tool_choice.name"
            raise BadRequest(f"{param}: is required", code="missing_required_parameter", param=param)
        name = self._chosen_name(choice)
        if name is None:
            raise _vendor_tool_error(choice.type)
        return ToolChoice(mode="named", name=name)

    def _read_mode(self, word: str) -> ToolChoice:
        """Returns a choice that names no tool. It is empty if no tool is offered."""
        mode = read_mode(word, "tool_choice")
        if not self.offers and mode == "required" and self.omitted:
            raise _vendor_tool_error(self.omitted[0])
        return ToolChoice(mode=mode) if self.offers else ToolChoice()

    def _read_allowed(self, choice: _ToolFields) -> ToolChoice:
        """Returns a choice among the tools that have a counterpart. Raises BadRequest if none has."""
        mode = read_mode(choice.mode, "tool_choice.mode")
        allowed = [read_typed(_ToolFields, raw, f"tool_choice.tools[{i}]") for i, raw in enumerate(choice.tools or ())]
        names = tuple(name for name in map(self._chosen_name, allowed) if name is not None)
        if not names and mode != "none":
            raise _vendor_tool_error(allowed[0].type if allowed else "allowed_tools")
        return ToolChoice(mode=mode, allowed=names)

    def _chosen_name(self, choice: _ToolFields) -> str | None:
        """Returns the name of the chosen tool's function; None for a tool without a counterpart."""
        if choice.type not in _KINDS:
            return None
        kind = ToolKind(choice.type)
        tool = ClientTool(kind, choice.name or kind.value, choice.namespace or "")
        return self._names.get(tool) or (choice.name if kind is ToolKind.FUNCTION else None)

    def _add_namespace(self, namespace: _ToolFields, param: str) -> list[str]:
        """Add the functions of a namespace. The first one gets its description, which is then billed once."""
        if len(namespace.name) > MAX_NAMESPACE:
            msg = f"{param}.name has {len(namespace.name)} characters; the limit is {MAX_NAMESPACE}"
            raise BadRequest(msg, param=f"{param}.name")
        names, description = list[str](), namespace.description
        for number, raw in enumerate(namespace.tools or ()):
            place = f"{param}.tools[{number}]"
            tool = read_typed(_ToolFields, raw, place)
            if description:
                texts = filter(None, (description, tool.description))
                tool, description = msgspec.structs.replace(tool, description="\n\n".join(texts)), None
            names += self._add_tool(tool, place, namespace.name)
        return names

    def _add_tool(self, tool: _ToolFields, param: str, namespace: str = "") -> list[str]:
        """Offer a tool as a function, or omit it if it has no counterpart."""
        if tool.type not in _KINDS or _runs_at_vendor(tool):
            self.omitted.append(plain(tool.type, 40))
            return []
        kind = ToolKind(tool.type)
        if not tool.name and kind in (ToolKind.FUNCTION, ToolKind.CUSTOM):
            raise BadRequest(f"{param}.name: is required", code="missing_required_parameter", param=f"{param}.name")
        client_tool = ClientTool(kind, tool.name or kind.value, namespace)
        if client_tool in self._names:
            return [self._names[client_tool]]
        name = _function_name(client_tool)
        if name in self._tools:  # it is of another kind or namespace
            name = f"{name}/{kind}/{namespace}"
        self._tools[name] = client_tool
        self._names[client_tool] = name
        self.offers.append(_tool_offer(tool, kind, name, param))
        return [name]


def written_tools_bound(tools: msgspec.Raw, content: bytes) -> int:
    """Returns the tokens that a translation may add: schemas of tools that are not functions, and names of namespaces.

    Tools may be in the ``content`` too.
    """
    has_lists = content.find(b"[", 1) > 0  # items with nothing but texts have none
    content = plain_escapes(content) if has_lists else b""
    has_tools = contains(content, b'"tools"')
    definitions = plain_escapes(tools) + (content if has_tools else b"")
    tokens = BOUND_TOOLS_TOKENS + BOUND_TOOL * content.count(b'"name"') if has_tools else 0
    tokens += 150 * sum(map(definitions.count, _WRITTEN_KINDS))  # the longest schema has 450 bytes
    if has_tools or b'"namespace"' in definitions:  # an item's tools are also named in its text
        tokens += 22 * definitions.count(b'"name"')  # a name has at most 64 characters, three a token
    return tokens


def _function_name(tool: ClientTool) -> str:
    return f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name


def _tool_offer(tool: _ToolFields, kind: ToolKind, name: str, param: str) -> ToolOffer:
    description, parameters = tool.description or "", tool.parameters
    if kind is ToolKind.CUSTOM:
        parameters = rawjson.raw(_CUSTOM_PARAMETERS)
        if rawjson.text_at(tool.format, "type") == "grammar":  # only OpenAI enforces it
            syntax, definition = (rawjson.text_at(tool.format, name) for name in ("syntax", "definition"))
            rule = f"Input must match this {syntax} grammar:\n{definition}"
            description = "\n\n".join(filter(None, (description, rule)))
    elif kind is not ToolKind.FUNCTION:
        own_description, own_parameters = _CLIENT_TOOLS[kind]
        skills = rawjson.list_at(tool.environment, "skills")  # of a shell
        told = [f"Skills: {rawjson.encode(skills).decode()}"] if skills else []
        description = "\n\n".join([description or own_description, *told])
        parameters = rawjson.raw(own_parameters) if rawjson.is_null(parameters) else parameters
    strict = tool.strict if kind is ToolKind.FUNCTION else None
    place = f"{param}.parameters"
    return ToolOffer(name=name, description=description, parameters=parameters, strict=strict, param=place)


def _runs_at_vendor(tool: _ToolFields) -> bool:
    if tool.type == ToolKind.TOOL_SEARCH:
        return tool.execution != "client"
    return tool.type == ToolKind.SHELL and rawjson.text_at(tool.environment, "type") not in ("", "local")


def _vendor_tool_error(kind: str) -> BadRequest:
    reason = f"a tool of type '{plain(kind, 40)}' runs at its vendor and has no counterpart at this channel"
    return unsupported_param("tool_choice", reason)
