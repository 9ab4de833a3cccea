"""What is held covers what a channel's owner adds to a call."""

from typing import Any

import pytest

from gateway.core.quota import Need
from gateway.core.widening import Widening, widened, widening
from gateway.domain.overrides import Overrides
from tests.core import kit


def need(cap: int | None = 10, choices: int = 1) -> Need:
    return Need(input=16, output_cap=cap, choices=choices, price=kit.PRICE, multiplier=1_000_000)


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({}, None),
        ({"set": {"temperature": 1}, "remove": ("user",)}, None),
        ({"system": "x" * 30}, Widening(input=10)),
        ({"system": "ä" * 2}, Widening(input=2)),
        ({"set": {"max_tokens": 500}}, Widening(output_cap=500)),
        ({"default": {"max_tokens": 500}}, None),
        ({"set": {"max_tokens": None}}, Widening(uncapped=True)),
        ({"remove": ("max_completion_tokens",)}, Widening(uncapped=True)),
        ({"set": {"n": 3}}, Widening(choices=3)),
        ({"default": {"n": 2}}, Widening(choices=2)),
        ({"set": {"tools": ["x" * 10]}}, Widening(input=5)),
    ],
)
def test_what_is_added(edits: dict[str, Any], found: Widening | None) -> None:
    assert widening([Overrides(**edits)]) == found


def test_of_several_channels_the_one_that_adds_most_counts() -> None:
    found = widening([Overrides(system="x" * 9), Overrides(set={"max_tokens": 7}), Overrides(set={"seed": 1})])
    assert found == Widening(input=3, output_cap=7)


def test_a_call_needs_more_by_it_and_never_less() -> None:
    more = Widening(input=5, output_cap=20, choices=2)
    assert widened(need(), more) == Need(input=21, output_cap=20, choices=2, price=kit.PRICE, multiplier=1_000_000)
    assert widened(need(cap=50, choices=3), more).output_cap == 50
    assert widened(need(cap=50, choices=3), more).choices == 3
    assert widened(need(cap=None), more).output_cap is None
    assert widened(need(), Widening(uncapped=True)).output_cap is None
