"""Messages at a channel that speaks it: request and answer pass unchanged.

Beside the owner's overrides two things of a request change: the model's name, if the channel calls it something else,
and thoughts that Anthropic did not make, which it would refuse: those with the gateway's own seal or an empty one
(clients replay all of them). Of an answer only the model's name changes, under the same condition.

Claude Code sends only the tools that its own search has found. They are marked ``defer_loading``, the search's results
refer to them by ``tool_reference``, and a beta allows both. A server that refuses one of these gets the request again
without the marks, with the references as text: the tools themselves are in it anyway.
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
from gateway.inbound.messages.render import MessagesRenderer, WholeMessageRenderer
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
SHARED = frozenset({"model", "messages", "stream", "temperature", "top_p", "top_k", "tools", "tool_choice", "metadata"})
"""Parameters with the same name in both APIs."""
WORDS: ChatWords = {
    **dict.fromkeys(STANDARD_FIELDS - SHARED),
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

_FOREIGN = re.compile(rb'"signature"\s*:\s*"(?:"|' + re.escape(SEAL_PREFIX.encode()) + rb")")
"""Matches a seal that Anthropic did not make."""


def native_order(order: Order, overrides: Overrides | None) -> Order:
    """Returns the request as the channel's owner wants it. Its system prompt follows the client's: see
    ``_with_system``.
    """
    if overrides is None:
        return order
    stop = overrides.set.get("stop"), overrides.default.get("stop")
    if any(isinstance(value, str) for value in stop):
        overrides = msgspec.structs.replace(
            overrides, set=_list_stops(overrides.set), default=_list_stops(overrides.default)
        )
    order = edit_request(order, overrides, WORDS, REQUIRED)
    if not overrides.system:
        return order
    system = _with_system(order.fields.get("system", rawjson.NULL), overrides)
    return msgspec.structs.replace(order, fields={**order.fields, "system": system}, body=b"")


def _list_stops(parameters: dict[str, Any]) -> dict[str, Any]:
    """Turns stop sequences into a list."""
    return {name: [value] if name == "stop" and isinstance(value, str) else value for name, value in parameters.items()}


def _with_system(given: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns the system texts with the owner's last: Anthropic reads Claude Code's first block only in first place."""
    own = {"type": "text", "text": overrides.system}
    if overrides.replace_system or rawjson.is_null(given):
        return rawjson.raw([own])
    try:
        blocks: list[object] = list(rawjson.items(given))
    except ValueError:
        blocks = [{"type": "text", "text": given}]
    return rawjson.raw([*blocks, own])


def without_foreign_thoughts(messages: msgspec.Raw) -> msgspec.Raw:
    """Returns the messages without thoughts that Anthropic did not make; a message left empty is omitted."""
    if not _FOREIGN.search(memoryview(messages)):
        return messages
    kept: list[object] = []
    for raw in rawjson.items(messages):
        turn = rawjson.fields(raw)
        content = turn.get("content", rawjson.NULL)
        if not _FOREIGN.search(memoryview(content)) or bytes(memoryview(content)[:1]) != b"[":
            kept.append(raw)
            continue
        blocks = rawjson.items(content)
        own = [block for block in blocks if not _is_foreign(block)]
        if own:
            kept.append({**turn, "content": own} if len(own) < len(blocks) else raw)
    return rawjson.raw(kept)


def _is_foreign(block: msgspec.Raw) -> bool:
    if not _FOREIGN.search(memoryview(block)):
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
    if "messages" in order.fields:
        with suppress(ValueError):  # if it is not a list of objects, the upstream will reject it
            changes["messages"] = without_foreign_thoughts(order.fields["messages"])
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
    """How such a channel is called, for one attempt. An answer in the other form than requested is rendered."""

    def __init__(self, dialect: DialectAdapter) -> None:
        """``dialect`` is the channel's: it reads failures, and what is not content of an answer."""
        self._dialect = dialect
        self._renamed = False
        """Whether the channel calls the model something else."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """Returns the request. No parameters are left out: clients deal with errors about them themselves."""
        self._renamed = served.upstream_name != order.model
        return native_request(order, channel, served)

    def stream(self, order: Order, channel: Channel) -> RenderableStream:
        return RenderableStream(channel, self._tap(order, channel), lambda: self._rendering().rendered(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        if is_stream(body):
            return self._rendering().whole(body, order, channel)
        return self._tap(order, channel).read_whole(body)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns the failure. The API cannot be lacking: this dialect has no other."""
        read = native_failure(self._dialect.failure(channel, status, headers, body), body)
        if status == HTTPStatus.NOT_FOUND and (said := _about_state(body)) is not None:
            text = UpstreamText(f"channel '{channel.name}': {said}")
            whole = UpstreamText(body.decode("utf-8", "replace"))
            read = msgspec.structs.replace(
                read, kind=FailureKind.CLIENT, code=REJECTED, text=text, param=None, verbatim=whole
            )
        return msgspec.structs.replace(read, lacks_api=False, may_lack_api=False)

    def _rendering(self) -> RenderingAdapter:
        return RenderingAdapter(
            self._dialect,
            partial(MessagesRenderer, names={}, sign=_own_signature),
            partial(WholeMessageRenderer, names={}, sign=_own_signature),
        )

    def _tap(self, order: Order, channel: Channel) -> MessageTap:
        model = order.model if self._renamed else ""
        tap = MessageTap(order, channel, self._dialect.reader(order, channel), model)
        if "tool_choice" in order.fields and _is_choice_ignored(order, channel):
            tap.noted = ("tool_choice_ignored",)
        return tap


