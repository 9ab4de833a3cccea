"""Chat completions (``POST /v1/chat/completions``).

Requests go out as they came where a channel speaks it; other dialects get them as a ``Conversation``. Of a request only
the fields that the gateway itself reads are checked and decoded; all others are the upstream's business and stay as
they were sent.

Error bodies are ``{"error": {message, type, param, code}}``, all four keys always there, as in OpenAI's
API. What the gateway adds is in ``error.gateway`` and ``error.metadata``, which the SDKs ignore.
"""

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec

from gateway.domain.channel import Channel, Dialect, Overrides
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.prompt_size import CHAT_SIGNS, SCHEMAS, InputBound, bound_of
from gateway.domain.rawjson import Fields, is_null
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.conversation import fit_dialect
from gateway.inbound.chat.render import ChatRenderer, render_completion
from gateway.inbound.json_body import fields_of
from gateway.inbound.lower_limit import lower_limit
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import Adapter, Order
from gateway.upstream.answer_reader import DialectAdapter
from gateway.upstream.output_limit import CAPS, CHAT_CONTENT, MOST_CHOICES, MOST_TOKENS, may_limit
from gateway.upstream.overrides import apply_overrides

MAX_MODEL = 256
"""Characters of a model name."""
MAX_OUTPUT = MOST_TOKENS
MAX_CHOICES = MOST_CHOICES


class _ChatMessage(msgspec.Struct, gc=False):
    role: str


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT)]


