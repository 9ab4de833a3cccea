"""Ollama's API (``POST /api/chat|generate|embed|embeddings``), for programs that offer nothing else.

Requests become chat completions, completions or embeddings, and from there on are handled like those. Answers are
streams of JSON lines unless the request says otherwise; there are no keep-alives, for every line must be JSON.
Names may end with ``:latest``, as Ollama's own clients write them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.api import CHAT
from gateway.inbound.chat.conversation import fit_dialect
from gateway.inbound.completions.api import COMPLETIONS
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.json_body import fields_of
from gateway.inbound.lower_limit import lower_limit
from gateway.inbound.ollama.rendering import (
    CHAT_LINES,
    GENERATE_LINES,
    CompletionLines,
    EmbeddingLines,
    LineRenderer,
    LineShape,
    whole_line,
)
from gateway.inbound.ollama.request import (
    GivenDoc,
    chat_request,
    completion_request,
    embedding_request,
    generate_request,
)
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import Order
from gateway.upstream.answer_reader import DialectAdapter
from gateway.upstream.output_limit import CAPS
from gateway.upstream.overrides import apply_overrides

LATEST = ":latest"


class _Ollama(InboundApi):
    """What its paths have in common."""

    name = "ollama"
    respells = True
    stream_type = "application/x-ndjson"
    keep_alive = b""
    id_headers: tuple[str, ...] = ("x-request-id",)
    stream_rules = None
    timed = True

    def other_names(self, model: str) -> tuple[str, ...]:
        """See ``InboundApi``: with ``:latest`` or without."""
        return (model.removesuffix(LATEST) if model.endswith(LATEST) else model + LATEST,)

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """See ``InboundApi``: there is no way to write them."""
        return b""

    def status(self, error: GatewayError) -> int:
        """See ``InboundApi``."""
        return error.http_status

    def error_body(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``."""
        return msgspec.json.encode({"error": error.message + (f" [call {call}]" if call else "")})

    def error_event(self, error: GatewayError, call: str) -> bytes:
        """See ``InboundApi``: the last line."""
        return self.error_body(error, call) + b"\n"


class OllamaChat(_Ollama):
    """``POST /api/chat`` as an ``InboundApi``."""

    shape: ClassVar[LineShape] = CHAT_LINES

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``."""
        doc = GivenDoc(read_object(request.body))
        return _as_chat(request, chat_request(doc), doc)

    def with_limit(self, request: InboundRequest, limit: int) -> InboundRequest | None:
        """See ``InboundApi``."""
        return lower_limit(request, CAPS, limit)

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """See ``InboundApi``."""
        return _rename_model(CHAT.order(request, call, ts))

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """See ``InboundApi``."""
        if channel.overrides is not None:
            order = apply_overrides(order, channel.overrides)
        return AttemptPlan(self.rendered(chat), fit_dialect(order, channel), native=False)

    def rendered(self, chat: DialectAdapter) -> RenderingAdapter:
        """The adapter that writes a chat's answers as lines."""
        shape = self.shape
        return RenderingAdapter(
            chat, lambda order: LineRenderer(order, shape), lambda order, _, events: whole_line(order, shape, events)
        )


class OllamaGenerate(OllamaChat):
    """``POST /api/generate`` as an ``InboundApi``: a prompt is a chat, but with ``suffix`` or ``raw`` a completion."""

    shape = GENERATE_LINES
    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``."""
        doc = GivenDoc(read_object(request.body))
        if doc.get("suffix") or doc.get("raw"):
            return COMPLETIONS.parse(msgspec.structs.replace(request, body=rawjson.encode(completion_request(doc))))
        return _as_chat(request, generate_request(doc), doc)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """See ``InboundApi``."""
        return COMPLETIONS.obstacle(request, channel) if "prompt" in request.fields else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """See ``InboundApi``."""
        if "prompt" not in order.fields:
            return super().plan(order, channel, chat, lacking=lacking)
        plan = COMPLETIONS.plan(order, channel, chat, lacking=lacking)
        adapter = CompletionLines(plan.adapter, self.shape) if plan.native else self.rendered(chat)
        return AttemptPlan(adapter, plan.order, native=False)


class OllamaEmbed(_Ollama):
    """``POST /api/embed`` as an ``InboundApi``."""

    selective = True
    falls_back = False
    answer_limit = EMBEDDINGS.answer_limit
    single: ClassVar[bool] = False
    """One text is given, and one vector answered: ``POST /api/embeddings``."""

    def parse(self, request: HttpRequest) -> InboundRequest:
        """See ``InboundApi``."""
        doc = embedding_request(read_object(request.body), single=self.single)
        return EMBEDDINGS.parse(msgspec.structs.replace(request, body=rawjson.encode(doc)))

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """See ``InboundApi``."""
        return _rename_model(EMBEDDINGS.order(request, call, ts))

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """See ``InboundApi``."""
        return EMBEDDINGS.obstacle(request, channel)

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """See ``InboundApi``."""
        plan = EMBEDDINGS.plan(order, channel, chat, lacking=lacking)
        return AttemptPlan(EmbeddingLines(plan.adapter, single=self.single), plan.order, native=False)


class OllamaEmbeddings(OllamaEmbed):
    """``POST /api/embeddings`` as an ``InboundApi``."""

    single = True


OLLAMA_CHAT = OllamaChat()
OLLAMA_GENERATE = OllamaGenerate()
OLLAMA_EMBED = OllamaEmbed()
OLLAMA_EMBEDDINGS = OllamaEmbeddings()


def read_object(body: bytes) -> dict[str, Any]:
    """A checked request. Raises BadRequest if it is not an object that may be decoded."""
    fields_of(body)
    found = rawjson.value(body)
    if not isinstance(found, dict):
        raise BadRequest("the body must be one JSON object", code="invalid_type")
    return found


def _rename_model(order: Order) -> Order:
    """The order with the name of its model in its fields, if the client called it something else."""
    name = rawjson.raw(order.model)
    if order.fields["model"] == name:
        return order
    return msgspec.structs.replace(order, fields={**order.fields, "model": name}, body=b"")


def _as_chat(request: HttpRequest, chat: dict[str, Any], doc: GivenDoc) -> InboundRequest:
    parsed = CHAT.parse(msgspec.structs.replace(request, body=rawjson.encode(chat)))
    return msgspec.structs.replace(parsed, include_usage=False, removed=doc.unread)
