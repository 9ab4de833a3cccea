"""Compaction: a conversation becomes one item that stands for it, at ``/v1/responses/compact`` and by a trigger item.

An upstream that can compact gets the request unchanged: at the path if it has that, by a trigger if its vendor is known
to read it. Otherwise the same model writes a summary: in the Responses API if the channel speaks it, else in chat
completions. Either way it is one call, held, priced and recorded like any other, with the mark ``compaction``.
"""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerBegan, AnswerEvent, AnswerFinished, BlockKind, Piece, join_strings
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import Failure
from gateway.domain.order import LearnedRefusals, Order, PreparedRequest
from gateway.domain.usage import Usage
from gateway.inbound.api import AttemptPlan
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.rendering import RenderingAdapter
from gateway.inbound.responses.output import item_events, usage_object
from gateway.inbound.responses.relay import ResponsesRelay, native_order
from gateway.inbound.responses.render import ResponseRenderer
from gateway.inbound.responses.request import translate_responses
from gateway.inbound.responses.summary import COMPACTION, seal_summary, summary_order
from gateway.inbound.responses.tools import ToolTable
from gateway.upstream.adapter import DialectAdapter, WholeAnswer
from gateway.upstream.vendors import speaks_responses, vendor_of

PATH = "/responses/compact"
_PATH_MISSING = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})


class CompactionRenderer(ResponseRenderer):
    """Collects the summary, and writes it as one item when it is complete."""

    def __init__(self, request: Order, order: Order, *, at_path: bool) -> None:
        """``at_path``: the client called ``PATH``, and wants its form of answer."""
        super().__init__(request, ToolTable(), order)
        self._at_path = at_path
        self._texts: list[bytes] = []

    @property
    def fault(self) -> str:
        return "" if b"".join(self._texts).strip(b'" ') else "there is no summary in it"

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``. Reasoning and calls are dropped; a summary that was cut short is kept."""
        match event:
            case AnswerBegan():
                return super().take(event)
            case Piece(kind=BlockKind.TEXT):
                self._texts.append(event.piece)
                self.held += len(event.piece)
            case AnswerFinished() if not self._items:
                seal = seal_summary(rawjson.text(join_strings(self._texts)))
                item = rawjson.raw({"id": self._next_id("cmp"), "type": COMPACTION, "encrypted_content": seal})
                out = self._begin() + self._number_events(item_events({}, item))
                self._items.append(item)
                self.held = len(seal)
                return out
        return b""

    def whole(self, usage: Usage) -> bytes:
        if not self._at_path:
            return super().whole(usage)
        head = {"id": self._order.answer_id, "object": "response.compaction", "created_at": self._order.created}
        return rawjson.encode({**head, "output": self._items, "usage": usage_object(usage)})


class CompactRelay(ResponsesRelay):
    """Calls the compaction path of a channel that may have it. If the channel lacks it, the model writes a summary."""

    path = PATH

    def __init__(self, dialect: DialectAdapter, summary: Order, summaries: RenderingAdapter) -> None:
        super().__init__(dialect)
        self._summary = summary
        self._summaries = summaries
        self._summarizes = False
        """Whether the last request was for a summary."""

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``adapter.Adapter``. The path has no output limit: if the hold needs one, the model writes a summary."""
        self._summarizes = not order.form.compacts or order.output_budget is not None
        if not self._summarizes:
            return super().prepare(order, channel, served, learned)
        summary = msgspec.structs.replace(self._summary, output_budget=order.output_budget, model=order.model)
        return self._summaries.prepare(summary, channel, served, learned)

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        return self._summaries.whole(body, order, channel) if self._summarizes else super().whole(body, order, channel)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        failure = super().failure(channel, status, headers, body)
        return failure if self._summarizes else msgspec.structs.replace(failure, lacks_api=False, may_lack_api=False)

    def repair(self, _order: Order, failure: Failure) -> Order | None:
        """Returns the request for a summary, if the upstream lacks the path."""
        return self._summary if not self._summarizes and failure.status in _PATH_MISSING else None


def plan_compaction(
    order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool, at_path: bool
) -> AttemptPlan:
    """Returns how a conversation is compacted at a channel. Raises BadRequest."""
    order = msgspec.structs.replace(order, marks=(COMPACTION,))
    renderer = partial(CompactionRenderer, order, at_path=at_path)
    if not lacks_api and speaks_responses(channel):
        native = native_order(order, channel.overrides)
        if not at_path and vendor_of(channel).name in ("openai", "azure"):  # others may ignore the trigger
            return AttemptPlan(ResponsesRelay(chat), native, native=True)
        summaries = RenderingAdapter(ResponsesRelay(chat), renderer, renderer)
        if not at_path:
            return AttemptPlan(summaries, summary_order(native), native=True)
        relay = CompactRelay(chat, summary_order(native), summaries)
        return AttemptPlan(relay, native, native=True, repair=relay.repair)
    translated, _ = translate_responses(summary_order(order))
    translated = finish_translation(translated, channel, chat)
    return AttemptPlan(RenderingAdapter(chat, renderer, renderer), translated, native=False)
