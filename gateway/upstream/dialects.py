"""Dialects: the adapter of each, what output each lets a request have, and how each lists models."""

from collections.abc import Callable

from gateway.domain.channel import Channel, Dialect, Served
from gateway.upstream.adapter import Adapter
from gateway.upstream.anthropic import request as anthropic
from gateway.upstream.anthropic.dialect import AnthropicDialect, AnthropicListing
from gateway.upstream.anthropic.models import row_of as anthropic_row
from gateway.upstream.gemini import request as gemini
from gateway.upstream.gemini.dialect import GeminiDialect, GeminiListing
from gateway.upstream.gemini.models import row_of as gemini_row
from gateway.upstream.model_list import ModelListing, PlainModelListing
from gateway.upstream.openai import request as openai
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.output_limit import OutputLimit
from gateway.upstream.rawjson import Fields
from gateway.upstream.translate.tool_names import Signatures


def adapters() -> Callable[[Dialect], Adapter]:
    """The adapters of one server, by dialect. Some remember what their vendors want back; see ``Signatures``."""
    made: dict[Dialect, Adapter] = {
        Dialect.OPENAI: OpenAIDialect(),
        Dialect.ANTHROPIC: AnthropicDialect(Signatures()),
        Dialect.GEMINI: GeminiDialect(Signatures()),
        Dialect.MOCK: OpenAIDialect(),
    }
    return made.__getitem__


def adapter(dialect: Dialect) -> Adapter:
    """An adapter for one question; what it remembers is forgotten with it."""
    return adapters()(dialect)


def output_limit(given: Fields, channel: Channel, served: Served) -> OutputLimit:
    """The most output that a request allows as it goes out to a channel, given with the owner's parameters in it."""
    if channel.dialect is Dialect.ANTHROPIC:
        return anthropic.output_limit(given, served)
    if channel.dialect is Dialect.GEMINI:
        return gemini.output_limit(given, served)
    return openai.output_limit(given, channel, served)


def model_limit(dialect: Dialect, upstream_model: str) -> int | None:
    """The largest output of a model of a vendor whose models are in a table here; None: unknown."""
    if dialect is Dialect.ANTHROPIC:
        return anthropic_row(upstream_model).max_output
    return gemini_row(upstream_model).max_output if dialect is Dialect.GEMINI else None


def listing(dialect: Dialect) -> ModelListing:
    """How a dialect lists models."""
    if dialect is Dialect.ANTHROPIC:
        return AnthropicListing()
    return GeminiListing() if dialect is Dialect.GEMINI else PlainModelListing()
