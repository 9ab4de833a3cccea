"""Tools of a chat request, the choice among them, and calls of tools."""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import ToolChoice, ToolOffer
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.json_text import read_typed
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.text import plain

TOOL_FIELDS = ("tools", "functions", "tool_choice", "function_call")
"""Fields that are read here; ``functions`` and ``function_call`` are the legacy spelling."""


class ChatFunction(msgspec.Struct, frozen=True):
    """A function that is offered, or was called."""

    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = NULL
    strict: bool | None = None
    arguments: msgspec.Raw = NULL
    """The arguments of a call: JSON in a string; some clients send the object itself."""


class ChatCustomCall(msgspec.Struct, frozen=True):
    """A call of a custom tool, whose input is a text."""

    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b'""')


class ChatTool(msgspec.Struct, frozen=True):
    """A tool on offer, or a call of one."""

    type: str | None = None
    id: str | None = None
    function: ChatFunction | None = None
    custom: ChatCustomCall | None = None
    cache_control: msgspec.Raw = NULL
    extra_content: msgspec.Raw = NULL
    """Google's place for the thought signature."""


class _AllowedTools(msgspec.Struct, frozen=True):
    mode: str = "auto"
    tools: list[ChatTool] = []


class _Choice(msgspec.Struct, frozen=True):
    type: str = "function"
    name: str = ""
    """The name in the legacy spelling."""
    function: ChatFunction | None = None
    allowed_tools: _AllowedTools | None = None


_TOOLS = msgspec.json.Decoder(list[ChatTool | None] | None)
_FUNCTIONS = msgspec.json.Decoder(list[ChatFunction] | None)
_CHOICE = msgspec.json.Decoder(_Choice | str | None)
_MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
"""``any`` is Mistral's word."""


def read_tools(fields: Fields) -> tuple[tuple[ToolOffer, ...], ToolChoice]:
    """Returns the offered functions, and the choice among them; the legacy spelling counts if the new one is not used.

    Raises BadRequest.
    """
    tools = read_typed(_TOOLS, fields.get("tools", NULL), "tools") or []
    raw_tools = rawjson.items(fields["tools"]) if tools else []
    offers = [_offer(tool, raw, f"tools[{i}]") for i, (tool, raw) in enumerate(zip(tools, raw_tools, strict=True))]
    for i, function in enumerate(read_typed(_FUNCTIONS, fields.get("functions", NULL), "functions") or ()):
        offers.append(_function(function, NULL, f"functions[{i}]"))
    legacy = rawjson.is_null(fields.get("tool_choice")) and not rawjson.is_null(fields.get("function_call"))
    param = "function_call" if legacy else "tool_choice"
    return tuple(offers), _choice(read_typed(_CHOICE, fields.get(param, NULL), param), param)


def call_arguments(raw: bytes) -> bytes:
    """Returns the arguments of a call as JSON; some clients send the object itself, not in a string."""
    if raw[:1] == b'"':
        return rawjson.text(raw).encode("utf-8", "surrogatepass")
    return b"" if raw == b"null" else raw


def _offer(tool: ChatTool | None, raw: msgspec.Raw, where: str) -> ToolOffer:
    if tool is not None and tool.function is not None and tool.type in (None, "function"):
        return _function(tool.function, tool.cache_control, where)
    name = _kind_of(rawjson.maybe(raw))
    why = f"'{plain(name, 40)}' is a tool that its vendor runs, and this channel has no counterpart of it"
    if name in ("function", "custom"):
        why = "only functions, with a name, can be translated"
    raise unsupported_param(where, f"{why}; send tools of type 'function', or use a channel that takes it as it is")


def _kind_of(tool: Any) -> str:
    """Returns the name of a tool that is not a function: its type, or as Google writes it, its only field."""
    found = tool if isinstance(tool, dict) else {}
    kind = found.get("type") or next(iter(found), "")
    return kind if isinstance(kind, str) else ""


def _function(function: ChatFunction, cache: msgspec.Raw, where: str) -> ToolOffer:
    return ToolOffer(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters,
        strict=function.strict,
        cache=cache,
        where=where,
    )


def _choice(choice: _Choice | str | None, param: str) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        return ToolChoice(mode=_mode(choice, param), param=param)
    if param == "function_call":
        return ToolChoice(mode="named", name=choice.name, param=param)
    if choice.type == "function" and choice.function is not None:
        return ToolChoice(mode="named", name=choice.function.name)
    if choice.type == "allowed_tools" and (allowed := choice.allowed_tools) is not None:
        names = tuple(tool.function.name for tool in allowed.tools if tool.function is not None)
        return ToolChoice(mode=_mode(allowed.mode, "tool_choice.allowed_tools.mode"), allowed=names)
    raise unsupported_param("tool_choice", f"a choice of type '{plain(choice.type, 40)}' has no counterpart there")


def _mode(word: str, param: str) -> str:
    if word not in _MODES:
        raise BadRequest(f"{param}: must be one of auto, none, required", param=param)
    return _MODES[word]
