"""Messages at channels that speak it: request and answer pass unchanged.

Beside the owner's overrides, two things change in a request. The model gets the channel's name for it. And thoughts
that Anthropic did not make are left out, because it would refuse them: those with the gateway's own seal or an empty
one, which clients send back like all others. In an answer only the model's name changes.

Claude Code sends only the tools that its own search has found. They are marked ``defer_loading``, the search's results
refer to them by ``tool_reference``, and a beta allows both. A server that refuses one of these gets the request again
without the marks, and with the references as text: the tools themselves are in the request anyway.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SEAL_PREFIX, Seal, SealKind, wrap
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.failure import Failure, UpstreamText
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import STANDARD_FIELDS
from gateway.domain.rawjson import Fields
from gateway.domain.sse import is_stream
from gateway.inbound.messages.native_answer import MessageTap
from gateway.inbound.messages.render import MessagesRenderer, MessageStyle, WholeMessageRenderer
from gateway.inbound.messages.tools import TOOL_CHANGES, changed_tools
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
"""Parameters with the same name in both APIs."""
WORDS: ChatWords = {
    **dict.fromkeys(STANDARD_FIELDS - _SHARED_NAMES),
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "output_config.effort",
    "user": "metadata.user_id",
    "safety_identifier": "metadata.user_id",
    "service_tier": "service_tier",
}
REQUIRED = frozenset({"max_tokens"})
CONTENT = frozenset({"model", "messages", "system", "tools", "tool_choice"})
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
    order = edit_request(order, overrides, WORDS, REQUIRED)
    if not overrides.system:
        return order
    system = _with_system(order.fields.get("system", rawjson.NULL), overrides)
    return msgspec.structs.replace(order, fields={**order.fields, "system": system}, body=b"")


def _with_stop_list(parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns parameters whose stop sequences are a list, as Anthropic wants them."""
    stop = parameters.get("stop")
    return {**parameters, "stop": [stop]} if isinstance(stop, str) else parameters


