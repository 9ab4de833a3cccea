"""Parses a Messages request: only the fields that the gateway itself reads are checked; the rest stays as it was sent.

It also reads the client's own name of the conversation, and picks the headers that a native channel gets.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.prompt_size import MESSAGE_TOKENS, MESSAGES_SIGNS, InputBound, bound_of, tokens_of
from gateway.domain.rawjson import Fields
from gateway.inbound.api import LARGE, HttpRequest, InboundRequest
from gateway.inbound.chat.api import MAX_MODEL, MAX_OUTPUT, is_plain, missing_input, read_field, read_model
from gateway.inbound.json_body import fields_of
from gateway.inbound.messages.native import CONTENT, lower_cap, native_order
from gateway.inbound.relay import forwardable
from gateway.upstream.adapter import Order
from gateway.upstream.dialects import chat_limit
from gateway.upstream.output_limit import OutputLimit, read_limit

_UNREAD = (
    *("temperature", "top_p", "top_k", "stop_sequences", "thinking", "metadata", "service_tier", "cache_control"),
    "tool_choice",
)
"""Fields that the model does not read, but may be billed for if they say more than they should."""
_QUIET = frozenset({"model", "messages", "system", "tools", "max_tokens", "stream", *_UNREAD})
_FORMS = (b'"format"', b'"schema"')
_FORWARDED = re.compile("anthropic-.*")
_SESSION = re.compile(r"_session_([0-9a-fA-F-]{8,64})\Z")
LONGEST_SESSION = 512
"""Characters of a client's name of a conversation that are read."""


class _Turn(msgspec.Struct, gc=False):
    role: str