class _UsualOptions(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class _Regular(msgspec.Struct, gc=False):
    """A request whose fields are as they should be: one decode tells. Most requests are so.

    What is not text in them and not a limit of the output hides neither.
    """

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]
    messages: Annotated[list[_ChatMessage], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: _UsualOptions | None = None
    tools: list[msgspec.Raw] | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] | None = None
    max_completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    top_k: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    parallel_tool_calls: bool | None = None
    store: bool | None = None
    stop: str | list[str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None


T = TypeVar("T")

_REGULAR = msgspec.json.Decoder(_Regular)
_TEXTS = ("stop", "user", "safety_identifier", "prompt_cache_key", "reasoning_effort", "verbosity", "service_tier")
_USUAL = CHAT_CONTENT | frozenset(_Regular.__struct_fields__)
"""Fields that need no closer look in a regular request."""
_BARE = _USUAL - {*CHAT_CONTENT, *_TEXTS} | {"model", "messages"}
"""Those of which the model can read nothing, except for the messages."""
_CHECKED = CHAT_CONTENT | {"stream", "temperature", "top_p", "n", *CAPS}
"""Fields that need no closer look in any request: they are checked one by one."""
_CHECKED_BARE = _CHECKED - CHAT_CONTENT | {"model", "messages"}

_MESSAGES = msgspec.json.Decoder(list[_ChatMessage])
_MESSAGE_WANTS = {"[]": "an object with a string role", "[].role": "a string"}
_NUMBER_OF_ITEM = re.compile(r"\[\d+\]")
_NOTHING: Mapping[str, str] = {}
_STRING = msgspec.json.Decoder(str)
_FLAG = msgspec.json.Decoder(bool | None)
_COUNT = msgspec.json.Decoder(int | None)
_OPTIONS = msgspec.json.Decoder(_StreamOptions | None)
_LIST = msgspec.json.Decoder(list[msgspec.Raw] | None)
_NUMBER = msgspec.json.Decoder(float | None)


def parse_chat_request(body: bytes) -> InboundRequest:
    """Check and read a request. Raises BadRequest with ``param`` naming the field at fault."""
    return _request(body, *fields_of(body))


def _request(body: bytes, fields: Fields, mask: bytes) -> InboundRequest:
    try:
        found = None if mask else _REGULAR.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if found is None or (found.stream_options is not None and not found.stream):
        return _careful(fields, mask)
    bound = read_input(fields, _BARE)
    return InboundRequest(
        body=body,
        fields=fields,
        mask=b"",
        model=found.model,
        stream=bool(found.stream),
        include_usage=bool(found.stream_options and found.stream_options.include_usage),
        choices=found.n or 1,
        output_cap=found.max_completion_tokens or found.max_tokens,
        plain=is_plain(fields, _USUAL) and (found.max_completion_tokens is None or found.max_tokens is None),
        input_bound=bound.tokens,
        media=bound.media,
    )


def is_plain(fields: Fields, known: frozenset[str]) -> bool:
    """Whether nothing but the known fields may bear on the length of the output."""
    if known.issuperset(fields):
        return True
    return not may_limit({name: raw for name, raw in fields.items() if name not in known})


def read_input(fields: Fields, bare: frozenset[str]) -> InputBound:
    """The most input of a request; ``bare``: fields of which the model can read nothing."""
    if bare.issuperset(fields):
        return bound_of((fields["messages"],), (), (), CHAT_SIGNS)
    schemas = [fields[name] for name in SCHEMAS if name in fields]
    others = [raw for name, raw in fields.items() if name not in bare and name not in SCHEMAS]
    return bound_of((fields["messages"],), schemas, others, CHAT_SIGNS)


def _careful(fields: Fields, mask: bytes) -> InboundRequest:
    """Field by field, so that the error names the one at fault; what one decode refuses may be good yet."""
    model = read_model(fields)
    _messages(fields)
    stream = bool(read_field(fields, "stream", _FLAG, "true, false or null"))
    inside = {".include_usage": "true, false or null"}
    options = read_field(fields, "stream_options", _OPTIONS, "an object or null", inside)
    if options is not None and not stream:
        msg = "stream_options is only allowed when stream is true"
        raise BadRequest(msg, param="stream_options")
    read_field(fields, "tools", _LIST, "an array or null")
    for name in ("temperature", "top_p"):
        read_field(fields, name, _NUMBER, "a number or null")
    caps = [read_number(fields, name, MAX_OUTPUT) for name in CAPS]
    bound = read_input(fields, _CHECKED_BARE)
    return InboundRequest(
        body=b"",
        fields=fields,
        mask=mask,
        model=model,
        stream=stream,
        include_usage=bool(options and options.include_usage),
        choices=read_number(fields, "n", MAX_CHOICES) or 1,
        output_cap=caps[0] or caps[1],
        plain=is_plain(fields, _CHECKED) and None in caps,
        input_bound=bound.tokens,
        media=bound.media,
    )


def read_model(fields: Fields) -> str:
    """The model's name. Raises BadRequest if there is none, or it is too long."""
    if "model" not in fields or bytes(fields["model"]) == b"null":
        msg = "the request has no model; GET /v1/models lists those visible to this token"
        raise BadRequest(msg, code="missing_required_parameter", param="model")
    model = read_field(fields, "model", _STRING, "a string")
    if not model:
        msg = "model is empty; GET /v1/models lists those visible to this token"
        raise BadRequest(msg, code="missing_required_parameter", param="model")
    if len(model) > MAX_MODEL:
        raise BadRequest(f"model has {len(model)} characters; the limit is {MAX_MODEL}", param="model")
    return model


def _messages(fields: Fields) -> None:
    if "messages" not in fields:
        raise missing_input(fields, "messages")
    messages = read_field(fields, "messages", _MESSAGES, "an array of objects with a string role", _MESSAGE_WANTS)
    if not messages:
        msg = "messages is empty; send at least one"
        raise BadRequest(msg, param="messages")


_FORMS = {"messages": "chat completions", "input": "responses", "prompt": "completions"}
"""The call that a request is meant for, by the field that it has."""


def missing_input(fields: Fields, name: str) -> BadRequest:
    """That a request lacks this field; if it is one of another call, also which."""
    msg = f"the request has no {name}"
    meant = next((kind for other, kind in _FORMS.items() if other != name and not is_null(fields.get(other))), "")
    if meant:
        msg += f", and looks like one for {meant}: send it to POST /v1/{meant.replace(' ', '/')}"
    return BadRequest(msg, code="missing_required_parameter", param=name)


def read_number(fields: Fields, name: str, most: int) -> int | None:
    """A number from 1 to ``most``; None if the field is missing or null. Raises BadRequest."""
    value = read_field(fields, name, _COUNT, "an integer or null")
    if value is not None and not 1 <= value <= most:
        raise BadRequest(f"{name} is {value}; it must be from 1 to {most}", param=name)
    return value


def read_field(
    fields: Fields, name: str, decoder: "msgspec.json.Decoder[T]", wants: str, inside: Mapping[str, str] = _NOTHING
) -> T | None:
    """The value of one field; None if it is missing. Raises BadRequest, saying that it must be what ``wants`` says.

    ``inside`` says what is wanted at places in it, ``[]`` standing for any item's number.
    """
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        where = str(error).partition(" - at `$")[2].rstrip("`")
        msg = f"{name}{where} must be {inside.get(_NUMBER_OF_ITEM.sub('[]', where), wants)}"
        raise BadRequest(msg, code="invalid_type", param=name + where) from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", code="too_deep") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"{name} is not valid JSON: {error}", code="invalid_json", param=name) from error


METADATA = frozenset({"upstream", "resets_at"})
"""Details of an error that are put into ``error.metadata``."""

RETRY = "(server error: please retry your request)"
"""What is added to the message of an error inside a stream if the request may succeed another time."""


class ChatCompletions(InboundApi):
    """Chat completions as an ``InboundApi``."""

    name = "chat"
    stream_type = "text/event-stream; charset=utf-8"
    keep_alive = b": keep-alive\n\n"
    id_headers: tuple[str, ...] = ("x-request-id",)
    stream_rules = None

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``."""
        return parse_chat_request(request.body)

    def with_limit(self, request: InboundRequest, limit: int) -> InboundRequest | None:
        """See ``InboundApi``."""
        return lower_limit(request, CAPS, limit)

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """See ``InboundApi``."""
        return Order(
            fields=request.fields,
            body=request.body,
            model=request.model,
            stream=request.stream,
            include_usage=request.include_usage,
            removed=request.removed,
            answer_id="chatcmpl-" + call[-24:],
            created=ts // 1000,
        )

    def override(self, order: Order, overrides: Overrides) -> Order:
        """The order with the overrides of the channel's owner."""
        return apply_overrides(order, overrides)

    def adapter(self, dialect: Dialect, chat: DialectAdapter) -> Adapter:
        """The adapter by which a channel of this dialect is called. It writes answers as this API has them.

        ``chat`` is the dialect, which takes chat completions. An API of the same family has adapters of its own.
        """
        return chat.native_chat or RenderingAdapter(chat, ChatRenderer, render_completion)

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """See ``InboundApi``. Every dialect takes the request, by ``adapter``."""
        if channel.overrides is not None:
            order = self.override(order, channel.overrides)
        if "messages" in order.fields:
            order = fit_dialect(order, channel)
        native = chat.native_chat is not None
        return AttemptPlan(self.adapter(channel.dialect, chat), order, native=native)

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """See ``InboundApi``: SSE comments."""
        return "".join([*(f": {name}: {value}\n" for name, value in facts.items()), "\n"]).encode()

    def status(self, error: GatewayError) -> int:
        """See ``InboundApi``."""
        return error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``."""
        return msgspec.json.encode(error_object(error, call))

    def error_event(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``. No ``[DONE]`` follows: it would end the stream as if it were whole.

        No status can tell clients any more whether to send the request again. So the type does, which Continue reads,
        and the message, in which opencode looks for such words.
        """
        body = error_object(error, call)
        fields = body["error"]
        if error.transient:
            fields |= {"type": "server_error", "message": f"{fields['message']} {RETRY}"}
        elif fields["type"] == "server_error":
            fields["type"] = "gateway_error"
        return b"data: " + msgspec.json.encode(body) + b"\n\n"


CHAT = ChatCompletions()


def error_object(error: GatewayError, call: str = "") -> dict[str, dict[str, object]]:
    """The error's body as JSON values."""
    ours = {name: value for name, value in error.details.items() if name not in METADATA}
    if call:
        ours = {"call_id": call, **ours}
    metadata = {name: value for name, value in error.details.items() if name in METADATA}
    inner: dict[str, object] = {
        "message": error.message + (f" [call {call}]" if call else ""),
        "type": error.http_type,
        "param": error.param,
        "code": None if error.code == "upstream_rejected" else error.code,
    }
    if ours:
        inner["gateway"] = ours
    if metadata:
        inner["metadata"] = metadata
    return {"error": inner}
