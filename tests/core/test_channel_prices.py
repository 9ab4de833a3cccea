"""A price belongs to a channel and a model, or to the model that one stands for: which is charged, and what is held."""

import pytest
from msgspec.structs import replace

from gateway.core.catalog import Catalog
from gateway.core.model_prices import PricesNow, channel_price, prices_by_model, set_by_owner
from gateway.domain.channel import ServedModel
from gateway.domain.group import Fallback, Group
from gateway.domain.media_size import NO_MEDIA
from gateway.domain.price import Price, PriceRule
from gateway.domain.prompt_size import InputBound
from gateway.domain.settings import Settings
from gateway.domain.units import DOLLAR, Millis, Nanos
from tests.core import kit
from tests.core.clocks import NOON
from tests.core.kit import catalog, channel, registry


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
    one = Price(model="m", input=Nanos(DOLLAR), output=Nanos(9 * DOLLAR))
    other = Price(model="m", input=Nanos(2 * DOLLAR), output=Nanos(3 * DOLLAR))
    channels = [
        replace(kit.channel(name, groups=("home",)), models=(ServedModel(name="m", price=price),))
        for name, price in (("a", one), ("b", other))
    ]
    catalog = kit.catalog(*channels, prices=())
    entry = catalog.group_models("home")["m"]
    prices = catalog.prices_at(entry.effects.prices, Millis(0))
    for cap, nanos in ((16, 100 * 2_000 + 16 * 3_000), (500, 100 * 1_000 + 500 * 9_000)):
        request = replace(kit.ask(max_tokens=cap), bound=InputBound(100, NO_MEDIA))
        assert kit.need(request, entry.effects, prices).nanos == nanos
    assert {route.channel.name: route.served.price for route in entry.routes} == {"a": one, "b": other}


def test_where_unpriced_models_are_refused_no_unpriced_channel_answers() -> None:
    priced = replace(kit.channel("a", groups=("home",)), models=(ServedModel(name="m", price=a_price(1)),))
    registry = kit.registry(priced, kit.channel("b", groups=("home",)), prices=())
    refusing = replace(registry, settings=replace(registry.settings, refuse_unpriced=True))
    for one, names in ((registry, {"a", "b"}), (refusing, {"a"})):
        routes = Catalog(one, NOON).group_models("home")["m"].routes
        assert {route.channel.name for route in routes} == names


def test_a_price_with_rules_is_found_out_once_a_minute() -> None:
    rule = PriceRule(since=Millis(60_000), input=Nanos(5), output=Nanos(6))
    price = Price(model="m", input=Nanos(1), output=Nanos(2), rules=(rule,))
    now = PricesNow()
    first = now.at((price,), Millis(59_999))
    assert first is now.at((price,), Millis(0))
    later = now.at((price,), Millis(60_000))
    assert [price.input for price in (*first, *later)] == [1, 5]


LIST = "genai-prices 1"


def price(model: str, dollars: int, source: str = "manual") -> Price:
    return Price(model=model, input=Nanos(dollars), output=Nanos(dollars), source=source)


def rate(model: str, *channels: str, prices: tuple[Price, ...]) -> int | None:
    """The input price of a model; each channel is ``model=upstream``, the first is tried first."""
    offers = [channel(f"c{at}", offer, priority=-at) for at, offer in enumerate(channels)]
    found = prices_by_model(registry(*offers, prices=prices)).get(model)
    return None if found is None else found.input


def test_a_mapping_has_the_price_of_its_target() -> None:
    assert rate("fast", "fast=mini", prices=(price("mini", 3),)) == 3


def test_a_price_of_its_own_comes_first() -> None:
    assert rate("fast", "fast=mini", prices=(price("mini", 3), price("fast", 5))) == 5


@pytest.mark.parametrize(("own", "target", "expected"), [(LIST, LIST, 5), (LIST, "manual", 3), (LIST, "like gpt", 3)])
def test_a_target_s_price_set_by_the_owner_comes_before_an_imported_one(own: str, target: str, expected: int) -> None:
    assert rate("fast", "fast=mini", prices=(price("mini", 3, target), price("fast", 5, own))) == expected


def test_a_model_that_is_more_than_a_mapping_keeps_its_imported_price() -> None:
    prices = (price("vendor/gpt", 3), price("gpt", 5, LIST))
    assert rate("gpt", "gpt", "gpt=vendor/gpt", prices=prices) == 5


def test_the_target_at_the_channel_tried_first_counts() -> None:
    assert rate("fast", "fast=odd", "fast=mini", "fast=big", prices=(price("mini", 3), price("big", 9))) == 3


def test_nothing_is_inherited_where_nothing_is_known() -> None:
    assert rate("fast", "fast=mini", prices=(price("other", 3),)) is None
    assert rate("mini", "mini", prices=(price("other", 3),)) is None


def test_a_catalog_charges_a_mapping_like_its_target() -> None:
    found = catalog(channel("up", "fast=m")).price("fast")
    assert found is not None
    assert found.model == "m"


def test_a_fallback_that_inherits_its_price_is_not_unpriced() -> None:
    """An alias of a group is answered, and charged, by the models it names."""
    home = Group(name="home", fallbacks=(Fallback(model="smart", to=("fast", "odd")),))
    strict = Settings(refuse_unpriced=True)
    found = catalog(channel("up", "fast=m", "odd", groups=("home",)), groups=(home,), settings=strict)
    assert [other.name for other in found.group_models("home")["smart"].fallbacks] == ["fast"]


def test_a_fallback_with_a_price_in_another_group_only_is_unpriced() -> None:
    priced = replace(kit.channel("a", groups=("work",)), models=(ServedModel(name="fast", price=a_price(1)),))
    unpriced = replace(kit.channel("b", groups=("home",)), models=(ServedModel(name="m"), ServedModel(name="fast")))
    registry = replace(kit.registry(priced, unpriced, prices=()), settings=Settings(refuse_unpriced=True))
    home = Group(name="home", fallbacks=(Fallback(model="m", to=("fast",)),))
    assert Catalog(replace(registry, groups={"home": home}), NOON).group_models("home")["m"].fallbacks == ()


def test_a_copied_price_is_the_owner_s() -> None:
    sources = {source: set_by_owner(price("m", 1, source)) for source in ("manual", "like gpt-4o", LIST, "demo")}
    assert sources == {"manual": True, "like gpt-4o": True, LIST: False, "demo": False}
