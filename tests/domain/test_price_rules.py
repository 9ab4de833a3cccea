"""A price has other amounts from a day on, in some hours, and for other ways to process a call."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_price_hours
from gateway.domain.price import Price, PriceRule, Tier, in_force, multiply, rates, without_past
from gateway.domain.units import MILLION, Millis, Nanos


def at(text: str, zone: str = "UTC") -> Millis:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC if zone == "UTC" else ZoneInfo(zone))
    return Millis(round(moment.timestamp() * 1000))


PEAK = tuple(parse_price_hours(text) for text in ("mon-fri 01:00-04:00 UTC", "mon-fri 06:00-10:00"))
DEEPSEEK = Price(
    model="m", input=Nanos(1), output=Nanos(2), rules=(PriceRule(during=PEAK, input=Nanos(3), output=Nanos(4)),)
)


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        ("2026-11-27 00:59:59", 1),  # a Friday
        ("2026-11-27 01:00:00", 3),
        ("2026-11-27 03:59:59", 3),
        ("2026-11-27 04:00:00", 1),
        ("2026-11-27 06:00:00", 3),
        ("2026-11-27 09:59:59", 3),
        ("2026-11-27 10:00:00", 1),
        ("2026-11-28 03:00:00", 1),  # a Saturday
        ("2026-11-29 03:00:00", 1),
        ("2026-11-30 03:00:00", 3),
    ],
)
def test_peak_hours_begin_and_end_to_the_second(moment: str, found: int) -> None:
    assert in_force(DEEPSEEK, at(moment)).input == found


@pytest.mark.parametrize(
    ("text", "moment", "zone", "found"),
    [
        ("09:00-17:00 Europe/Berlin", "2026-07-01 09:00:00", "Europe/Berlin", True),
        ("09:00-17:00 Europe/Berlin", "2026-07-01 07:00:00", "UTC", True),  # summer time
        ("09:00-17:00 Europe/Berlin", "2026-12-01 07:00:00", "UTC", False),
        ("09:00-17:00 Europe/Berlin", "2026-12-01 08:00:00", "UTC", True),
        ("fri 22:00-06:00", "2026-11-27 23:00:00", "UTC", True),
        ("fri 22:00-06:00", "2026-11-28 05:59:59", "UTC", True),  # of the Friday
        ("fri 22:00-06:00", "2026-11-27 05:00:00", "UTC", False),  # of the Thursday
        ("sun 22:00-06:00", "2026-11-30 05:00:00", "UTC", True),
        ("16:30-00:30", "2026-11-27 00:29:59", "UTC", True),
        ("20:00-24:00", "2026-11-27 23:59:59", "UTC", True),
        ("sat,sun 00:00-24:00", "2026-11-28 12:00:00", "UTC", True),
        ("fri-mon 00:00-24:00", "2026-12-01 00:00:00", "UTC", False),
    ],
)
def test_hours_have_days_and_a_zone(text: str, moment: str, zone: str, found: bool) -> None:
    assert parse_price_hours(text).contains(at(moment, zone)) is found


@pytest.mark.parametrize(
    "text", ["mon-fri 01:00-04:00 UTC", "16:30-00:30 UTC", "mon,wed,fri-sun 00:00-24:00 Asia/Shanghai"]
)
def test_hours_are_written_as_they_are_read(text: str) -> None:
    assert str(parse_price_hours(text)) == text


@pytest.mark.parametrize("text", ["", "mon-fri", "25:00-26:00", "mo 01:00-02:00", "01:00-02:00 Mars/Base"])
def test_wrong_hours_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_price_hours(text)


def test_a_rule_takes_effect_on_its_day() -> None:
    later = PriceRule(since=at("2026-12-01 00:00:00"), input=Nanos(5), output=Nanos(6))
    price = Price(model="m", input=Nanos(1), output=Nanos(2), per_call=Nanos(9), rules=(later,))
    assert in_force(price, at("2026-11-30 23:59:59")) == Price(
        model="m", input=Nanos(1), output=Nanos(2), per_call=Nanos(9)
    )
    assert in_force(price, at("2026-12-01 00:00:00")) == Price(
        model="m", input=Nanos(5), output=Nanos(6), per_call=Nanos(9)
    )


FLEX = Price(
    model="m",
    input=Nanos(10),
    output=Nanos(20),
    cached_input=Nanos(2),
    extras={"searches": Nanos(7)},
    rules=(
        PriceRule(variant="flex", input=Nanos(5), output=Nanos(10), cached_input=Nanos(1)),
        PriceRule(
            variant="priority",
            input=Nanos(20),
            output=Nanos(40),
            tiers=(Tier(above=100, input=Nanos(30), output=Nanos(60)),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("variant", "tokens", "found"),
    [
        ("", 1, (10, 2, 20)),
        ("flex", 1, (5, 1, 10)),
        ("priority", 1, (20, 20, 40)),
        ("priority", 101, (30, 30, 60)),
        ("batch", 1, (10, 2, 20)),
    ],
)
def test_the_answer_tells_which_variant_is_charged(variant: str, tokens: int, found: tuple[int, int, int]) -> None:
    price = in_force(FLEX, Millis(0))
    given = rates(price, tokens, MILLION, variant)
    assert (given.input, given.cached_input, given.output) == found
    assert given.extras == {"searches": 7}


def test_a_group_pays_all_amounts_of_a_price_by_its_multiplier() -> None:
    found = multiply(FLEX, 2 * MILLION)
    assert (found.input, found.extras["searches"], found.rules[0].input, found.rules[1].tiers[0].output) == (
        20,
        14,
        10,
        120,
    )


JANUARY, MARCH, JUNE = at("2027-01-01"), at("2027-03-01"), at("2027-06-01")


def some_rule(number: int, **conditions: Any) -> PriceRule:
    return PriceRule(input=Nanos(number), output=Nanos(number), **conditions)


NIGHT, DAY = some_rule(10, during=PEAK), some_rule(11, during=PEAK, since=JANUARY)
VARIANT, LATER_VARIANT = some_rule(20, variant="flex"), some_rule(21, variant="flex", since=MARCH)
RISES = some_rule(30, since=JANUARY), some_rule(31, since=MARCH), some_rule(32, since=JUNE)


@pytest.mark.parametrize(
    ("rules", "amount", "left"),
    [
        ([], 1, []),
        ([NIGHT, VARIANT], 1, [NIGHT, VARIANT]),
        ([RISES[2]], 1, [RISES[2]]),
        ([RISES[0]], 30, []),
        ([RISES[0], RISES[1], RISES[2]], 31, [RISES[2]]),
        ([NIGHT, RISES[0]], 30, []),
        ([RISES[0], NIGHT], 30, [NIGHT]),
        ([NIGHT, VARIANT, RISES[1], DAY, LATER_VARIANT, RISES[2]], 31, [VARIANT, DAY, LATER_VARIANT, RISES[2]]),
        ([DAY, LATER_VARIANT], 1, [DAY, LATER_VARIANT]),
    ],
)
def test_rules_that_are_over_leave_a_price_that_charges_the_same(
    rules: list[PriceRule], amount: int, left: list[PriceRule]
) -> None:
    price, moment = Price(model="m", input=Nanos(1), output=Nanos(1), rules=tuple(rules)), at("2027-04-05 03:00")
    shown = without_past(price, moment)
    assert (shown.input, shown.output, list(shown.rules)) == (amount, amount, left)
    for later in (moment, at("2027-04-05 05:00"), JUNE, at("2027-06-07 03:00")):
        assert in_force(shown, later) == in_force(price, later)
