"""Messages (``POST /v1/messages``), Anthropic's API, spoken by Claude Code and the Claude SDKs.

Channels of dialect anthropic get the request unchanged; for others it is translated. Errors have Anthropic's form and
statuses, with the gateway's own details in ``error.gateway``, which the SDKs ignore. A native channel's error about the
client's own mistake keeps the vendor's words: Claude Code searches them, and calls again without what was refused.

Only the fields that the gateway itself reads are checked; all others stay as they were sent.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import BadRequest, GatewayError, InvalidToken, NotFound, QuotaExceeded, UpstreamError
from gateway.domain.json_text import contains, nested_value, plain_escapes
from gateway.domain.order import Order
from gateway.domain.output_limit import MAX_TOKEN_COUNT, OutputLimit, read_limit
from gateway.domain.prompt_size import (
    BOUND_DATED_TOOL,
    BOUND_TOOL,
    DATED_TYPE,
    MESSAGE_TOKENS,
    InputBound,
    bound_of,
    prompt_tokens,
)
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import write_event
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest, is_large
from gateway.inbound.chat.api import SentMessage, check_model, error_object, lacks_words, missing_input
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.json_body import Body, read_body
from gateway.inbound.messages.conversation import SAMPLING, translate_messages
from gateway.inbound.messages.native import CONTENT_FIELDS, MessagesRelay, native_order, repaired_order
from gateway.inbound.messages.render import MessagesRenderer, WholeMessageRenderer
from gateway.inbound.relay import forwarded_headers, lower_cap
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import AnswerStream, DialectAdapter
from gateway.upstream.dialects import chat_limit
from gateway.upstream.vendors import vendor_of

_SETTINGS = (
    *("temperature", "top_p", "top_k", "stop_sequences", "thinking", "metadata", "service_tier", "cache_control"),
    "tool_choice",
)
"""Fields that the model does not read. The input bound counts them, because a vendor may bill text in them."""
_KNOWN_FIELDS = frozenset({"model", "messages", "system", "tools", "max_tokens", "stream", *_SETTINGS})
_FORWARDED = re.compile("anthropic-(?!dangerous-direct-browser-access$).*")
"""Headers that go to the vendor: all of Anthropic's, except one that a browser needs only to call it directly."""


class _MessagesFields(msgspec.Struct, gc=False):
    model: str | None = None
    messages: list[SentMessage] | msgspec.UnsetType = msgspec.UNSET
    system: str | list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    stream: bool | None = None


def parse_messages_request(request: HttpRequest, *, only_counts: bool = False) -> InboundRequest:
    """Returns a checked request. If it ``only_counts`` tokens, it needs no ``max_tokens``. Raises BadRequest."""
    body = read_body(request.body)
    fields, typed = body.fields, body.read_as(_MessagesFields)
    model = check_model(typed.model)
    continued_id = rawjson.text_at(fields.get("thread"), "previous_message_id")
    if typed.messages is msgspec.UNSET:
        raise missing_input(fields, "messages")
    if not (typed.messages or continued_id):
        raise BadRequest("messages: at least one message is required", param="messages")
    cap = 1 if only_counts and typed.max_tokens is None else _check_cap(typed.max_tokens)
    is_beta = "?" in request.target and parse_qs(urlsplit(request.target).query).get("beta") == ["true"]
    return InboundRequest(
        body=request.body,
        fields=fields,
        model=model,
        stream=bool(typed.stream) and not only_counts,
        output_cap=max(1, cap),
        content=CONTENT_FIELDS,
        bound=_input_bound(body),
        input_estimate=prompt_tokens(fields) if only_counts and is_large(request.body) else None,
        output_rule=messages_limit,
        remote_input=bool(continued_id),
        continued_id=continued_id,
        session=session_of(request.headers, fields),
        forward=forwarded_headers(request.headers, _FORWARDED),
        query="beta=true" if is_beta else "",
    )


def _check_cap(cap: int | None) -> int:
    if cap is None:
        raise BadRequest("max_tokens: Field required", code="missing_required_parameter", param="max_tokens")
    if not 0 <= cap <= MAX_TOKEN_COUNT:
        raise BadRequest(f"max_tokens is {cap}; it must be from 0 to {MAX_TOKEN_COUNT}", param="max_tokens")
    return cap


def messages_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the maximum output that a request allows at a channel. If translated, only some fields are sent."""
    if channel.dialect is not Dialect.ANTHROPIC:
        cap = rawjson.maybe(fields["max_tokens"])
        sent = {name: fields[name] for name in SAMPLING if name in fields}
        sent |= {"max_completion_tokens": rawjson.raw(max(1, cap)), "stop": fields.get("stop_sequences", NULL)}
        return chat_limit(sent, channel, served)
    sent = native_order(Order(fields=fields, model=""), channel.overrides).fields
    return read_limit(
        {**sent, **lower_cap(sent, "max_tokens", served)},
        content=CONTENT_FIELDS,
        caps=("max_tokens",),
        thinks_within=True,
    )


def _input_bound(body: Body) -> InputBound:
    """Returns an upper bound of a request's input. Unknown fields are counted, because the model may read them."""
    fields = body.fields
    messages = plain_escapes(fields.get("messages", NULL))
    texts: Fields = {name: fields[name] for name in ("system", "messages") if name in fields}
    others: Fields = {name: fields[name] for name in _SETTINGS if name in fields}
    schemas = [fields["tools"]] if "tools" in fields else []
    for name in fields.keys() - _KNOWN_FIELDS:
        text = plain_escapes(fields[name])
        if any(contains(text, sign) for sign in (b'"format"', b'"schema"')):
            schemas.append(fields[name])
        else:
            others[name] = fields[name]
    tokens = MESSAGE_TOKENS * ("system" in fields)
    if contains(messages, b'"citations"'):
        tokens += 600  # which Anthropic adds about documents to cite; up to 560 were recorded
    if contains(messages, b'"tool_addition"'):
        schemas.append(rawjson.raw({}))  # these tools are in the messages, but tools make a prompt longer
        additions = messages.count(b'"tool_addition"')
        tokens += BOUND_TOOL * additions + BOUND_DATED_TOOL * min(additions, messages.count(DATED_TYPE))
    bound = bound_of(texts, schemas, others, elements=body.elements)
    return bound.plus(bound.call_tokens(25) + tokens)


