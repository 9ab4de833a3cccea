"""Tools: functions and the choice among them in Anthropic's words, and the form of the answer.

A model that cannot be held to a JSON schema gets a tool instead, ``json_response``, whose input is the answer.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import Conversation, ToolChoice, ToolOffer
from gateway.domain.errors import unsupported_param
from gateway.domain.order import Order
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.anthropic.models import AnthropicModel
from gateway.upstream.translation import FORMS, ResponseFormat, conversation_of, schema_fields

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
    """A further system text."""


def equip(
    conversation: Conversation, form: ResponseFormat, row: AnthropicModel, *, thinking: bool, single: bool
) -> Equipment:
    """Returns tools, choice and form. ``single``: the client wants no parallel calls.

    Raises BadRequest if the model cannot be made to call a tool.
    """
    offers, asked = conversation.allowed_tools, conversation.choice
    if asked.forced and offers and not row.forced_tools:
        raise unsupported_param(asked.param, "this model cannot be made to call a tool; use 'auto'")
    tools = [_tool(offer, row) for offer in offers]
    choice = _choice(asked)
    if not tools:
        # the API wants tools defined that were called earlier and are not offered any more
        tools = [{"name": TOOLS.sent(name), "input_schema": _NO_ARGUMENTS} for name in conversation.called]
        choice = {"type": "none"} if tools else None
    schema, plain = form.schema, form.type in FORMS
    held = not rawjson.is_null(schema)
    if held and not row.structured:
        tools.append({"name": JSON_TOOL, "description": "Gives the answer.", "input_schema": schema})
        choice = {"type": "auto"} if thinking else _with_json_tool(choice)
    return Equipment(
        tools=tools,
        choice=_limit_choice(choice, single=single) if tools else None,
        format={"type": "json_schema", "schema": schema} if held and row.structured else None,
        line=JSON_LINE if plain and not held else "",
    )


def _with_json_tool(choice: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the choice that makes the model answer by the tool, unless it may call one of the client's first."""
    if choice is None or choice["type"] == "none":
        return {"type": "tool", "name": JSON_TOOL}
    return {"type": "any"} if choice["type"] == "auto" else choice


def answers_by_tool(order: Order) -> bool:
    """Returns whether a call of ``json_response`` in the answer is the answer itself."""
    form = rawjson.maybe(order.fields.get("response_format"))
    named = any(tool.name == JSON_TOOL for tool in conversation_of(order).tools)
    return isinstance(form, dict) and form.get("type") in FORMS and not named


def _tool(offer: ToolOffer, row: AnthropicModel) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": TOOLS.sent(offer.name), "input_schema": _schema(offer)}
    if offer.description:
        tool["description"] = offer.description
    if offer.strict and row.structured:
        tool["strict"] = True
    if not rawjson.is_null(offer.cache):
        tool["cache_control"] = offer.cache
    return tool


def _schema(offer: ToolOffer) -> dict[str, Any]:
    """Returns the schema of a function's arguments; the API insists on an object."""
    if rawjson.is_null(offer.parameters):
        return _NO_ARGUMENTS
    fields = {"type": "object"} | schema_fields(offer)
    return fields if not fields.keys() & _COMBINATIONS else _merge_combinations(rawjson.value(rawjson.encode(fields)))


_COMBINATIONS = frozenset({"anyOf", "oneOf", "allOf"})
"""What the API refuses at the top of a schema."""


def _merge_combinations(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema with the arguments of all its parts; of alternatives, only what each of them requires is
    required.
    """
    properties, required = _arguments(schema)
    for name in sorted(_COMBINATIONS & schema.keys()):
        given = schema.pop(name)
        found = [_arguments(_resolve(part, schema)) for part in (given if isinstance(given, list) else ())]
        for inner, _ in found:
            properties = {**inner, **properties}
        sets = [needed for _, needed in found]
        if sets:
            required |= set.union(*sets) if name == "allOf" else set.intersection(*sets)
    merged: dict[str, Any] = {**schema, "properties": properties, "required": sorted(required)}
    definitions: dict[str, Any] = {name: merged.pop(name) for name in ("$defs", "definitions") if name in merged}
    return {**merged, **definitions} if b'"$ref"' in rawjson.encode(merged) else merged


def _arguments(schema: Any) -> tuple[dict[str, Any], set[str]]:
    """Returns the arguments in a schema, and those that it requires."""
    properties, required = (rawjson.at(schema, name) for name in ("properties", "required"))
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return properties if isinstance(properties, dict) else {}, names


def _resolve(part: Any, schema: dict[str, Any]) -> Any:
    """Returns a part of a schema, looked up if it is a reference to one of the schema's definitions."""
    reference = rawjson.text_at(part, "$ref")
    return rawjson.at(schema, *reference[2:].split("/")) if reference.startswith("#/") else part


def _choice(choice: ToolChoice) -> dict[str, Any] | None:
    match choice.mode:
        case "auto" | "none":
            return {"type": choice.mode}
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": TOOLS.sent(choice.name)}
    return None


def _limit_choice(choice: dict[str, Any] | None, *, single: bool) -> dict[str, Any] | None:
    """Returns the choice, with at most one call at a time if the client wants no parallel ones."""
    if not single or (choice or {}).get("type") == "none":
        return choice
    return {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
