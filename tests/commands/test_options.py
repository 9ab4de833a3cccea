"""What written values mean on the command line."""

import click
import pytest

from gateway.commands import options
from gateway.commands.options import NAMES, RENAMING, SINCE, SOME, UNTIL, now

DAY_MS = 86_400_000


def test_a_span_of_a_filter_goes_back() -> None:
    assert now() - SINCE("1d") == pytest.approx(DAY_MS, abs=5_000)


def test_a_date_counts_to_its_end_where_something_ends() -> None:
    assert UNTIL("2026-11-30") == SINCE("2026-12-01")


@pytest.mark.parametrize(
    ("kind", "text"), [(NAMES, ""), (NAMES, ",, ,"), (SOME, ""), (SOME, " "), (RENAMING, "m="), (RENAMING, "m= ")]
)
def test_a_variable_that_was_not_set_is_no_value(kind: "click.ParamType[object]", text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind(text)


def test_what_was_not_given_is_not_sent() -> None:
    assert options.given(a=None, b="", c=0) == {"b": "", "c": 0}


def test_an_empty_patch_is_a_usage_error() -> None:
    with click.Context(click.Command("edit")), pytest.raises(click.UsageError):
        options.something({})
