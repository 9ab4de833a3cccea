"""Checks a request of the Responses API, and reads it into a ``Conversation``.

The gateway reads what matters for routing and money. All other fields pass unchanged to a channel that speaks this API.
For other channels they become fields of a chat completion, or are left out and named.
"""

import re
from collections.abc import Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.conversation import Conversation
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import contains
from gateway.domain.order import Order
from gateway.domain.output_limit import MAX_TOKEN_COUNT, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import MESSAGE_TOKENS, bound_of
from gateway.domain.rawjson import NULL, Fields, JsonObject
from gateway.domain.sse import BOM
from gateway.domain.typed_json import read_typed
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import check_model, check_range, missing_input
from gateway.inbound.json_body import check_text, read_body, unread_members, unread_names
from gateway.inbound.relay import forwarded_headers, lower_cap
from gateway.inbound.responses.items import InputReader
from gateway.inbound.responses.relay import CONTENT_FIELDS, native_order
from gateway.inbound.responses.summary import PROMPT_BOUND, TRIGGER
from gateway.inbound.responses.tools import TOOL_FIELDS, ToolKind, ToolTable, written_tools_bound
from gateway.upstream.dialects import chat_limit
from gateway.upstream.openai.dialect import MIN_LIMIT
from gateway.upstream.vendors import speaks_responses

_SHARED_NAMES = (
    *("temperature", "top_p", "top_logprobs", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    *("user", "metadata", "service_tier", "presence_penalty", "frequency_penalty"),
)
"""Fields that chat completions have under the same name. Most values are passed on unread."""
_PARAM_NAMES = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "cache_control": "input[].prompt_cache_breakpoint",
    "logprobs": "include",
    "store": "store",
}
"""The client's names of parameters, by their names in chat completions."""
_TRANSLATED = frozenset(
    {
        *("model", "input", "instructions", "stream", "max_output_tokens", "tools", "tool_choice", "reasoning"),
        *("parallel_tool_calls", "include", "text", *_SHARED_NAMES),
    }
)
_READ_MEMBERS = {"reasoning": {"effort", "summary", "generate_summary"}, "text": {"format", "verbosity"}}
"""What is read of fields that are objects."""
_NOT_MISSED = frozenset({"store", "stream_options", "background"})
"""Fields that may be left out without a mark: answers say that they are not stored, and nothing is obfuscated here."""
_COUNTED = frozenset({"model", "input", "instructions", "tools", "text", "stream", "max_output_tokens"})
"""The input and the schemas, which are counted separately, and fields that the model does not read."""
_INPUT = ("instructions", "input")
_SCHEMAS = ("tools", "text")
_KEPT_ELSEWHERE = {
    "previous_response_id": ("previous_response_not_found", "this response is not kept here; send the whole input"),
    "conversation": ("unsupported_parameter", "conversations are not kept here; send the whole input"),
    "prompt": ("unsupported_parameter", "prompts are kept at their vendor; send the text itself"),
}
"""Fields that name input stored elsewhere, with the code and message of the error."""
_BETA = "openai-beta"
_FORWARDED = re.compile(_BETA)


class _ResponsesFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that the gateway itself reads, as far as their types are checked, without the input."""

    model: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    tools: list[msgspec.Raw] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: JsonObject | None = None
    include: list[str] | None = None
    text: Fields | None = None
    background: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None


def parse_responses_request(request: HttpRequest) -> InboundRequest:
    """Returns a checked request. Raises BadRequest, whose ``param`` names the field at fault."""
    body = request.body.removeprefix(BOM)
    sent = read_body(body)
    fields, typed = sent.fields, read_fields(sent.fields)
    compacts = contains(fields.get("input", NULL), TRIGGER)
    others = {name: fields[name] for name in fields.keys() - _COUNTED}
    texts = {name: fields[name] for name in _INPUT if name in fields}
    schemas = [fields[name] for name in _SCHEMAS if name in fields]
    bound = bound_of(texts, schemas, others, elements=sent.elements)
    content = b"".join(texts.values())
    added = PROMPT_BOUND * compacts + written_tools_bound(fields.get("tools", NULL), content)
    added += bound.call_tokens(25) + MESSAGE_TOKENS * len(texts)
    return InboundRequest(
        body=body,
        fields=fields,
        model=check_model(typed.model),
        stream=bool(typed.stream),
        output_cap=typed.max_output_tokens,
        content=CONTENT_FIELDS,
        min_cap=MIN_LIMIT,
        bound=bound.plus(added),
        remote_input=bool(_stored_input(fields)),
        continued_id=typed.previous_response_id or "",
        conversation_field="input",
        output_rule=responses_limit,
        session=_session(typed.prompt_cache_key, fields, request.headers),
        form=AnswerForm(compacts=compacts, repeats=request.repeats),
        forward=forwarded_headers(request.headers, _FORWARDED) if _BETA in request.headers else {},
    )


def read_fields(fields: Fields) -> _ResponsesFields:
    """Returns the fields with their types. The input, which may be long, is not searched again.

    Raises BadRequest, also for a request without model or input, and for values that no channel can serve.
    """
    short = {name: raw for name, raw in fields.items() if name not in _INPUT}
    typed = read_typed(_ResponsesFields, rawjson.encode(short), "")
    check_model(typed.model)
    content, instructions = (fields.get(name, NULL) for name in ("input", "instructions"))
    if rawjson.is_null(content):
        if not _stored_input(fields):
            raise missing_input(fields, "input")
    elif not (rawjson.is_text(content) or rawjson.is_list(content)):
        raise BadRequest("input must be a string or an array of items", code="invalid_type", param="input")
    if not (rawjson.is_null(instructions) or rawjson.is_list(instructions)):
        check_text(instructions, "instructions")
    check_range("max_output_tokens", typed.max_output_tokens, MAX_TOKEN_COUNT)
    if not isinstance(rawjson.at(typed.reasoning, "effort"), str | None):
        raise BadRequest("reasoning.effort: must be a string", code="invalid_type", param="reasoning.effort")
    if typed.background:
        msg = "background: answers are not kept here to be fetched later; send the request without it"
        raise BadRequest(msg, code="unsupported_parameter", param="background")
    return typed


def _stored_input(fields: Fields) -> str:
    """Returns the field that names input outside of the request, or an empty string."""
    return next((name for name in _KEPT_ELSEWHERE if not rawjson.is_null(fields.get(name))), "")


def responses_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the maximum output of a request, natively or as a chat: some channels turn out to lack the API."""
    shared = {name: fields[name] for name in _SHARED_NAMES if name in fields}
    chat = chat_limit(shared | _limit_fields(fields), channel, served)
    if not speaks_responses(channel):
        return chat
    sent = native_order(Order(fields=fields, model=""), channel.overrides).fields
    sent = {**sent, **lower_cap(sent, "max_output_tokens", served)}
    native = read_limit(sent, content=CONTENT_FIELDS, caps=("max_output_tokens",), thinks_within=True)
    return larger(chat, native)


