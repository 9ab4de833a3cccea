"""Chat completions (``POST /v1/chat/completions``).

A channel that speaks the API gets requests unchanged; other dialects get them as a ``Conversation``. Only the fields
that the gateway itself reads are checked and decoded; all others stay as they were sent.

Error bodies are ``{"error": {message, type, param, code}}`` with all four keys, as in OpenAI's API. What the gateway
adds is in ``error.gateway`` and ``error.metadata``, which the SDKs ignore.
"""

from functools import lru_cache
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS, CHAT_CONTENT, MAX_CHOICES, MAX_TOKEN_COUNT
from gateway.domain.prompt_size import SCHEMAS, InputBound, bound_of, count_tokens
from gateway.domain.rawjson import NULL, Fields, is_nothing, is_null
from gateway.domain.sse import BOM
from gateway.domain.typed_json import read_optional
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.conversation import translate_chat
from gateway.inbound.chat.native import NativeChat
from gateway.inbound.chat.render import ChatRenderer, WholeChatRenderer
from gateway.inbound.json_body import Body, body_of, read_body
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import AnswerStream, DialectAdapter
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.overrides import apply_overrides

MAX_MODEL = 256
"""The maximum length of a model name."""
TOO_LONG = "maximum context length"
"""OpenAI's words for an input that is too long. LangChain.js knows by them, and by no code, that it must shorten it."""


class SentMessage(msgspec.Struct, gc=False):
    """What is checked of a message when a request is parsed."""

    role: str


class StreamOptions(msgspec.Struct, gc=False):
    """``stream_options`` of a request."""

    include_usage: bool | None = None


