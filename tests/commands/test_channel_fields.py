"""What a channel changes in every request, as options."""

import msgspec
import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.channel import Overrides, ServedModel
from tests.commands.runner import Control, Ran, run
from tests.commands.samples import CHANNEL

THERE = Overrides(set={"seed": 1}, system="Be brief.")


def edit(*args: str) -> tuple[Ran, list[dict[str, object]]]:
    view = replace(CHANNEL, overrides=THERE)
    control = Control({"GET /channels/x": view, "PATCH /channels/ch_1": view})
    return run("channel", "edit", "x", *args, control=control), control.bodies


def overrides(*args: str) -> Overrides | None:
    """What an edit makes of them."""
    (body,) = edit(*args)[1]
    return msgspec.convert(body["overrides"], Overrides | None)


VALUES = [("0.2", 0.2), ("true", True), ("high", "high"), ('"1"', "1"), ('{"a":[1]}', {"a": [1]}), ("", "")]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values_are_json_where_they_are_some(text: str, value: object) -> None:
    assert overrides("--no-overrides", "--set-param", f"p={text}") == Overrides(set={"p": value})


def test_each_kind_is_put_over_what_there_is() -> None:
    found = overrides("--set-param", "temperature=0.2", "--default-param", "top_p=0.9", "--remove-param", "user,store")
    assert found == Overrides(
        set={"temperature": 0.2}, default={"top_p": 0.9}, remove=("user", "store"), system="Be brief."
    )


def test_they_can_be_dropped_all_or_some() -> None:
    assert overrides("--no-overrides") is None
    assert overrides("--system", "") == Overrides(set={"seed": 1})
    assert overrides("--no-overrides", "--system", "x", "--replace-system") == Overrides(
        system="x", replace_system=True
    )


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("--proxy http://h:3128", {"proxy": "http://h:3128"}),
        ("--proxy none", {"proxy": ""}),
        ("--proxy env:P", {"proxy": "env:P"}),
        ("--no-groups", {"groups": []}),
        ("--add-group friends,work", {"groups": ["default", "friends", "work"]}),
        ("--remove-group default", {"groups": []}),
        ("--group a --add-group b --remove-group a", {"groups": ["b"]}),
        ("--no-headers", {"headers": {}}),
        ("--models a=a,b", {"models": [{"name": "a"}, {"name": "b"}], "patterns": []}),
        ("--models o*", {"models": [], "patterns": ["o*"]}),
        ("--cost-factor 0.5", {"cost_factor": 500_000}),
        ("--dialect anthropic --base-url https://x.example", {"dialect": "anthropic", "base_url": "https://x.example"}),
        ("--option x=200", {"options": {"x": 200}}),
        ("--option x=0.5", {"options": {"x": 0.5}}),
        ("--option x=true", {"options": {"x": True}}),
        # What is not JSON is a text.
        *((f"--option x={text}", {"options": {"x": text}}) for text in ("text", "", "NaN", "1e999")),
    ],
)
def test_an_edit_sends_what_is_named(options: str, body: dict[str, object]) -> None:
    ran, bodies = edit(*options.split())
    assert (bodies, "command lines" in ran.err) == ([body], False)


def test_a_proxy_with_a_password_is_better_not_on_the_command_line() -> None:
    assert "command lines" in edit("--proxy", "http://me:pw@h:1")[0].err


ADD = ("channel", "add", "x", "--base-url", "https://h/v1", "--models", "a")
SECRET = "sk-very-secret-key-of-an-upstream"


def test_a_key_on_the_command_line_works_with_a_hint_that_does_not_repeat_it() -> None:
    ran = run(*ADD, "--key", SECRET, answers={"POST /channels": CHANNEL})
    assert ran.bodies[0]["key"] == SECRET
    assert "env:NAME" in ran.err
    assert SECRET not in ran.out + ran.err


def test_a_key_may_come_from_stdin() -> None:
    ran = run(*ADD, "--key", "-", answers={"POST /channels": CHANNEL}, stdin=f"{SECRET}\n")
    assert ran.bodies[0]["key"] == SECRET
    assert "env:NAME" not in ran.err


EDIT = ("channel", "edit", "x")


@pytest.mark.parametrize("command", [ADD, EDIT, ("channel", "key", "add", "x"), ("channel", "key", "rotate", "x", "1")])
@pytest.mark.parametrize("key", ["", " ", "-"])
def test_an_empty_key_removes_none(command: tuple[str, ...], key: str) -> None:
    ran = run(*command, "--key", key, answers={"GET /channels/x": CHANNEL})
    assert (ran.code, ran.err.count("\n"), ran.bodies) == (Exit.USAGE, 1, [])
    assert "tollkeeper channel key remove" in ran.err


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("--models", ""), "'*' for all"),
        (("--group", ""), "--no-groups"),
        (("--remove-param", ","), "--no-overrides"),
        (("--map", "m="), "PUBLIC=UPSTREAM"),
        (("--map", "m=a", "--map", "m=b"), "given twice"),
        (("--models", "m=a", "--map", "m=b"), "given twice"),
        (("--models", "m="), "name=upstream"),
        (("--timeout", "idle=nan"), "is not a number of seconds from 0 to 86400"),
        (("--timeout", "60"), "NAME=VALUE"),
        (("--map", "x"), "NAME=VALUE"),
        (("--weight", "-1"), "at least 0"),
        (("--proxy", ""), "--proxy none"),
        (("--proxy", "-"), "--proxy none"),
        (("--no-groups", "--group", "a"), "--no-groups and --group exclude each other"),
        (("--remove-group", "none-such"), "groups: 'none-such' is not in the list: default"),
    ],
)
def test_empty_edits_change_nothing(args: tuple[str, ...], hint: str) -> None:
    ran = run(*EDIT, *args, answers={"GET /channels/x": CHANNEL})
    assert (ran.code, ran.err.count("\n"), ran.bodies) == (Exit.USAGE, 1, [])
    assert hint in ran.err