def _limit_fields(fields: Fields) -> Fields:
    """Returns the fields that affect the length of the output, in the words of chat completions."""
    limits: Fields = {}
    if not rawjson.is_null(fields.get("max_output_tokens")):
        limits["max_completion_tokens"] = fields["max_output_tokens"]
    if effort := rawjson.text_at(fields.get("reasoning"), "effort"):
        limits["reasoning_effort"] = rawjson.raw(effort)
    return limits


def _session(cache_key: str | None, fields: Fields, headers: Mapping[str, str]) -> str:
    """Returns the client's own name of the conversation; empty if it sent none."""
    conversation = fields.get("conversation")
    name = cache_key or headers.get("session-id") or headers.get("session_id")
    return name or rawjson.text_at(conversation) or rawjson.text_at(conversation, "id")


def translate_responses(order: Order) -> tuple[Order, ToolTable]:
    """Returns the order with its conversation, and the tools in it. Raises BadRequest for what cannot be left out."""
    request = dict(order.fields)
    if stored := _stored_input(request):
        code, reason = _KEPT_ELSEWHERE[stored]
        raise BadRequest(f"{stored}: {reason}", code=code, param=stored)
    tools = ToolTable()
    tools.add(rawjson.maybe_items(request.get("tools")))
    reader = InputReader(tools)
    if not rawjson.is_null(request.get("instructions")):
        reader.read(request["instructions"], "instructions", "system")
    reader.read(request["input"])
    conversation = Conversation(
        turns=reader.transcript.turns,
        tools=tuple(tools.offers),
        choice=tools.read_choice(request.get("tool_choice", NULL)),
        param_names=_PARAM_NAMES,
        extras=(*_names_left_out(request, tools), *reader.lost),
    )
    for name, update in reader.updates.items():
        request[name] = rawjson.raw(rawjson.maybe_fields(request.get(name)) | rawjson.maybe_fields(update))
    fields = _parameters(request)
    marks = (*order.marks, *reader.transcript.marks)
    order = msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation, marks=marks, forward={})
    return order, tools


def _names_left_out(request: Fields, tools: ToolTable) -> list[str]:
    """Returns the names of the fields, the kinds of tools, and the fields in objects that are left out."""
    known = _TRANSLATED | _NOT_MISSED
    known |= {"truncation"} if rawjson.maybe(request.get("truncation")) == "disabled" else set()  # the default
    names = [name for name, raw in request.items() if not (name in known or rawjson.is_nothing(raw))]
    names += [f"tools[].{kind}" for kind in dict.fromkeys(tools.omitted)]
    sent = rawjson.maybe_objects(request.get("tools")) or ()
    functions = [tool for tool in sent if rawjson.maybe(tool.get("type")) == ToolKind.FUNCTION]
    names += unread_members(functions, "tools[].", TOOL_FIELDS)
    return names + unread_names(request, _READ_MEMBERS)


def _parameters(request: Fields) -> Fields:
    """Returns the parameters in the words of chat completions."""
    fields: Fields = {"model": request["model"]}
    fields |= {name: request[name] for name in _SHARED_NAMES if not rawjson.is_null(request.get(name))}
    options = rawjson.maybe_fields(request.get("text"))
    if not rawjson.is_null(options.get("verbosity")):
        fields["verbosity"] = options["verbosity"]
    form = options.get("format", NULL)
    kind = "text" if rawjson.is_null(form) else rawjson.text_at(read_typed(Fields, form, "text.format").get("type"))
    if kind == "json_schema":  # chat completions nest the schema one level deeper
        schema = {name: raw for name, raw in rawjson.fields(form).items() if name != "type"}
        fields["response_format"] = rawjson.raw({"type": kind, "json_schema": schema})
    elif kind != "text":
        fields["response_format"] = form
    if not (rawjson.is_null(request.get("parallel_tool_calls")) or rawjson.is_nothing(request.get("tools"))):
        fields["parallel_tool_calls"] = request["parallel_tool_calls"]
    if rawjson.maybe(request.get("stream")):
        fields["stream"] = msgspec.Raw(b"true")
    if rawjson.maybe(request.get("store")) is False:
        fields["store"] = request["store"]
    fields |= _limit_fields(request)
    wants_logprobs = "message.output_text.logprobs" in rawjson.list_at(request.get("include"))
    if wants_logprobs or rawjson.maybe(request.get("top_logprobs")):
        fields["logprobs"] = msgspec.Raw(b"true")
    return fields
