"""When the cost that an upstream reports says that a price is wrong."""

import pytest

from gateway.domain.call import Record
from gateway.domain.cost import price_gap
from gateway.domain.price import Rates
from gateway.domain.units import CallId, Millis, Nanos


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
        (100_000_000, ("upstream_cost=nan",), None),
        (100_000_000, ("upstream_cost=-1",), None),
        (100_000_000, ("upstream_cost=many",), None),
    ],
)
def test_a_cost_a_tenth_apart_is_a_gap(cost: int, marks: tuple[str, ...], gap: tuple[int, int] | None) -> None:
    assert price_gap(record(cost, *marks)) == gap


def test_the_multiplier_of_a_group_is_not_a_gap() -> None:
    assert price_gap(record(200_000_000, "upstream_cost=0.1", multiplier=2_000_000)) is None


def test_a_call_without_a_price_or_charge_has_no_gap() -> None:
    assert price_gap(record(0, "upstream_cost=0.1", priced=False)) is None
    assert price_gap(record(0, "upstream_cost=0.1", multiplier=0)) is None
