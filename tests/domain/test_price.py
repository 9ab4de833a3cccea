"""One formula turns a usage into a cost: exact integers, one rounding, half up."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from gateway.domain.call import Record
from gateway.domain.cost import cost, highest_cost, price_gap
from gateway.domain.price import Price, Rates, Tier, multiply, rates
from gateway.domain.units import MILLION, CallId, Millis, Nanos
from gateway.domain.usage import Usage, canonical

USAGES = st.builds(
    Usage,
    input=st.integers(0, 10**7),
    cached=st.integers(0, 10**7),
    cache_write=st.integers(0, 10**7),
    output=st.integers(0, 10**7),
).map(canonical)
NUMBERS = st.integers(0, 10**13)
RATES = st.builds(Rates, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 10**8))


@given(USAGES, RATES)
def test_the_cost_is_the_exact_sum_rounded_once(usage: Usage, at: Rates) -> None:
    fresh = usage.input - usage.cached - usage.cache_write
    tokens = (
        fresh * at.input
        + usage.cached * at.cached_input
        + usage.cache_write * at.cache_write
        + usage.output * at.output
    )
    exact = (Fraction(tokens, MILLION) + at.per_call) * Fraction(at.multiplier, MILLION)
    found = cost(usage, at)
    assert found == (exact + Fraction(1, 2)).__floor__()
    assert isinstance(found, int)


@pytest.mark.parametrize(("nanos", "found"), [(499_999, 0), (500_000, 1), (1_499_999, 1), (1_500_000, 2)])
def test_halves_are_rounded_up(nanos: int, found: int) -> None:
    assert cost(Usage(input=1), Rates(nanos, 0, 0, 0, 0, MILLION)) == found


def test_a_price_per_call_is_added_and_multiplied() -> None:
    price = Price(model="m", input=Nanos(0), output=Nanos(0), per_call=Nanos(1_000))
    assert cost(Usage(input=5), rates(price, 5, 1_500_000)) == 1_500


def test_missing_cache_prices_are_the_input_price() -> None:
    """A discount is never guessed."""
    price = Price(model="m", input=Nanos(7), output=Nanos(9))
    assert rates(price, 10, MILLION) == Rates(7, 7, 7, 9, 0, MILLION)
    given_ = Price(model="m", input=Nanos(7), cached_input=Nanos(0), cache_write=Nanos(8), output=Nanos(9))
    assert rates(given_, 10, MILLION) == Rates(7, 0, 8, 9, 0, MILLION)


TIERED = Price(
    model="m",
    input=Nanos(1),
    output=Nanos(2),
    cached_input=Nanos(0),
    per_call=Nanos(5),
    tiers=(
        Tier(above=500, input=Nanos(20), output=Nanos(21), cached_input=Nanos(3)),
        Tier(above=100, input=Nanos(10), output=Nanos(11)),
    ),
)


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        (0, Rates(1, 0, 1, 2, 5, MILLION)),
        (100, Rates(1, 0, 1, 2, 5, MILLION)),
        (101, Rates(10, 10, 10, 11, 5, MILLION)),
        (500, Rates(10, 10, 10, 11, 5, MILLION)),
        (501, Rates(20, 3, 20, 21, 5, MILLION)),
    ],
)
def test_the_highest_tier_a_call_exceeds_applies(tokens: int, found: Rates) -> None:
    assert rates(TIERED, tokens, MILLION) == found


@pytest.mark.parametrize(
    ("price", "free"),
    [
        (Price(model="m", input=Nanos(0), output=Nanos(0)), True),
        (Price(model="m", input=Nanos(0), output=Nanos(0), cached_input=Nanos(0)), True),
        (Price(model="m", input=Nanos(1), output=Nanos(0)), False),
        (Price(model="m", input=Nanos(0), output=Nanos(1)), False),
        (Price(model="m", input=Nanos(0), output=Nanos(0), per_call=Nanos(1)), False),
        (Price(model="m", input=Nanos(0), output=Nanos(0), cache_write=Nanos(1)), False),
        (
            Price(model="m", input=Nanos(0), output=Nanos(0), tiers=(Tier(above=9, input=Nanos(1), output=Nanos(0)),)),
            False,
        ),
        (
            Price(
                model="m",
                input=Nanos(0),
                output=Nanos(0),
                tiers=(Tier(above=9, input=Nanos(0), output=Nanos(0), cached_input=Nanos(1)),),
            ),
            False,
        ),
    ],
)
def test_free_is_what_can_never_cost_anything(price: Price, free: bool) -> None:
    assert price.free is free


def test_the_highest_cost_is_not_higher_than_necessary() -> None:
    price = Price(model="m", input=Nanos(3 * MILLION), output=Nanos(5 * MILLION), per_call=Nanos(7))
    assert highest_cost(price, 10, 2, MILLION) == 47
    tiers = (Tier(above=4, input=Nanos(MILLION), output=Nanos(0)),)
    assert highest_cost(replace(price, tiers=tiers), 10, 2, MILLION) == 29


def test_a_multiplied_price_is_what_a_call_costs() -> None:
    tier = Tier(above=100, input=Nanos(6), output=Nanos(7))
    price = Price(model="m", input=Nanos(3), output=Nanos(15), cached_input=Nanos(1), per_call=Nanos(5), tiers=(tier,))
    found = multiply(price, 1_500_000)
    assert (found.input, found.output, found.cached_input, found.cache_write, found.per_call) == (5, 23, 2, None, 8)
    assert (found.tiers[0].above, found.tiers[0].input, found.tiers[0].output) == (100, 9, 11)
    assert multiply(price, MILLION) is price


def record(cost: int, *marks: str, multiplier: int = 1_000_000, priced: bool = True) -> Record:
    rates = Rates(1, 1, 1, 1, 0, multiplier) if priced else None
    return Record(id=CallId("c"), ts=Millis(0), cost=Nanos(cost), rates=rates, marks=marks)


@pytest.mark.parametrize(
    ("cost", "marks", "gap"),
    [
        (260_000_000, ("upstream_cost=0.52",), (260_000_000, 520_000_000)),
        (520_000_000, ("suspect", "upstream_cost=0.26"), (520_000_000, 260_000_000)),
        (100_000_000, ("upstream_cost=0.109",), None),
        (100_000_000, ("upstream_cost=0.112",), (100_000_000, 112_000_000)),
        (100_000_000, ("upstream_cost=0",), (100_000_000, 0)),
        (500, ("upstream_cost=0.000001",), None),
        (100_000_000, (), None),
    ],
)
def test_a_cost_a_tenth_apart_is_a_gap(cost: int, marks: tuple[str, ...], gap: tuple[int, int] | None) -> None:
    assert price_gap(record(cost, *marks)) == gap


def test_the_multiplier_of_a_group_is_not_a_gap() -> None:
    assert price_gap(record(200_000_000, "upstream_cost=0.1", multiplier=2_000_000)) is None


def test_a_call_without_a_price_or_charge_has_no_gap() -> None:
    assert price_gap(record(0, "upstream_cost=0.1", priced=False)) is None
    assert price_gap(record(0, "upstream_cost=0.1", multiplier=0)) is None
