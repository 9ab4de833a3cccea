"""Parses a request of the Responses API, and reads it into a ``Conversation``.

The gateway reads what bears on routing and money. All else is either a channel's own business, if it speaks this API,
or has a counterpart among the fields of a chat completion, or is left out and named.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.conversation import Conversation
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import read_typed
from gateway.domain.order import Order
from gateway.domain.output_limit import OutputLimit, larger, read_limit
from gateway.domain.prompt_size import MESSAGE_TOKENS, RESPONSES_SIGNS, bound_of, tokens_of
from gateway.domain.rawjson import NULL, Fields
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import MAX_MODEL, MAX_OUTPUT, is_plain, missing_input
from gateway.inbound.json_body import BOM, decode_body, fields_of, unread_in
from gateway.inbound.relay import forwardable, lower_cap
from gateway.inbound.responses.items import InputReader
from gateway.inbound.responses.relay import CONTENT, LEAST_LIMIT, is_spoken, native_order
from gateway.inbound.responses.summary import PROMPT_BOUND, TRIGGER
from gateway.inbound.responses.tools import ToolTable
from gateway.upstream.dialects import chat_limit

ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

_SAME = (
    *("temperature", "top_p", "top_logprobs", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"),
    *("user", "metadata", "service_tier"),
)
"""Fields that chat completions have under the same name."""
_WORDS = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
}
"""The client's names of parameters, by those of chat completions."""
_TRANSLATED = frozenset(
    {
        *("model", "input", "instructions", "stream", "max_output_tokens", "tools", "tool_choice", "reasoning"),
        *("parallel_tool_calls", "include", "text", *_SAME),
    }
)
_READ_IN = {"reasoning": {"effort", "summary", "generate_summary"}, "text": {"format", "verbosity"}}
"""What is read of fields that are objects."""
_QUIET = frozenset({"store", "stream_options", "background"})
"""Fields that are not missed: the answer says that it is not stored, and nothing is obfuscated here."""
_COUNTED = frozenset({"model", "input", "instructions", "tools", "text", "stream", "max_output_tokens"})
"""Fields that are counted as input separately, and those of which the model reads nothing."""
_CHECKED = frozenset(
    {
        *("model", "input", "instructions", "stream", "max_output_tokens", "tools", "tool_choice", "include", "store"),
        *("parallel_tool_calls", "temperature", "top_p", "top_logprobs", "prompt_cache_key", "previous_response_id"),
    }
)
"""Fields that are checked or contain no limit: of these only ``max_output_tokens`` affects the length of the output."""
_INPUT = ("instructions", "input")
_SCHEMAS = ("tools", "text")
_NOTHING = (b"null", b"false", b"[]", b"{}")
_KEPT_ELSEWHERE = {
    "previous_response_id": ("previous_response_not_found", "this response is not kept here; send the whole input"),
    "conversation": ("unsupported_parameter", "conversations are not kept here; send the whole input"),
    "prompt": ("unsupported_parameter", "prompts are kept at their vendor; send the text itself"),
}
"""Fields that name input stored elsewhere, with the code and message of the error."""
_BETA = "openai-beta"
_FORWARDED = re.compile(_BETA)
_SESSION_HEADERS = ("session-id", "session_id")


class _Reasoning(msgspec.Struct, frozen=True, gc=False):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    """The older name."""


class _TextOptions(msgspec.Struct, frozen=True, gc=False):
    format: msgspec.Raw = NULL
    verbosity: msgspec.Raw = NULL


class _TextFormat(msgspec.Struct, frozen=True, gc=False):
    type: str


class ResponsesFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that are read here."""

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
    reasoning: _Reasoning | None = None
    include: list[str] | None = None
    text: _TextOptions | None = None
    background: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: msgspec.Raw = NULL
    prompt: msgspec.Raw = NULL
    prompt_cache_key: str | None = None

    @property
    def summarized(self) -> bool:
        """Returns whether reasoning is wanted as a summary."""
        reasoning = self.reasoning
        return reasoning is not None and (reasoning.summary or reasoning.generate_summary) is not None

    @property
    def sealed(self) -> bool:
        """Returns whether reasoning is wanted in a form that can be sent back."""
        return ENCRYPTED in (self.include or ())

    @property
    def state(self) -> str:
        """Returns the field that names input outside of the request; empty: there is none."""
        if self.previous_response_id is None and self.conversation == self.prompt == NULL:
            return ""
        return next(name for name in _KEPT_ELSEWHERE if getattr(self, name) not in (None, NULL))


_FIELDS = msgspec.json.Decoder(ResponsesFields)
_REASONING = msgspec.json.Decoder(_Reasoning)
_TEXT = msgspec.json.Decoder(_TextOptions)
_FORMAT = msgspec.json.Decoder(_TextFormat)


def parse_responses_request(request: HttpRequest) -> InboundRequest:
    """Check and read a request. Raises BadRequest with ``param`` naming the field at fault."""
    body = request.body.removeprefix(BOM)
    fields, mask = fields_of(body)
    typed = decode_body(_FIELDS, body, fields, mask)
    _check(typed, fields)
    compacts = TRIGGER in bytes(typed.input)
    others = [fields[name] for name in fields.keys() - _COUNTED]
    given = _given_fields(fields, _INPUT)
    bound = bound_of(given, _given_fields(fields, _SCHEMAS), others, RESPONSES_SIGNS)
    return InboundRequest(
        body=body,
        fields=fields,
        mask=mask,
        model=typed.model or "",
        stream=bool(typed.stream),
        output_cap=typed.max_output_tokens,
        plain=is_plain(fields, _CHECKED),
        least_cap=LEAST_LIMIT,
        input_bound=bound.tokens + MESSAGE_TOKENS * len(given) + PROMPT_BOUND * compacts,
        media=bound.media,
        remote_input=bool(typed.state),
        kept_id=typed.previous_response_id or "",
        turns="input",
        output_rule=responses_limit,
        session=_session(typed, request.headers),
        form=AnswerForm(compacts=compacts, repeats=request.repeats),
        forward=forwardable(request.headers, _FORWARDED) if _BETA in request.headers else {},
    )


def prompt_of(fields: Fields) -> int:
    """Returns about how many input tokens a request has."""
    given = _given_fields(fields, _INPUT)
    return tokens_of(given, _given_fields(fields, _SCHEMAS), sum(bytes(raw).count(b'"role"') for raw in given))


def read_fields(fields: Mapping[str, msgspec.Raw]) -> ResponsesFields:
    """Returns the fields with their types. Raises BadRequest."""
    return read_typed(_FIELDS, rawjson.encode(fields), "")


def _given_fields(fields: Fields, names: tuple[str, ...]) -> list[msgspec.Raw]:
    return [fields[name] for name in names if name in fields]


def _check(params: ResponsesFields, fields: Fields) -> None:
    if not params.model:
        msg = "the request has no model; GET /v1/models lists those visible to this token"
        raise BadRequest(msg, code="missing_required_parameter", param="model")
    if len(params.model) > MAX_MODEL:
        raise BadRequest(f"model has {len(params.model)} characters; the limit is {MAX_MODEL}", param="model")
    if rawjson.is_null(params.input):
        if not params.state:
            raise missing_input(fields, "input")
    elif bytes(memoryview(params.input)[:1]) not in (b'"', b"["):
        raise BadRequest("input must be a string or an array of items", code="invalid_type", param="input")
    cap = params.max_output_tokens
    if cap is not None and not 1 <= cap <= MAX_OUTPUT:
        msg = f"max_output_tokens is {cap}; it must be from 1 to {MAX_OUTPUT}"
        raise BadRequest(msg, param="max_output_tokens")
    if params.background:
        msg = "background: answers are not kept here to be fetched later; send the request without it"
        raise BadRequest(msg, code="unsupported_parameter", param="background")


def responses_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the most output that a request allows, natively and as a chat: some channels turn out to lack the API."""
    typed = read_fields(fields)
    chat = chat_limit(_limit_fields(typed, fields), channel, served)
    if not is_spoken(channel):
        return chat
    sent = native_order(Order(fields=fields, model=""), channel.overrides).fields
    sent = {**sent, **lower_cap(sent, "max_output_tokens", served)}
    native = read_limit(sent, content=CONTENT, caps=("max_output_tokens",), thinks_within=True)
    return larger(chat, native)


def _limit_fields(params: ResponsesFields, fields: Fields) -> Fields:
    """Returns what affects the length of the output, in the words of chat completions."""
    out: Fields = {}
    if params.max_output_tokens is not None:
        out["max_completion_tokens"] = fields["max_output_tokens"]
    if params.reasoning is not None and params.reasoning.effort is not None:
        out["reasoning_effort"] = rawjson.raw(params.reasoning.effort)
    return out


def _session(params: ResponsesFields, headers: Mapping[str, str]) -> str:
    """Returns the client's own name of the conversation."""
    if params.prompt_cache_key:
        return params.prompt_cache_key
    for name in _SESSION_HEADERS:
        if name in headers:
            return headers[name]
    if rawjson.is_null(params.conversation):
        return ""
    conversation = rawjson.maybe(params.conversation)
    named = conversation.get("id") if isinstance(conversation, dict) else conversation
    return named if isinstance(named, str) else ""


def translate_responses(order: Order, params: ResponsesFields) -> tuple[Order, ToolTable]:
    """Returns the order with its conversation, and the tools in it. Raises BadRequest for what cannot be left out."""
    given = order.fields
    if params.state:
        code, why = _KEPT_ELSEWHERE[params.state]
        raise BadRequest(f"{params.state}: {why}", code=code, param=params.state)
    tools = ToolTable()
    tools.add(params.tools or ())
    reader = InputReader(tools)
    reader.instruct(params.instructions)
    reader.read(params.input)
    params = _with_updates(params, reader.updates)
    choice = tools.choice(params.tool_choice)
    extras = [name for name, raw in given.items() if name not in _TRANSLATED | _QUIET and not _is_default(name, raw)]
    extras += [f"tools[].{kind}" for kind in dict.fromkeys(tools.omitted)]
    extras += [name for holder in _READ_IN for name in unread_in(given, holder, _READ_IN[holder])]
    extras += reader.lost
    transcript = reader.transcript
    conversation = Conversation(
        turns=transcript.turns,
        tools=tuple(tools.offers),
        choice=choice,
        param_names=_WORDS,
        extras=tuple(extras),
        marks=transcript.marks,
    )
    fields = _parameters(params, given)
    translated = msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation, forward={})
    return translated, tools


