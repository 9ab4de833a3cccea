"""What is typed for the parts of a price that there may be several of, in a form and as options."""

from typing import Any

import msgspec
import pytest

from gateway.domain.price import PriceRule, Tier
from gateway.domain.price_kinds import PRICE
from gateway.domain.units import DOLLAR, Millis, Nanos

FIELDS = {field.name: field for field in PRICE}
SHORT = Tier(above=200_000, input=Nanos(2 * DOLLAR), output=Nanos(4 * DOLLAR))
LONG = Tier(above=1_000_000, input=Nanos(4 * DOLLAR), output=Nanos(8 * DOLLAR))
FLEX = PriceRule(variant="flex", input=Nanos(DOLLAR), output=Nanos(5 * DOLLAR))
LATER = PriceRule(since=Millis(1_798_761_600_000), input=Nanos(3 * DOLLAR), output=Nanos(12 * DOLLAR))


@pytest.mark.parametrize(
    ("name", "text", "value", "written"),
    [
        ("tiers", "1M=4/8  200k=2/4", (SHORT, LONG), ["200k=2/4", "1M=4/8"]),
        ("tiers", "200k=2/4, 1M=4/8", (SHORT, LONG), ["200k=2/4", "1M=4/8"]),
        ("tiers", "none", (), []),
        ("extras", "input_audio=32, searches=0.01", {"input_audio": 32 * DOLLAR, "searches": DOLLAR // 100}, None),
        ("extras", "", {}, []),
        ("rules", "flex = 1/5 ; from 2027-01-01 = 3/12;", (FLEX, LATER), ["flex = 1/5", "from 2027-01-01 = 3/12"]),
        ("rules", " ", (), []),
    ],
)
def test_several_are_read_from_text_and_written(name: str, text: str, value: Any, written: list[str] | None) -> None:
    field = FIELDS[name]
    assert field.kind.read(text, Millis(0)) == value
    assert field.kind.read(field.kind.text(value), Millis(0)) == value
    words = written if written is not None else ["input_audio=32", "searches=0.01"]
    assert field.arguments(None, value) == [part for word in words for part in (field.flags, word)]
    assert field.arguments(value, value) == []


def test_options_that_are_not_given_change_nothing() -> None:
    field = FIELDS["tiers"]
    assert field.kind.change(field, {"tiers": ()}, (SHORT,)) is msgspec.UNSET
    assert field.kind.change(field, {"tiers": (LONG, SHORT)}, ()) == (SHORT, LONG)
