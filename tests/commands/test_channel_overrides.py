"""What a channel changes in every request, as options."""

import pytest
from msgspec.structs import replace

from gateway.commands.channel_fields import value_of
from gateway.domain.overrides import Overrides
from tests.commands.runner import Control, Ran, run
from tests.commands.samples import CHANNEL

THERE = Overrides(set={"seed": 1}, system="Be brief.")


def edit(*args: str) -> tuple[Ran, list[dict[str, object]]]:
    view = replace(CHANNEL, overrides=THERE)
    control = Control({"GET /channels/x": view, "PATCH /channels/ch_1": view})
    return run("channel", "edit", "x", *args, control=control), control.bodies


VALUES = [("0.2", 0.2), ("true", True), ("high", "high"), ('"1"', "1"), ('{"a":[1]}', {"a": [1]}), ("", "")]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values_are_json_where_they_are_some(text: str, value: object) -> None:
    assert value_of(text) == value


def test_each_kind_is_put_over_what_there_is() -> None:
    _, bodies = edit("--set-param", "temperature=0.2", "--default-param", "top_p=0.9", "--remove-param", "user,store")
    assert bodies == [
        {
            "overrides": {
                "set": {"temperature": 0.2},
                "default": {"top_p": 0.9},
                "remove": ["user", "store"],
                "system": "Be brief.",
            }
        }
    ]


def test_they_can_be_dropped_all_or_some() -> None:
    assert edit("--no-overrides")[1] == [{"overrides": None}]
    assert edit("--system", "")[1] == [{"overrides": {"set": {"seed": 1}}}]
    assert edit("--no-overrides", "--system", "x", "--replace-system")[1] == [
        {"overrides": {"system": "x", "replace_system": True}}
    ]


def test_they_are_shown() -> None:
    ran = run("channel", "show", "x", control=Control({"GET /channels/x": replace(CHANNEL, overrides=THERE)}))
    assert "always            seed=1\n" in ran.out
    assert "before system     Be brief.\n" in ran.out


@pytest.mark.parametrize(("text", "sent"), [("http://h:3128", "http://h:3128"), ("none", ""), ("env:P", "env:P")])
def test_a_proxy_is_named_or_none(text: str, sent: str) -> None:
    ran, bodies = edit("--proxy", text)
    assert (bodies, ran.err.count("command lines")) == ([{"proxy": sent}], 0)


def test_a_proxy_with_a_password_is_better_not_on_the_command_line() -> None:
    assert "command lines" in edit("--proxy", "http://me:pw@h:1")[0].err
