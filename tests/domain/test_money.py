"""Amounts of money in text are exact both ways."""

import pytest
from hypothesis import given, strategies as st

from gateway.domain.errors import BadRequest
from gateway.domain.money import brief_dollars, dollars, number, parse_dollars
from gateway.domain.units import MAX_NUMBER


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("2.50", 2_500_000_000),
        ("$2.50", 2_500_000_000),
        (" 10 ", 10_000_000_000),
        ("0.000000001", 1),
        ("-1.5", -1_500_000_000),
        ("0.1", 100_000_000),
        (".25", 250_000_000),
        ("-$.5", -500_000_000),
    ],
)
def test_an_amount_is_read_exactly(text: str, nanos: int) -> None:
    assert parse_dollars(text) == nanos


@pytest.mark.parametrize(
    "text", ["", "x", "1e3", "1,50", "0.0000000001", "nan", "--1", "1.", ".", "$.", "-", "٣", "1" * 41]
)
def test_wrong_amounts_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="not an amount of dollars"):
        parse_dollars(text)


def test_what_is_too_much_is_reported_the_most() -> None:
    assert parse_dollars("1000000000") == MAX_NUMBER
    for text in ("1000000000.000000001", "-1000000001", "1" * 40):
        with pytest.raises(BadRequest, match=r"more than \$1,000,000,000\.00, the most"):
            parse_dollars(text)


@given(st.integers(-MAX_NUMBER, MAX_NUMBER))
def test_exact_dollars_can_be_read_back(nanos: int) -> None:
    assert parse_dollars(dollars(nanos).replace(",", "")) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (4_380_000, "$0.00438"),
        (12_345, "$0.00001235"),
        (123_456_789, "$0.1235"),
        (9_999_876_544, "$9.9999"),
        (999_999_999_999, "$1,000.00"),
        (-4_380_000, "-$0.00438"),
    ],
)
def test_brief_dollars_keep_the_digits_that_count(nanos: int, text: str) -> None:
    assert brief_dollars(nanos) == text


@given(st.integers(1, 10**15))
def test_something_is_never_shown_as_nothing(nanos: int) -> None:
    assert brief_dollars(nanos) != "$0.00"


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(4_380_000, "0.00438"), (1_200_000_000_000, "1200.00"), (-500_000_000, "-0.50"), (-(10**15), "-1000000.00")],
)
def test_programs_read_plain_numbers(nanos: int, text: str) -> None:
    assert number(nanos) == text
