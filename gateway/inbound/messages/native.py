"""Messages at channels that speak it: request and answer pass unchanged.

Apart from the owner's overrides, two things change in a request. The model gets the channel's name for it. And thoughts
that Anthropic did not make are left out, because it would refuse them: those with the gateway's own seal or an empty
one, which clients send back like all others. In an answer, only the model's name changes.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SEAL_PREFIX, Seal, SealKind, seal_text
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.failure import Failure, UpstreamText
from gateway.domain.json_text import as_utf8
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import STANDARD_FIELDS
from gateway.domain.rawjson import Fields
from gateway.domain.sse import is_stream
from gateway.inbound.messages.native_answer import MessageTap
from gateway.inbound.messages.render import MessagesRenderer, MessageStyle, WholeMessageRenderer
from gateway.inbound.relay import (
    ChatWords,
    RenderableStream,
    edit_request,
    lower_cap,
    native_body,
    native_failure,
    native_headers,
)
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import Adapter, DialectAdapter, WholeAnswer
from gateway.upstream.anthropic.dialect import VERSION, root
from gateway.upstream.failures import REJECTED
from gateway.upstream.openai.dialect import endpoint
from gateway.upstream.vendors import vendor_of

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
_SHARED_NAMES = frozenset(
    {"model", "messages", "stream", "temperature", "top_p", "top_k", "tools", "tool_choice", "metadata"}
)
"""Parameters with the same name in chat completions."""
_PARAMETER_NAMES: ChatWords = {
    **dict.fromkeys(STANDARD_FIELDS - _SHARED_NAMES),
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "output_config.effort",
    "user": "metadata.user_id",
    "safety_identifier": "metadata.user_id",
    "service_tier": "service_tier",
}
"""The names of chat completion parameters in this API."""
_REQUIRED_FIELDS = frozenset({"max_tokens"})
"""Fields that an owner's overrides cannot remove."""
CONTENT_FIELDS = frozenset({"model", "messages", "system", "tools", "tool_choice"})
"""Fields that the model reads."""

_FOREIGN_SEAL = re.compile(rb'"signature"\s*:\s*"(?:"|' + re.escape(SEAL_PREFIX.encode()) + rb")")
"""Matches a seal that Anthropic did not make."""


def native_order(order: Order, overrides: Overrides | None) -> Order:
    """Returns the request with the overrides of the channel's owner."""
    if overrides is None:
        return order
    overrides = msgspec.structs.replace(
        overrides, set=_with_stop_list(overrides.set), default=_with_stop_list(overrides.default)
    )
    order = edit_request(order, overrides, _PARAMETER_NAMES, _REQUIRED_FIELDS)
    if not overrides.system:
        return order
    system = _with_system(order.fields.get("system", rawjson.NULL), overrides)
    return msgspec.structs.replace(order, fields={**order.fields, "system": system}, body=b"")


