from typing import Any

import pytest

from gateway.core.visibility import Visibility, visibility_of
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from tests.core.kit import catalog, channel, token


def seen(*channels: Channel, model: str = "m", shows: tuple[str, ...] = (), **fields: Any) -> Visibility:
    group = Group(name="home", models=shows)
    return visibility_of(model, token(**fields), group, catalog(*channels, groups=(group, Group(name="work"))))


def test_what_is_visible_names_each_rule_that_let_it_through() -> None:
    found = seen(channel("a", groups=("home",)), shows=("x", "m*"), models=("?",))
    assert found.rule == "group 'home' has it from a; the group shows only x, m*; the token may use only ?"
    assert found.fix == ""


def test_the_first_of_many_channels_are_named() -> None:
    channels = [channel(f"c{number}", groups=("home",)) for number in range(7)]
    assert seen(*channels).rule == "group 'home' has it from c0, c1, c2, c3, c4 and 2 more"


@pytest.mark.parametrize(
    ("channels", "fields", "rule", "fix"),
    [
        ((), {}, "no channel offers a model named 'm'", "channel edit NAME --models"),
        (
            (channel("a", groups=("work",)),),
            {},
            "for which no channel offers 'm'; it is offered by a",
            "--add-group home",
        ),
        (
            (channel("a", groups=()),),
            {},
            "for which no channel offers 'm'; it is offered by a",
            "edit a --add-group home'",
        ),
        ((channel("a", groups=("home",), enabled=False),), {}, "is switched off", "channel enable a"),
        ((channel("a", groups=("home",)),), {"shows": ("x",)}, "group 'home' shows only x", "group edit home --models"),
        ((channel("a", groups=("home",)),), {"models": ("x",)}, "may use only x", "token edit laptop --models"),
    ],
)
def test_what_is_hidden_names_the_rule_against_it(
    channels: tuple[Channel, ...], fields: dict[str, Any], rule: str, fix: str
) -> None:
    found = seen(*channels, **fields)
    assert found.fix
    assert rule in found.rule
    assert fix in found.fix


def test_patterns_that_only_exclude_are_told_as_what_they_leave_out() -> None:
    offering = channel("a", groups=("home",))
    assert seen(offering, shows=("!m", "!x")).rule == "group 'home' shows all but m, x; 'm' does not fit"
    assert seen(offering, shows=("!x",)).rule == "group 'home' has it from a; the group shows all but x"
    assert seen(offering, shows=("!x", "m*")).rule == "group 'home' has it from a; the group shows only !x, m*"


def test_what_several_rules_hide_names_them_all() -> None:
    """Otherwise whoever follows the advice has the next one against it."""
    found = seen(channel("a", groups=("work",)), shows=("x", "y"), models=("x",))
    assert found.rule == (
        "token 'laptop' is in group 'home', for which no channel offers 'm'; it is offered by a; "
        "and group 'home' shows only x, y; 'm' does not fit; and token 'laptop' may use only x; 'm' does not fit"
    )
    commands = ("channel edit a --add-group home", "group edit home --models", "token edit laptop --models")
    assert [command in found.fix for command in commands] == [True] * 3


def test_a_stranger_s_name_is_made_harmless() -> None:
    assert "\x1b" not in seen(model="\x1b[2J").rule
