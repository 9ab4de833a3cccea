import sys
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Tier as ListTier, TieredPrices

from gateway.control.list_amounts import list_price
from gateway.control.vendor_prices import load_price_list
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.errors import Unavailable
from gateway.domain.price import Price, Tier
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.core import kit

NOW = Millis(1_790_000_000_000)


def price(model: str = "m", **rates: Any) -> Price | None:
    """Our price of a row of the list with these rates, for a model with this name at its upstream."""
    listed = ModelPrice(**{"input_mtok": Decimal("2.5"), "output_mtok": Decimal(10)} | rates)
    return list_price("m", ModelInfo(id="m", match=ClauseEquals("m"), prices=listed), "list", NOW, model)


def channel(name: str = "c", *models: str, url: str = "https://api.openai.com/v1", priority: int = 0) -> Channel:
    return kit.channel(name, *models, base_url=url, priority=priority)


def test_dollars_become_exact_nanos() -> None:
    found = price(input_mtok=Decimal("0.0375"), cache_read_mtok=Decimal("0.000000001"))
    assert found == Price(
        model="m", input=Nanos(37_500_000), output=Nanos(10 * DOLLAR), cached_input=Nanos(1), source="list", updated=NOW
    )


def test_tiers_begin_where_any_rate_changes() -> None:
    tiered = TieredPrices(
        base=Decimal(1), tiers=[ListTier(start=200, price=Decimal(2)), ListTier(start=300, price=Decimal(3))]
    )
    late = TieredPrices(base=Decimal(4), tiers=[ListTier(start=300, price=Decimal(5))])
    found = price(input_mtok=tiered, output_mtok=late)
    assert found is not None
    assert (found.input, found.output) == (DOLLAR, 4 * DOLLAR)
    assert found.tiers == (
        Tier(above=200, input=Nanos(2 * DOLLAR), output=Nanos(4 * DOLLAR)),
        Tier(above=300, input=Nanos(3 * DOLLAR), output=Nanos(5 * DOLLAR)),
    )


@pytest.mark.parametrize("missing", ["input_mtok", "output_mtok"])
def test_a_model_without_both_rates_has_no_price(missing: str) -> None:
    rates: dict[str, Any] = {missing: None}
    assert price(**rates) is None


async def test_a_vendor_is_known_by_its_address_and_a_model_by_its_name_there() -> None:
    prices = load_price_list(NOW)
    found = prices.find(channel(), ServedModel(name="mine", upstream="gpt-4.1"))
    assert found is not None
    assert found.model == "gpt-4.1"
    assert found.source.startswith("genai-prices ")
    assert 0 < found.input < found.output


@pytest.mark.parametrize(
    ("url", "model"),
    [("https://api.openai.com/v1", "no-such-model"), ("http://127.0.0.1:11434/v1", "gpt-4.1"), ("", "gpt-4.1")],
)
async def test_nothing_is_guessed(url: str, model: str) -> None:
    assert load_price_list(NOW).find(channel(url=url), ServedModel(name=model)) is None


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(Unavailable, match="install the package genai-prices"):
        load_price_list(NOW)


def test_a_model_for_embeddings_needs_no_price_for_output() -> None:
    found = price("text-embedding-3-small", input_mtok=Decimal("0.02"), output_mtok=None)
    assert found is not None
    assert (found.model, found.input, found.output, found.free) == ("m", Nanos(20_000_000), Nanos(0), False)
    assert price("tts-1", input_mtok=Decimal("0.02"), output_mtok=None) is None