class _Metadata(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    user_id: str | None = None


class _Thinking(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str
    budget_tokens: int = 0
    display: str | None = None


class _Regular(msgspec.Struct, gc=False):
    """A request whose fields are as they should be; what is not text in them and not a limit hides neither."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]
    messages: Annotated[list[_Turn], msgspec.Meta(min_length=1)]
    max_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAX_OUTPUT)]
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    service_tier: str | None = None
    metadata: _Metadata | None = None
    thinking: _Thinking | None = None


class _Thread(msgspec.Struct, gc=False):
    """A conversation that the upstream keeps."""

    previous_message_id: str | None = None


_REGULAR = msgspec.json.Decoder(_Regular)
_USUAL = CONTENT | frozenset(_Regular.__struct_fields__)
"""Fields that need no closer look in a regular request."""
_BARE = frozenset({"model", "max_tokens", "stream"})
"""Those that are checked in any request."""
_THREAD = msgspec.json.Decoder(_Thread | None)
_TURNS = msgspec.json.Decoder(list[_Turn])
_FLAG = msgspec.json.Decoder(bool | None)
_COUNT = msgspec.json.Decoder(int | None)
_TURN_WANTS = {"[]": "an object with a role", "[].role": "a string"}


def parse_messages_request(request: HttpRequest) -> InboundRequest:
    """Check and read a request. Raises BadRequest with ``param`` naming the field at fault."""
    body = request.body
    fields, mask = fields_of(body)
    try:
        found = None if mask else _REGULAR.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = None
    careful = found is None or (found.thinking is not None and found.thinking.budget_tokens > found.max_tokens)
    found = found or _careful(fields)
    bound = _input_bound(fields)
    kept_id = _previous_message(fields) if "thread" in fields else ""
    return InboundRequest(
        body=body,
        fields=fields,
        mask=mask,
        model=found.model,
        stream=bool(found.stream),
        include_usage=True,
        choices=1,
        output_cap=max(1, found.max_tokens),
        plain=not careful and is_plain(fields, _USUAL),
        input_bound=bound.tokens + MESSAGE_TOKENS * ("system" in fields),
        media=bound.media,
        output_rule=messages_limit,
        remote_input=bool(kept_id),
        kept_id=kept_id,
        session=session_of(request.headers, fields),
        forward=forwardable(request.headers, _FORWARDED),
        query=_query(request.target),
    )


def parse_count_request(request: HttpRequest) -> InboundRequest:
    """The same for a request whose tokens are to be counted: it needs no ``max_tokens``."""
    body = request.body
    fields, mask = fields_of(body)
    found = _careful({"max_tokens": rawjson.raw(1), **fields})
    return InboundRequest(
        body=body,
        fields=fields,
        mask=mask,
        model=found.model,
        stream=False,
        include_usage=True,
        choices=1,
        output_cap=1,
        plain=True,
        input_bound=1,
        prompt=prompt_of(fields) if len(body) > LARGE else None,
        forward=forwardable(request.headers, _FORWARDED),
        query=_query(request.target),
    )


def messages_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """The most output that a request allows at a channel: natively, or translated as its one limit."""
    if channel.dialect is not Dialect.ANTHROPIC:
        cap = rawjson.maybe(fields["max_tokens"])
        return chat_limit({"max_completion_tokens": rawjson.raw(max(1, cap))}, channel, served)
    sent = native_order(Order(fields=fields, model=""), channel.overrides).fields
    return read_limit({**sent, **lower_cap(sent, served)}, content=CONTENT, caps=("max_tokens",), thinks_within=True)


def prompt_of(fields: Fields) -> int:
    """About how many tokens the input has."""
    values, schemas, others = _prompt(fields)
    try:
        count = len(_TURNS.decode(fields["messages"]))
    except (msgspec.DecodeError, KeyError):
        count = 1
    return tokens_of([*values, *others], schemas, count)


def _input_bound(fields: Fields) -> InputBound:
    values, schemas, others = _prompt(fields)
    quiet = [fields[name] for name in _UNREAD if name in fields]
    return bound_of(values, schemas, [*others, *quiet], MESSAGES_SIGNS)


def _prompt(fields: Fields) -> tuple[list[msgspec.Raw], list[msgspec.Raw], list[msgspec.Raw]]:
    """What the model reads: texts, tools or forms of the answer, and unknown fields, which may be read, too."""
    values = [fields[name] for name in ("system", "messages") if name in fields]
    schemas = [fields["tools"]] if "tools" in fields else []
    others: list[msgspec.Raw] = []
    for name in fields.keys() - _QUIET:
        raw = fields[name]
        (schemas if any(form in bytes(raw) for form in _FORMS) else others).append(raw)
    return values, schemas, others


def _careful(fields: Fields) -> _Regular:
    """Field by field, so that the error names the one at fault."""
    model = read_model(fields)
    if "messages" not in fields:
        raise missing_input(fields, "messages")
    turns = read_field(fields, "messages", _TURNS, "an array of objects with a role", _TURN_WANTS)
    if not turns and not ("thread" in fields and _previous_message(fields)):
        raise BadRequest("messages: at least one message is required", param="messages")
    cap = read_field(fields, "max_tokens", _COUNT, "an integer")
    if cap is None:
        raise BadRequest("max_tokens: Field required", code="missing_required_parameter", param="max_tokens")
    if not 0 <= cap <= MAX_OUTPUT:
        raise BadRequest(f"max_tokens is {cap}; it must be from 0 to {MAX_OUTPUT}", param="max_tokens")
    stream = read_field(fields, "stream", _FLAG, "true, false or null")
    return _Regular(model, turns or [], cap, stream)


def _previous_message(fields: Fields) -> str:
    """The id of the message that the request goes on from, which the upstream keeps; empty: all is in the request."""
    thread = read_field(fields, "thread", _THREAD, "an object or null")
    return (thread.previous_message_id or "") if thread is not None else ""


def session_of(headers: Mapping[str, str], fields: Fields) -> str:
    """The client's own name of the conversation; empty if it gives none. Claude Code gives it twice."""
    name = headers.get("x-claude-code-session-id", "")
    if not name and "metadata" in fields:
        metadata = rawjson.maybe(fields["metadata"])
        name = _session_in(metadata.get("user_id")) if isinstance(metadata, dict) else ""
    return (name or headers.get("session-id", "") or headers.get("session_id", ""))[:LONGEST_SESSION]


def _session_in(user: Any) -> str:
    """The session in a ``user_id``: JSON text with a ``session_id``, or the end of a longer name."""
    if not isinstance(user, str):
        return ""
    if user.startswith("{"):
        found = rawjson.maybe(user.encode("utf-8", "replace"))
        session = found.get("session_id") if isinstance(found, dict) else None
        return session if isinstance(session, str) else ""
    match = _SESSION.search(user)
    return match[1] if match else ""


def _query(target: str) -> str:
    """Of the query only that the beta API is meant."""
    return "beta=true" if "?" in target and parse_qs(urlsplit(target).query).get("beta") == ["true"] else ""
