"""Renders an answer as a response: the events of its stream with their numbers, or the whole object.

The whole is made as the stream is, and is what the stream's last event carries: ``response.completed``,
``response.incomplete`` or ``response.failed``. One item is open at a time. An item begins with its first piece, so
there is none without content. The last event is written by ``tail``, once the call is recorded, or by ``failed``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    Citation,
    Medium,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    TextPiece,
    ToolCallBegan,
)
from gateway.domain.order import Order
from gateway.domain.usage import Usage, modality_counts
from gateway.inbound.renderer import Renderer
from gateway.inbound.responses.output import (
    COMPLETED,
    NO_LOGPROBS,
    PLACED_EVENT,
    PREFIXES,
    Event,
    ImageItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
    RefusalItem,
    call_item,
    field,
)
from gateway.inbound.responses.tools import ClientTool

_EVENT = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":%d%b}\n\n'
EVENT_EVERY = 8
"""One of so many keep-alives is an event: they are sent every 15 s."""
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of an incomplete response, by finish reason."""


class ResponsePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a response takes from its request."""

    order: Order
    """The request as it is sent, perhaps for another model."""
    echo: bytes
    """Fields of the request that every response repeats, each with a comma before it."""
    tool: Callable[[str], ClientTool]
    """Returns the client's tool by the name of the called function."""
    summary: bool
    """Whether a summary of the reasoning is wanted."""
    sealed: bool
    """Whether reasoning can be sent back."""

    def item_id(self, prefix: str, number: int) -> str:
        """Returns the id of an item by its place in the output: the same if the answer were rendered again."""
        return f"{prefix}_{self.order.answer_id.partition('_')[2]}{number:04x}"

    def response(
        self,
        status: str,
        items: Sequence[bytes],
        *,
        error: Mapping[str, Any] | None = None,
        incomplete_details: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Returns the response with these items."""
        fields = {
            "id": self.order.answer_id,
            "object": "response",
            "created_at": self.order.created,
            "status": status,
            "completed_at": max(self.order.created, self.order.clock() // 1000) if status == COMPLETED else None,
            "error": error,
            "incomplete_details": incomplete_details,
            "model": self.order.model,
            "usage": usage,
        }
        return b'%b,"output":[%b]%b}' % (rawjson.encode(fields)[:-1], b",".join(items), self.echo)


class ResponseRenderer(Renderer):
    """One answer."""

    def __init__(self, plan: ResponsePlan) -> None:
        self._plan = plan
        self._number = 0
        """The number of the next event."""
        self._items: list[bytes] = []
        self._open: OutputItem | None = None
        self._kind: object = None
        """What the open item accepts: a type of event, or the number of a tool call."""
        self._finish = ""
        self._begun = False
        self._kept = 0
        self._silent = 0
        """Keep-alives since the last event of the answer."""

    def take_texts(self, pieces: list[bytes]) -> bytes:
        item = self._open
        if self._kind is not TextPiece or not isinstance(item, MessageItem):
            return super().take_texts(pieces)
        out = item.several(pieces, self._number, len(self._items))
        self._number += len(pieces)
        self._silent, self.held = 0, self._kept + item.held
        return out

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``. Ends of blocks are ignored: an item ends when the next begins."""
        out, self._silent = b"", 0
        match event:
            case TextPiece():
                out = self._piece(event.piece, TextPiece, event.logprobs or NO_LOGPROBS)
            case ReasoningPiece() | RefusalPiece() | ArgumentsPiece():
                kind: object = event.number if isinstance(event, ArgumentsPiece) else type(event)
                out = self._piece(event.piece, kind)
            case ToolCallBegan():
                tool = self._plan.tool(event.name)
                item = call_item(self._next_id(PREFIXES[tool.kind]), event.id, tool, bare=event.custom)
                out = self._begin_item(item, event.number)
            case Medium():
                out = self._begin_item(ImageItem(self._next_id("ig"), event), None)
            case Citation():
                out = self._piece(b'""', TextPiece, source=event)
            case ReasoningSeal():
                out = self._seal(event)
            case AnswerBegan():
                out = self._begin()
            case AnswerFinished():
                self._finish = event.reason
                out = self._begin() + self._end_item("incomplete" if event.reason in INCOMPLETE else COMPLETED)
        return out

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        kind = b"incomplete" if self._finish in INCOMPLETE else b"completed"
        out = self._begin() + self._event(kind, field(b"response", self.whole(usage)))
        self._number -= 1  # it is kept back, and replaced by ``failed`` if the record cannot be written
        return out

    def failed(self, error: Mapping[str, Any], detail: bytes) -> bytes:
        """Returns the end of a broken stream. Open items stay open. ``error`` is its code and message, ``detail`` more
        of it, as a field beside the response, for clients that look there.
        """
        response = self._plan.response("failed", self._items, error=error)
        return self._begin() + self._event(b"failed", field(b"response", response) + field(b"error", detail))

    def sign_of_life(self) -> bytes:
        """Returns what is sent after some silence: a comment, and now and then an event without news.

        Codex does not count comments: it gives a stream up after five minutes without an event.
        """
        self._silent += 1
        if self._silent % EVENT_EVERY:
            return b": keep-alive\n\n"
        return self._begin() or self._event(b"in_progress", field(b"response", self._plan.response("in_progress", ())))

    def whole(self, usage: Usage) -> bytes:
        """Returns the whole response."""
        reason = INCOMPLETE.get(self._finish)
        return self._plan.response(
            "incomplete" if reason else COMPLETED,
            self._items,
            incomplete_details={"reason": reason} if reason else None,
            usage=usage_object(usage),
        )

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        response = field(b"response", self._plan.response("in_progress", ()))
        return self._event(b"created", response) + self._event(b"in_progress", response)

    def _piece(
        self, piece: bytes, kind: object, logprobs: bytes = NO_LOGPROBS, source: Citation | None = None
    ) -> bytes:
        out, item = b"", self._open
        if item is None or kind != self._kind:
            item = _item(self._plan, self._next_id, kind)
            out = self._begin_item(item, kind)
        if source is not None and isinstance(item, MessageItem):
            return out + self._placed(item.cite(source))
        return out + self._placed(item.piece(piece, logprobs))

    def _seal(self, event: ReasoningSeal) -> bytes:
        if not self._plan.sealed:
            return self._end_item(COMPLETED) if self._kind is ReasoningPiece else b""
        out = b""
        if self._kind is not ReasoningPiece:
            out = self._begin_item(_item(self._plan, self._next_id, ReasoningPiece), ReasoningPiece)
        if isinstance(self._open, ReasoningItem):
            self._open.seal(event.seal)
        return out + self._end_item(COMPLETED)

    def _next_id(self, prefix: str) -> str:
        return self._plan.item_id(prefix, len(self._items) + (self._open is not None))

    def _begin_item(self, item: OutputItem, kind: object) -> bytes:
        out = self._begin() + self._end_item(COMPLETED)
        self._open, self._kind = item, kind
        return out + self._placed(item.added())

    def _end_item(self, status: str) -> bytes:
        item, self._open, self._kind = self._open, None, None
        if item is None:
            return b""
        out = self._placed(item.ended(status))
        done = item.done(status)
        out += self._placed(((b"output_item.done", field(b"item", done)),))
        self._items.append(done)
        self._kept += len(done)
        self.held = self._kept
        return out

    def _placed(self, events: Iterable[Event]) -> bytes:
        """Returns events of the open item, which comes next in the output."""
        out = b""
        number, place = self._number, len(self._items)
        for name, fields in events:
            out += PLACED_EVENT % (name, name, number, place, fields)
            number += 1
        self._number = number
        self.held = self._kept + (self._open.held if self._open is not None else 0)
        return out

    def _event(self, name: bytes, fields: bytes) -> bytes:
        number, self._number = self._number, self._number + 1
        return _EVENT % (name, name, number, fields)


class WholeResponse(Renderer):
    """A whole answer, which is made as a stream is and written at its end."""

    def __init__(self, writer: ResponseRenderer) -> None:
        self.writer = writer

    def take(self, event: AnswerEvent) -> bytes:
        self.writer.take(event)
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        return self.writer.whole(usage)


def _item(plan: ResponsePlan, next_id: Callable[[str], str], kind: object) -> OutputItem:
    """Returns a new item for pieces of this kind."""
    if kind is ReasoningPiece:
        return ReasoningItem(next_id("rs"), summary=plan.summary, sealed=plan.sealed)
    return RefusalItem(next_id("msg"), role="assistant") if kind is RefusalPiece else MessageItem(next_id("msg"))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Returns the usage as clients of this API read it."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
            **modality_counts(usage, "input"),
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning, **modality_counts(usage, "output")},
        "total_tokens": usage.total,
    }