def _with_system(system: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns the system texts with the owner's at the end: Anthropic insists that Claude Code's first block is the
    first.
    """
    own_block = {"type": "text", "text": overrides.system}
    if overrides.replace_system or rawjson.is_null(system):
        return rawjson.raw([own_block])
    blocks = rawjson.items(system) if rawjson.is_list(system) else [rawjson.raw({"type": "text", "text": system})]
    return rawjson.raw([*blocks, own_block])


def _without_foreign_thoughts(messages: msgspec.Raw) -> msgspec.Raw:
    """Returns the messages without thoughts that Anthropic did not make. A message that becomes empty is left out."""
    if not _FOREIGN_SEAL.search(memoryview(messages)):
        return messages
    kept: list[object] = []
    for raw in rawjson.items(messages):
        message = rawjson.fields(raw)
        content = message.get("content", rawjson.NULL)
        if not _FOREIGN_SEAL.search(memoryview(content)) or not rawjson.is_list(content):
            kept.append(raw)
            continue
        blocks = rawjson.items(content)
        own_blocks = [block for block in blocks if not _is_foreign_thought(block)]
        if own_blocks:
            kept.append({**message, "content": own_blocks} if len(own_blocks) < len(blocks) else raw)
    return rawjson.raw(kept)


def _is_foreign_thought(block: msgspec.Raw) -> bool:
    if not _FOREIGN_SEAL.search(memoryview(block)):
        return False
    value = rawjson.maybe(block)
    signature = rawjson.at(value, "signature")
    return rawjson.at(value, "type") == "thinking" and (
        signature == "" or rawjson.text_at(signature).startswith(SEAL_PREFIX)
    )


def native_request(order: Order, channel: Channel, served: ServedModel, path: str = PATH) -> PreparedRequest:
    """Returns the request to a path of the channel."""
    changes: Fields = {"model": rawjson.raw(served.upstream_name)}
    dropped: tuple[str, ...] = ()
    with suppress(ValueError):  # if the messages are not a list of objects, the upstream will reject them
        changes["messages"] = _without_foreign_thoughts(order.fields["messages"])
        dropped = () if changes["messages"] == order.fields["messages"] else ("messages[].thinking",)
    lower = lower_cap(order.fields, "max_tokens", served)
    changes |= lower
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
        lowered=served.max_output if lower else None,
    )


class MessagesRelay(Adapter):
    """How such a channel is called in one attempt. A stream for a plain request is rendered as a whole answer, and a
    whole answer for a stream as events.
    """

    def __init__(self, dialect: DialectAdapter) -> None:
        """``dialect`` is the channel's: it reads failures, and of answers what is not content."""
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
        return self._tap(order, channel).read_whole(body)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns the failure. The channel cannot lack the API, because its dialect has no other."""
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
    """Returns Anthropic's signature of a thought that it made; for others the seal of the gateway."""
    thoughts = rawjson.maybe(seal.content) if seal.kind is SealKind.ANTHROPIC else None
    return rawjson.text_at(thoughts[0], "signature") if thoughts else wrap(seal)


_NATIVE_STYLE = MessageStyle(sign=_own_signature)


def _lost_state_message(body: bytes) -> str | None:
    """Returns the message of an error about something that the upstream no longer keeps, such as a thread; None for
    other errors.
    """
    value = rawjson.maybe(body)
    return str(rawjson.at(value, "error", "message")) if rawjson.at(value, "error", "details", "error_code") else None


def _is_choice_ignored(order: Order, channel: Channel) -> bool:
    """Returns whether the request requires or forbids a tool at a server that ignores that."""
    if vendor_of(channel.preset, channel.base_url).heeds_tool_choice:
        return False
    return rawjson.at(order.fields["tool_choice"], "type") not in (None, "auto")


_DEFERRED = "defer_loading"
_BETA_HEADER = "anthropic-beta"
_REFUSAL = re.compile(
    r"defer_loading|tool[ _](?:reference|addition|removal)|tool_result|\bbeta\b|\"invalid request error\"",
    re.IGNORECASE,
)
"""How servers refuse deferred tools: some name the mark or the block, some the result that contains it, some only the
beta; Kimi names nothing."""
_BETA = re.compile(r"tool-search-tool-|advanced-tool-use-|mid-conversation-tool-changes-")
_DEFERRED_PARTS = re.compile(rb'"(?:defer_loading|tool_reference|tool_addition|tool_removal)"')


def without_deferred_tools(order: Order, failure: Failure) -> Order | None:
    """Returns the request without deferred tools and changes of tools; None if it has none, or failed for another
    reason.
    """
    message = failure.verbatim.cleared(str)
    if failure.status not in (400, 422) or not _REFUSAL.search(message):
        return None
    betas = order.forward.get(_BETA_HEADER, "")
    fields: Fields = {name: order.fields[name] for name in ("tools", "messages") if name in order.fields}
    has_parts = any(_DEFERRED_PARTS.search(memoryview(raw)) for raw in fields.values())
    if not has_parts and not ("beta" in message and _BETA.search(betas)):
        return None
    if has_parts:
        try:
            fields = _with_plain_tools(fields)
        except (ValueError, BadRequest):  # invalid for the API: the upstream's error stands
            return None
    return msgspec.structs.replace(
        order,
        fields={**order.fields, **fields},
        body=b"" if has_parts else order.body,
        forward={**order.forward, _BETA_HEADER: _without_beta(betas)} if betas else order.forward,
        removed=(*order.removed, _DEFERRED),
    )


def _with_plain_tools(fields: Fields) -> Fields:
    """Returns the tools without marks, and the messages with references as the text that other dialects get. Tools
    that the messages add are in the list, and tools that they remove are not.
    """
    plain: Fields = {}
    messages, changes = rawjson.value(fields.get("messages")), []
    for message in messages if isinstance(messages, list) else ():
        for block in _objects(message, "content"):
            if block.get("type") in TOOL_CHANGES:
                message["content"].remove(block)
                changes.append((str(block["type"]), rawjson.raw(block.get("tool"))))
            for part in _objects(block, "content"):
                if part.get("type") == "tool_reference":
                    name = part.get("tool_name", "")
                    part.clear()
                    part |= {"type": "text", "text": f"[tool_reference {name}]"}
    if isinstance(messages, list) and _DEFERRED_PARTS.search(memoryview(fields["messages"])):
        plain["messages"] = rawjson.raw([message for message in messages if rawjson.at(message, "content") != []])
    if "tools" in fields or changes:
        tools = rawjson.objects(changed_tools(fields.get("tools", rawjson.NULL), changes))
        unmarked = [{name: value for name, value in tool.items() if name != _DEFERRED} for tool in tools]
        plain["tools"] = rawjson.raw(unmarked)
    return plain


def _objects(holder: object, name: str) -> list[dict[str, object]]:
    """Returns the objects in a list of the holder; none if there is no such list."""
    return [item for item in rawjson.list_at(holder, name) if isinstance(item, dict)]


def _without_beta(betas: str) -> str:
    return ",".join(name for name in map(str.strip, betas.split(",")) if name and not _BETA.match(name))
