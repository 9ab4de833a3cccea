"""Messages at channels that speak it: request and answer pass unchanged.

Apart from the owner's overrides, two things change in a request. The model gets the channel's name for it. And thoughts
with the gateway's own seal, or an empty one, are left out: clients send them back like all others, but Anthropic did
not make them and would refuse them. In an answer, only the model's name changes.

What Claude Code adds to requests, such as ``context_management``, changes little in the answer. A server that refuses
a field of this kind, or a beta, gets requests without it from then on.

Claude Code sends only the tools that its own search has found. They are marked ``defer_loading``, the search's results
refer to them by ``tool_reference``, and a beta allows both. A server that refuses one of these gets the request again
without the marks, and with the references as text: the tools themselves are in the request anyway.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SEAL_PREFIX
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Overrides, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.failure import Failure, UpstreamText
from gateway.domain.json_text import as_utf8, contains, refuse_many_elements
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.output_limit import STANDARD_FIELDS
from gateway.domain.rawjson import Fields
from gateway.domain.sse import is_stream
from gateway.inbound.media import image_type_of
from gateway.inbound.messages.conversation import described_block
from gateway.inbound.messages.native_answer import MessageTap
from gateway.inbound.messages.render import MessagesRenderer, WholeMessageRenderer
from gateway.inbound.messages.tools import TOOL_CHANGE_TYPES, USUAL_BLOCKS, changed_tools, is_refused_block
from gateway.inbound.relay import NativeStream, lower_cap, native_failure, native_headers
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import Adapter, DialectAdapter, WholeAnswer, failing_attempt
from gateway.upstream.answer_formats import FORMATS_REFUSED
from gateway.upstream.anthropic.dialect import request_headers, root
from gateway.upstream.call_memory import THOUGHTS_REFUSED
from gateway.upstream.efforts import EFFORT, FORMS_REFUSED, lower_budget
from gateway.upstream.failures import REJECTED
from gateway.upstream.message_rules import NO_SYSTEM_TURNS, SYSTEM_FIRST, THOUGHTS, with_each_part
from gateway.upstream.openai.dialect import endpoint
from gateway.upstream.overrides import ParameterNames, with_parameters
from gateway.upstream.refused_params import BETA, EVERY_BETA, REASONING_BACK
from gateway.upstream.request_rules import fit_request, is_rule
from gateway.upstream.translation import with_limit
from gateway.upstream.vendors import vendor_of

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
_SHARED_NAMES = frozenset(
    {"model", "messages", "stream", "temperature", "top_p", "top_k", "tools", "tool_choice", "metadata"}
)
"""Parameters with the same name in chat completions."""
_PARAMETER_NAMES: ParameterNames = {
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
CONTENT_FIELDS = frozenset({"model", "messages", "system", "tools", "tool_choice"})
"""Fields that the model reads."""

_FOREIGN_SEAL = re.compile(rb'"signature"\s*:\s*"(?:"|' + re.escape(SEAL_PREFIX.encode()) + rb")")
"""Matches a seal that Anthropic did not make."""


def native_order(order: Order, overrides: Overrides | None) -> Order:
    """Returns the request with the overrides of the channel's owner."""
    order = with_parameters(order, overrides, _PARAMETER_NAMES, required={"max_tokens"})
    if overrides is None or not overrides.system:
        return order
    system = _with_system(order.fields.get("system", rawjson.NULL), overrides)
    return msgspec.structs.replace(order, fields={**order.fields, "system": system}, body=b"")