def _own_signature(seal: Seal) -> str:
    """Returns Anthropic's signature of a thought that it made, else the seal."""
    thoughts = rawjson.maybe(seal.content) if seal.kind is SealKind.ANTHROPIC else None
    return rawjson.text_at(thoughts[0], "signature") if thoughts else wrap(seal)


def _about_state(body: bytes) -> str | None:
    """Returns the upstream's error about something it no longer keeps, such as a thread; None for others."""
    value = rawjson.maybe(body)
    return str(rawjson.at(value, "error", "message")) if rawjson.at(value, "error", "details", "error_code") else None


def _is_choice_ignored(order: Order, channel: Channel) -> bool:
    """Returns whether the request demands or forbids a tool, and the server ignores that."""
    if vendor_of(channel.preset, channel.base_url).heeds_tool_choice:
        return False
    return rawjson.at(order.fields["tool_choice"], "type") not in (None, "auto")


_DEFERRED = "defer_loading"
_BETA_HEADER = "anthropic-beta"
_REFUSED = re.compile(
    r"defer_loading|tool[ _](?:reference|addition|removal)|tool_result|\bbeta\b|\"invalid request error\"",
    re.IGNORECASE,
)
"""What a server says about them: some name the mark or the block, some the result that contains it, some only
the beta; Kimi names nothing."""
_BETA = re.compile(r"tool-search-tool-|advanced-tool-use-|mid-conversation-tool-changes-")
_IN_REQUEST = re.compile(rb'"(?:defer_loading|tool_reference|tool_addition|tool_removal)"')


def without_deferred_tools(order: Order, failure: Failure) -> Order | None:
    """Returns the request without deferred tools and changes of tools; None if it has none, or failed for another
    reason.
    """
    said = failure.verbatim.cleared(str)
    if failure.status not in (400, 422) or not _REFUSED.search(said):
        return None
    betas = order.forward.get(_BETA_HEADER, "")
    given: Fields = {name: order.fields[name] for name in ("tools", "messages") if name in order.fields}
    changed = any(_IN_REQUEST.search(memoryview(raw)) for raw in given.values())
    if not changed and not ("beta" in said and _BETA.search(betas)):
        return None
    try:
        fields = {**order.fields, **(_with_plain_tools(given) if changed else {})}
    except (ValueError, BadRequest):  # invalid for the API: the upstream's error stands
        return None
    forward = {**order.forward, _BETA_HEADER: _without_beta(betas)} if betas else order.forward
    return msgspec.structs.replace(
        order, fields=fields, body=b"" if changed else order.body, forward=forward, removed=(*order.removed, _DEFERRED)
    )


def _with_plain_tools(given: Fields) -> Fields:
    """Returns tools without marks, and messages with every reference as the text that channels of other dialects get.
    Tools that were added and removed on the way are in the list, or not.
    """
    out = {}
    turns, changes = rawjson.value(given.get("messages")), []
    for turn in turns if isinstance(turns, list) else ():
        for block in _objects(turn, "content"):
            if block.get("type") in TOOL_CHANGES:
                turn["content"].remove(block)
                changes.append((str(block["type"]), rawjson.raw(block.get("tool"))))
            for part in _objects(block, "content"):
                if part.get("type") == "tool_reference":
                    name = part.get("tool_name", "")
                    part.clear()
                    part |= {"type": "text", "text": f"[tool_reference {name}]"}
    if isinstance(turns, list) and _IN_REQUEST.search(memoryview(given["messages"])):
        out["messages"] = rawjson.raw([turn for turn in turns if rawjson.at(turn, "content") != []])
    if "tools" in given or changes:
        tools = rawjson.objects(changed_tools(given.get("tools", rawjson.NULL), changes))
        plain = [{name: value for name, value in tool.items() if name != _DEFERRED} for tool in tools]
        out["tools"] = rawjson.raw(plain)
    return out


def _objects(holder: object, name: str) -> list[dict[str, object]]:
    inner = rawjson.at(holder, name)
    return [part for part in inner if isinstance(part, dict)] if isinstance(inner, list) else []


def _without_beta(betas: str) -> str:
    return ",".join(name for name in map(str.strip, betas.split(",")) if name and not _BETA.match(name))