def _with_updates(params: ResponsesFields, updates: Mapping[str, msgspec.Raw]) -> ResponsesFields:
    """Returns the fields with the effort and the form that items of the input set last."""
    reasoning, text = params.reasoning or _Reasoning(), params.text or _TextOptions()
    if "reasoning" in updates:
        effort = read_typed(_REASONING, updates["reasoning"], "input[].reasoning").effort
        reasoning = msgspec.structs.replace(reasoning, effort=effort)
    if "text" in updates:
        text = msgspec.structs.replace(text, format=read_typed(_TEXT, updates["text"], "input[].text").format)
    return msgspec.structs.replace(params, reasoning=reasoning, text=text) if updates else params


def _is_default(name: str, raw: msgspec.Raw) -> bool:
    return bytes(raw) in _NOTHING or (name == "truncation" and rawjson.maybe(raw) == "disabled")


def _parameters(params: ResponsesFields, given: Fields) -> Fields:
    out: Fields = {"model": given["model"]}
    out |= {name: given[name] for name in _SAME if not rawjson.is_null(given.get(name))}
    out |= _text_fields(params)
    if params.parallel_tool_calls is not None and params.tools:
        out["parallel_tool_calls"] = given["parallel_tool_calls"]
    if params.stream:
        out["stream"] = msgspec.Raw(b"true")
    out |= _limit_fields(params, given)
    if LOGPROBS in (params.include or ()) or params.top_logprobs:
        out["logprobs"] = msgspec.Raw(b"true")
    return out


def _text_fields(params: ResponsesFields) -> Fields:
    """Returns the form of the answer. Chat completions nest the schema one level deeper."""
    out: Fields = {}
    if params.text is None:
        return out
    if not rawjson.is_null(params.text.verbosity):
        out["verbosity"] = params.text.verbosity
    given = params.text.format
    if rawjson.is_null(given):
        return out
    kind = read_typed(_FORMAT, given, "text.format").type
    if kind == "json_schema":
        schema = {name: raw for name, raw in rawjson.fields(given).items() if name != "type"}
        out["response_format"] = rawjson.raw({"type": kind, "json_schema": schema})
    elif kind != "text":
        out["response_format"] = given
    return out


_ECHOED: Mapping[str, Any] = {
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What responses repeat of their request, and their default values."""
_FUNCTION_FIELDS: Mapping[str, Any] = {"description": None, "parameters": None, "strict": False}
_SCHEMA_FIELDS: Mapping[str, Any] = {"description": None, "strict": False}
"""Fields of functions and schemas in a response, and their values if the request omits them."""


def echo_of(order: Order, params: ResponsesFields) -> bytes:
    """Returns the fields that every response to this request has, each with a comma before it."""
    out: dict[str, Any] = {"store": "store" in order.form.repeats, "background": False}
    given = {**order.fields, **order.form.repeats}
    for name, default in _ECHOED.items():
        raw = given.get(name)
        out[name] = default if rawjson.is_null(raw) else raw
    if params.text is not None:
        out["text"] = _text_echo(params.text)
    if params.tools:
        out["tools"] = [_with_fields(tool, b'"function"', _FUNCTION_FIELDS) for tool in rawjson.items(out["tools"])]
    if b'"allowed_tools"' in bytes(given.get("tool_choice", NULL)):
        out["tool_choice"] = _with_fields(out["tool_choice"], b'"allowed_tools"', {"mode": "auto"})
    if params.reasoning is not None:
        summary = params.reasoning.summary or params.reasoning.generate_summary
        out["reasoning"] = {"effort": params.reasoning.effort, "summary": summary}
    if rawjson.maybe(out["service_tier"] if isinstance(out["service_tier"], msgspec.Raw) else None) == "auto":
        out["service_tier"] = "default"
    return b"," + rawjson.encode(out)[1:-1]


def _text_echo(text: _TextOptions) -> dict[str, Any]:
    plain = rawjson.is_null(text.format)
    form = {"type": "text"} if plain else text.format
    verbosity = "medium" if rawjson.is_null(text.verbosity) else text.verbosity
    return {
        "format": form if plain else _with_fields(form, b'"json_schema"', _SCHEMA_FIELDS),
        "verbosity": verbosity,
    }


def _with_fields(given: Any, kind: bytes, fields: Mapping[str, Any]) -> Any:
    """Returns an object of this type with all of these fields."""
    has = rawjson.fields(given)
    if bytes(has.get("type", NULL)) != kind or all(name in has for name in fields):
        return given
    return {**has, **{name: value for name, value in fields.items() if name not in has}}
