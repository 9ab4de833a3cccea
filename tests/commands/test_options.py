"""What written values mean on the command line."""

import click
import msgspec
import pytest

from gateway.commands import options
from gateway.commands.options import (
    BUDGET,
    EXPIRY,
    LIMIT,
    NAMES,
    PAIR,
    RENAMING,
    SINCE,
    SOME,
    TOKENS_BUDGET,
    UNTIL,
    names,
    now,
    once,
)
from gateway.domain.limits import Limits, Window
from tests.commands.samples import BUDGET as BUDGET_VIEW

DAY_MS = 86_400_000


def test_a_budget_names_its_window() -> None:
    assert BUDGET("day=5") == (Window.DAY, 5_000_000_000)
    assert TOKENS_BUDGET("month=1M") == (Window.MONTH, 1_000_000)


def test_a_budget_without_a_window_is_for_ever() -> None:
    assert BUDGET("5") == (Window.EVER, 5_000_000_000)


def test_none_takes_away() -> None:
    assert (BUDGET("day=none"), LIMIT("none"), EXPIRY("never")) == ((Window.DAY, None), (None,), (None,))


def test_a_span_is_ahead_for_an_expiry_and_back_for_a_filter() -> None:
    assert (EXPIRY("1d")[0] or 0) - now() == pytest.approx(DAY_MS, abs=5_000)
    assert now() - SINCE("1d") == pytest.approx(DAY_MS, abs=5_000)


def test_a_date_counts_to_its_end_where_something_ends() -> None:
    assert UNTIL("2026-11-30") == SINCE("2026-12-01")


@pytest.mark.parametrize(
    ("kind", "text"),
    [(BUDGET, "year=5"), (BUDGET, "day=x"), (LIMIT, "1.5"), (EXPIRY, "soon"), (PAIR, "x"), (PAIR, "=x")],
)
def test_nonsense_is_a_usage_error(kind: "click.ParamType[object]", text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind(text)


def test_names_are_separated_by_commas_or_given_again() -> None:
    assert names(("a, b", "c", "a", ",")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("kind", "text"), [(NAMES, ""), (NAMES, ",, ,"), (SOME, ""), (SOME, " "), (RENAMING, "m="), (RENAMING, "m= ")]
)
def test_a_variable_that_was_not_set_is_no_value(kind: "click.ParamType[object]", text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind(text)


def test_what_is_given_twice_is_refused() -> None:
    assert once([("a", 1), ("b", 1)], "--x") == {"a": 1, "b": 1}
    with pytest.raises(click.BadParameter, match="'a' is given twice"):
        once([("a", 1), ("a", 2)], "--x")


def test_what_was_not_given_is_not_sent() -> None:
    assert options.given(a=None, b="", c=0) == {"b": "", "c": 0}


def test_an_empty_patch_is_a_usage_error() -> None:
    with click.Context(click.Command("edit")), pytest.raises(click.UsageError):
        options.something({})


def test_a_budget_left_with_nothing_disappears() -> None:
    patch = options.budgets([BUDGET_VIEW], [(Window.DAY, None)], [(Window.DAY, None)])
    assert patch == {"budgets": []}


def test_budgets_not_asked_for_are_not_sent() -> None:
    assert options.budgets([BUDGET_VIEW], [], []) == {}


def test_limits_are_put_over_those_there_are() -> None:
    patch = options.limits(Limits(rpm=60, tpm=5), {"rpm": (None,), "tpm": None, "concurrent": (4,)})
    assert patch["limits"] == msgspec.structs.asdict(Limits(tpm=5, concurrent=4))
    assert options.limits(Limits(), {"rpm": None}) == {}
