"""Dialects: the adapter of each."""

from gateway.domain.channel import Dialect
from gateway.upstream.adapter import Adapter
from gateway.upstream.openai.dialect import OpenAIDialect

_ADAPTERS: dict[Dialect, Adapter] = {
    Dialect.OPENAI: OpenAIDialect(),
    Dialect.MOCK: OpenAIDialect(),
}


def adapter(dialect: Dialect) -> Adapter:
    """The adapter of a dialect."""
    return _ADAPTERS[dialect]
