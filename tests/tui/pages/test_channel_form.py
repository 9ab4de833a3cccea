from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from gateway.domain.channel import Served, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.views import ChannelView
from tests.tui.stage import FakeClient, channel, console
from tests.tui.test_field_values import ODD
from tui.pages.channel_form import (
    ABANDONED_CALLS,
    REJECTED_PARAMETERS,
    add_command,
    body,
    edit_command,
    fields,
    warning,
)


def form(view: ChannelView | None = None, copy: Any = False, **typed: str) -> tuple[dict[str, str], dict[str, Any]]:
    """What stands in the fields, and what it is parsed to."""
    session = console().session
    session.board.apply(FakeClient().snapshot())
    made = fields(session, view, copy=copy)
    texts = {field.id: field.value for field in made} | typed
    return texts, {field.id: field.parse(texts[field.id]) for field in made}


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    view = channel("x", options={"latency": 200}, key="env:KEY")
    assert edit_command(view, form(view)[0]) == "channel edit x"


def test_the_command_names_what_changed() -> None:
    typed = form(
        channel("x"),
        models="a, fast=b",
        groups="default, batch",
        priority="5",
        timeouts="head=60",
        strict=REJECTED_PARAMETERS[1],
        finish_abandoned=ABANDONED_CALLS[1],
        key="env:K",
    )[0]
    assert edit_command(channel("x"), typed).startswith(
        "channel edit x --key env:K --models a,fast --group default,batch --priority 5 --map fast=b"
    )
    assert edit_command(channel("x"), typed).endswith("--strict --cancel-abandoned")
    assert edit_command(channel("x"), form(channel("x"), groups="")[0]) == "channel edit x --no-groups"


def test_the_demo_needs_no_address() -> None:
    texts, values = form(name="slow", dialect="mock", options="latency=200")
    assert add_command(texts) == "channel add slow --dialect mock --option latency=200"
    assert form(name="slow", dialect="mock", options="latency=NaN")[1]["options"] == {"latency": "NaN"}
    made = body(values)
    assert (made["dialect"], made["options"], "base_url" in made) == ("mock", {"latency": 200}, False)


def test_a_copy_asks_for_the_key_again_unless_it_is_a_reference() -> None:
    with pytest.raises(BadRequest, match="the key of x is never shown, so it cannot be copied"):
        form(channel("x"), copy=True)
    assert form(channel("x"), copy=True, key="sk-new")[1]["key"] == "sk-new"
    assert form(channel("x"), copy=True, key="none")[1]["key"] == ""
    assert form(channel("x", key=""), copy=True)[1]["key"] == ""
    texts, _ = form(channel("x", key="env:KEY"), copy=True)
    assert (texts["key"], texts["name"]) == ("env:KEY", "x-2")


def test_only_unusual_deadlines_are_written_and_one_taken_away_is_the_usual_one_again() -> None:
    view = channel("x", timeouts=Timeouts(head=60))
    assert form(view)[0]["timeouts"] == "head=60"
    assert (
        edit_command(view, form(view, timeouts="idle=30")[0]) == "channel edit x --timeout head=120 --timeout idle=30"
    )


@pytest.mark.parametrize(
    ("field", "text"),
    [("models", "=x"), ("timeouts", "head"), ("timeouts", "head=0"), ("timeouts", "hat=3"), ("timeouts", "head=x")],
)
def test_what_makes_no_sense_is_refused(field: str, text: str) -> None:
    with pytest.raises(BadRequest):
        form(None, **{field: text})


def test_an_address_without_encryption_is_spoken_of() -> None:
    assert "is not encrypted" in warning(form(base_url="http://example.com/v1", name="x")[1])
    assert warning(form(base_url="https://example.com/v1", name="x", models="a")[1]) == ""


def test_a_proxy_is_kept_as_it_is_changed_or_taken_away_and_its_password_is_not_shown() -> None:
    view = channel("x", proxy="http://proxy:3128")
    assert "proxy" not in body(form(view)[1], view)
    assert body(form(view, proxy="none")[1], view)["proxy"] == ""
    assert edit_command(view, form(view, proxy="")[0]) == "channel edit x --proxy none"
    typed, values = form(view, proxy="http://me:secret@proxy:3128")
    assert body(values, view)["proxy"] == "http://me:secret@proxy:3128"
    assert edit_command(view, typed) == "channel edit x --proxy -"
    with pytest.raises(BadRequest, match="its port is missing"):
        form(view, proxy="http://proxy")


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    models = [Served(name=one) for one in ODD] + [Served(name=f"p{one}", upstream=f"u{one}") for one in ODD]
    odd: dict[str, Any] = {"name": "my box", "groups": ODD, "note": " x ", "options": {"retry_after": "Wed, 21 Oct"}}
    view = replace(channel("x", models=models, patterns=["m *"]), **odd)
    texts, values = form(view)
    made = body(values, view)
    assert (made["models"], made["patterns"]) == (to_builtins(models), ["m *"])
    assert (made["groups"], made["options"], made["note"]) == (view.groups, view.options, " x ")
    assert edit_command(view, texts) == "channel edit 'my box'"
    assert edit_command(view, texts | {"priority": "9"}) == "channel edit 'my box' --priority 9"


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    texts, _ = form(channel("x"), models='"a b", "pub lic"="up stream"', groups='default, "grp one"')
    assert edit_command(channel("x"), texts) == (
        "channel edit x --models 'a b,pub lic' --group 'default,grp one' --map 'pub lic=up stream'"
    )
    with pytest.raises(BadRequest, match="contains a comma"):
        edit_command(channel("x"), texts | {"groups": '"a,b"'})


def test_a_deadline_loses_no_digit() -> None:
    view = channel("x", timeouts=Timeouts(head=12345.678))
    assert form(view)[1]["timeouts"] == {"head": 12345.678}
