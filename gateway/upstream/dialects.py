"""Dialects: the adapter of each, and how each lists models."""

from collections.abc import Callable

from gateway.domain.channel import Dialect
from gateway.upstream.adapter import Adapter
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.anthropic.listing import AnthropicListing
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.gemini.listing import GeminiListing
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.pages import Listing, PlainListing


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


def listing(dialect: Dialect) -> Listing:
    """How a dialect lists models."""
    if dialect is Dialect.ANTHROPIC:
        return AnthropicListing()
    return GeminiListing() if dialect is Dialect.GEMINI else PlainListing()
