"""A catalog made from the one before it, of which only prices differ, equals one that is made from nothing."""

import pytest
from hypothesis import given, strategies as st

from gateway.core.catalog import Catalog
from gateway.domain.group import Fallback, Group
from gateway.domain.price import Price
from gateway.domain.registry import Change, with_changes
from gateway.domain.settings import Settings
from gateway.domain.units import Nanos
from tests.core import kit

NAMES = ("a", "b", "fast", "other")
GROUPS = (
    Group(name="home", fallbacks=(Fallback(model="a", to=("b", "fast")),)),
    Group(name="plain", models=("a", "b")),
)
CHANNELS = (
    kit.channel("one", "a", "b", "fast=a", groups=("home", "plain")),
    kit.channel("two", "a", "fast=b", groups=("home",), priority=3),
    kit.channel("local", "b", groups=("home",), preset="vllm"),
)


@pytest.mark.parametrize("refuse", [False, True])
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.integers(0, 9)), max_size=6))
def test_only_what_depends_on_a_price_is_made_again(refuse: bool, edits: list[tuple[str, int | None]]) -> None:
    registry = kit.registry(*CHANNELS, groups=GROUPS, prices=(), settings=Settings(refuse_unpriced=refuse))
    catalog = Catalog(registry)
    for name, nanos in edits:
        price = None if nanos is None else Price(model=name, input=Nanos(nanos), output=Nanos(nanos))
        registry = with_changes(registry, [Change("prices", name, price)])
        catalog = Catalog(registry, catalog)
    fresh = Catalog(registry)
    for group in ("home", "plain"):
        assert list(catalog.group_models(group).items()) == list(fresh.group_models(group).items())
    assert catalog.prices == fresh.prices


def test_models_whose_price_stays_are_the_same_objects() -> None:
    before = Catalog(kit.registry(*CHANNELS, groups=GROUPS[1:], prices=()))
    price = Price(model="a", input=Nanos(1), output=Nanos(1))
    after = Catalog(with_changes(before.registry, [Change("prices", "a", price)]), before)
    kept = [name for name, entry in after.group_models("plain").items() if entry is before.group_models("plain")[name]]
    assert kept == ["b"]


def test_another_channel_or_group_makes_all_of_it_again() -> None:
    before = Catalog(kit.registry(*CHANNELS, groups=GROUPS, prices=()))
    more = kit.channel("three", "new", groups=("home",))
    for change in (Change("channels", more.id, more), Change("groups", "plain", Group(name="plain", models=("b",)))):
        registry = with_changes(before.registry, [change])
        after, fresh = Catalog(registry, before), Catalog(registry)
        assert [after.group_models(name) for name in ("home", "plain")] == [
            fresh.group_models(name) for name in ("home", "plain")
        ]
