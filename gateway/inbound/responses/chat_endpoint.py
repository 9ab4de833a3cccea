"""Chat endpoint: chat completions over HTTP, even for requests in another API's form.

Cursor sends requests of the Responses API to ``/v1/chat/completions``, or chats with flat tools, and for Claude with
Anthropic's blocks in the messages. It reads the answer as a chat completion, so the request is translated to one.
Custom tools become functions with one string, ``input``.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import contains
from gateway.domain.order import Order
from gateway.domain.output_limit import STANDARD_FIELDS
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.domain.rawjson import Fields, JsonObject
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import ChatCompletions
from gateway.inbound.chat.conversation import translate_chat
from gateway.inbound.json_body import read_body
from gateway.inbound.responses.request import read_fields, translate_responses
from gateway.upstream.openai.request import write_chat
from gateway.upstream.vendors import OPENROUTER

_CHAT_FIELDS = STANDARD_FIELDS - {"messages", "tools", "tool_choice", "functions", "function_call", "store"}
"""Fields of chat completions that a request of the Responses API may have as well."""
_FLAT_TYPES = ("function", "custom", None)
"""The types of tools that may be flat, with the name next to the type. Anthropic's tools have no type."""
_REWRITTEN = ("tools", "messages")


class ChatEndpoint(ChatCompletions):
    """Chat completions as they are served over HTTP."""

    def parse(self, request: HttpRequest) -> InboundRequest:
        try:
            parsed = super().parse(request)
        except BadRequest as error:
            fields = read_body(request.body).fields if error.param == "messages" else {}
            if rawjson.is_null(fields.get("input")):
                raise
            body, removed = _responses_to_chat(fields)
            parsed = super().parse(msgspec.structs.replace(request, body=body))
            return msgspec.structs.replace(parsed, removed=removed)
        tools: list[JsonObject] = rawjson.maybe_objects(parsed.fields.get("tools")) or []
        nested = list(map(_as_chat_tool, tools))
        return parsed if nested == tools else _with_tools(parsed, nested)


CHAT_ENDPOINT = ChatEndpoint()


def _responses_to_chat(request: Fields) -> tuple[bytes, tuple[str, ...]]:
    """Returns the chat completion's body, and the names of fields without a counterpart. Raises BadRequest."""
    fields = {name: raw for name, raw in request.items() if name != "messages"}
    if not rawjson.is_null(fields.get("tools")):
        tools: list[Any] = rawjson.items(fields["tools"])
        functions = [rawjson.maybe_fields(rawjson.maybe_fields(tool).get("function")) for tool in tools]
        pairs = zip(tools, functions, strict=True)
        fields["tools"] = rawjson.raw([{"type": "function", **inner} if inner else tool for tool, inner in pairs])
    read_fields(fields)  # raises BadRequest
    order, _ = translate_responses(Order(fields=fields, model=""))
    chat = write_chat(order)
    chat_only = {name: raw for name, raw in fields.items() if name in _CHAT_FIELDS and name not in chat.fields}
    if "stream" not in chat.fields:
        chat_only.pop("stream_options", None)
    removed = tuple(name for name in chat.removed if name not in chat_only)
    return rawjson.encode({**chat_only, **chat.fields}), removed


def _with_tools(request: InboundRequest, tools: list[JsonObject]) -> InboundRequest:
    """Returns the request with these tools, and with the choice and the calls in the form of chat completions, too."""
    fields: Fields = {**request.fields, "tools": rawjson.raw(tools)}
    choice = rawjson.maybe(fields.get("tool_choice"))
    if isinstance(choice, dict) and (word := _as_chat_choice(choice)) is not None:
        fields["tool_choice"] = rawjson.raw(word)
    if any(contains(fields["messages"], kind) for kind in (b'"tool_use"', b'"tool_result"')):
        chat = write_chat(translate_chat(Order(fields=fields, model="")), OPENROUTER)  # which has cache marks
        fields["messages"] = chat.fields["messages"]
        request = msgspec.structs.replace(request, removed=chat.removed)
    added_bytes = sum(len(memoryview(fields[name])) - len(memoryview(request.fields[name])) for name in _REWRITTEN)
    bound = request.bound.plus(max(0, -(-added_bytes // BOUND_BYTES_PER_TOKEN)))
    return msgspec.structs.replace(request, fields=fields, body=b"", bound=bound)


def _as_chat_choice(choice: dict[str, Any]) -> Any:
    """Returns a flat or Anthropic's choice of tools in the form of chat completions; None if it has another form."""
    kind = choice.get("type")
    if kind in ("auto", "none", "any"):
        return "required" if kind == "any" else kind
    kind = "function" if kind == "tool" else kind
    is_flat = kind in ("function", "custom") and "name" in choice
    return {"type": kind, kind: {"name": choice["name"]}} if is_flat else None


def _as_chat_tool(tool: JsonObject) -> JsonObject:
    """Returns a flat or Anthropic's tool in the form of chat completions; any other unchanged."""
    kind = rawjson.maybe(tool.get("type"))
    if "name" not in tool or kind not in _FLAT_TYPES or (kind or "function") in tool:
        return tool
    cache_mark = {name: raw for name, raw in tool.items() if name == "cache_control"}
    definition = {name: raw for name, raw in tool.items() if name not in ("type", "cache_control")}
    if "input_schema" in definition:  # Anthropic's name
        definition["parameters"], kind = definition.pop("input_schema"), "function"
    kind = kind or "function"
    return {"type": kind, kind: definition, **cache_mark}
