from typing import Any

from gateway.domain.group import Fallback, Policy
from gateway.domain.views import GroupView
from tests.domain.field_samples import ODD
from tests.tui.stage import console, group
from tui.pages.group_form import group_form

FALLBACKS = (Fallback(model="gpt-*", to=("a", "b")), Fallback(model="x", to=("y",)))


def form(view: GroupView | None, copy: Any = False, **typed: str) -> tuple[dict[str, Any], str]:
    """The body and the command of a form, with some inputs typed."""
    made = group_form(console().session, view, copy=copy)
    inputs = made.inputs()
    texts = {field.id: field.value for field in inputs} | typed
    return made.body({field.id: field.parse(texts[field.id]) for field in inputs}), made.command(texts)


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    view = group("x", policy=Policy.FASTEST, sticky=True, fallbacks=FALLBACKS)
    assert form(view) == ({}, "group edit x")


def test_the_command_names_policy_stickiness_and_fallbacks() -> None:
    body, command = form(group("x"), policy="cheapest first", sticky="stay on one channel", fallbacks="gpt-*=a,b")
    assert command == "group edit x --policy cheapest --sticky --fallback 'gpt-*=a,b'"
    assert body == {"policy": "cheapest", "sticky": True, "fallbacks": [{"model": "gpt-*", "to": ["a", "b"]}]}


def test_removing_them_is_in_the_command_too() -> None:
    view = group("x", sticky=True, fallbacks=FALLBACKS)
    _, command = form(view, sticky="may switch channels", fallbacks="")
    assert command == "group edit x --not-sticky --no-fallbacks"


def test_a_copy_has_all_but_the_name() -> None:
    body, _ = form(group("x", sticky=True, budgets=()), copy=True)
    assert (body["name"], body["sticky"]) == ("x-2", True)


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    fallbacks = tuple(Fallback(model=one, to=tuple(ODD)) for one in ODD)
    view = group("my box", models=tuple(ODD), note=" x ", fallbacks=fallbacks)
    assert form(view) == ({}, "group edit 'my box'")


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    _, command = form(group("x"), models='"m bad", demo*', fallbacks='m*=demo-echo,"m bad"')
    assert command == "group edit x --models 'm bad,demo*' --fallback 'm*=demo-echo,m bad'"
