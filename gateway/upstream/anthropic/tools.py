"""Tools: functions and the choice among them in Anthropic's words, and the form of the answer.

A model that cannot be held to a JSON schema is given a tool instead, ``json_response``, whose input is the answer.
"""

from typing import Any

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.anthropic.models import AnthropicModel
from gateway.upstream.translate.request import ChatFields, OfferedTools, Toolbox, unsupported_param
from gateway.upstream.translate.tool_names import called_names, defined_names

JSON_TOOL = "json_response"
JSON_LINE = "Reply with one JSON object and nothing else."

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class Equipment(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into the request."""

    tools: list[dict[str, Any]] = []
    choice: dict[str, Any] | None = None
    format: dict[str, Any] | None = None
    """``output_config.format``."""
    line: str = ""
    """One more system text."""


def equip(request: ChatFields, toolbox: Toolbox, row: AnthropicModel, *, thinking: bool) -> Equipment:
    """Tools, choice and form. Raises BadRequest if the model cannot be made to call a tool."""
    if toolbox.forced and toolbox.offers and not row.forced_tools:
        raise unsupported_param(toolbox.param, "this model cannot be made to call a tool; use 'auto'")
    tools = [_tool(offer, row) for offer in toolbox.offers]
    choice = _choice(toolbox)
    if not tools:
        tools = [_earlier_tool(name) for name in called_names(request)]
        choice = {"type": "none"} if tools else None
    kind, schema = _form(request)
    if kind == "json_schema" and not row.structured:
        tools.append({"name": JSON_TOOL, "description": "Gives the answer.", "input_schema": schema})
        choice = {"type": "auto"} if thinking else _with_json_tool(choice)
    return Equipment(
        tools=tools,
        choice=_single(choice, request) if tools else None,
        format={"type": kind, "schema": schema} if kind == "json_schema" and row.structured else None,
        line=JSON_LINE if kind == "json_object" else "",
    )


def _form(request: ChatFields) -> tuple[str, msgspec.Raw]:
    """The form the answer must have, and its schema; without a schema it is just some JSON object."""
    form = request.response_format
    if form is None or form.type != "json_schema":
        return (form.type if form is not None else "text"), rawjson.NULL
    schema = form.json_schema.schema if form.json_schema is not None else rawjson.NULL
    return ("json_object" if rawjson.is_null(schema) else form.type), schema


def _with_json_tool(choice: dict[str, Any] | None) -> dict[str, Any]:
    """The choice that makes the model answer by the tool, unless it may call one of the client's first."""
    if choice is None or choice["type"] == "none":
        return {"type": "tool", "name": JSON_TOOL}
    return {"type": "any"} if choice["type"] == "auto" else choice


def answers_by_tool(request: ChatFields) -> bool:
    """Whether a call of ``json_response`` in the answer is the answer itself."""
    form = request.response_format
    return form is not None and form.type == "json_schema" and JSON_TOOL not in defined_names(request)


def _tool(offer: OfferedTools, row: AnthropicModel) -> dict[str, Any]:
    function = offer.function
    tool: dict[str, Any] = {"name": TOOLS.sent(function.name), "input_schema": _schema(function.parameters)}
    if function.description:
        tool["description"] = function.description
    if function.strict and row.structured:
        tool["strict"] = True
    if not rawjson.is_null(offer.cache):
        tool["cache_control"] = offer.cache
    return tool


def _schema(parameters: msgspec.Raw) -> dict[str, Any]:
    """The schema of a function's arguments; the API insists on an object."""
    if rawjson.is_null(parameters):
        return _NO_ARGUMENTS
    return {"type": "object"} | _fields(parameters)


def _fields(parameters: msgspec.Raw) -> dict[str, Any]:
    try:
        return dict(rawjson.fields(parameters))
    except ValueError:
        raise unsupported_param("tools[].function.parameters", "must be a JSON schema") from None


def _earlier_tool(name: str) -> dict[str, Any]:
    """A tool that was called earlier and is not on offer any more: the API wants it defined all the same."""
    return {"name": TOOLS.sent(name), "input_schema": _NO_ARGUMENTS}


def _choice(toolbox: Toolbox) -> dict[str, Any] | None:
    match toolbox.mode:
        case "auto" | "none":
            return {"type": toolbox.mode}
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": TOOLS.sent(toolbox.name)}
    return None


def _single(choice: dict[str, Any] | None, request: ChatFields) -> dict[str, Any] | None:
    """The choice, with at most one call at a time if the client wants no parallel ones."""
    if request.parallel_tool_calls is not False or (choice or {}).get("type") == "none":
        return choice
    return {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
