from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.group import Fallback
from gateway.domain.views import GroupView
from tests.tui.stage import group
from tests.tui.test_field_values import ODD
from tui.pages.group_form import POLICIES, STICKY, body, fallbacks, fallbacks_text, fields, group_command, policy_words

FALLBACKS = [Fallback(model="gpt-*", to=("a", "b")), Fallback(model="x", to=("y",))]


def form(view: GroupView | None, **typed: str) -> tuple[dict[str, str], dict[str, Any]]:
    """What stands in the fields, and what it is parsed to."""
    made = fields(view)
    texts = {field.id: field.value for field in made} | typed
    return texts, {field.id: field.parse(texts[field.id]) for field in made}


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    view = group("x", policy="fastest", sticky=True, fallbacks=FALLBACKS)
    texts, values = form(view)
    assert group_command(view, texts) == "group edit x"
    made = body(values)
    assert (made["policy"], made["sticky"]) == ("fastest", True)
    assert made["fallbacks"] == [{"model": "gpt-*", "to": ("a", "b")}, {"model": "x", "to": ("y",)}]


def test_the_command_names_policy_stickiness_and_fallbacks() -> None:
    texts, _ = form(group("x"), policy="the cheapest", sticky=STICKY[1], fallbacks="gpt-*=a,b")
    assert group_command(group("x"), texts) == "group edit x --policy cheapest --sticky --fallback 'gpt-*=a,b'"


def test_taking_them_away_is_said_too() -> None:
    view = group("x", sticky=True, fallbacks=FALLBACKS)
    texts, _ = form(view, sticky=STICKY[0], fallbacks="")
    assert group_command(view, texts) == "group edit x --not-sticky --no-fallbacks"


def test_fallbacks_are_read_and_written_the_same() -> None:
    assert fallbacks("gpt-*=a,b x=y") == FALLBACKS
    assert fallbacks_text(FALLBACKS) == "gpt-*=a,b x=y"


@pytest.mark.parametrize("text", ["gpt", "=a", "gpt=", "gpt=,"])
def test_what_is_no_fallback_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is not MODEL=OTHER"):
        fallbacks(text)


def test_every_policy_has_its_words_and_an_unknown_one_its_name() -> None:
    assert [policy_words(policy.value) for policy in POLICIES] == list(POLICIES.values())
    assert policy_words("newer") == "newer"


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    view = group("my box", models=ODD, note=" x ", fallbacks=[Fallback(model=one, to=tuple(ODD)) for one in ODD])
    texts, values = form(view)
    made = body(values)
    assert (made["models"], made["note"], values["fallbacks"]) == (ODD, " x ", view.fallbacks)
    assert group_command(view, texts) == "group edit 'my box'"


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    texts, _ = form(group("x"), models='"m bad", demo*', fallbacks='m*=demo-echo,"m bad"')
    assert group_command(group("x"), texts) == "group edit x --models 'm bad,demo*' --fallback 'm*=demo-echo,m bad'"
