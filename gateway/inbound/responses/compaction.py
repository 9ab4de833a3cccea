"""Compaction: a conversation becomes one item that stands for it, at ``/v1/responses/compact`` and by a trigger item.

An upstream that can do it gets the request as it came: at the path if it has that, by a trigger if its vendor is known
to read it. Otherwise the same model writes a summary: in the Responses API if the channel speaks it, else in chat
completions. Either way it is one call, held, priced and recorded like any other, with the mark ``compaction``.
"""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    AnswerMark,
    AnswerPart,
    StopWord,
    TextPiece,
    UpstreamNamed,
    UsageSeen,
    join_strings,
)
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import SSEEvent
from gateway.domain.usage import Usage
from gateway.inbound.api import AttemptPlan
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.renderer import Renderer
from gateway.inbound.rendering import RenderedStream, RenderingAdapter
from gateway.inbound.responses.output import field
from gateway.inbound.responses.reader import ResponsesReader
from gateway.inbound.responses.relay import ResponsesRelay, is_spoken, native_order
from gateway.inbound.responses.render import ResponsePlan, ResponseRenderer, WholeResponse, usage_object
from gateway.inbound.responses.request import read_fields, translate_responses
from gateway.inbound.responses.summary import COMPACTION, seal_summary, summary_order
from gateway.upstream.adapter import AnswerReader, DialectAdapter, WholeAnswer
from gateway.upstream.answer_errors import reported_failure
from gateway.upstream.failures import bad_response
from gateway.upstream.vendors import vendor_of

PATH = "/responses/compact"
_READ_TRIGGERS = frozenset({"openai", "azure"})
"""Vendors known to read it. Others may ignore the item, and answer as if it was not there."""
_ABSENT = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})


class CompactionRenderer(ResponseRenderer):
    """Gathers the summary, and writes it as one item when it is complete."""

    def __init__(self, plan: ResponsePlan, *, at_path: bool) -> None:
        """``at_path``: the client wants the answer of ``PATH``."""
        super().__init__(plan)
        self._at_path = at_path
        self._texts: list[bytes] = []

    @property
    def empty(self) -> bool:
        """Returns whether the summary is empty."""
        return not b"".join(self._texts).strip(b'" ')

    def take_texts(self, pieces: list[bytes]) -> bytes:
        return b"".join([self.take(TextPiece(piece)) for piece in pieces])

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``. Reasoning and calls are dropped; a summary that was cut short still counts."""
        match event:
            case AnswerBegan():
                return super().take(event)
            case TextPiece():
                self._texts.append(event.piece)
                self.held += len(event.piece)
            case AnswerFinished() if not self._items:
                text = rawjson.text(join_strings(self._texts))
                item = {"id": self._next_id("cmp"), "type": COMPACTION, "encrypted_content": seal_summary(text)}
                return self._begin() + self._pass(rawjson.encode(item))
        return b""

    def whole(self, usage: Usage) -> bytes:
        if not self._at_path:
            return super().whole(usage)
        order = self._plan.order
        head = {"id": order.answer_id, "object": "response.compaction", "created_at": order.created}
        items = b",".join(self._items)
        return b'%b,"output":[%b],"usage":%b}' % (
            rawjson.encode(head)[:-1],
            items,
            rawjson.encode(usage_object(usage)),
        )

    def _pass(self, item: bytes) -> bytes:
        added = self._placed(
            ((b"output_item.added", field(b"item", item)), (b"output_item.done", field(b"item", item)))
        )
        self._items.append(item)
        self.held = len(item)
        return added


class SummaryStream(RenderedStream):
    """A summary: an answer without one is a failure."""

    def _conclude(self, *, done: bool) -> bytes:
        out = super()._conclude(done=done)
        writer = self.renderer.writer if isinstance(self.renderer, WholeResponse) else self.renderer
        if self.finished and isinstance(writer, CompactionRenderer) and writer.empty:
            self.failure, self.finished = bad_response(self._channel, "there is no summary in it"), False
            return b""
        return out


class SummaryAdapter(RenderingAdapter):
    """A dialect whose answers are summaries."""

    def __init__(self, dialect: DialectAdapter, renderer: Callable[[Order], CompactionRenderer]) -> None:
        super().__init__(dialect, renderer, lambda order: WholeResponse(renderer(order)))

    def _rendered(self, order: Order, channel: Channel, renderer: Renderer) -> RenderedStream:
        return SummaryStream(self._dialect.reader(order, channel), order, channel, renderer)


class ResponseTexts(AnswerReader):
    """Reads the texts of a native answer."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._channel = channel
        self._reader = ResponsesReader(order, channel)
        self._begun = False

    def read(self, event: SSEEvent) -> Iterable[AnswerPart]:
        fields = rawjson.fields(event.data)
        kind = rawjson.maybe(fields.get("type")) or event.name.decode("utf-8", "replace")
        if kind == "error":
            self.failure = reported_failure(self._channel, event.data)
            return
        self._reader.take(event)
        self.failure = self._reader.failure
        if kind == "response.output_text.delta":
            self._begun = True
            yield TextPiece(bytes(fields["delta"]))
        elif self._reader.complete and not self.failure:
            yield from self._end(rawjson.fields(fields["response"]))

    def read_whole(self, body: bytes) -> Iterable[AnswerPart]:
        self._reader.whole(body)
        yield from self._end(rawjson.fields(body))

    def _end(self, response: Fields) -> Iterable[AnswerPart]:
        yield UpstreamNamed(self._reader.upstream_id)
        if not self._begun:
            for item in rawjson.objects(response.get("output", NULL)):
                if rawjson.maybe(item.get("type")) == "message":
                    parts = rawjson.objects(item.get("content", NULL))
                    yield from (TextPiece(bytes(part["text"])) for part in parts if "text" in part)
        yield AnswerMark(COMPACTION)
        if not rawjson.is_null(response.get("usage")):
            yield UsageSeen({"usage": response["usage"]})
        yield StopWord(self._reader.finish)
        self.done = True


