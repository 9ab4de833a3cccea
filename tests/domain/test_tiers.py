import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import tier_of, tiers_of, written_tier
from gateway.domain.price import Tier
from gateway.domain.units import DOLLAR, Nanos


@pytest.mark.parametrize(
    ("text", "cached", "write"),
    [
        ("200k=6/22.50", None, None),
        ("200k=6/22.50/0.60", 600_000_000, None),
        ("200k=6/22.50/0.60/7.50", 600_000_000, 7_500_000_000),
    ],
)
def test_a_tier_is_read_and_written_the_same(text: str, cached: int | None, write: int | None) -> None:
    tier = tier_of(text)
    assert (tier.above, tier.input, tier.output) == (200_000, 6 * DOLLAR, 22_500_000_000)
    assert (tier.cached_input, tier.cache_write) == (cached, write)
    assert written_tier(tier) == text


def test_no_digit_of_a_threshold_is_lost() -> None:
    assert written_tier(Tier(above=128_001, input=Nanos(0), output=Nanos(DOLLAR))) == "128001=0/1"


def test_a_cache_write_price_brings_the_cached_one_with_it() -> None:
    tier = Tier(above=1000, input=Nanos(DOLLAR), output=Nanos(0), cache_write=Nanos(2 * DOLLAR))
    assert written_tier(tier) == "1k=1/0/1/2"


def test_several_come_in_their_order() -> None:
    assert [tier.above for tier in tiers_of("1M=4/8  200k=2/4")] == [200_000, 1_000_000]
    assert tiers_of("  ") == []


@pytest.mark.parametrize("text", ["6/22", "200k=6", "200k=", "x=1/2", "200k=1/-2", "200k=1/2/3/4/5"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        tier_of(text)
