"""Dialects: the adapter of each.

A new one is a row here, and one in ``domain.channel`` with what the rest of the program must know about it.
"""

from collections.abc import Callable

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import ChannelDialect
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.overrides import with_parameters

_ADAPTERS: dict[Dialect, Callable[[], ChannelDialect]] = {
    Dialect.OPENAI: OpenAIDialect,
    Dialect.ANTHROPIC: AnthropicDialect,
    Dialect.GEMINI: GeminiDialect,
    Dialect.MOCK: OpenAIDialect,
}
DIALECTS = {dialect: make() for dialect, make in _ADAPTERS.items()}
"""For questions about a dialect; these see no answers, and remember nothing."""


def adapters() -> Callable[[Dialect], ChannelDialect]:
    """Returns the adapters of one server, by dialect."""
    return {dialect: adapter(dialect) for dialect in Dialect}.__getitem__


def adapter(dialect: Dialect) -> ChannelDialect:
    """Returns an adapter for one question; what it remembers is forgotten with it."""
    return _ADAPTERS[dialect]()


def output_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the most output that an outgoing request allows, with the owner's parameters in it."""
    return DIALECTS[channel.dialect].output_limit(fields, channel, served)


def chat_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """Returns the same for a chat as the client sent it."""
    edits = channel.overrides
    return output_limit(fields if edits is None else with_parameters(fields, edits), channel, served)
