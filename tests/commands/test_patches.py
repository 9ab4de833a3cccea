"""What an edit sends."""

import click
import msgspec
import pytest

from gateway.commands import options
from gateway.domain.limits import Limits, Window
from tests.commands.samples import BUDGET


def test_what_was_not_given_is_not_sent() -> None:
    assert options.given(a=None, b="", c=0) == {"b": "", "c": 0}


def test_an_empty_patch_is_a_usage_error() -> None:
    with click.Context(click.Command("edit")), pytest.raises(click.UsageError):
        options.something({})


def test_a_budget_left_with_nothing_disappears() -> None:
    patch = options.budgets([BUDGET], [(Window.DAY, None)], [(Window.DAY, None)])
    assert patch == {"budgets": []}


def test_budgets_not_asked_for_are_not_sent() -> None:
    assert options.budgets([BUDGET], [], []) == {}


def test_limits_are_put_over_those_there_are() -> None:
    patch = options.limits(Limits(rpm=60, tpm=5), {"rpm": (None,), "tpm": None, "concurrent": (4,)})
    assert patch["limits"] == msgspec.structs.asdict(Limits(tpm=5, concurrent=4))
    assert options.limits(Limits(), {"rpm": None}) == {}
