"""Service tiers and peak hours in a listed price: ``pricing`` as Vercel writes it."""

from typing import Any

import pytest

from gateway.domain.price import Price, PriceHours, PriceRule, Tier, in_force, rates
from gateway.domain.units import DOLLAR, MILLION, Millis, Nanos
from gateway.upstream.listed_prices import listed_prices

BASE = {"input": "0.000002", "output": "0.000010", "input_cache_read": "0.0000002"}
MONDAY = 1_795_996_800_000
"""2026-11-30, midnight UTC."""


def told(**more: Any) -> Price:
    found = listed_prices({"pricing": {**BASE, **more}})
    assert found is not None
    return Price(model="m", **{name: getattr(found, name) for name in found.__struct_fields__})


def paid(price: Price, hour: float, variant: str = "", tokens: int = 10) -> tuple[float, float]:
    """Dollars of a million tokens of input and output, of a call that begins so many hours after that Monday."""
    at = rates(in_force(price, Millis(MONDAY + round(hour * 3_600_000))), tokens, MILLION, variant)
    return at.input / DOLLAR, at.output / DOLLAR


def test_a_service_tier_has_rates_of_its_own_or_a_multiplier() -> None:
    own = {"input": "0.000004", "output": "0.00002"}
    price = told(service_tiers={"priority": own, "flex": {"multiplier": "0.5"}, "default": {}})
    assert [paid(price, 0, variant) for variant in ("", "priority", "flex", "batch")] == [
        (2, 10),
        (4, 20),
        (1, 5),
        (2, 10),
    ]


def test_longer_inputs_of_a_tier_are_as_much_more_expensive() -> None:
    steps = [{"cost": "0.000002", "min": 0}, {"cost": "0.000003", "min": 200_001}]
    price = told(input_tiers=steps, service_tiers={"priority": {"input": "0.000004", "output": "0.00002"}})
    assert paid(price, 0, "priority", 300_000) == (6, 20)
    assert price.tiers == (
        Tier(above=200_000, input=Nanos(3 * DOLLAR), output=Nanos(10 * DOLLAR), cached_input=Nanos(DOLLAR // 5)),
    )


def test_peak_hours_multiply_the_price_and_those_of_tiers() -> None:
    days = ["Monday", "tue"]
    windows = [{"start": "01:00", "end": "04:00", "days": days}, {"start": "06:00", "end": "10:00", "days": days}]
    price = told(peak_pricing={"multiplier": "2", "windows": windows}, service_tiers={"flex": {"multiplier": 0.5}})
    hours = (0.99, 1, 3.99, 4, 6, 10, 5 * 24 + 2)
    assert [paid(price, hour)[0] for hour in hours] == [2, 4, 4, 2, 4, 2, 2]
    assert [paid(price, hour, "flex")[0] for hour in (0, 2)] == [1, 2]


@pytest.mark.parametrize(
    "peak",
    [
        {"windows": "when busy"},
        {"windows": [{"start": "1 am", "end": "4 am"}]},
        {"windows": [{"start": "01:00", "end": "04:00", "timezone": "Mars/Olympus"}]},
        {"windows": [{"start": "01:00", "end": "04:00", "days": [0, 6]}]},
    ],
)
def test_peak_hours_that_cannot_be_read_are_all_day(peak: dict[str, Any]) -> None:
    price = told(peak_pricing={"multiplier": 2, **peak}, service_tiers={"flex": {"multiplier": 0.5}})
    assert [paid(price, hour) for hour in (0, 2, 30)] == [(4, 20)] * 3
    assert paid(price, 5, "flex") == (2, 10)


@pytest.mark.parametrize("peak", [None, "x", {}, {"multiplier": "-2"}, {"multiplier": "nan"}, {"multiplier": 1e9}])
def test_a_multiplier_without_sense_is_none(peak: object) -> None:
    assert told(peak_pricing=peak, service_tiers={"flex": peak, "priority": {"input": "x"}}).rules == ()


def test_rules_are_kept_as_they_are_stored() -> None:
    rule = PriceRule(
        during=(PriceHours(days=("mon",), start=60, end=240),),
        input=Nanos(4 * DOLLAR),
        output=Nanos(20 * DOLLAR),
        cached_input=Nanos(4 * DOLLAR // 10),
        per_call=Nanos(0),
    )
    peak = {"multiplier": 2, "windows": [{"start": "01:00", "end": "04:00", "days": ["mon"]}]}
    assert told(peak_pricing=peak).rules == (rule,)
