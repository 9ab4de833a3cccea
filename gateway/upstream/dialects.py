"""Dialects: the adapter of each. A new dialect needs a row here and one in ``domain.channel``."""

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.order import Order
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.overrides import with_parameters

DIALECTS: dict[Dialect, ChannelDialect] = {
    Dialect.OPENAI: OpenAIDialect(),
    Dialect.ANTHROPIC: AnthropicDialect(),
    Dialect.GEMINI: GeminiDialect(),
    Dialect.MOCK: OpenAIDialect(),
}
"""Adapters for all that needs no memory of a call: limits, errors and lists of models."""


def new_adapter(dialect: Dialect) -> ChannelDialect:
    """Returns an adapter for one attempt, with a memory of its own."""
    return type(DIALECTS[dialect])()


def chat_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the maximum output that a chat completion request of a client allows at this channel."""
    sent = with_parameters(Order(fields=fields, model=""), channel.overrides)
    return DIALECTS[channel.dialect].output_limit(sent.fields, channel, served)
