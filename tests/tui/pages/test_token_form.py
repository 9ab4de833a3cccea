from typing import Any

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.group import Fallback
from gateway.domain.human_values import future_of
from gateway.domain.units import Millis
from tests.domain.field_samples import ODD
from tests.tui.stage import NOW, FakeClient, console, token
from tui.pages.token_form import token_form, token_inputs, visible_models
from tui.session import ConsoleSession


def session() -> ConsoleSession:
    made = console().session
    made.board.apply(FakeClient().snapshot())
    return made


def form(view: Any = None, copy: Any = False, **typed: str) -> tuple[dict[str, Any], str]:
    """The body and the command of a form, with some inputs typed."""
    at = session()
    made = token_form(at, view, copy=copy)
    inputs = token_inputs(at, made)
    texts = {field.id: field.value for field in inputs} | typed
    return made.body({field.id: field.parse(texts[field.id]) for field in inputs}), made.command(texts)


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_001), models=("gpt-*",), note="mine")
    assert form(laptop) == ({}, "token edit laptop")


def test_the_command_names_what_is_set() -> None:
    typed = {"name": "pad", "budgets": "day=5", "limits": "rpm=3", "expires": "2031-01-31 10:00"}
    body, command = form(**typed, stop_when_empty="stop running streams")
    assert command == (
        "token add pad --group default --budget day=5 --rpm 3 --expires '2031-01-31 10:00' --stop-when-empty"
    )
    assert body.keys() == {"name", "group", "budgets", "limits", "expires", "stop_when_empty"}


def test_the_end_of_a_day_reads_as_it_was_written() -> None:
    at, laptop = session(), token("laptop", expires=future_of("2031-12-31", NOW))
    assert (
        next(field for field in token_inputs(at, token_form(at, laptop)) if field.id == "expires").value == "2031-12-31"
    )
    assert form(laptop) == ({}, "token edit laptop")


def test_a_new_token_needs_a_name() -> None:
    with pytest.raises(BadRequest, match="required"):
        form()


def test_an_expiry_can_be_removed() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_000))
    assert form(laptop, expires="") == ({"expires": None}, "token edit laptop --expires never")


def test_a_copy_has_all_but_the_name() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_001), budgets=())
    body, command = form(laptop, copy=True)
    assert (body["name"], body["expires"]) == ("laptop-2", NOW + 86_400_001)
    assert command.startswith("token add laptop-2 --group default --rpm 60")


def test_fallbacks_that_the_patterns_leave_out_are_named() -> None:
    at = session()
    (group,) = [one for one in at.board.groups if one.name == "default"]
    rules = (Fallback(model="claude-*", to=("gpt-5-mini", "claude-haiku-4-5")),)
    at.board.groups = [msgspec.structs.replace(group, fallbacks=rules)]
    text = visible_models(at, {"group": "default", "models": ["claude-*"]})
    assert text.endswith("; its patterns leave out the fallback gpt-5-mini")
    assert "fallback" not in visible_models(at, {"group": "default", "models": ["claude-*", "gpt-5-mini"]})


def test_an_alias_whose_models_the_patterns_leave_out_is_not_seen() -> None:
    at = session()
    (group,) = [one for one in at.board.groups if one.name == "default"]
    rules = (Fallback(model="fast", to=("gpt-5-mini",)),)
    at.board.groups = [msgspec.structs.replace(group, fallbacks=rules, sees=[*group.sees, "fast"])]
    text = visible_models(at, {"group": "default", "models": ["deepseek-chat", "fast"]})
    assert text == "this token sees 1 model: deepseek-chat; its patterns leave out the fallback gpt-5-mini"
    assert "sees 2 models: gpt-5-mini, fast" in visible_models(
        at, {"group": "default", "models": ["gpt-5-mini", "fast"]}
    )


def test_a_group_without_models_is_reported() -> None:
    at = session()
    assert visible_models(at, {"group": "nowhere", "models": []}).endswith(
        "its group has no enabled channel with models"
    )


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    laptop = token("my box", models=tuple(ODD), note=" mine ")
    assert form(laptop) == ({}, "token edit 'my box'")
    assert form(laptop, note="zz") == ({"note": "zz"}, "token edit 'my box' --note zz")


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    assert form(token("laptop"), models='"m bad" demo*')[1] == "token edit laptop --models 'm bad,demo*'"
    assert form(token("x", models=("a",)), models="")[1] == "token edit x --models '*'"
