"""What written values mean on the command line."""

import click
import pytest

from gateway.commands import options
from gateway.commands.options import NAMES, RENAMING, SECONDS, SINCE, TEXT, UNTIL, WholeNumber
from gateway.domain.errors import BadRequest
from gateway.domain.limit_kinds import _window_amount
from gateway.domain.money import parse_dollars

DAY_MS = 86_400_000


def test_a_date_counts_to_its_end_where_something_ends() -> None:
    assert UNTIL("2026-11-30") == SINCE("2026-12-01")
    assert UNTIL("yesterday") == SINCE("today")


@pytest.mark.parametrize(
    ("kind", "text"), [(NAMES, ""), (NAMES, ",, ,"), (TEXT, ""), (TEXT, " "), (RENAMING, "m="), (RENAMING, "m= ")]
)
def test_a_variable_that_was_not_set_is_not_a_value(kind: "click.ParamType[object]", text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind(text)


@pytest.mark.parametrize(("text", "words"), [("x", "'x'"), ("0", "'0'"), ("11", "'11'"), ("1.5", "'1.5'")])
def test_a_number_outside_its_range_is_reported_in_our_own_words(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=f"{words} is not a whole number from 1 to 10"):
        WholeNumber(1, 10)(text)
    with pytest.raises(click.BadParameter, match="'-1' is not a whole number of 1 or above"):
        WholeNumber(1)("-1")


@pytest.mark.parametrize("text", ["day:5", "-5", "five"])
def test_a_budget_without_a_window_is_answered_with_examples_that_work(text: str) -> None:
    with pytest.raises(BadRequest, match=r"day, week, month or ever, as in day=5$"):
        _window_amount(text, parse_dollars)


def test_an_empty_patch_is_a_usage_error() -> None:
    with click.Context(click.Command("edit")), pytest.raises(click.UsageError):
        options.require_changes({})


@pytest.mark.parametrize("text", ["soon", "nan", "-1", "86401", ""])
def test_what_is_not_a_number_of_seconds_is_reported_in_our_own_words(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a number of seconds from 0 to 86400"):
        SECONDS(text)
    assert SECONDS("86400") == 86_400
