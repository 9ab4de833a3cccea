"""Base: what all commands have in common. They take ``--home``, and their help ends with lines to copy."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import click

from gateway.domain.text import plain

COMPLETE = "_TOLLKEEPER_COMPLETE"
"""Variable that a shell's script sets when it asks the program for completions."""

HOME = "tollkeeper.home"
"""Key of the context's shared notes under which ``--home`` is kept, wherever on the line it stood."""


class Command(click.Command):
    """A command with examples, which are shown as they are."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        self.params.append(home_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for param in self.params:
                if not isinstance(param.type, click.Path):  # names of files need not be text
                    _check_text(ctx.params.get(param.name or ""), param, ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _check_text(value: object, param: click.Parameter, ctx: click.Context) -> None:
    """Raises BadParameter for bytes that are not UTF-8: Python carries them as halves of surrogate pairs."""
    if isinstance(value, tuple | list):
        for item in value:
            _check_text(item, param, ctx)
    elif isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise click.BadParameter(f"'{plain(value, 60)}' is not UTF-8 text", ctx, param)


class Noun(click.Group):
    """A group of commands about one thing, listed in the order they were written."""

    command_class = Command

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(home_option())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, command in self.commands.items() if not command.hidden]


def home_option() -> click.Option:
    """``--home``, kept in the context's notes for ``session.config``."""
    return click.Option(
        ["--home"],
        metavar="FOLDER",
        expose_value=False,
        is_eager=True,
        callback=_keep,
        help="The data folder (default: TOLLKEEPER_HOME, else the user's data folder).",
    )


def _keep(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[HOME] = value


def former_name(command: click.Command) -> click.Command:
    """The command once more, out of sight, for the name that it had in an older version."""
    alias = copy(command)
    alias.hidden = True
    return alias
