"""Requests at ``/v1/chat/completions`` in the form of the Responses API, or with its form of tools.

Cursor sends both there, and reads the answer as a chat completion: so the request is translated, and answered like any
other on this path. Custom tools become functions with one string, ``input``.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.order import Order
from gateway.domain.output_limit import STANDARD_FIELDS
from gateway.domain.rawjson import Fields
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import ChatCompletions
from gateway.inbound.json_body import fields_of, unmask
from gateway.inbound.responses.request import read_fields, translate_responses
from gateway.upstream.openai.request import write_chat

_OTHERS = STANDARD_FIELDS - {"messages", "tools", "tool_choice", "functions", "function_call", "store"}
"""Fields of chat completions that such requests may have as well."""
_FLAT_KINDS = ("function", "custom")


class ChatEndpoint(ChatCompletions):
    """Chat completions as they are served over HTTP."""

    def parse(self, request: HttpRequest) -> InboundRequest:
        try:
            parsed = super().parse(request)
        except BadRequest as error:
            if error.param != "messages":
                raise
            fields, mask = fields_of(request.body)
            if rawjson.is_null(fields.get("input")):
                raise
            body, removed = _as_chat(fields, mask)
            parsed = super().parse(msgspec.structs.replace(request, body=body))
            return msgspec.structs.replace(parsed, removed=removed)
        tools = parsed.fields.get("tools")
        return parsed if tools is None or not _may_be_flat(tools) else _with_nested_tools(parsed)


CHAT_ENDPOINT = ChatEndpoint()


def _as_chat(fields: Fields, mask: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Returns the request as a chat completion, and the names of fields without a counterpart.

    Raises BadRequest for what cannot be left out.
    """
    given = {name: raw for name, raw in fields.items() if name != "messages"}
    if not rawjson.is_null(given.get("tools")):
        given["tools"] = rawjson.raw([_as_responses_tool(tool) for tool in rawjson.items(given["tools"])])
    typed = read_fields(given)
    order, _ = translate_responses(Order(fields=given, model=""), typed)
    written = write_chat(order)
    others = {name: raw for name, raw in given.items() if name in _OTHERS and name not in written.fields}
    if not typed.stream:
        others.pop("stream_options", None)
    encoded = rawjson.encode({**others, **written.fields})
    return unmask(encoded, mask) if mask else encoded, tuple(name for name in written.removed if name not in others)


def _may_be_flat(tools: msgspec.Raw) -> bool:
    """Returns whether a tool may not be as in chat completions: each of these has the word twice."""
    text = bytes(tools)
    return text.count(b'"function"') != 2 * text.count(b'"function":')


def _with_nested_tools(request: InboundRequest) -> InboundRequest:
    """Returns the request with every tool as chat completions have it; unchanged if all of them are."""
    tools = rawjson.items(request.fields["tools"])
    nested = [_as_chat_tool(tool) for tool in tools]
    if all(nested_tool is tool for nested_tool, tool in zip(nested, tools, strict=True)):
        return request
    fields: Fields = {**request.fields, "tools": rawjson.raw(nested)}
    choice = rawjson.maybe(fields.get("tool_choice"))
    if isinstance(choice, dict) and choice.get("type") in _FLAT_KINDS and "name" in choice:
        fields["tool_choice"] = rawjson.raw({"type": choice["type"], choice["type"]: {"name": choice["name"]}})
    return msgspec.structs.replace(request, fields=fields, body=b"")


def _as_responses_tool(tool: msgspec.Raw) -> Any:
    """Returns a tool as the Responses API has it."""
    try:
        fields = rawjson.fields(tool)
        return tool if "function" not in fields else {"type": "function", **rawjson.fields(fields["function"])}
    except ValueError:
        return tool


def _as_chat_tool(tool: msgspec.Raw) -> Any:
    """Returns a tool as chat completions have it."""
    try:
        fields = rawjson.fields(tool)
    except ValueError:
        return tool
    kind = rawjson.maybe(fields.get("type"))
    if kind not in _FLAT_KINDS or kind in fields or "name" not in fields:
        return tool
    inner = {name: raw for name, raw in fields.items() if name != "type"}
    if "input_schema" in inner:  # as Anthropic names it
        inner["parameters"] = inner.pop("input_schema")
    return {"type": kind, kind: inner}