def _with_system(system: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns the system texts with the owner's at the end: Anthropic wants Claude Code's first block to stay first."""
    own_block = {"type": "text", "text": overrides.system}
    if overrides.replace_system or rawjson.is_null(system):
        return rawjson.raw([own_block])
    blocks = rawjson.items(system) if rawjson.is_list(system) else [rawjson.raw({"type": "text", "text": system})]
    return rawjson.raw([*blocks, own_block])


def _with_blocks(messages: msgspec.Raw, change: Callable[[Any], Any]) -> msgspec.Raw:
    """Returns the messages with changed blocks."""
    sent = rawjson.list_at(messages)
    changed = with_each_part(sent, change)
    return messages if changed == sent else rawjson.raw(changed)


def _drop_foreign_thought(block: Any) -> Any:
    signature = rawjson.at(block, "signature")
    is_foreign = signature == "" or rawjson.text_at(signature).startswith(SEAL_PREFIX)
    return None if is_foreign and rawjson.at(block, "type") == "thinking" else block


def native_request(
    order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals, path: str = PATH
) -> PreparedRequest:
    """Returns the request to a path of the channel, without the fields and betas that the upstream refused before."""
    order, dropped = _without_refused(order, learned.dropped)
    changes: Fields = {"model": rawjson.raw(served.upstream_name)}
    messages = order.fields["messages"]
    has_marks = any(contains(messages, mark) for mark in (b'""', SEAL_PREFIX.encode()))  # faster than the pattern
    if has_marks and _FOREIGN_SEAL.search(memoryview(messages)):
        changes["messages"] = _with_blocks(messages, _drop_foreign_thought)
        if changes["messages"] != messages:
            dropped = ("messages[].thinking", *dropped)
    lower_limit = lower_cap(order.fields, "max_tokens", served)
    changes |= lower_limit | lower_budget(order.fields, lower_limit)
    url = endpoint(root(channel), path)
    if order.query:
        url += ("&" if "?" in url else "?") + order.query
    return PreparedRequest(
        url=url,
        headers={**request_headers(channel, stream=order.stream), **native_headers(order, channel)},
        body=order.body_with({**order.fields, **changes}),
        dropped=dropped,
        lowered_cap=served.max_output if lower_limit else None,
    )


_MARKED = ("system", "tools", "messages.content")
_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    EFFORT: ("output_config.effort",),
    **{name: (f"tools.{name}",) for name in ("eager_input_streaming", "input_examples", "strict")},
    REASONING_BACK: (THOUGHTS,),
    SYSTEM_FIRST: (NO_SYSTEM_TURNS,),
    **dict.fromkeys(FORMATS_REFUSED, ()),  # this API has other formats, which the upstream's own words may name
    "user": ("metadata.user_id",),
    **{name: tuple(f"{holder}.cache_control.{name}" for holder in _MARKED) for name in ("scope", "ttl")},
}
"""The paths of members that may be left out, by the dialect's names in a refusal. List items have the list's path."""
_NEEDED = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "stream", "stop_sequences", "thinking"),
        *("output_config", "mcp_servers", "container", "id", "name", "input", "content", "source", "input_schema"),
    }
)
"""Fields and members of blocks that must stay. Any other one may be left out, such as Claude Code's next one."""


def _without_refused(order: Order, refused: Collection[str]) -> tuple[Order, tuple[str, ...]]:
    """Returns the order without fields and betas that the upstream refused, and their names."""
    fields, dropped = fit_request(order.fields, refused)
    betas = [name for name in map(str.strip, order.forward.get(_BETA_HEADER, "").split(",")) if name]
    lost = [beta for beta in betas if EVERY_BETA in refused or BETA + beta in refused]
    forward = _with_betas(order.forward, [beta for beta in betas if beta not in lost])
    body = order.body if fields == order.fields else b""
    order = msgspec.structs.replace(order, fields=fields, body=body, forward=forward)
    return order, (*(BETA + beta for beta in lost), *dropped)


def _is_own(name: str) -> bool:
    """Returns whether this is the name of a beta, of a rule that may hold for this API, or of a field that may go."""
    field = name.rpartition("[].")[2]  # such as one that another gateway added to a block
    return name.startswith(BETA) or is_rule(name) or (field.isidentifier() and field not in _NEEDED)


def _with_betas(headers: Mapping[str, str], betas: Iterable[str]) -> dict[str, str]:
    """Returns the headers with these betas. Without betas the header is left out: servers refuse an empty one."""
    others = {name: value for name, value in headers.items() if name != _BETA_HEADER}
    names = ",".join(filter(None, betas))
    return {**others, _BETA_HEADER: names} if names else others


class MessagesRelay(Adapter):
    """Calls a channel that speaks Messages, in one attempt. An answer in the other form than requested is rendered."""

    def __init__(self, dialect: DialectAdapter) -> None:
        """``dialect`` is the channel's. It reads failures, and everything in answers that is not content."""
        self._dialect = dialect
        self._renamed = False
        """Whether the channel calls the model something else."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        self._renamed = served.upstream_name != order.model
        return native_request(order, channel, with_limit(served, learned), learned)

    def stream(self, order: Order, channel: Channel) -> NativeStream:
        return NativeStream(channel, self._tap(order, channel))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        if is_stream(body):
            return RenderingAdapter(self._dialect, MessagesRenderer, WholeMessageRenderer).whole(body, order, channel)
        with failing_attempt(body, channel):
            refuse_many_elements(body)
            return self._tap(order, channel).read_whole(as_utf8(body))

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Returns the failure, which never means that the channel lacks Messages: its dialect has no other API."""
        failure = self._dialect.failure(channel, status, headers, body)
        is_about_form = not FORMS_REFUSED.keys().isdisjoint(failure.parameters)
        optional = {**_OPTIONAL, EFFORT: ()} if is_about_form else _OPTIONAL
        failure = native_failure(failure, body, optional, _is_own)
        error = rawjson.at(rawjson.maybe(body), "error") if status == HTTPStatus.NOT_FOUND else None
        if rawjson.at(error, "details", "error_code"):  # the upstream no longer keeps something, such as a thread
            failure = msgspec.structs.replace(
                failure,
                kind=FailureKind.CLIENT,
                code=REJECTED,
                text=UpstreamText(f"channel '{channel.name}': {rawjson.at(error, 'message')}"),
                param=None,
                verbatim=UpstreamText(body.decode("utf-8", "replace")),
            )
        return msgspec.structs.replace(failure, lacks_api=False, may_lack_api=False)

    def _tap(self, order: Order, channel: Channel) -> MessageTap:
        model = order.model if self._renamed else ""
        tap = MessageTap(order, channel, self._dialect.reader(order, channel), model)
        is_forced = rawjson.at(order.fields.get("tool_choice"), "type") not in (None, "auto")
        if is_forced and not vendor_of(channel).heeds_tool_choice:
            tap.add_mark("tool_choice_ignored")
        return tap


_DEFERRED = "defer_loading"
_BETA_HEADER = "anthropic-beta"
_DEFERRED_REFUSED = re.compile(
    r"defer_loading|tool[ _](?:reference|addition|removal)|tool_result|\bbeta\b|\"invalid request error\"",
    re.IGNORECASE,
)
"""Matches refusals of deferred tools. Some servers name the mark or the block, some the result that contains it, and
some only the beta; Kimi names nothing."""
_DEFERRED_BETA = re.compile(r"tool-search-tool-|advanced-tool-use-|mid-conversation-tool-changes-")
"""Matches the betas that allow deferred tools and changes of tools."""
_DEFERRED_PARTS = re.compile(rb'"(?:defer_loading|tool_reference|tool_addition|tool_removal)"')
_BLOCK_REFUSED = re.compile(
    r"content\S{0,40} (?:Input tag '(\w+)' found using 'type'|(?:unknown variant|.{0,60}invalid value:) [`'](\w+))"
    r"|'content'[^{}]{0,80}'type'\)[^{}]{0,300}'input': '(\w+)'|()invalid request error",
    re.IGNORECASE,
)
"""Matches refusals of a type of block, which servers other than Kimi name."""


def repaired_order(order: Order, failure: Failure) -> Order | None:
    """Returns the request with tools, blocks and thoughts as the upstream wants them; None for other refusals."""
    message = failure.verbatim.apply(str) if failure.status in (400, 422) else ""
    fields, removed = dict(order.fields), list[str]()
    try:
        if (repaired := _without_deferred_tools(order, message)) is not None:
            return repaired
        name, change = _block_change(message)
        fields["messages"] = _with_blocks(order.fields["messages"], change)
    except (ValueError, BadRequest):  # invalid for the API: the upstream's error stands
        return None
    if fields != order.fields:
        removed.append(name)
    if change is _drop_thought and rawjson.at(order.fields.get("thinking"), "type") == "enabled":
        del fields["thinking"]  # it demands thoughts before calls of tools
        removed.append("thinking")
    if not removed:
        return None
    return msgspec.structs.replace(order, fields=fields, body=b"", removed=(*order.removed, *removed))


def _block_change(message: str) -> tuple[str, Callable[[Any], Any]]:
    """Returns the name of what changes after a refusal, and what it makes of a block. Raises ValueError for others."""
    if found := _BLOCK_REFUSED.search(message):
        refused = found[found.lastindex or 0]
        return f"messages[].{refused or 'content'}", partial(_describe_if_refused, refused)
    if "media type" in message:
        return "messages[].media_type", _with_true_type
    if THOUGHTS_REFUSED.search(message):
        return "messages[].thinking", _drop_thought
    raise ValueError("it is not about blocks")


def _describe_if_refused(refused: str, block: Any) -> Any:
    """Returns a text in place of a block that fails like one of this type. Raises BadRequest."""
    is_refused = refused not in USUAL_BLOCKS and is_refused_block(rawjson.text_at(block, "type"), refused)
    return {"type": "text", "text": described_block(rawjson.raw(block))} if is_refused else block


def _with_true_type(block: Any) -> Any:
    """Returns an image with the type that its bytes show, which Anthropic insists on."""
    source = rawjson.at(block, "source")
    kind = image_type_of(rawjson.text_at(source, "data")) if rawjson.at(block, "type") == "image" else ""
    return {**block, "source": {**source, "media_type": kind}} if kind else block


def _drop_thought(block: Any) -> Any:
    return None if rawjson.text_at(block, "type") in ("thinking", "redacted_thinking") else block


def _without_deferred_tools(order: Order, message: str) -> Order | None:
    """Returns the request without deferred and changed tools; None for other refusals. Raises as ``changed_tools``."""
    if not _DEFERRED_REFUSED.search(message):
        return None
    betas = order.forward.get(_BETA_HEADER, "")
    fields: Fields = {name: order.fields[name] for name in ("tools", "messages") if name in order.fields}
    has_parts = any(_DEFERRED_PARTS.search(memoryview(raw)) for raw in fields.values())
    if not has_parts and not ("beta" in message and _DEFERRED_BETA.search(betas)):
        return None
    if has_parts:
        fields = _with_plain_tools(fields)
    others = [name for name in map(str.strip, betas.split(",")) if not _DEFERRED_BETA.match(name)]
    return msgspec.structs.replace(
        order,
        fields={**order.fields, **fields},
        body=b"" if has_parts else order.body,
        forward=_with_betas(order.forward, others),
        removed=(*order.removed, _DEFERRED),
    )


def _with_plain_tools(fields: Fields) -> Fields:
    """Returns the tools without marks, and the messages with references as the text that other dialects get. Tools
    that the messages add are in the list, and tools that they remove are not. Raises ValueError and BadRequest.
    """
    changes: list[tuple[str, msgspec.Raw]] = []

    def plain(block: Any) -> Any:
        kind = rawjson.text_at(block, "type")
        if kind not in TOOL_CHANGE_TYPES:
            return _describe_if_refused("tool_reference", block)
        changes.append((kind, rawjson.raw(block.get("tool"))))
        return None

    plain_fields = {"messages": _with_blocks(fields["messages"], plain)}
    if "tools" in fields or changes:
        tools = rawjson.objects(changed_tools(fields.get("tools", rawjson.NULL), changes))
        unmarked = [{name: value for name, value in tool.items() if name != _DEFERRED} for tool in tools]
        plain_fields["tools"] = rawjson.raw(unmarked)
    return plain_fields
