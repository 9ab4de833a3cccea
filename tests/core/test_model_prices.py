"""Which price a model has: its own, or that of the model it stands for."""

import pytest

from gateway.core.model_prices import prices_by_model, set_by_owner
from gateway.domain.group import Fallback, Group
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.units import Nanos
from tests.core.kit import catalog, channel, registry

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


def test_a_copied_price_is_the_owner_s() -> None:
    sources = {source: set_by_owner(price("m", 1, source)) for source in ("manual", "like gpt-4o", LIST, "demo")}
    assert sources == {"manual": True, "like gpt-4o": True, LIST: False, "demo": False}
