from collections.abc import Callable

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_of
from gateway.domain.limits import Window
from tests.tui.stage import DOLLAR, NOW, budget
from tui import field_values


def test_patterns_stand_between_commas_or_spaces() -> None:
    assert field_values.patterns(" a, b* c,,a ") == ["a", "b*", "c"]
    assert field_values.patterns('"m *", b') == ["m *", "b"]
    assert field_values.patterns("*") == []
    assert field_values.patterns("") == []


def test_budgets_are_written_with_their_windows() -> None:
    assert field_values.budgets("day=5 month=50.5 10") == {
        Window.DAY: 5 * DOLLAR,
        Window.MONTH: 50_500_000_000,
        Window.EVER: 10 * DOLLAR,
    }
    assert field_values.budgets("day=none") == {}
    assert field_values.token_budgets("week=1M") == {Window.WEEK: 1_000_000}


def test_what_is_written_of_budgets_reads_back() -> None:
    views = [budget(1, 20), budget(1, 1_200.25, Window.EVER)]
    assert field_values.written_budgets(views) == "month=20 ever=1200.25"
    assert field_values.budgets(field_values.written_budgets(views)) == {
        Window.MONTH: 20 * DOLLAR,
        Window.EVER: 1_200_250_000_000,
    }


def test_budgets_of_both_kinds_become_one_list() -> None:
    bodies = field_values.budget_bodies({Window.DAY: 5}, {Window.DAY: 7, Window.EVER: 9})
    assert bodies == [
        {"window": "day", "nanos": 5, "tokens": 7},
        {"window": "ever", "nanos": None, "tokens": 9},
    ]


@pytest.mark.parametrize("number", [0, 950, 60_000, 1_250_000, 1_234_567])
def test_counts_read_back(number: int) -> None:
    assert count_of(field_values.exact(number)) == number
    assert field_values.exact(None) == ""


def test_nothing_and_never_are_no_value() -> None:
    for text in ("", " none ", "NEVER"):
        assert field_values.optional(count_of)(text) is None
    assert field_values.optional(count_of)("5") == 5


def test_an_expiry_is_a_span_or_a_date() -> None:
    read = field_values.expiry(lambda: NOW)
    assert read("1h") == NOW + 3_600_000
    assert read("never") is None


def test_whole_numbers_may_be_negative() -> None:
    assert (field_values.whole("-100"), field_values.whole("2k")) == (-100, 2_000)


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (field_values.required, "  ", "may not be empty"),
        (field_values.budgets, "year=5", "no budget window"),
        (field_values.budgets, "day=x", "not an amount"),
        (field_values.whole, "-x", "not a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(read: Callable[[str], object], text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read(text)


def test_a_line_that_is_left_as_it_is_keeps_the_blanks_at_its_ends() -> None:
    read = field_values.line_like(" a ")
    assert (read(" a "), read(" b ")) == (" a ", "b")