def session_of(headers: Mapping[str, str], fields: Fields) -> str:
    """Returns the client's own name of the conversation; empty if it sent none. Claude Code sends it twice."""
    name = headers.get("x-claude-code-session-id", "")
    user = "" if name else rawjson.text_at(fields.get("metadata"), "user_id")
    if user.startswith("{"):
        name = rawjson.text_at(nested_value(user), "session_id")
    elif match := re.search(r"_session_([0-9a-fA-F-]{8,64})\Z", user):
        name = match[1]
    return (name or headers.get("session-id", "") or headers.get("session_id", ""))[:512]


OVERLOADED = 529
TOO_LONG = "prompt is too long"
"""Anthropic's words for an input that is too long. Claude Code compacts the conversation only when it reads them."""
NO_THREADS = "thread_unsupported_request"
"""Anthropic's code for a request that cannot have a thread: its SDKs then send the whole conversation instead."""

_STATUSES = {"upstream_overloaded": OVERLOADED, "upstream_out_of_credit": 402}
"""The statuses that differ from other APIs', by the error's code."""
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    421: "permission_error",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
"""``error.type`` by status. Other mistakes of the client are invalid requests."""


class Messages(InboundApi):
    """The Messages API as an ``InboundApi``."""

    name = "messages"
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    id_headers: tuple[str, ...] = ("x-request-id", "request-id")
    id_prefix = "msg_"
    sticky = True
    caps = ("max_tokens",)
    obstacle_code = NO_THREADS
    obstacle_param = "thread"

    def parse(self, request: HttpRequest) -> InboundRequest:
        return parse_messages_request(request)

    def other_names(self, model: str) -> tuple[str, ...]:
        """Returns other names to try. Claude Code adds ``[1m]`` for a long context, and a prefix of its own names."""
        without_suffix = model.removesuffix("[1m]")
        without_prefix = without_suffix.removeprefix("anthropic/").removeprefix("claude/")
        return tuple(name for name in dict.fromkeys((without_suffix, without_prefix)) if name != model)

    def selects(self, request: InboundRequest) -> bool:
        """Returns whether the request has a thread: only some upstreams keep conversations."""
        return not rawjson.is_null(request.fields.get("thread"))

    def keeps_answer(self, request: InboundRequest) -> bool:
        return self.selects(request)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """Returns why a channel cannot answer: all but Anthropic ignore the thread, and the conversation is lost."""
        if channel.dialect is Dialect.ANTHROPIC and vendor_of(channel).name == "anthropic":
            return ""
        return "keeps no conversations: send all messages without 'thread'"

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        if channel.dialect is Dialect.ANTHROPIC:
            native = native_order(order, channel.overrides)
            repair = None if channel.strict else repaired_order
            return AttemptPlan(MessagesRelay(chat), native, native=True, repair=repair)
        translated = finish_translation(translate_messages(order), channel, chat)
        adapter = RenderingAdapter(chat, MessagesRenderer, WholeMessageRenderer)
        return AttemptPlan(adapter, translated, native=False)

    def status(self, error: GatewayError) -> int:
        return _STATUSES.get(error.code, error.http_status)

    def error_body(self, error: GatewayError, call: str) -> bytes:
        if isinstance(error, UpstreamError) and error.verbatim and not lacks_words(error, TOO_LONG):
            return error.verbatim.encode("utf-8", "replace")
        return msgspec.json.encode(self._error(error, call))

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns the error event. An open block is not closed, so that Claude Code makes the call again."""
        return write_event(b"error", msgspec.json.encode(self._error(error, call)))

    def _error(self, error: GatewayError, call: str) -> dict[str, object]:
        status, message = self.status(error), error.message
        if isinstance(error, NotFound) and error.param == "model":
            message = "model: " + message.removeprefix("model ")
        if lacks_words(error, TOO_LONG):
            message = f"{TOO_LONG}: {message}"
        kind = _ERROR_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        kind = "authentication_error" if isinstance(error, InvalidToken) else kind
        inner: dict[str, object] = {"type": kind, "message": message, "code": error.code}
        if error.code == NO_THREADS:
            inner["details"] = {"error_code": NO_THREADS}
        if isinstance(error, QuotaExceeded):
            inner["details"] = {"error_code": "enforced_spend_limit_reached"}
        if error.param:
            inner["param"] = error.param
        details = error_object(error, call)["error"]
        inner |= {name: details[name] for name in ("gateway", "metadata") if name in details}
        return {"type": "error", "error": inner, "request_id": call}


MESSAGES = Messages()
