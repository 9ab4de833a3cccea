from typing import Any

from gateway.domain.units import Millis
from tests.tui.stage import NOW, FakeClient, console, token
from tests.tui.test_field_values import ODD
from tui.pages.token_form import KEEP, add_command, body, edit_command, fields, visible_models
from tui.session import ConsoleSession


def session() -> ConsoleSession:
    made = console().session
    made.board.apply(FakeClient().snapshot())
    return made


def texts(view: Any = None, **changes: str) -> dict[str, str]:
    return {field.id: field.value for field in fields(session(), view)} | changes


def values(view: Any = None, **changes: str) -> dict[str, Any]:
    typed = texts(view, **changes)
    return {field.id: field.parse(typed[field.id]) for field in fields(session(), view)}


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_001), models=["gpt-*"], note="mine")
    assert edit_command(laptop, texts(laptop)) == "token edit laptop"
    assert "expires" not in body(values(laptop))
    assert values(laptop)["expires"] == KEEP


def test_the_command_names_what_is_set() -> None:
    typed = texts(name="pad", budgets="day=5", limits="rpm=3", expires="30d", stop_when_empty="stop running streams")
    assert add_command(typed) == (
        "token add pad --group default --expires 30d --budget day=5 --rpm 3 --stop-when-empty"
    )


def test_an_expiry_can_be_taken_away() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_000))
    assert body(values(laptop, expires=""))["expires"] is None
    assert edit_command(laptop, texts(laptop, expires="")) == "token edit laptop --expires never"


def test_a_copy_takes_the_expiry_over() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_000))
    assert body(values(laptop), laptop)["expires"] == NOW + 86_400_000


def test_a_group_without_models_is_said_so() -> None:
    at = session()
    assert visible_models(at, {"group": "nowhere", "models": []}).endswith(
        "its group has no enabled channel with models"
    )


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    laptop = token("my box", models=ODD, note=" mine ")
    assert (body(values(laptop))["models"], body(values(laptop))["note"]) == (ODD, " mine ")
    assert edit_command(laptop, texts(laptop)) == "token edit 'my box'"
    assert edit_command(laptop, texts(laptop, note="zz")) == "token edit 'my box' --note zz"


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    laptop = token("laptop")
    assert edit_command(laptop, texts(laptop, models='"m bad" demo*')) == "token edit laptop --models 'm bad,demo*'"
    assert edit_command(token("x", models=["a"]), texts(laptop, name="x")) == "token edit x --models '*'"
