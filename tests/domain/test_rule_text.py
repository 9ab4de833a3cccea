"""Rules, rates and parts of a price as people type them."""

from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.price import PriceHours, PriceRule, Tier
from gateway.domain.price_kinds import PRICE, parse_rate, parse_rule, rates_text, rule_text
from gateway.domain.units import DOLLAR, Millis, Nanos

WORKDAYS = PriceHours(days=("mon", "tue", "wed", "thu", "fri"), start=60, end=240)
RULES = [
    (
        "flex = 1.25/5 searches=0.01",
        PriceRule(
            variant="flex",
            input=Nanos(5 * DOLLAR // 4),
            output=Nanos(5 * DOLLAR),
            extras={"searches": Nanos(DOLLAR // 100)},
        ),
    ),
    (
        "mon-fri 01:00-04:00 UTC = 5/20 cached=0.50",
        PriceRule(
            during=(WORKDAYS,), input=Nanos(5 * DOLLAR), output=Nanos(20 * DOLLAR), cached_input=Nanos(DOLLAR // 2)
        ),
    ),
    (
        "priority, from 2026-12-01, sat,sun 22:00-06:00 Europe/Berlin, 12:00-13:00 UTC = 2/10 per-call=0 200k=4/20",
        PriceRule(
            variant="priority",
            since=Millis(1_796_083_200_000),
            during=(
                PriceHours(days=("sat", "sun"), start=1320, end=360, zone="Europe/Berlin"),
                PriceHours(start=720, end=780),
            ),
            input=Nanos(2 * DOLLAR),
            output=Nanos(10 * DOLLAR),
            per_call=Nanos(0),
            tiers=(Tier(above=200_000, input=Nanos(4 * DOLLAR), output=Nanos(20 * DOLLAR)),),
        ),
    ),
    ("from 2026-12-01T08:30 = 0/0", PriceRule(since=Millis(1_796_113_800_000), input=Nanos(0), output=Nanos(0))),
]


@pytest.mark.parametrize(("text", "rule"), RULES)
def test_a_rule_is_read_as_it_is_written(text: str, rule: PriceRule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(rule_text(rule)) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flex", "is not a rule such as"),
        ("flex = 5", "is not a rule such as"),
        ("cheap = 5/20", "is not a time range"),
        ("from soon = 5/20", "is not a day"),
        ("flex = 5/20 discount=1", "is not a rate"),
        ("flex = 5/20 cached=much", "is not an amount"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_rule(text)


def test_rates_have_the_names_of_parts() -> None:
    assert parse_rate("input_audio=32") == ("input_audio", 32 * DOLLAR)
    assert rates_text({"input_audio": Nanos(32 * DOLLAR), "searches": Nanos(0)}) == "input_audio=32 searches=0"
    for text in ("audio=1", "input_audio", "input_audio=much"):
        with pytest.raises(BadRequest):
            parse_rate(text)


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
        ("extras", "input_audio=32, searches=0.01", {"input_audio": 32 * DOLLAR, "searches": DOLLAR // 100}, None),
        ("extras", "", {}, []),
        ("rules", "flex = 1/5 ; from 2027-01-01 = 3/12;", (FLEX, LATER), ["flex = 1/5", "from 2027-01-01 = 3/12"]),
        ("rules", " ", (), []),
    ],
)
def test_several_parts_are_read_and_written(name: str, text: str, value: Any, written: list[str] | None) -> None:
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
