"""All commands have help with examples and take --home; what those of several nouns have in common."""

import re
from collections.abc import Iterator

import click
import pytest
from msgspec.structs import replace

import cli
from gateway.commands.base import Command, Noun
from gateway.commands.exit_codes import Exit
from gateway.domain.settings import Settings
from gateway.domain.units import Nanos
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, BUDGET, CHANNEL, GROUP, TOKEN


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                assert child is not None
                yield from leaves(child, (*path, name))
    else:
        yield path, command


ALL = dict(leaves(cli.tollkeeper))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_a_command_shows_an_example_of_it_and_fits_a_terminal(path: tuple[str, ...]) -> None:
    ran = run(*path, "--help")
    example = ran.out.partition("Examples:")[2]
    assert f"tollkeeper {' '.join(path)}" in example
    assert "--home FOLDER" in ran.out
    assert [line for line in ran.out.splitlines() if len(line) > 110] == []


def test_examples_are_shown_as_they_are() -> None:
    command = Command("x", examples=["a  b \\", "    c"])
    with click.Context(command) as ctx:
        assert command.get_help(ctx).endswith("Examples:\n  a  b \\\n      c")


def test_help_lists_the_usual_commands_first_each_with_its_whole_first_sentence() -> None:
    noun = Noun("noun")
    for name in ("b", "a", "show", "list"):
        noun.add_command(Command(name, help=f"Sentence {name} {'which is long ' * 8}and ends. Another."))
    with click.Context(noun) as ctx:
        assert noun.list_commands(ctx) == ["list", "show", "b", "a"]
        text = " ".join(noun.get_help(ctx).split())
    assert text.count("and ends.") == 4
    assert "Another" not in text


REPEATABLE = ("--home", "--host", "--port")
"""Options of which another test sees how they are refused."""


def single_options() -> Iterator[tuple[tuple[str, ...], click.Option]]:
    for path, command in ALL.items():
        for param in command.params:
            if not isinstance(param, click.Option) or param.multiple or param.opts[0] in REPEATABLE:
                continue
            if param.secondary_opts or not param.is_flag:
                yield path, param


@pytest.mark.parametrize(("path", "option"), single_options(), ids=str)
def test_an_option_that_takes_one_value_may_not_be_repeated(path: tuple[str, ...], option: click.Option) -> None:
    given = [option.opts[0]] if option.is_flag else [option.opts[0], "1"]
    ran = run(*path, *given, *given, answers={})
    assert (ran.code, "is given 2 times" in ran.err) == (Exit.USAGE, True)


@pytest.mark.parametrize("line", ["account set", "channel edit x", "group edit x", "token edit x", "settings set"])
def test_an_edit_of_nothing_is_a_usage_error(line: str) -> None:
    views = {"GET /channels/x": CHANNEL, "GET /groups/x": GROUP, "GET /tokens/x": TOKEN}
    ran = run(*line.split(), answers={"GET /account": ACCOUNT, "GET /settings": Settings(), **views})
    assert (ran.code, ran.err.count("\n"), ran.bodies) == (Exit.USAGE, 1, [])


@pytest.mark.parametrize("noun", ["token", "group"])
def test_what_has_a_budget_says_how_long_it_lasts(noun: str) -> None:
    used_up = replace(BUDGET, nanos=Nanos(100), spent_nanos=Nanos(100), resets_at_ms=None)
    view = replace(TOKEN if noun == "token" else GROUP, budgets=(used_up,))
    shown = run(noun, "show", "x", answers={f"GET /{noun}s/x": view}).out
    assert re.search(r"budget day +used up\n", shown)


@pytest.mark.parametrize("noun", ["token", "channel", "group"])
def test_a_new_name(noun: str) -> None:
    view = {"token": TOKEN, "channel": CHANNEL, "group": GROUP}[noun]
    control = Control({f"PATCH /{noun}s/old": replace(view, name="new"), "GET /groups/old": replace(GROUP, calls=0)})
    assert run(noun, "rename", "old", "new", control=control).err == f"{noun.capitalize()} 'old' renamed to 'new'.\n"
    assert {"name": "new"} in control.bodies
    same = Control({f"PATCH /{noun}s/old": replace(view, name="old")})
    assert run(noun, "rename", "old", "old", control=same).err == "Nothing was changed.\n"


@pytest.mark.parametrize(
    "args",
    [
        ("--home", "/a", "token", "list", "--home", "/b"),
        ("token", "--home", "/a", "list", "--home", "/b"),
        ("--home", "/a", "--home", "/b", "token", "list"),
        ("--port", "1", "serve", "--port", "2"),
    ],
)
def test_an_option_of_two_levels_is_refused_with_two_values(args: tuple[str, ...]) -> None:
    ran = run(*args, answers={})
    assert (ran.code, "is given" in ran.err) == (Exit.USAGE, True)


@pytest.mark.parametrize("line", ["token list --json --json", "--home /a token list --home /a"])
def test_a_flag_or_the_same_home_may_be_repeated(line: str) -> None:
    assert run(*line.split(), answers={"GET /tokens": []}).code == 0


@pytest.mark.parametrize("line", ["--home= token list", "token list --home=", "serve --host=", "--port= serve"])
def test_an_empty_folder_or_address_is_not_the_default(line: str) -> None:
    ran = run(*line.split(" "), answers={})
    assert (ran.code, " is empty; see " in ran.err) == (Exit.USAGE, True)


def test_what_follows_two_dashes_is_not_ours() -> None:
    ran = run("run", "--", "true", "--model", "a", "--model", "b", answers={})
    assert "is given" not in ran.err


def test_an_argument_that_is_not_utf8_is_refused_on_one_line() -> None:
    for args in (("token", "show", "\udcff"), ("usage", "list", "\udcff"), ("why", "x", "a\udcff")):
        ran = run(*args, answers={})
        assert (ran.code, ran.err.count("\n")) == (Exit.USAGE, 1)
        assert "is not UTF-8 text" in ran.err
