"""Renders an answer as a response: the events of its stream with their numbers, or the whole object.

The whole object is made like the stream, whose last event contains it: ``response.completed``, ``response.incomplete``
or ``response.failed``. One item is open at a time. An item begins with its first piece, so no item is without
content. The last event is written by ``tail``, once the call is recorded, or by ``broken_end``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    ToolCallBegan,
)
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, JsonObject
from gateway.domain.usage import Usage
from gateway.inbound.rendering import Renderer
from gateway.inbound.responses.output import (
    COMPLETED,
    ID_PREFIXES,
    IN_PROGRESS,
    CallItem,
    ClientToolItem,
    ImageItem,
    MessageItem,
    OutputItem,
    PartItem,
    ReasoningItem,
    TypedEvent,
    encode_event,
    usage_object,
)
from gateway.inbound.responses.tools import ToolKind, ToolTable
from gateway.upstream.openai.responses import ENCRYPTED

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of an incomplete response, by finish reason."""
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
"""The fields that responses repeat from their request, and the default values."""
_FUNCTION_FIELDS: Mapping[str, Any] = {"description": None, "parameters": None, "strict": False}
_SCHEMA_FIELDS: Mapping[str, Any] = {"description": None, "strict": False}
"""Fields that functions and schemas have in a response, and their values if the request omits them."""


class ResponseRenderer(Renderer):
    """Writes the events of one response."""

    def __init__(self, request: Order, tools: ToolTable, order: Order) -> None:
        """``order`` is the request as it is sent, perhaps for another model."""
        self._order = order
        self._echo = _echo_of(request)
        self._tools = tools
        self._wants_summary = bool(_summary_of(request.fields))
        self._seals = ENCRYPTED in rawjson.list_at(request.fields.get("include"))
        """Whether the client wants what it needs to send the reasoning back."""
        self._number = 0
        self._items: list[msgspec.Raw] = []
        self._open_item: OutputItem | None = None
        self._open_kind: object = None
        """What the open item accepts: the kind of pieces, or the number of a tool call."""
        self._finish = ""
        self._keep_alives = 0
        """The number of keep-alives since the last event of the answer."""

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``. The ends of blocks are ignored, because an item ends when the next one begins."""
        out, self._keep_alives = b"", 0
        match event:
            case Piece():
                self.held += len(event.piece) + len(event.logprobs)
                item, out = self._open(event.number if event.kind is BlockKind.TOOL_CALL else event.kind)
                out += self._number_events(item.add_piece(event.piece, event.logprobs))
            case ToolCallBegan():
                tool = self._tools.client_tool(event.name)
                id = self._next_id(ID_PREFIXES[tool.kind])
                item_type = CallItem if tool.kind in (ToolKind.FUNCTION, ToolKind.CUSTOM) else ClientToolItem
                out = self._begin_item(item_type(id, event.id, tool), event.number)
            case Medium():
                self.held += len(event.data)
                out = self._begin_item(ImageItem(self._next_id("ig"), event), None)
            case Citation():
                item, out = self._open(BlockKind.TEXT)
                if isinstance(item, MessageItem):
                    out += self._number_events(item.cite(event))
                self.held += len(out)
            case Seal():
                self.held += len(event.content)
                out = self._seal(event)
            case AnswerBegan():
                out = self._begin()
            case AnswerFinished():
                self._finish = event.reason
                out = self._begin() + self._end_item("incomplete" if event.reason in INCOMPLETE else COMPLETED)
        return out

    def tail(self, usage: Usage) -> bytes:
        kind = "incomplete" if self._finish in INCOMPLETE else COMPLETED
        out = self._begin() + self._event(kind, {"response": msgspec.Raw(self.whole(usage))})
        self._number -= 1  # if the record cannot be written, ``broken_end`` replaces this event
        return out

    def broken_end(self, error: Mapping[str, Any], detail: bytes) -> bytes:
        """Returns the end of a broken stream. An open item is not closed. ``error`` is the code and the message;
        ``detail`` is the whole error, next to the response, for clients that look there.
        """
        response = self._response("failed", self._items, error=error)
        return self._begin() + self._event("failed", {"response": response, "error": msgspec.Raw(detail)})

    def next_keep_alive(self) -> bytes:
        """Returns what is sent after some silence: a comment, and now and then an event that adds nothing.

        Codex does not count comments, and gives up a stream after five minutes without an event.
        """
        self._keep_alives += 1
        if self._keep_alives % 8:  # one is sent every 15 s
            return b": keep-alive\n\n"
        return self._begin() or self._event(IN_PROGRESS, {"response": self._response(IN_PROGRESS, ())})

    def whole(self, usage: Usage) -> bytes:
        reason = INCOMPLETE.get(self._finish)
        details = {"reason": reason} if reason else None
        status = "incomplete" if reason else COMPLETED
        usage_fields = usage_object(usage)
        return rawjson.encode(self._response(status, self._items, incomplete_details=details, usage=usage_fields))

    def _response(self, status: str, items: Iterable[msgspec.Raw], **facts: Mapping[str, Any] | None) -> JsonObject:
        """Returns the response with these items. ``facts``: its ``error``, ``incomplete_details`` and ``usage``."""
        order = self._order
        return {
            "id": order.answer_id,
            "object": "response",
            "created_at": order.created,
            "status": status,
            "completed_at": max(order.created, order.clock() // 1000) if status == COMPLETED else None,
            "error": None,
            "incomplete_details": None,
            "model": order.model,
            "usage": None,
            **facts,
            "output": items,
            **self._echo,
        }

    def _begin(self) -> bytes:
        if self._number:  # these two events have come
            return b""
        response = {"response": rawjson.raw(self._response(IN_PROGRESS, ()))}
        return self._event("created", response) + self._event(IN_PROGRESS, response)

    def _seal(self, event: Seal) -> bytes:
        if not self._seals:
            return self._end_item(COMPLETED) if self._open_kind is BlockKind.REASONING else b""
        item, begun = self._open(BlockKind.REASONING)
        if isinstance(item, ReasoningItem):
            item.seal = event
        return begun + self._end_item(COMPLETED)

    def _next_id(self, prefix: str) -> str:
        """Returns the id of an item by its place in the output, so that it is the same in each rendering."""
        number = len(self._items) + (self._open_item is not None)
        return f"{prefix}_{self._order.answer_id.partition('_')[2]}{number:04x}"

    def _open(self, kind: object) -> tuple[OutputItem, bytes]:
        """Returns the open item for pieces of this kind, and the events of its beginning; empty if it was open."""
        item = self._open_item
        if item is not None and kind == self._open_kind:
            return item, b""
        if kind is BlockKind.REASONING:
            item = ReasoningItem(self._next_id("rs"), summary=self._wants_summary, sealed=self._seals)
        elif kind is BlockKind.REFUSAL:
            item = PartItem(self._next_id("msg"), "message", "refusal", role="assistant")
        else:
            item = MessageItem(self._next_id("msg"))
        return item, self._begin_item(item, kind)

    def _begin_item(self, item: OutputItem, kind: object) -> bytes:
        before = self._begin() + self._end_item(COMPLETED)
        self._open_item, self._open_kind = item, kind
        return before + self._number_events(item.begin_events())

    def _end_item(self, status: str) -> bytes:
        item, self._open_item, self._open_kind = self._open_item, None, None
        if item is None:
            return b""
        events = [*item.end_events(status)]
        ended = self._number_events(events)
        self._items.append(events[-1][1]["item"])
        return ended

    def _number_events(self, events: Iterable[TypedEvent]) -> bytes:
        """Returns the bytes of events of the open item, with their numbers and the item's place in the output."""
        place = {"output_index": len(self._items)}
        return b"".join([self._event(name, place | fields) for name, fields in events])

    def _event(self, name: str, fields: JsonObject) -> bytes:
        number, self._number = self._number, self._number + 1
        return encode_event(name, number, fields)


