"""All commands have help with examples and take --home."""

from collections.abc import Iterator

import click
import pytest

import cli
from gateway.commands.base import Command, Noun
from gateway.commands.exit_codes import Exit
from tests.commands.runner import Control, run


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
def test_the_help_of_a_command_shows_an_example_of_it(path: tuple[str, ...]) -> None:
    ran = run(*path, "--help")
    example = ran.out.partition("Examples:")[2]
    assert f"tollkeeper {' '.join(path)}" in example
    assert "--home FOLDER" in ran.out


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_a_command_fits_a_terminal(path: tuple[str, ...]) -> None:
    assert [line for line in run(*path, "--help").out.splitlines() if len(line) > 110] == []


def test_examples_are_shown_as_they_are() -> None:
    command = Command("x", examples=["a  b \\", "    c"])
    with click.Context(command) as ctx:
        assert command.get_help(ctx).endswith("Examples:\n  a  b \\\n      c")


def test_commands_are_listed_in_the_order_they_were_written() -> None:
    noun = Noun("noun")
    for name in ("b", "a"):
        noun.add_command(Command(name))
    assert noun.list_commands(click.Context(noun)) == ["b", "a"]


def test_an_argument_that_is_not_utf8_is_refused_on_one_line() -> None:
    control = Control({})
    for args in (
        ("token", "add", "\udcff"),
        ("channel", "edit", "x", "--map", "a=\udcff"),
        ("usage", "list", "\udcff"),
    ):
        ran = run(*args, control=control)
        assert (ran.code, ran.err.count("\n"), control.asked) == (Exit.USAGE, 1, [])
        assert "is not UTF-8 text" in ran.err
