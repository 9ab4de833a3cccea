"""What a new price does to the one there is."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.price_change import change_kind, differs, implausibility
from gateway.domain.price import Price, PriceRule, Tier
from gateway.domain.units import DOLLAR, Millis, Nanos

NOW = Price(model="m", input=Nanos(2 * DOLLAR), output=Nanos(10 * DOLLAR), cached_input=Nanos(DOLLAR))
TIER = Tier(above=200_000, input=Nanos(4 * DOLLAR), output=Nanos(15 * DOLLAR))


def new(**more: Any) -> Price:
    return replace(NOW, source="list", updated=Millis(5), as_of=Millis(4), **more)


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({}, "same"),
        ({"input": 3 * DOLLAR}, "up"),
        ({"output": 9 * DOLLAR}, "down"),
        ({"input": DOLLAR, "output": 11 * DOLLAR}, "up"),
        ({"cached_input": None}, "up"),
        ({"tiers": (TIER,)}, "up"),
        ({"per_call": 5}, "up"),
    ],
)
def test_a_price_is_up_if_any_of_its_rates_is(more: dict[str, Any], change: str) -> None:
    assert change_kind(NOW, new(**more)) == change
    assert differs(NOW, new(**more)) is (change != "same")


def test_a_price_without_a_rule_or_rate_that_it_had_is_lower() -> None:
    rule = PriceRule(variant="priority", input=Nanos(4 * DOLLAR), output=Nanos(20 * DOLLAR))
    before = replace(NOW, rules=(rule,), extras={"searches": Nanos(DOLLAR // 100)})
    assert change_kind(before, replace(before, rules=())) == "down"
    assert change_kind(replace(before, rules=()), before) == "up"
    assert implausibility(before, NOW) == "web search becomes free: from $0.01 to $0.00 each"


@pytest.mark.parametrize(("fee", "different"), [(0, False), (7, True)])
def test_a_rule_with_the_fee_of_the_price_is_the_same_as_one_without_a_fee(fee: int, different: bool) -> None:
    rule = PriceRule(variant="flex", input=Nanos(DOLLAR), output=Nanos(DOLLAR))
    before = replace(NOW, rules=(replace(rule, per_call=Nanos(fee)),))
    assert differs(before, replace(NOW, rules=(rule,))) is different


def test_a_first_price_is_new() -> None:
    assert (change_kind(None, NOW), differs(None, NOW), implausibility(None, NOW)) == ("new", True, "")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"input": 4 * DOLLAR}, ""),
        ({"input": 4 * DOLLAR + 1}, "input rises steeply: from $2.00 to $4.000000001 a million tokens"),
        ({"output": 100 * DOLLAR}, "output looks like another unit"),
        ({"output": DOLLAR}, "output looks like another unit"),
        ({"output": DOLLAR + 1}, ""),
        ({"input": 2 * DOLLAR // 1_000_000}, "input at $0.000002 a million tokens looks like another unit"),
        ({"input": 2_000_000 * DOLLAR}, "input at $2,000,000.00 a million tokens looks like another unit"),
        ({"input": 0}, "input becomes free"),
        ({"tiers": (TIER,)}, "cached input above 200000 tokens rises steeply"),
        ({"tiers": (replace(TIER, cached_input=Nanos(DOLLAR)),)}, ""),
        ({"tiers": (replace(TIER, input=Nanos(40 * DOLLAR)),)}, "input above 200000 tokens looks like another unit"),
        ({"per_call": DOLLAR}, "the call itself was free"),
    ],
)
def test_implausible_changes_are_found(more: dict[str, Any], why: str) -> None:
    assert implausibility(NOW, new(**more)).startswith(why)
    assert bool(implausibility(NOW, new(**more))) is bool(why)


def test_a_first_price_in_another_unit_is_not_believed() -> None:
    assert "another unit" in implausibility(None, new(output=Nanos(10_000_000 * DOLLAR)))
