"""Base: what all commands have in common. They take ``--home``, and their help ends with lines to copy."""

from collections.abc import Sequence
from typing import Any

import click

HOME = "tollkeeper.home"
"""Key of the context's shared notes under which ``--home`` is kept, wherever on the line it stood."""


class Command(click.Command):
    """A command with examples, which are shown as they are."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        self.params.append(home_option())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Noun(click.Group):
    """A group of commands about one thing, listed in the order they were written."""

    command_class = Command

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(home_option())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


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