class _ChatFields(msgspec.Struct, gc=False):
    """The fields of a request that the gateway itself reads."""

    model: str | None = None
    messages: list[SentMessage] | msgspec.UnsetType = msgspec.UNSET
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    usage: Any = None
    """``{"include": true}`` is how OpenRouter's clients request the usage."""
    tools: list[Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None


_COUNTED = frozenset(_ChatFields.__struct_fields__) - CHAT_CONTENT | {"model", "messages"}
"""The messages, and the fields that the model does not read."""
_TEXTS_OR_TOKENS: Any = str | list[str | int | list[int]]


def read_chat(text: bytes, body: Body) -> InboundRequest:
    """Returns the checked request. ``text`` is ``body`` as it was sent; empty if that differed. Raises BadRequest."""
    fields, chat = body.fields, body.read_as(_ChatFields)
    model = check_model(chat.model)
    if -1 in (chat.max_completion_tokens, chat.max_tokens):  # "no limit", in programs made for local servers
        kept = {name: raw for name, raw in fields.items() if name not in CAPS or bytes(raw) != b"-1"}
        return read_chat(b"", body_of(kept))
    if chat.messages is msgspec.UNSET:
        raise missing_input(fields, "messages")
    if not chat.messages:
        raise BadRequest("messages is empty; send at least one", param="messages")
    include_usage = wants_usage(chat.stream_options, stream=bool(chat.stream))
    include_usage = include_usage or (chat.usage is not None and rawjson.at(chat.usage, "include") is True)
    new_cap = check_range("max_completion_tokens", chat.max_completion_tokens, MAX_TOKEN_COUNT)
    old_cap = check_range("max_tokens", chat.max_tokens, MAX_TOKEN_COUNT)
    is_legacy = "functions" in fields and is_nothing(fields.get("tools", NULL)) and not is_nothing(fields["functions"])
    return InboundRequest(
        body=b"" if text.startswith(BOM) else text,
        fields=fields,
        model=model,
        stream=bool(chat.stream),
        include_usage=include_usage,
        choices=check_range("n", chat.n, MAX_CHOICES) or 1,
        output_cap=new_cap or old_cap,
        bound=_input_bound(body),
        form=AnswerForm(has_functions=is_legacy),
    )


def wants_usage(options: StreamOptions | None, *, stream: bool) -> bool:
    """Returns whether the client wants the usage at the end of a stream. Raises BadRequest for options without one."""
    if options is not None and not stream:
        raise BadRequest("stream_options is only allowed when stream is true", param="stream_options")
    return options is not None and bool(options.include_usage)


def _input_bound(body: Body) -> InputBound:
    """Returns an upper bound of a request's input."""
    fields = body.fields
    messages = {"messages": fields["messages"]}
    if _COUNTED.issuperset(fields):
        return bound_of(messages, elements=body.elements)
    schemas = [fields[name] for name in SCHEMAS if name in fields]
    uncounted = fields.keys() - _COUNTED - set(SCHEMAS)
    others = {name: fields[name] for name in uncounted if bytes(fields[name]).startswith((b'"', b"[", b"{"))}
    return bound_of(messages, schemas, others, elements=body.elements)


def check_model(model: str | None) -> str:
    """Returns the model's name. Raises BadRequest if it is missing or too long."""
    if not model:
        problem = "the request has no model" if model is None else "model is empty"
        msg = f"{problem}; GET /v1/models lists those visible to this token"
        raise BadRequest(msg, code="missing_required_parameter", param="model")
    if len(model) > MAX_MODEL:
        raise BadRequest(f"model has {len(model)} characters; the limit is {MAX_MODEL}", param="model")
    return model


_CALL_KINDS = {"messages": "chat completions", "input": "responses", "prompt": "completions"}
"""The kind of call that a request is for, by the field with its input."""


def missing_input(fields: Fields, name: str) -> BadRequest:
    """Returns the error of a missing field. It names the other kind of call that the request looks like."""
    msg = f"the request has no {name}"
    kind = next((kind for other, kind in _CALL_KINDS.items() if other != name and not is_null(fields.get(other))), "")
    if kind:
        msg += f", and looks like one for {kind}: send it to POST /v1/{kind.replace(' ', '/')}"
    return BadRequest(msg, code="missing_required_parameter", param=name)


def count_sent_tokens(fields: Fields, name: str) -> int:
    """Returns the number of tokens in a field whose texts may be sent as tokens; 0 for texts. Raises BadRequest."""
    value = read_optional(_TEXTS_OR_TOKENS, fields.get(name, rawjson.NULL), name)
    if isinstance(value, list) and (not value or len({type(item) for item in value}) > 1):
        raise BadRequest(f"{name}: must have elements, all of one type", code="invalid_type", param=name)
    return count_tokens(value)


def check_range(name: str, value: int | None, maximum: int) -> int | None:
    """Returns the value of a field. Raises BadRequest if it is not from 1 to ``maximum``."""
    if value is not None and not 1 <= value <= maximum:
        raise BadRequest(f"{name} is {value}; it must be from 1 to {maximum}", param=name)
    return value


METADATA = frozenset({"upstream", "resets_at"})
"""Details of an error that go into ``error.metadata``."""


class ChatCompletions(InboundApi):
    """Chat completions as an ``InboundApi``."""

    name = "chat"
    caps = CAPS

    def parse(self, request: HttpRequest) -> InboundRequest:
        return read_chat(request.body, read_body(request.body))

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        if channel.overrides is not None:
            order = apply_overrides(order, channel.overrides)
        if isinstance(chat, OpenAIDialect):
            return AttemptPlan(_native_chat(chat), order, native=True)
        adapter = RenderingAdapter(chat, ChatRenderer, WholeChatRenderer)
        return AttemptPlan(adapter, translate_chat(order), native=False)

    def error_body(self, error: GatewayError, call: str) -> bytes:
        return msgspec.json.encode(error_object(error, call))

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns the error event. No ``[DONE]`` follows, because it would end the stream as if it were complete.

        The status has been sent already, so it cannot say whether to send the request again. The type says it for
        Continue, and the message has the words that opencode looks for.
        """
        body = error_object(error, call)
        fields = body["error"]
        if error.transient:
            message = f"{fields['message']} (server error: please retry your request)"
            fields |= {"type": "server_error", "message": message}
        elif fields["type"] == "server_error":
            fields["type"] = "gateway_error"
        return b"data: " + msgspec.json.encode(body) + b"\n\n"


_native_chat = lru_cache(NativeChat)
"""Returns the adapter for a dialect that speaks the API."""
CHAT = ChatCompletions()


def lacks_words(error: GatewayError, words: str) -> bool:
    """Returns whether the input is too long, and the message does not say so in the words that clients look for."""
    return error.code == "context_length_exceeded" and words not in error.message.lower()


def error_object(error: GatewayError, call: str = "") -> dict[str, dict[str, object]]:
    """Returns the error's body as JSON values. ``call`` is the call's id, or an empty string."""
    details = {name: value for name, value in error.details.items() if name not in METADATA}
    if call:
        details = {"call_id": call, **details}
    metadata = {name: value for name, value in error.details.items() if name in METADATA}
    message = f"input over the {TOO_LONG}: {error.message}" if lacks_words(error, TOO_LONG) else error.message
    inner: dict[str, object] = {
        "message": message + (f" [call {call}]" if call else ""),
        "type": error.http_type,
        "param": error.param,
        "code": None if error.code == "upstream_rejected" else error.code,
    }
    additions = {"gateway": details, "metadata": metadata}
    return {"error": inner | {name: value for name, value in additions.items() if value}}
