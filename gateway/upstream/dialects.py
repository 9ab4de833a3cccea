"""Dialects: the adapter of each."""

from collections.abc import Mapping

from gateway.domain.channel import Dialect
from gateway.upstream.adapter import Adapter
from gateway.upstream.openai.dialect import OpenAIDialect

_ADAPTERS: Mapping[Dialect, Adapter] = {
    Dialect.OPENAI: OpenAIDialect(),
    Dialect.MOCK: OpenAIDialect(),
}


def adapter(dialect: Dialect) -> Adapter:
    """The adapter of a dialect; adapters keep no state."""
    return _ADAPTERS[dialect]