class ResponsesDialect:
    """The Responses API as a dialect, of which only the texts are read. Implements ``DialectAdapter``."""

    def __init__(self, relay: ResponsesRelay) -> None:
        self.prepare = relay.prepare
        self.recalled = relay.recalled
        self.failure = relay.failure

    def reader(self, order: Order, channel: Channel) -> ResponseTexts:
        return ResponseTexts(order, channel)


class CompactRelay(ResponsesRelay):
    """Uses the compaction path at a channel that may have it; without it the model writes a summary."""

    path = PATH

    def __init__(self, dialect: DialectAdapter, summary: Order, summaries: SummaryAdapter) -> None:
        super().__init__(dialect)
        self._summary = summary
        self._summaries = summaries
        self._summarizes = False
        """Whether the last request was for a summary."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``adapter.Adapter``. The path has no output limit. If the hold needs one, the model writes a summary."""
        self._summarizes = not order.form.compacts or order.output_budget is not None
        if not self._summarizes:
            return super().prepare(order, channel, served, learned)
        summary = msgspec.structs.replace(self._summary, output_budget=order.output_budget, model=order.model)
        return self._summaries.prepare(summary, channel, served, learned)

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        return self._summaries.whole(body, order, channel) if self._summarizes else super().whole(body, order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        read = super().failure(channel, status, headers, body)
        return read if self._summarizes else msgspec.structs.replace(read, lacks_api=False, may_lack_api=False)

    def repaired(self, failure: Failure) -> Order | None:
        """Returns the request for a summary, if the upstream lacks the path."""
        return self._summary if not self._summarizes and failure.status in _ABSENT else None


def plan_compaction(
    order: Order,
    channel: Channel,
    chat: DialectAdapter,
    renderer: Callable[[Order], CompactionRenderer],
    *,
    lacking: bool,
    at_path: bool,
) -> AttemptPlan:
    """Returns how a conversation is compacted at a channel. Raises BadRequest."""
    if not lacking and is_spoken(channel):
        native = native_order(order, channel.overrides)
        if not at_path and vendor_of(channel.preset, channel.base_url).name in _READ_TRIGGERS:
            return AttemptPlan(ResponsesRelay(chat), native, native=True)
        summaries = SummaryAdapter(ResponsesDialect(ResponsesRelay(chat)), renderer)
        if not at_path:
            return AttemptPlan(summaries, summary_order(native), native=True)
        relay = CompactRelay(chat, summary_order(native), summaries)
        return AttemptPlan(relay, native, native=True, repaired=relay.repaired)
    summary = summary_order(order)
    translated, _ = translate_responses(summary, read_fields(summary.fields))
    if translated.conversation is not None:
        marks = (*translated.conversation.marks, COMPACTION)
        talk = msgspec.structs.replace(translated.conversation, marks=marks)
        translated = msgspec.structs.replace(translated, conversation=talk)
    adapter = SummaryAdapter(chat, renderer)
    return AttemptPlan(adapter, finish_translation(translated, channel), native=False)
