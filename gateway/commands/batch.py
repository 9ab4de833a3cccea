"""Batch: several tokens or channels named by one command. They change in one step, with one undo."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from gateway.client.control import ControlClient
from gateway.commands.completion import Completer
from gateway.commands.options import confirm
from gateway.domain.human_values import count_text, first_of
from gateway.domain.text import plain
from gateway.domain.views import ChannelView, TokenView

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V", bound=ChannelView | TokenView)


def names_argument(complete: Completer) -> Callable[[F], F]:
    """Adds ``NAME...``: one or several, without repetitions, in the given order."""

    def distinct(_ctx: click.Context, _param: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))

    return click.argument(
        "refs", metavar="NAME...", nargs=-1, required=True, shell_complete=complete, callback=distinct
    )


async def find_each(find: Callable[[str], Awaitable[V]], refs: Iterable[str]) -> list[V]:
    """Returns those with these names or ids, each once. Raises what ``find`` raises."""
    found = [await find(ref) for ref in refs]
    return [*{view.id: view for view in found}.values()]


async def change_together(client: ControlClient, kind: str, patches: Mapping[str, object]) -> str:
    """Change several by their ids. Returns what was done, as a sentence."""
    done = await client.batch(kind, patches)
    return f"{done[:1].upper()}{done[1:]}."


def confirm_removal(noun: str, names: Sequence[str], effect: str, *, yes: bool) -> None:
    """Ask before several are removed. Raises Quit."""
    listed = first_of([f"'{plain(name)}'" for name in names], 5)
    confirm(f"Remove {count_text(len(names), noun)}: {listed}? {effect}", yes=yes)
