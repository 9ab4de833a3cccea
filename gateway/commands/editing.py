"""Editing: the options of ``add`` and ``edit``, from the tables of fields, and changes of several entities."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands.completion import GROUPS, MODELS, PRESETS, TOKENS, Completer, comma_separated
from gateway.commands.options import ParsedText, Patch, now, with_options
from gateway.commands.output import out_change
from gateway.commands.session import run
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.field_kinds import Option, json_value
from gateway.domain.fields import Table, changed_fields
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import count_text, first_of
from gateway.domain.text import plain
from gateway.domain.views import ChannelView, TokenView

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V", bound=ChannelView | TokenView)

COMPLETERS: Mapping[str, Completer] = {"groups": GROUPS, "models": MODELS, "presets": PRESETS, "tokens": TOKENS}


def field_options(table: Table, *omit: str) -> Callable[[F], F]:
    """Add the options of all fields, except those with these names. The command gets their values by name."""
    table_options = [option for field in table for option in field.kind.options(field)]
    return with_options(*(_click_option(option) for option in table_options if option.name not in omit))


def patch_of(table: Table, values: Mapping[str, Any], before: msgspec.Struct) -> Patch:
    """Returns the request body for the values of options. Raises UsageError for options that contradict each other."""
    try:
        return changed_fields(table, values, before)
    except BadRequest as error:
        raise click.UsageError(error.message) from error


def body_of_new(table: Table, values: Mapping[str, Any], blank: Any, like: msgspec.Struct | None) -> Patch:
    """Returns the request body of a new entity: with the name in ``blank``, and like another one except for options."""
    copied = {} if like is None else {field.name: json_value(getattr(like, field.name)) for field in table}
    return copied | patch_of(table, values, like or blank) | {"name": blank.name}


def _click_option(option: Option) -> Callable[[F], F]:
    settings: dict[str, Any] = {"help": option.help}
    if option.choices:
        settings["type"] = click.Choice(option.choices)
    elif not option.metavar:
        settings |= {"default": None} if "/" in option.flags else {"is_flag": True}
    else:
        settings |= {"metavar": option.metavar, "multiple": option.multiple}
        if (read := option.read) is not None:
            # a single value is in a tuple, as None may be the value itself
            settings["type"] = ParsedText(
                option.metavar.lower(), lambda text: read(text, now()) if option.multiple else (read(text, now()),)
            )
    if option.completes:
        completer = COMPLETERS[option.completes]
        settings["shell_complete"] = comma_separated(completer) if option.multiple else completer
    return click.option(option.flags, option.name, **settings)


def names_argument(complete: Completer) -> Callable[[F], F]:
    """Add the argument ``NAME...``, one or several names, for ``find_each``."""
    return click.argument("refs", metavar="NAME...", nargs=-1, required=True, shell_complete=complete)


@contextmanager
def all_or_nothing(names: Collection[str]) -> Iterator[None]:
    """Say in the error about an unknown name that the others were not changed either."""
    try:
        yield
    except NotFound as error:
        if len(names) > 1:
            error.message = f"{NOTHING_CHANGED}: {error.message}"
        raise


async def find_each(find: Callable[[str], Awaitable[V]], refs: Collection[str]) -> list[V]:
    """Returns the entities with these names or ids, each once. Raises NotFound if one does not exist."""
    with all_or_nothing(refs):
        views = [await find(ref) for ref in refs]
    return [*{view.id: view for view in views}.values()]


async def change_together(client: ControlClient, kind: str, patches: Mapping[str, object], channel: str = "") -> str:
    """Change entities by id in one step; the patch None removes. Returns what was done, as a sentence."""
    message = await client.batch(kind, patches, channel)
    return f"{message[:1].upper()}{message[1:]}."


def add_rename(noun: click.Group, complete: Completer, names: str, text: str) -> None:
    """Add the command ``rename`` to a noun. ``names`` are the two names of its example, ``text`` is its help."""

    @noun.command("rename", help=text, examples=[f"tollkeeper {noun.name} rename {names}"])
    @click.argument("ref", metavar="NAME", shell_complete=complete)
    @click.argument("new", metavar="NEW")
    def rename(ref: str, new: str) -> None:
        view = run(lambda client: getattr(client, f"edit_{noun.name}")(ref, {"name": new}))
        message = f"{str(noun.name).capitalize()} '{plain(ref)}' renamed to '{plain(view.name)}'"
        out_change(view, f"{message if view.name != ref else NOTHING_CHANGED.capitalize()}.")


def named_text(noun: str, views: Sequence[V]) -> str:
    """Returns ``token 'ci'``, or ``2 tokens: 'ci', 'laptop'``."""
    names = first_of([f"'{plain(view.name)}'" for view in views], 5)
    return f"{noun} {names}" if len(views) == 1 else f"{count_text(len(views), noun)}: {names}"
