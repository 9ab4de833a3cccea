"""A price belongs to a channel and a model: which one is charged, and what is held."""

import pytest
from msgspec.structs import replace

from gateway.core.catalog import Catalog
from gateway.core.model_prices import PricesNow, channel_price
from gateway.domain.channel import ServedModel
from gateway.domain.price import Price, PriceRule
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.core import kit


def a_price(dollars: int, source: str = "manual", model: str = "m") -> Price:
    return Price(model=model, input=Nanos(dollars * DOLLAR), output=Nanos(dollars * DOLLAR), source=source)


LISTED, PUBLISHED = "genai-prices 0.2.3", "the list of up"


@pytest.mark.parametrize(
    ("own", "named", "preset", "found"),
    [
        (a_price(1), a_price(2), "", 1),  # set by hand for the channel
        (a_price(1, PUBLISHED), a_price(2), "", 2),  # set by hand for the model
        (a_price(1, PUBLISHED), a_price(2, LISTED), "", 1),  # what the channel's own list says
        (a_price(1, LISTED), None, "", 1),
        (None, a_price(2, LISTED), "", 2),
        (None, a_price(2, LISTED), "ollama", 0),  # a local server costs nothing, whatever a vendor asks
        (None, None, "vllm", 0),
        (None, a_price(2), "ollama", 2),  # unless told
        (a_price(1), None, "lmstudio", 1),
        (None, None, "", None),
    ],
)
def test_the_nearest_price_counts(own: Price | None, named: Price | None, preset: str, found: int | None) -> None:
    served = ServedModel(name="m", price=own)
    channel = replace(kit.channel("up", preset=preset), models=(served,))
    price = channel_price(channel, served, {} if named is None else {"m": named})
    assert (None if price is None else price.input // DOLLAR) == found


@pytest.mark.parametrize(
    ("url", "free"), [("http://127.0.0.1:11434/v1", True), ("https://proxy.example:11434/v1", False)]
)
def test_a_local_server_is_known_by_its_port_on_this_machine(url: str, free: bool) -> None:
    channel = kit.channel("up", base_url=url)
    price = channel_price(channel, channel.models[0], {"m": a_price(2, LISTED)})
    assert price is not None
    assert price.free is free


def test_the_hold_is_for_the_most_expensive_of_several_channels() -> None:
    """Input at one of them, output at the other."""
    one = Price(model="m", input=Nanos(DOLLAR), output=Nanos(9 * DOLLAR))
    other = Price(model="m", input=Nanos(2 * DOLLAR), output=Nanos(3 * DOLLAR))
    channels = [
        replace(kit.channel(name, groups=("home",)), models=(ServedModel(name="m", price=price),))
        for name, price in (("a", one), ("b", other))
    ]
    catalog = Catalog(kit.registry(*channels, prices=()))
    entry = catalog.group_models("home")["m"]
    found = catalog.prices_at(entry.effects.prices, Millis(0))
    assert found is not None
    assert (found.input, found.output) == (2 * DOLLAR, 9 * DOLLAR)
    assert {route.channel.name: route.served.price for route in entry.routes} == {"a": one, "b": other}


def test_where_unpriced_models_are_refused_no_unpriced_channel_answers() -> None:
    priced = replace(kit.channel("a", groups=("home",)), models=(ServedModel(name="m", price=a_price(1)),))
    registry = kit.registry(priced, kit.channel("b", groups=("home",)), prices=())
    refusing = replace(registry, settings=replace(registry.settings, refuse_unpriced=True))
    for one, names in ((registry, {"a", "b"}), (refusing, {"a"})):
        routes = Catalog(one).group_models("home")["m"].routes
        assert {route.channel.name for route in routes} == names


def test_a_price_with_rules_is_found_out_once_a_minute() -> None:
    rule = PriceRule(since=Millis(60_000), input=Nanos(5), output=Nanos(6))
    price = Price(model="m", input=Nanos(1), output=Nanos(2), rules=(rule,))
    now = PricesNow()
    first = now.at((price,), Millis(59_999))
    assert first is now.at((price,), Millis(0))
    later = now.at((price,), Millis(60_000))
    assert first is not None
    assert later is not None
    assert (first.input, later.input) == (1, 5)