def _summary_of(request: Fields) -> Any:
    """Returns the summary of the reasoning that the client wants, which had another name; None if it wants none."""
    reasoning = request.get("reasoning")
    return rawjson.at(reasoning, "summary") or rawjson.at(reasoning, "generate_summary")


def _echo_of(order: Order) -> Fields:
    """Returns the fields that every response repeats from its request, each on one line."""
    request = {**order.fields, **order.form.repeats}
    echo: dict[str, Any] = {"store": "store" in order.form.repeats, "background": False, **_ECHOED}
    echo |= {name: request[name] for name in _ECHOED if not rawjson.is_null(request.get(name))}
    if not rawjson.is_null(request.get("text")):
        text = rawjson.fields(request["text"])
        form, verbosity = (text.get(name, NULL) for name in ("format", "verbosity"))
        echo["text"] = {
            "format": _with_defaults(form, "json_schema", _SCHEMA_FIELDS) if form != NULL else {"type": "text"},
            "verbosity": verbosity if verbosity != NULL else "medium",
        }
    tools = rawjson.maybe_items(request.get("tools"))
    echo["tools"] = [_with_defaults(tool, "function", _FUNCTION_FIELDS) for tool in tools]
    if b'"allowed_tools"' in bytes(request.get("tool_choice", NULL)):
        echo["tool_choice"] = _with_defaults(request["tool_choice"], "allowed_tools", {"mode": "auto"})
    if not rawjson.is_null(request.get("reasoning")):
        echo["reasoning"] = {"effort": rawjson.at(request["reasoning"], "effort"), "summary": _summary_of(request)}
    if rawjson.maybe(request.get("service_tier")) == "auto":
        echo["service_tier"] = "default"
    return rawjson.fields(rawjson.encode(echo).translate(None, b"\r\n"))  # events are lines


def _with_defaults(raw: msgspec.Raw, kind: str, defaults: Mapping[str, Any]) -> Any:
    """Returns an object with the defaults of the fields that it lacks, if it is of this type; else unchanged."""
    fields = rawjson.fields(raw)
    return {**defaults, **fields} if rawjson.text_at(fields.get("type")) == kind else raw
