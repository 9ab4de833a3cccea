"""Every dialect has an adapter and a way to list models."""

import pytest

from gateway.domain.channel import Dialect
from gateway.upstream.anthropic.listing import AnthropicListing
from gateway.upstream.dialects import adapter, adapters, listing
from gateway.upstream.gemini.listing import GeminiListing
from gateway.upstream.pages import PlainListing


@pytest.mark.parametrize("dialect", Dialect)
def test_has_an_adapter(dialect: Dialect) -> None:
    assert callable(adapter(dialect).prepare)


def test_the_adapters_of_a_server_stay_the_same() -> None:
    of = adapters()
    assert of(Dialect.GEMINI) is of(Dialect.GEMINI)
    assert of(Dialect.GEMINI) is not adapters()(Dialect.GEMINI)


def test_every_dialect_lists_models_its_way() -> None:
    ways = {dialect: type(listing(dialect)) for dialect in (Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI)}
    own = {Dialect.ANTHROPIC: AnthropicListing, Dialect.GEMINI: GeminiListing}
    assert ways == {Dialect.OPENAI: PlainListing, **own}
