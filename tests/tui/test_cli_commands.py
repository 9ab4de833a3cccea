import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from tests.tui.stage import budget
from tui import cli_commands


def test_words_are_quoted_for_a_shell() -> None:
    assert (
        cli_commands.cli_command("token", "add", "my box", models="gpt-*", note=None)
        == "token add 'my box' --models 'gpt-*'"
    )


def test_only_what_changed_is_said() -> None:
    assert cli_commands.if_changed(" a ", "a") is None
    assert cli_commands.if_changed("b", "a") == "b"


def test_budgets_that_are_gone_are_taken_away() -> None:
    values = {"budgets": "day=5 month=40", "token_budgets": ""}
    assert cli_commands.budget_options(values, [budget(1, 40)]) == " --budget day=5"
    assert cli_commands.budget_options({"budgets": "7", "token_budgets": "day=1M"}, [budget(1, 40)]) == (
        " --budget ever=7 --budget month=none --tokens-budget day=1M"
    )


def test_limits_have_options_of_their_own() -> None:
    assert cli_commands.limit_options("rpm=60 queue_s=5", Limits(rpm=60, tpm=100)) == " --queue-s 5 --tpm none"


def test_names_that_an_option_would_take_apart_are_in_no_command() -> None:
    assert cli_commands.comma_list(["m bad", "x=y"]) == "m bad,x=y"
    assert cli_commands.pair_name("m bad") == "m bad"
    with pytest.raises(BadRequest, match="contains a comma"):
        cli_commands.comma_list(["a", "b,c"])
    with pytest.raises(BadRequest, match="contains '='"):
        cli_commands.pair_name("x=y")
