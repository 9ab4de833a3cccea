from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.channel import Overrides, ServedModel, Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.views import ChannelView
from tests.domain.field_samples import ODD
from tests.tui.stage import FakeClient, channel, console
from tui.pages.channel_form import ChannelForm, form_preview


def typed_into(
    view: ChannelView | None, copy: Any, typed: dict[str, str]
) -> tuple[ChannelForm, dict[str, str], dict[str, Any]]:
    """A form, the texts of its inputs, and their values."""
    session = console().session
    session.board.apply(FakeClient().snapshot())
    made = ChannelForm(session, view, copy=copy)
    inputs = made.fields()
    texts = {field.id: field.value for field in inputs} | typed
    return made, texts, {field.id: field.parse(texts[field.id]) for field in inputs}


def form(view: ChannelView | None = None, copy: Any = False, **typed: str) -> tuple[dict[str, Any], str]:
    """The body and the command of a form, with some inputs typed."""
    made, texts, values = typed_into(view, copy, typed)
    return made.body(values), made.command(texts)


def warn(**typed: str) -> str:
    return form_preview(typed_into(None, False, typed)[2])


def test_a_form_that_is_left_as_it_is_changes_nothing() -> None:
    view = channel("x", options={"latency": 200}, key="env:KEY")
    assert form(view) == ({}, "channel edit x")


def test_the_command_names_what_changed() -> None:
    _, command = form(
        channel("x"),
        models="a, fast=b",
        groups="default, batch",
        priority="5",
        timeouts="head=60",
        strict="return the error",
        finish_abandoned="cancel it",
        key="env:K",
    )
    assert command == (
        "channel edit x --key env:K --models a,fast=b --group default,batch --priority 5 --timeout head=60 "
        "--strict --cancel-abandoned"
    )
    assert form(channel("x"), groups="") == ({"groups": []}, "channel edit x --no-groups")


def test_the_demo_needs_no_address() -> None:
    body, command = form(name="slow", dialect="mock", options="latency=200")
    assert command == "channel add slow --dialect mock --option latency=200"
    assert (body["dialect"], body["options"], "base_url" in body) == ("mock", {"latency": 200}, False)
    assert form(name="slow", dialect="mock", options="latency=NaN")[0]["options"] == {"latency": "NaN"}


def test_an_upstream_needs_an_address_unless_a_preset_has_it() -> None:
    with pytest.raises(BadRequest, match="a base URL is required"):
        form(name="x")
    assert "base_url" not in form(name="x", preset="groq")[0]


def test_a_copy_asks_for_the_key_again_unless_it_is_a_reference() -> None:
    with pytest.raises(BadRequest, match="the key of x is never shown, so it cannot be copied"):
        form(channel("x"), copy=True)
    assert form(channel("x"), copy=True, key="sk-new")[0]["key"] == "sk-new"
    assert "key" not in form(channel("x"), copy=True, key="none")[0]
    assert "key" not in form(channel("x", key=""), copy=True)[0]
    body, _ = form(channel("x", key="env:KEY"), copy=True)
    assert (body["key"], body["name"]) == ("env:KEY", "x-2")


def test_only_changed_timeouts_are_typed_and_one_left_out_is_the_default_again() -> None:
    view = channel("x", timeouts=Timeouts(head=60))
    assert typed_into(view, False, {})[1]["timeouts"] == "head=60"
    assert form(view, timeouts="idle=30")[1] == "channel edit x --timeout idle=30 --timeout head=default"


def test_an_address_without_encryption_gets_a_warning() -> None:
    assert "is not encrypted" in warn(base_url="http://example.com/v1", name="x")
    assert warn(base_url="https://example.com/v1", name="x", models="a") == ""


def test_a_proxy_is_kept_changed_or_removed_and_its_password_is_not_shown() -> None:
    view = channel("x", proxy="http://proxy:3128")
    assert form(view) == ({}, "channel edit x")
    assert form(view, proxy="none") == form(view, proxy="") == ({"proxy": ""}, "channel edit x --proxy none")
    body, command = form(view, proxy="http://me:secret@proxy:3128")
    assert (body["proxy"], command) == ("http://me:secret@proxy:3128", "channel edit x --proxy -")
    with pytest.raises(BadRequest, match="its port is missing"):
        form(view, proxy="http://proxy")


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    models = [ServedModel(name=one) for one in ODD] + [ServedModel(name=f"p{one}", upstream=f"u{one}") for one in ODD]
    odd: dict[str, Any] = {"name": "my box", "groups": tuple(ODD), "note": " x ", "options": {"retry_after": "Wed, 21"}}
    view = replace(channel("x", models=tuple(models), patterns=("m *",)), **odd)
    assert form(view) == ({}, "channel edit 'my box'")
    assert form(view, priority="9") == ({"priority": 9}, "channel edit 'my box' --priority 9")


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    _, command = form(channel("x"), models='"a b", "pub lic"="up stream"', groups='default, "grp one"')
    assert command == """channel edit x --models '"a b","pub lic"="up stream"' --group 'default,grp one'"""
    with pytest.raises(BadRequest, match="contains a comma"):
        form(channel("x"), groups='"a,b"')


def test_secret_headers_stay_unless_all_are_typed_again() -> None:
    view = channel("x", headers={"X-Team": "…lue"})
    hint = next(field.hint for field in typed_into_fields(view) if field.id == "headers")
    assert "X-Team kept" in hint
    assert form(view) == ({}, "channel edit x")
    assert form(view, headers="none") == ({"headers": {}}, "channel edit x --no-headers")
    body, command = form(view, headers="X-Team=red X-Title='my app' X-Pass=env:PASS")
    assert body == {"headers": {"X-Team": "red", "X-Title": "my app", "X-Pass": "env:PASS"}}
    assert command == "channel edit x --header X-Team=VALUE --header X-Title=VALUE --header X-Pass=env:PASS"


def typed_into_fields(view: ChannelView, copy: Any = False) -> Any:
    return ChannelForm(console().session, view, copy=copy).fields()


def test_references_are_shown_and_removed_by_emptying_the_input() -> None:
    view = channel("x", headers={"X-A": "env:A", "X-B": "env:B"})
    assert typed_into(view, False, {})[1]["headers"] == "X-A=env:A X-B=env:B"
    assert form(view) == ({}, "channel edit x")
    assert form(view, headers="") == ({"headers": {}}, "channel edit x --no-headers")


def test_a_copy_has_no_secret_headers() -> None:
    view = channel("x", headers={"X-Team": "…lue"}, key="")
    hint = next(field.hint for field in typed_into_fields(view, copy=True) if field.id == "headers")
    assert "not copied" in hint
    assert "headers" not in form(view, copy=True)[0]
    assert form(channel("x", headers={"X-A": "env:A"}, key=""), copy=True)[1].endswith("--header X-A=env:A")


def test_overrides_are_kept_changed_and_removed() -> None:
    view = channel("x", overrides=Overrides(set={"temperature": 0.2}, system="Be brief.\nBe kind: \\n."))
    assert form(view) == ({}, "channel edit x")
    assert form(view, parameters="", system="") == ({"overrides": None}, "channel edit x --no-overrides")
    body, _ = form(channel("y"), parameters="-seed", system="Hi", replace_system="instead of the client's")
    assert body == {"overrides": {"set": {}, "default": {}, "remove": ["seed"], "system": "Hi", "replace_system": True}}
