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
from gateway.domain.json_text import contains, read_typed
from gateway.domain.order import Order
from gateway.domain.output_limit import MAX_TOKEN_COUNT, OutputLimit, larger, read_limit
from gateway.domain.prompt_size import MESSAGE_TOKENS, bound_of
from gateway.domain.rawjson import NULL, Fields, JsonObject
from gateway.domain.sse import BOM
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


class ResponsesFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that the gateway itself reads."""

    model: str | None = None
    input: msgspec.Raw = NULL
    instructions: msgspec.Raw = NULL
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: msgspec.Raw = NULL
    parallel_tool_calls: bool | None = None
    reasoning: JsonObject | None = None
    include: list[str] | None = None
    text: Fields | None = None
    background: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: msgspec.Raw = NULL
    prompt: msgspec.Raw = NULL
    prompt_cache_key: str | None = None

    @property
    def state_field(self) -> str:
        """Returns the field that names input outside of the request, or an empty string."""
        if self.previous_response_id is None and self.conversation == self.prompt == NULL:
            return ""
        return next(name for name in _KEPT_ELSEWHERE if getattr(self, name) not in (None, NULL))


def parse_responses_request(request: HttpRequest) -> InboundRequest:
    """Returns a checked request. Raises BadRequest, whose ``param`` names the field at fault."""
    body = request.body.removeprefix(BOM)
    sent = read_body(body)
    fields, typed = sent.fields, read_fields(sent.fields)
    model = check_model(typed.model)
    check_fields(typed, fields)
    compacts = contains(typed.input, TRIGGER)
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
        model=model,
        stream=bool(typed.stream),
        output_cap=typed.max_output_tokens,
        content=CONTENT_FIELDS,
        min_cap=MIN_LIMIT,
        bound=bound.plus(added),
        remote_input=bool(typed.state_field),
        continued_id=typed.previous_response_id or "",
        conversation_field="input",
        output_rule=responses_limit,
        session=_session(typed, request.headers),
        form=AnswerForm(compacts=compacts, repeats=request.repeats),
        forward=forwarded_headers(request.headers, _FORWARDED) if _BETA in request.headers else {},
    )


def read_fields(fields: Mapping[str, msgspec.Raw]) -> ResponsesFields:
    """Returns the fields with their types. Raises BadRequest. The input, which may be long, is not searched again."""
    short = {name: raw for name, raw in fields.items() if name not in _INPUT}
    typed = read_typed(ResponsesFields, rawjson.encode(short), "")
    return msgspec.structs.replace(typed, **{name: fields[name] for name in _INPUT if name in fields})


def check_fields(params: ResponsesFields, fields: Fields) -> None:
    """Raises BadRequest for a request without input, and for values that no channel can serve."""
    if rawjson.is_null(params.input):
        if not params.state_field:
            raise missing_input(fields, "input")
    elif bytes(memoryview(params.input)[:1]) not in (b'"', b"["):
        raise BadRequest("input must be a string or an array of items", code="invalid_type", param="input")
    if not (rawjson.is_null(params.instructions) or rawjson.is_list(params.instructions)):
        check_text(params.instructions, "instructions")
    check_range("max_output_tokens", params.max_output_tokens, MAX_TOKEN_COUNT)
    if not isinstance(rawjson.at(params.reasoning, "effort"), str | None):
        raise BadRequest("reasoning.effort: must be a string", code="invalid_type", param="reasoning.effort")
    if params.background:
        msg = "background: answers are not kept here to be fetched later; send the request without it"
        raise BadRequest(msg, code="unsupported_parameter", param="background")


def responses_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the maximum output of a request, natively or as a chat: some channels turn out to lack the API."""
    typed = read_fields(fields)
    shared = {name: fields[name] for name in _SHARED_NAMES if name in fields}
    chat = chat_limit(shared | _limit_fields(typed, fields), channel, served)
    if not speaks_responses(channel):
        return chat
    sent = native_order(Order(fields=fields, model=""), channel.overrides).fields
    sent = {**sent, **lower_cap(sent, "max_output_tokens", served)}
    native = read_limit(sent, content=CONTENT_FIELDS, caps=("max_output_tokens",), thinks_within=True)
    return larger(chat, native)


def _limit_fields(params: ResponsesFields, fields: Fields) -> Fields:
    """Returns the fields that affect the length of the output, in the words of chat completions."""
    limits: Fields = {}
    if params.max_output_tokens is not None:
        limits["max_completion_tokens"] = fields["max_output_tokens"]
    if effort := rawjson.text_at(params.reasoning, "effort"):
        limits["reasoning_effort"] = rawjson.raw(effort)
    return limits


def _session(params: ResponsesFields, headers: Mapping[str, str]) -> str:
    """Returns the client's own name of the conversation; empty if it sent none."""
    name = params.prompt_cache_key or headers.get("session-id") or headers.get("session_id")
    return name or rawjson.text_at(params.conversation) or rawjson.text_at(params.conversation, "id")


def translate_responses(order: Order, params: ResponsesFields) -> tuple[Order, ToolTable]:
    """Returns the order with its conversation, and the tools in it. Raises BadRequest for what cannot be left out."""
    if params.state_field:
        code, reason = _KEPT_ELSEWHERE[params.state_field]
        raise BadRequest(f"{params.state_field}: {reason}", code=code, param=params.state_field)
    tools = ToolTable()
    tools.add(params.tools or ())
    reader = InputReader(tools)
    if not rawjson.is_null(params.instructions):
        reader.read(params.instructions, "instructions", "system")
    reader.read(params.input)
    conversation = Conversation(
        turns=reader.transcript.turns,
        tools=tuple(tools.offers),
        choice=tools.read_choice(params.tool_choice),
        param_names=_PARAM_NAMES,
        extras=(*_names_left_out(order.fields, tools), *reader.lost),
    )
    request = dict(order.fields)
    for name, update in reader.updates.items():
        request[name] = rawjson.raw(rawjson.maybe_fields(request.get(name)) | rawjson.maybe_fields(update))
    fields = _parameters(read_fields(request) if reader.updates else params, request)
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


def _parameters(params: ResponsesFields, request: Fields) -> Fields:
    """Returns the parameters in the words of chat completions."""
    fields: Fields = {"model": request["model"]}
    fields |= {name: request[name] for name in _SHARED_NAMES if not rawjson.is_null(request.get(name))}
    options = params.text or {}
    if not rawjson.is_null(options.get("verbosity")):
        fields["verbosity"] = options["verbosity"]
    form = options.get("format", NULL)
    kind = "text" if rawjson.is_null(form) else rawjson.text_at(read_typed(Fields, form, "text.format").get("type"))
    if kind == "json_schema":  # chat completions nest the schema one level deeper
        schema = {name: raw for name, raw in rawjson.fields(form).items() if name != "type"}
        fields["response_format"] = rawjson.raw({"type": kind, "json_schema": schema})
    elif kind != "text":
        fields["response_format"] = form
    if params.parallel_tool_calls is not None and params.tools:
        fields["parallel_tool_calls"] = request["parallel_tool_calls"]
    if params.stream:
        fields["stream"] = msgspec.Raw(b"true")
    if params.store is False:
        fields["store"] = request["store"]
    fields |= _limit_fields(params, request)
    if "message.output_text.logprobs" in (params.include or ()) or params.top_logprobs:
        fields["logprobs"] = msgspec.Raw(b"true")
    return fields
