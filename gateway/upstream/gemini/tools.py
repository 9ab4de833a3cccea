"""Tools: functions and the choice among them in Gemini's words."""

from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.chat.request import Function
from gateway.upstream.chat.tools import Toolbox
from gateway.upstream.gemini.contents import TOOLS

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY"}


def tools_of(toolbox: Toolbox) -> dict[str, Any]:
    """The fields ``tools`` and ``toolConfig`` of the request, if there are any tools."""
    if not toolbox.offers:
        return {}
    out: dict[str, Any] = {"tools": [{"functionDeclarations": [_declared(o.function) for o in toolbox.offers]}]}
    if toolbox.mode:
        calling: dict[str, Any] = {"mode": _MODES[toolbox.mode]}
        if toolbox.mode == "named":
            calling["allowedFunctionNames"] = [TOOLS.sent(toolbox.name)]
        out["toolConfig"] = {"functionCallingConfig": calling}
    return out


def _declared(function: Function) -> dict[str, Any]:
    """A function. An object without properties is refused as a schema, so none is given then."""
    out: dict[str, Any] = {"name": TOOLS.sent(function.name), "description": function.description or ""}
    if not out["description"]:
        del out["description"]
    if _has_properties(function.parameters):
        out["parametersJsonSchema"] = function.parameters
    return out


def _has_properties(parameters: msgspec.Raw) -> bool:
    if rawjson.is_null(parameters):
        return False
    try:
        schema = rawjson.fields(parameters)
    except ValueError as error:
        where = "tools[].function.parameters"
        raise BadRequest(f"{where}: must be a JSON schema", param=where) from error
    return bytes(schema.get("properties", b"{}")) != b"{}" or "$ref" in schema
