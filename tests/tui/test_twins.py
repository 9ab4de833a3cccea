import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from tests.tui.stage import budget
from tui import twins


def test_words_are_quoted_for_a_shell() -> None:
    assert twins.command("token", "add", "my box", models="gpt-*", note=None) == "token add 'my box' --models 'gpt-*'"


def test_only_what_changed_is_said() -> None:
    assert twins.changed(" a ", "a") is None
    assert twins.changed("b", "a") == "b"


def test_budgets_that_are_gone_are_taken_away() -> None:
    values = {"budgets": "day=5 month=40", "token_budgets": ""}
    assert twins.budgets(values, [budget(1, 40)]) == " --budget day=5"
    assert twins.budgets({"budgets": "7", "token_budgets": "day=1M"}, [budget(1, 40)]) == (
        " --budget ever=7 --budget month=none --tokens-budget day=1M"
    )


def test_limits_have_options_of_their_own() -> None:
    assert twins.limits("rpm=60 queue_s=5", Limits(rpm=60, tpm=100)) == " --queue-s 5 --tpm none"


def test_names_that_an_option_would_take_apart_are_in_no_command() -> None:
    assert twins.joined(["m bad", "x=y"]) == "m bad,x=y"
    assert twins.left("m bad") == "m bad"
    with pytest.raises(BadRequest, match="has a comma"):
        twins.joined(["a", "b,c"])
    with pytest.raises(BadRequest, match="ends a name"):
        twins.left("x=y")
