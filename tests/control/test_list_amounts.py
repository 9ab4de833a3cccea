"""Prices with days, hours, variants and further rates, as the price list has them; in dollars."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.types import ClauseEquals, ConditionalPrice, ModelInfo, ModelPrice, StartDateConstraint

from gateway.control.list_amounts import list_date, list_price
from gateway.control.list_rows import ListNames
from gateway.domain.cost import cost
from gateway.domain.price import Day, Price, PriceHours, in_force, rates
from gateway.domain.price_kinds import rule_text
from gateway.domain.units import DOLLAR, Millis
from gateway.domain.usage import Usage


def at(text: str) -> Millis:
    return Millis(round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


NOW = at("2026-11-27")


def price(url: str, name: str) -> Price:
    from genai_prices.data import providers  # noqa: PLC0415 - slow, and not for every worker

    names = ListNames(providers)
    vendor = names.vendor_at(url)
    assert vendor is not None
    row = names.row(vendor, name).row
    assert row is not None
    found = list_price(name, row, "list", NOW, name)
    assert found is not None
    return found


def paid(price: Price, moment: Millis, variant: str = "", **usage: Any) -> float:
    usage = {"input": 1_000_000} | usage
    at = rates(in_force(price, moment), usage["input"], 1_000_000, variant)
    return cost(Usage(**usage), at) / DOLLAR


GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
DEEPSEEK = "https://api.deepseek.com"
OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"


def test_a_rise_takes_effect_on_its_day() -> None:
    argon = price(GOOGLE, "gemini-4-argon")
    assert paid(argon, at("2026-11-30 23:59:59")) == 2
    assert paid(argon, at("2026-12-01 00:00:00")) == 4


def listed(prices: Any, *, id_: str = "m", comments: str = "") -> Price | None:
    """Returns the price of a row of our own."""
    row = ModelInfo(id=id_, match=ClauseEquals(equals=id_), prices=prices, price_comments=comments)
    return list_price(id_, row, "list", NOW, id_)


def test_later_days_take_effect_in_their_order_whatever_the_order_of_the_list() -> None:
    def from_day(day: int, rate: int) -> ConditionalPrice:
        amounts = ModelPrice(input_mtok=Decimal(rate), output_mtok=Decimal(rate))
        return ConditionalPrice(constraint=StartDateConstraint(date(2026, 12, day)), prices=amounts)

    first = ConditionalPrice(prices=ModelPrice(input_mtok=Decimal(50), output_mtok=Decimal(50)))
    price = listed([first, *(from_day(day, day) for day in range(1, 13))])
    assert price is not None
    assert [rule_text(rule) for rule in price.rules] == [f"from 2026-12-{day:02} = {day}/{day}" for day in range(1, 13)]


def test_a_row_whose_amounts_begin_later_has_no_price_yet() -> None:
    amounts = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1))
    later = ConditionalPrice(constraint=StartDateConstraint(date(2026, 12, 5)), prices=amounts)
    assert listed([ConditionalPrice(prices=ModelPrice()), later]) is None


@pytest.mark.parametrize(
    ("amounts", "id_", "comments", "rates"),
    [
        (ModelPrice(), "m:free", "", (0, 0)),
        (ModelPrice(), "m", "Free of charge until June.", (0, 0)),
        (ModelPrice(), "m", "", None),
        (ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2)), "m", "Batches are free of charge.", (1, 2)),
    ],
)
def test_a_row_without_amounts_is_free_only_if_it_says_so(
    amounts: ModelPrice, id_: str, comments: str, rates: tuple[int, int] | None
) -> None:
    price = listed(amounts, id_=id_, comments=comments)
    assert (price and (price.input // DOLLAR, price.output // DOLLAR)) == rates


@pytest.mark.parametrize(
    ("moment", "dollars"),
    [
        ("2026-11-27 00:59:59", 0.66),  # a Friday
        ("2026-11-27 01:00:00", 1.32),
        ("2026-11-27 03:59:59", 1.32),
        ("2026-11-27 04:00:00", 0.66),
        ("2026-11-27 06:00:00", 1.32),
        ("2026-11-27 10:00:00", 0.66),
        ("2026-11-28 02:00:00", 0.66),
        ("2026-11-29 07:00:00", 0.66),
        ("2026-11-30 07:00:00", 1.32),
    ],
)
def test_peak_hours_cost_more_on_workdays(moment: str, dollars: float) -> None:
    assert paid(price(DEEPSEEK, "deepseek-v4-pro"), at(moment)) == dollars


def test_the_hours_of_a_price_are_those_of_the_list() -> None:
    peaks = [rule.during for rule in price(DEEPSEEK, "deepseek-v4-pro").rules]
    workdays: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri")
    assert peaks == [(PriceHours(days=workdays, start=60, end=240),), (PriceHours(days=workdays, start=360, end=600),)]
    assert [rule_text(rule) for rule in price(DEEPSEEK, "deepseek-v4-pro").rules] == [
        "mon-fri 01:00-04:00 UTC = 1.32/3.96 cached=0.044",
        "mon-fri 06:00-10:00 UTC = 1.32/3.96 cached=0.044",
    ]


@pytest.mark.parametrize(("variant", "dollars"), [("", 1.25), ("flex", 0.625), ("priority", 2.5), ("batch", 0.625)])
def test_a_variant_has_its_own_price(variant: str, dollars: float) -> None:
    assert paid(price(OPENAI, "gpt-5"), NOW, variant) == dollars


def test_fast_mode_has_its_own_price() -> None:
    fable = price(ANTHROPIC, "claude-fable-5-2")
    assert (paid(fable, NOW), paid(fable, NOW, "fast"), paid(fable, NOW, "batch")) == (8, 16, 4)


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("gemini-2.5-flash", {"parts": {"input_audio": 1_000_000}}, 1),
        ("gemini-2.5-flash", {"parts": {"searches": 2}}, 0.37),
        ("gemini-2.5-flash-image", {"input": 0, "output": 1_000_000, "parts": {"output_image": 1_000_000}}, 30),
    ],
)
def test_audio_images_and_searches_have_rates(model: str, usage: dict[str, Any], dollars: float) -> None:
    assert paid(price(GOOGLE, model), NOW, **usage) == dollars


def test_the_date_of_the_list_does_not_move_with_the_clock() -> None:
    from genai_prices.data import providers  # noqa: PLC0415 - as above

    rows = [row for vendor in providers for row in vendor.models]
    assert list_date(rows, at("2026-11-27")) == list_date(rows, at("2027-06-01")) > at("2026-09-01")


def test_a_list_without_a_note_is_as_old_as_its_newest_price() -> None:
    assert list_date([], NOW) == 0
