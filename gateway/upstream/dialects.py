"""Dialects: the adapter of each, what output each lets a request have, and how each lists models.

A new one is a row here, and one in ``domain.channel`` with what the rest of the program must know of it.
"""

from collections.abc import Callable

import msgspec

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.output_limit import OutputLimit
from gateway.domain.rawjson import Fields
from gateway.upstream.answer_reader import DialectAdapter
from gateway.upstream.anthropic import request as anthropic
from gateway.upstream.anthropic.dialect import AnthropicDialect, AnthropicListing
from gateway.upstream.anthropic.models import row_of as anthropic_row
from gateway.upstream.gemini import request as gemini
from gateway.upstream.gemini.dialect import GeminiDialect, GeminiListing
from gateway.upstream.gemini.models import row_of as gemini_row
from gateway.upstream.model_list import ModelListing, PlainModelListing
from gateway.upstream.openai import dialect as openai
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.overrides import with_parameters
from gateway.upstream.translate.tool_names import Signatures
from gateway.upstream.vendors import ANTHROPIC, GEMINI


def _never(_: Channel) -> bool:
    return False


class DialectParts(msgspec.Struct, frozen=True, kw_only=True):
    """What ``upstream`` has for a dialect."""

    adapter: Callable[[], DialectAdapter]
    """A new one. Some remember what their vendors want back; see ``Signatures``."""
    output_limit: Callable[[Fields, Channel, ServedModel], OutputLimit]
    """The most output that a request allows as it goes out to a channel, with the owner's parameters in it."""
    model_limit: Callable[[str], int | None] = lambda _: None
    """The largest output of a model, if the vendor's models are in a table here; None: unknown."""
    remembers: Callable[[Channel], bool] = _never
    """Whether requests may get back what the vendor wants to see again with calls of tools."""
    listing: Callable[[], ModelListing] = PlainModelListing
    base_url: str = ""
    """Where the vendor lives that alone speaks it; empty: many do, or nobody outside."""


_PARTS = {
    Dialect.OPENAI: DialectParts(
        adapter=OpenAIDialect, output_limit=openai.output_limit, remembers=openai.wants_reasoning
    ),
    Dialect.ANTHROPIC: DialectParts(
        adapter=lambda: AnthropicDialect(Signatures()),
        output_limit=lambda fields, _, served: anthropic.output_limit(fields, served),
        model_limit=lambda model: anthropic_row(model).max_output,
        remembers=lambda _: True,
        listing=AnthropicListing,
        base_url=ANTHROPIC.base_url,
    ),
    Dialect.GEMINI: DialectParts(
        adapter=lambda: GeminiDialect(Signatures()),
        output_limit=lambda fields, _, served: gemini.output_limit(fields, served),
        model_limit=lambda model: gemini_row(model).max_output,
        remembers=lambda _: True,
        listing=GeminiListing,
        base_url=GEMINI.base_url,
    ),
    Dialect.MOCK: DialectParts(adapter=OpenAIDialect, output_limit=openai.output_limit),
}

REMEMBERING = tuple(dialect for dialect, parts in _PARTS.items() if parts.remembers is not _never)
"""Those with adapters that put something back into requests."""


def adapters() -> Callable[[Dialect], DialectAdapter]:
    """The adapters of one server, by dialect."""
    return {dialect: parts.adapter() for dialect, parts in _PARTS.items()}.__getitem__


def adapter(dialect: Dialect) -> DialectAdapter:
    """An adapter for one question; what it remembers is forgotten with it."""
    return _PARTS[dialect].adapter()


def output_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """See ``DialectParts``."""
    return _PARTS[channel.dialect].output_limit(fields, channel, served)


def chat_limit(fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
    """The same for a chat as the client sent it."""
    edits = channel.overrides
    return output_limit(fields if edits is None else with_parameters(fields, edits), channel, served)


def model_limit(dialect: Dialect, upstream_model: str) -> int | None:
    """See ``DialectParts``."""
    return _PARTS[dialect].model_limit(upstream_model)


def remembers(channel: Channel) -> bool:
    """Whether requests to a channel may get back what the vendor wants to see again with calls of tools."""
    return _PARTS[channel.dialect].remembers(channel)


def vendor_url(dialect: Dialect) -> str:
    """Where the vendor lives that alone speaks a dialect; empty if there is none."""
    return _PARTS[dialect].base_url


def listing(dialect: Dialect) -> ModelListing:
    """How a dialect lists models."""
    return _PARTS[dialect].listing()
