from functools import partial
from typing import Any

import pytest

from gateway.domain.channel import Timeouts
from gateway.domain.errors import BadRequest
from gateway.domain.views import ChannelView
from tests.tui.owner import listing_of, typed_form
from tests.tui.stage import channel, console
from tui.pages.channel_form import ChannelForm


def typed_into(view: ChannelView | None, typed: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The texts of the inputs of a form, and their values."""
    inputs = listing_of(lambda session: ChannelForm(session, view)).fields()
    texts = {field.id: field.value for field in inputs} | typed
    return texts, {field.id: field.parse(texts[field.id]) for field in inputs}


form = partial(typed_form, ChannelForm)


def warn(**typed: str) -> str:
    made = listing_of(lambda session: ChannelForm(session, None))
    return made.preview(typed_into(None, typed)[1])


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


def test_the_demo_needs_no_address() -> None:
    body, command = form(name="slow", dialect="mock", options="latency=200")
    assert command == "channel add slow --dialect mock --option latency=200"
    assert (body["dialect"], body["options"], "base_url" in body) == ("mock", {"latency": 200}, False)
    assert form(name="slow", dialect="mock", options="latency=NaN")[0]["options"] == {"latency": "NaN"}


def test_the_server_has_the_address_of_a_preset_or_asks_for_it() -> None:
    assert "base_url" not in form(name="x", preset="groq")[0]
    assert "base_url" not in form(name="x")[0]


def test_a_copy_asks_for_the_key_again_unless_it_is_a_reference() -> None:
    with pytest.raises(BadRequest, match="the key of x is never shown, so it cannot be copied"):
        form(channel("x"), copy=True)
    assert form(channel("x"), copy=True, key="sk-new")[0]["key"] == "sk-new"
    assert "key" not in form(channel("x"), copy=True, key="none")[0]
    assert "key" not in form(channel("x", key=""), copy=True)[0]
    body, _ = form(channel("x", key="env:KEY"), copy=True)
    assert (body["key"], body["name"]) == ("env:KEY", "x-2")


def test_only_changed_timeouts_and_references_are_typed() -> None:
    texts, _ = typed_into(channel("x", timeouts=Timeouts(head=60), headers={"X-A": "env:A", "X-B": "env:B"}), {})
    assert (texts["timeouts"], texts["headers"]) == ("head=60", "X-A=env:A X-B=env:B")


def test_an_address_without_encryption_gets_a_warning() -> None:
    assert "is not encrypted" in warn(base_url="http://example.com/v1", name="x")
    assert warn(base_url="https://example.com/v1", name="x", models="a") == ""


def test_a_proxy_needs_its_port() -> None:
    with pytest.raises(BadRequest, match="its port is missing"):
        form(channel("x"), proxy="http://proxy")


def test_names_with_blanks_are_quoted_in_the_command() -> None:
    _, command = form(channel("x"), models='"a b", "pub lic"="up stream"', groups='default, "grp one"')
    assert command == """channel edit x --models '"a b","pub lic"="up stream"' --group 'default,grp one'"""
    with pytest.raises(BadRequest, match="contains a comma"):
        form(channel("x"), groups='"a,b"')


def test_secret_headers_stay_and_are_not_copied() -> None:
    view = channel("x", headers={"X-Team": "…lue"}, key="")
    for copy, told in ((False, "X-Team kept"), (True, "not copied")):
        fields = ChannelForm(console().session, view, copy=copy).fields()
        assert told in next(field.hint for field in fields if field.id == "headers")
    assert "headers" not in form(view, copy=True)[0]
    assert form(channel("x", headers={"X-A": "env:A"}, key=""), copy=True)[1].endswith("--header X-A=env:A")


def test_overrides_are_typed() -> None:
    body, _ = form(channel("y"), parameters="-seed", system="Hi", replace_system="instead of the client's")
    assert body == {"overrides": {"set": {}, "default": {}, "remove": ["seed"], "system": "Hi", "replace_system": True}}