def test_an_option_is_removed() -> None:
    mock = replace(CHANNEL, options={"latency": 200, "cut": 3})
    control = Control({"GET /channels/x": mock, "PATCH /channels/ch_1": mock})
    run(*EDIT, "--option", "latency=none", "--option", "speed=5", control=control)
    assert control.bodies == [{"options": {"cut": 3, "speed": 5}}]


def test_patterns_are_distinguished_from_names() -> None:
    ran = run(*ADD[:-2], "--models", "gpt-*,!*-preview,o3", answers={"POST /channels": CHANNEL})
    assert ran.bodies[0]["patterns"] == ["gpt-*", "!*-preview"]
    assert ran.bodies[0]["models"] == [{"name": "o3"}]


def test_names_at_the_upstream_are_given_among_the_models_or_by_map() -> None:
    control = Control({"POST /channels": CHANNEL, "GET /channels/x": CHANNEL, "PATCH /channels/ch_1": CHANNEL})
    run(*ADD[:-2], "--models", 'b, fast=a,gpt-*,"k=v",x*=y', control=control)
    run(*ADD[:-2], "--models", 'b,gpt-*,"k=v"', "--map", "fast=a", "--map", "x*=y", control=control)
    run(*EDIT, "--models", "fast=a", control=control)
    mapped = [{"name": "fast", "upstream": "a"}, {"name": "k=v"}, {"name": "x*", "upstream": "y"}]
    assert [body["patterns"] for body in control.bodies[:2]] == [["gpt-*"], ["gpt-*"]]
    assert control.bodies[0]["models"] == [{"name": "b"}, *mapped]
    assert sorted(control.bodies[1]["models"], key=str) == sorted(control.bodies[0]["models"], key=str)
    assert control.bodies[2] == {"models": mapped[:1], "patterns": []}


def test_a_mapping_is_removed() -> None:
    models = [ServedModel(name="fast", upstream="gpt-4o-mini"), ServedModel(name="o3", live=True)]
    mapped = replace(CHANNEL, patterns=["*"], models=models)
    control = Control({"GET /channels/x": mapped, "PATCH /channels/ch_1": mapped})
    assert run(*EDIT, "--map", "fast=none", "--map", "big=o3", control=control).code == 0
    assert control.bodies == [{"models": [{"name": "big", "upstream": "o3"}], "patterns": ["*"]}]
    ran = run(*EDIT, "--map", "o3=none", control=control)
    assert (ran.code, "the channel has no mapping 'o3'" in ran.err) == (Exit.USAGE, True)
    ran = run(*EDIT, "--models", "none", control=control)
    assert (ran.code, "use '*' for all models" in ran.err) == (Exit.USAGE, True)
    ran = run(*EDIT, "--models", "fast=none", control=control)
    assert (ran.code, "use --map fast=none" in ran.err) == (Exit.USAGE, True)


def test_names_instead_of_patterns_are_for_good() -> None:
    live = replace(CHANNEL, patterns=["*"], models=[ServedModel(name="a", live=True), ServedModel(name="b", live=True)])
    control = Control({"GET /channels/x": live, "PATCH /channels/ch_1": live})
    run("channel", "edit", "x", "--models", "a", control=control)
    run("channel", "edit", "x", "--map", "c=b", control=control)
    assert control.bodies == [
        {"models": [{"name": "a"}], "patterns": []},
        {"models": [{"name": "c", "upstream": "b"}], "patterns": ["*"]},
    ]


def test_limits_of_a_channel_include_its_queue() -> None:
    ran = run(*ADD, "--concurrent", "4", "--queue-s", "10", answers={"POST /channels": CHANNEL})
    assert (ran.bodies[0]["limits"]["concurrent"], ran.bodies[0]["limits"]["queue_s"]) == (4, 10)


def test_an_option_is_the_same_in_both_spellings() -> None:
    mock = replace(CHANNEL, options={"no_usage": True, "retry_after": 2})
    control = Control({"GET /channels/x": mock, "PATCH /channels/ch_1": mock})
    for name in ("no_usage", "no-usage"):
        run(*EDIT, "--option", f"{name}=none", control=control)
    assert control.bodies == [{"options": {"retry_after": 2}}] * 2
