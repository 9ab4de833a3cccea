"""Ollama's API (``POST /api/chat|generate|embed|embeddings``), for programs that offer nothing else.

Chats are translated for every channel. A prompt with a suffix becomes a request for completions, and a request for
vectors one for embeddings. Answers are streams of JSON lines unless the request says otherwise; there are no
keep-alives, because every line must be JSON. Names may end with ``:latest``, as Ollama's own clients write them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerForm
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import Fields
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundApi, InboundRequest
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.completions.api import COMPLETIONS
from gateway.inbound.embeddings.api import EMBEDDINGS
from gateway.inbound.json_body import fields_of
from gateway.inbound.ollama.render import EmbeddingLines, LineRenderer, WholeLineRenderer
from gateway.inbound.ollama.request import (
    completion_fields,
    embedding_fields,
    read_chat_request,
    read_generate_request,
    translate_ollama,
)
from gateway.inbound.rendering import RenderingAdapter
from gateway.upstream.adapter import AnswerStream, DialectAdapter
from gateway.upstream.openai.completions import CompletionsDialect

LATEST = ":latest"
"""The tag that Ollama adds to a name without one."""


class _OllamaApi(InboundApi):
    name = "ollama"
    stream_type = "application/x-ndjson"
    keep_alive = b""
    timed = True

    def other_names(self, model: str) -> tuple[str, ...]:
        """Returns the name without ``:latest`` if it has that tag, else the name with it."""
        return (model.removesuffix(LATEST) if model.endswith(LATEST) else model + LATEST,)

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """Returns nothing: lines of JSON have no comments."""
        return b""

    def error_body(self, error: GatewayError, call: str) -> bytes:
        return msgspec.json.encode({"error": error.message + (f" [call {call}]" if call else "")})

    def broken_end(self, error: GatewayError, call: str, stream: AnswerStream | None = None) -> bytes:
        """Returns the line that ends a stream with this error."""
        return self.error_body(error, call) + b"\n"


class OllamaChat(_OllamaApi):
    """``POST /api/chat`` as an ``InboundApi``."""

    writes_messages: ClassVar[bool] = True
    """Whether lines have a ``message``; those of ``POST /api/generate`` have a ``response`` instead."""
    caps = CAPS

    def parse(self, request: HttpRequest) -> InboundRequest:
        parsed = read_chat_request(fields_of(request.body))
        if not request.headers.get("user-agent", "").startswith("ollama-python/"):
            return parsed
        return msgspec.structs.replace(parsed, form=AnswerForm(image_objects=True))

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """Returns the plan, in which the request is always translated."""
        order = finish_translation(translate_ollama(order), channel)
        return AttemptPlan(self.line_adapter(chat), order, native=False)

    def line_adapter(self, dialect: DialectAdapter) -> RenderingAdapter:
        """Returns the adapter that writes a dialect's answers as lines."""
        return RenderingAdapter(
            dialect,
            partial(LineRenderer, chat=self.writes_messages),
            partial(WholeLineRenderer, chat=self.writes_messages),
        )


class OllamaGenerate(OllamaChat):
    """``POST /api/generate`` as an ``InboundApi``. A prompt becomes a chat; with ``suffix`` or ``raw`` a completion."""

    writes_messages = False
    selective = True

    def parse(self, request: HttpRequest) -> InboundRequest:
        fields = fields_of(request.body)
        if rawjson.maybe(fields.get("suffix")) or rawjson.maybe(fields.get("raw")):
            return COMPLETIONS.parse(_translate_request(request, completion_fields))
        return read_generate_request(fields)

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        return COMPLETIONS.obstacle(request, channel) if "prompt" in request.fields else ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        """Returns the plan of the chat, or of the completion, which is the only request with a ``prompt``."""
        if "prompt" not in order.fields:
            return super().plan(order, channel, chat, lacking=lacking)
        plan = COMPLETIONS.plan(order, channel, chat, lacking=lacking)
        adapter = self.line_adapter(CompletionsDialect() if plan.native else chat)
        return AttemptPlan(adapter, plan.order, native=False)


class OllamaEmbed(_OllamaApi):
    """``POST /api/embed`` as an ``InboundApi``."""

    selective = True
    falls_back = False
    answer_limit = EMBEDDINGS.answer_limit
    single: ClassVar[bool] = False
    """Whether a request has one text and gets one vector, as with ``POST /api/embeddings``."""

    def parse(self, request: HttpRequest) -> InboundRequest:
        return EMBEDDINGS.parse(_translate_request(request, partial(embedding_fields, single=self.single)))

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        return EMBEDDINGS.obstacle(request, channel)

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        plan = EMBEDDINGS.plan(order, channel, chat, lacking=lacking)
        return AttemptPlan(EmbeddingLines(plan.adapter, single=self.single), plan.order, native=False)


class OllamaEmbeddings(OllamaEmbed):
    """``POST /api/embeddings`` as an ``InboundApi``."""

    single = True


OLLAMA_CHAT = OllamaChat()
OLLAMA_GENERATE = OllamaGenerate()
OLLAMA_EMBED = OllamaEmbed()
OLLAMA_EMBEDDINGS = OllamaEmbeddings()


def _translate_request(request: HttpRequest, translate: Callable[[Fields], Fields]) -> HttpRequest:
    """Returns the equivalent request of another API. Raises BadRequest."""
    return msgspec.structs.replace(request, body=rawjson.encode(translate(fields_of(request.body))))
