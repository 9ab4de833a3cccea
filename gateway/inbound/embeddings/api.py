"""Embeddings (``POST /v1/embeddings``): turns texts into vectors.

Channels of dialect openai get the request unchanged, dialect gemini gets a translation, and anthropic has no
embeddings. Vectors of two models cannot be compared, so fallbacks never answer. Only the input is billed and held for.
"""

import re

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel, Dialect
from gateway.domain.json_text import text_count
from gateway.domain.order import Order
from gateway.domain.output_limit import STANDARD_FIELDS, OutputLimit
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN, bound_of
from gateway.domain.rawjson import Fields
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundRequest
from gateway.inbound.chat.api import ChatCompletions, check_model, check_range, count_sent_tokens, missing_input
from gateway.inbound.json_body import MAX_TOKENS, check_text, read_body
from gateway.upstream.adapter import Adapter, DialectAdapter
from gateway.upstream.gemini.embeddings import GeminiEmbeddings
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.openai.embeddings import OpenAIEmbeddings, has_contents
from gateway.upstream.overrides import ParameterNames, with_parameters

REPEATED = ("title", "task_type", "taskType")
"""Fields that a translated request repeats for each of its texts."""
_PARAMETER_NAMES: ParameterNames = dict.fromkeys(STANDARD_FIELDS - {"model", "user"})
"""The parameters of chats, which have no counterpart here."""
_CHECKED = frozenset({"model", "input", "dimensions", "encoding_format", *REPEATED})


class _EmbeddingFields(msgspec.Struct, gc=False):
    """The fields that the gateway itself reads, without the input."""

    model: str | None = None
    dimensions: int | None = None
    encoding_format: str | None = None


_TOKENS = re.compile(rb"\s*\[\s*[-\d\[]")
"""Matches an input that is given as numbers of tokens."""
_ADAPTERS: dict[Dialect, Adapter] = {
    Dialect.OPENAI: OpenAIEmbeddings(),
    Dialect.MOCK: OpenAIEmbeddings(),
    Dialect.GEMINI: GeminiEmbeddings(),
}


class Embeddings(ChatCompletions):
    """Embeddings as an ``InboundApi``. Errors look like those of chat completions."""

    name = "embeddings"
    selective = True
    falls_back = False
    answer_limit = 256 << 20  # bytes: 2048 vectors of 3072 numbers are 130 MB of JSON

    def parse(self, request: HttpRequest) -> InboundRequest:
        body = read_body(request.body, MAX_TOKENS)
        fields, embedding = body.fields, body.read_as(_EmbeddingFields)
        model = check_model(embedding.model)
        if rawjson.is_null(fields.get("input")):
            raise missing_input(fields, "input")
        contents = {"input": fields["input"]} if has_contents(fields["input"]) else {}
        tokens = 0 if contents else count_sent_tokens(fields, "input")
        check_range("dimensions", embedding.dimensions, 1 << 16)
        repeated_tokens = -(-_repeated_bytes(fields) // BOUND_BYTES_PER_TOKEN)  # rounded up
        others = {name: fields[name] for name in fields.keys() - _CHECKED} | contents
        bound = bound_of({} if tokens or contents else {"input": fields["input"]}, (), others, elements=body.elements)
        return InboundRequest(
            body=request.body,
            fields=fields,
            model=model,
            bound=bound.plus(tokens + repeated_tokens),
            content=frozenset({"model", "input"}),
            output_rule=lambda *_: OutputLimit(),  # vectors are not billed as output, however many there are
        )

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        if channel.dialect not in _ADAPTERS:
            return f"speaks {channel.dialect}, which has no embeddings"
        if channel.dialect is Dialect.GEMINI and _TOKENS.match(request.fields["input"]):
            return "speaks gemini, which takes texts, not arrays of tokens"
        if channel.dialect is Dialect.GEMINI and has_contents(request.fields["input"]):
            return "speaks gemini: only texts are translated for it, not images or other contents"
        return ""

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacks_api: bool) -> AttemptPlan:
        """Returns the plan. The owner's system prompt does not apply."""
        order = with_parameters(order, channel.overrides, _PARAMETER_NAMES)
        return AttemptPlan(_ADAPTERS[channel.dialect], order, native=isinstance(chat, OpenAIDialect))


def _repeated_bytes(fields: Fields) -> int:
    """Returns the size of the ``REPEATED`` texts, once for each text of the input. Raises BadRequest."""
    texts = {name: fields[name] for name in REPEATED if not rawjson.is_null(fields.get(name))}
    size = sum(len(memoryview(check_text(raw, name))) for name, raw in texts.items())
    return size * text_count(fields["input"]) if size else 0


EMBEDDINGS = Embeddings()