def _with_stop_list(parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns parameters whose stop sequences are a list, as Anthropic wants them."""
    stop = parameters.get("stop")
    return {**parameters, "stop": [stop]} if isinstance(stop, str) else parameters


def _with_system(system: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns the system texts with the owner's at the end: Anthropic wants Claude Code's first block to stay first."""
    own_block = {"type": "text", "text": overrides.system}
    if overrides.replace_system or rawjson.is_null(system):
        return rawjson.raw([own_block])
    blocks = rawjson.items(system) if rawjson.is_list(system) else [rawjson.raw({"type": "text", "text": system})]
    return rawjson.raw([*blocks, own_block])


def _without_foreign_thoughts(messages: msgspec.Raw) -> msgspec.Raw:
    """Returns the messages without thoughts that Anthropic did not make. A message that becomes empty is left out."""
    if not _FOREIGN_SEAL.search(memoryview(messages)):
        return messages
    clean_messages: list[object] = []
    for raw in rawjson.items(messages):
        message = rawjson.fields(raw)
        content = message.get("content", rawjson.NULL)
        blocks = rawjson.items(content) if rawjson.is_list(content) else []
        own_blocks = [block for block in blocks if not _is_foreign_thought(block)]
        if len(own_blocks) == len(blocks):
            clean_messages.append(raw)
        elif own_blocks:
            clean_messages.append({**message, "content": own_blocks})
    return rawjson.raw(clean_messages)


def _is_foreign_thought(block: msgspec.Raw) -> bool:
    if not _FOREIGN_SEAL.search(memoryview(block)):
        return False
    value = rawjson.maybe(block)
    signature = rawjson.at(value, "signature")
    is_foreign = signature == "" or rawjson.text_at(signature).startswith(SEAL_PREFIX)
    return is_foreign and rawjson.at(value, "type") == "thinking"


def native_request(order: Order, channel: Channel, served: ServedModel, path: str = PATH) -> PreparedRequest:
    """Returns the request to a path of the channel."""
    changes: Fields = {"model": rawjson.raw(served.upstream_name)}
    dropped: tuple[str, ...] = ()
    with suppress(ValueError):  # if the messages are not a list of objects, the upstream will reject them
        messages = order.fields["messages"]
        changes["messages"] = _without_foreign_thoughts(messages)
        if changes["messages"] != messages:
            dropped = ("messages[].thinking",)
    lower_limit = lower_cap(order.fields, "max_tokens", served)
    changes |= lower_limit
    headers = native_headers(order, channel)
    if not any(name.lower() == "anthropic-version" for name in (*headers, *channel.headers)):
        headers["anthropic-version"] = VERSION
    url = endpoint(root(channel), path)
    if order.query:
        url += ("&" if "?" in url else "?") + order.query
    return PreparedRequest(
        url=url,
        headers=headers,
        body=native_body(order, changes),
        dropped=dropped,
        lowered=served.max_output if lower_limit else None,
    )


class MessagesRelay(Adapter):
    """Calls a channel that speaks Messages, in one attempt. An answer in the other form than requested is rendered."""

    def __init__(self, dialect: DialectAdapter) -> None:
        """``dialect`` is the channel's. It reads failures, and everything in answers that is not content."""
        self._dialect = dialect
        self._renamed = False
        """Whether the channel calls the model something else."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. No parameters are left out, because clients react to errors about them themselves."""
        self._renamed = served.upstream_name != order.model
        return native_request(order, channel, served)

    def stream(self, order: Order, channel: Channel) -> RenderableStream:
        return RenderableStream(channel, self._tap(order, channel), lambda: self._rendering().rendered(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        if is_stream(body):
            return self._rendering().whole(body, order, channel)
        return self._tap(order, channel).read_whole(as_utf8(body))

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns the failure, which never means that the channel lacks Messages: its dialect has no other API."""
        failure = native_failure(self._dialect.failure(channel, status, headers, body), body)
        if status == HTTPStatus.NOT_FOUND and (message := _lost_state_message(body)) is not None:
            failure = msgspec.structs.replace(
                failure,
                kind=FailureKind.CLIENT,
                code=REJECTED,
                text=UpstreamText(f"channel '{channel.name}': {message}"),
                param=None,
                verbatim=UpstreamText(body.decode("utf-8", "replace")),
            )
        return msgspec.structs.replace(failure, lacks_api=False, may_lack_api=False)

    def _rendering(self) -> RenderingAdapter:
        return RenderingAdapter(
            self._dialect,
            partial(MessagesRenderer, style=_NATIVE_STYLE),
            partial(WholeMessageRenderer, style=_NATIVE_STYLE),
        )

    def _tap(self, order: Order, channel: Channel) -> MessageTap:
        model = order.model if self._renamed else ""
        tap = MessageTap(order, channel, self._dialect.reader(order, channel), model)
        if "tool_choice" in order.fields and _is_choice_ignored(order, channel):
            tap.request_marks = ("tool_choice_ignored",)
        return tap


def _own_signature(seal: Seal) -> str:
    """Returns Anthropic's signature of a thought that it made; for other thoughts the gateway's seal."""
    thoughts = rawjson.maybe(seal.content) if seal.kind is SealKind.ANTHROPIC else None
    return rawjson.text_at(thoughts[0], "signature") if thoughts else seal_text(seal)


_NATIVE_STYLE = MessageStyle(sign=_own_signature)


def _lost_state_message(body: bytes) -> str | None:
    """Returns the message of an error about something that the upstream no longer keeps, such as a thread.

    None for other errors, which have no code in their details.
    """
    value = rawjson.maybe(body)
    if not rawjson.at(value, "error", "details", "error_code"):
        return None
    return str(rawjson.at(value, "error", "message"))


def _is_choice_ignored(order: Order, channel: Channel) -> bool:
    """Returns whether the request requires or forbids a tool at a server that ignores that."""
    if vendor_of(channel.preset, channel.base_url).heeds_tool_choice:
        return False
    return rawjson.at(order.fields["tool_choice"], "type") not in (None, "auto")
