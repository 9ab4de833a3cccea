"""Channel fields: the options of ``channel add`` and ``channel edit`` that are read by hand, and the body they make.

All others come from the table of fields. Key and proxy may come from stdin; models are names, ``name=upstream`` and
patterns in one option, as in the console's form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from gateway.commands import stdin
from gateway.commands.completion import GROUPS
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import NAMES, NO_MATTER, RENAMING, Patch
from gateway.commands.output import words
from gateway.domain.channel import ChannelFields, Dialect, ServedModel
from gateway.domain.field_kinds import once
from gateway.domain.fields import CHANNEL
from gateway.domain.offering import Offering, offering_of, read_offering
from gateway.domain.quoting import listed_names
from gateway.domain.text import REFERENCE, plain
from gateway.domain.views import ChannelView

F = TypeVar("F", bound=Callable[..., Any])
Pairs = Sequence[tuple[str, str]]

NO_KEY = "without --key a new channel has none; 'tollkeeper channel key remove NAME 1' removes one"
NO_PROXY = f"for no proxy use --proxy {NO_MATTER}"

_OPTIONS: Sequence[Callable[[F], F]] = (
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="The key, or env:NAME for a variable that the server has, or - to read it from stdin. Repeat for several "
        "keys; they replace the current ones.",
    ),
    click.option(
        "--models",
        type=NAMES,
        multiple=True,
        metavar="NAMES",
        help="Models to offer: a,b,c; under another name: fast=gpt-4o-mini; or patterns of the upstream's models: "
        "'gpt-*,!*-preview'. A name with a space needs double quotes.",
    ),
    click.option(
        "--map",
        "maps",
        type=RENAMING,
        multiple=True,
        metavar="PUBLIC=UPSTREAM",
        help="Offer a model by another name, in addition to the others; PUBLIC=UPSTREAM in --models does the same. "
        "In 'channel edit', PUBLIC=none removes it.",
    ),
)


_GROUP_OPTIONS: Sequence[Callable[[F], F]] = tuple(
    click.option(
        f"--{change}-group",
        f"{change}_groups",
        multiple=True,
        metavar="GROUP",
        shell_complete=GROUPS,
        help=f"{text}. May be repeated.",
    )
    for change, text in (("add", "Serve this group too"), ("remove", "Stop serving this group"))
)


def group_options(command: F) -> F:
    """Adds ``--add-group`` and ``--remove-group``; the command gets both lists for ``changed_groups``."""
    for option in reversed(_GROUP_OPTIONS):
        command = option(command)
    return command


def changed_groups(before: Sequence[str], added: Sequence[str], removed: Sequence[str], *, whole: bool) -> Patch:
    """Returns the groups of a channel after some were added and removed; ``whole``: others replace them as well.

    Raises UsageError for both at once, and for a group to remove that the channel does not serve.
    """
    added, removed = listed_names(added), listed_names(removed)
    if not (added or removed):
        return {}
    if whole:
        text = "--group and --no-groups replace all groups; use them without --add-group and --remove-group"
        raise click.UsageError(text, click.get_current_context())
    if missing := [name for name in removed if name not in before]:
        served = f"it serves {', '.join(before)}" if before else "it serves none"
        raise click.UsageError(f"it does not serve group '{plain(missing[0])}'; {served}", click.get_current_context())
    return {"groups": [name for name in dict.fromkeys([*before, *added]) if name not in removed]}


def dialect_option(text: str) -> Callable[[F], F]:
    """``--dialect``."""
    return click.option("--dialect", type=click.Choice([dialect.value for dialect in Dialect]), help=text)


def channel_options(*but: str) -> Callable[[F], F]:
    """Adds all options of a channel's fields but those named; the command gets them as ``**given`` for
    ``channel_patch``.
    """

    def decorate(command: F) -> F:
        command = field_options(CHANNEL, *but)(command)
        for option in reversed(_OPTIONS):
            command = option(command)
        return command

    return decorate


def channel_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with keys and proxy resolved: read from stdin, once for all channels, or references."""
    proxy = None if given["proxy"] is None else proxy_value(given["proxy"])
    return {**given, "proxy": proxy, "keys": tuple(map(key_of, given["keys"]))}


def channel_patch(given: Mapping[str, Any], before: ChannelFields) -> Patch:
    """Returns the body for the control surface, from ``channel_values``."""
    patch = patch_of(CHANNEL, given, before)
    if given["keys"]:
        patch["key"], *others = given["keys"]
        patch["keys"] = others
    return patch | _models(given["models"], given["maps"], before)


def _models(models: Sequence[str], maps: Pairs, before: ChannelFields) -> Patch:
    """Returns the models. ``--models`` replaces names and patterns, ``--map`` alone adds to them."""
    if not (models or maps):
        return {}
    offered = read_offering(",".join(models), before.models) if models else offering_of(before)
    typed = [(model.name, model.upstream) for model in offered.models] if models else []
    if typed == [(NO_MATTER, "")]:
        text = "--models none is not clear: '*' is for all models; to offer none, disable the channel"
        raise click.UsageError(text, click.get_current_context())
    if unclear := next((name for name, upstream in typed if upstream.lower() == NO_MATTER), ""):
        raise click.UsageError(f"--models {plain(unclear)}=none: --map removes a mapping", click.get_current_context())
    once([*(pair for pair in typed if pair[1]), *maps], "--models and --map")
    chosen = {model.name: model for model in offered.models}
    for name, upstream in maps:
        if upstream.lower() != NO_MATTER:
            model = chosen.get(name, ServedModel(name=name))
            chosen[name] = msgspec.structs.replace(model, upstream="" if name == upstream else upstream)
        elif any(model.name == name and model.upstream not in ("", name) for model in before.models):
            chosen.pop(name, None)
        else:
            raise click.UsageError(f"no mapping '{plain(name)}' to remove", click.get_current_context())
    return Offering([*chosen.values()], offered.patterns).patch()


def key_of(text: str) -> str:
    """Returns the key of ``--key``: as it is, a reference, or read from stdin for ``-``. Raises BadParameter if it is
    empty.

    An empty one is an unset variable or a failed command, and must not remove the present key.
    """
    if text == "-":
        return stdin.secret("key", NO_KEY)
    if not text.strip():
        raise click.BadParameter(f"the key is empty; nothing was changed; {NO_KEY}", param_hint="--key")
    if not text.startswith(REFERENCE):
        words("note: other programs on this machine can see command lines; prefer - and stdin, or env:NAME")
    return text


def proxy_value(text: str) -> str:
    """Returns the proxy of ``--proxy``: as it is, a reference, read from stdin for ``-``, or ``none``."""
    if text == NO_MATTER:
        return ""
    if text == "-":
        return stdin.secret("proxy", NO_PROXY)
    if not text.strip():
        raise click.BadParameter(f"the proxy is empty; nothing was changed; {NO_PROXY}", param_hint="--proxy")
    return key_of(text) if "@" in text else text


def warn_of_unset(view: ChannelView) -> None:
    """Warn about variables that the server's environment lacks."""
    if missing := ", ".join(view.missing_variables):
        verb = "is" if len(view.missing_variables) == 1 else "are"
        words(f"note: {missing} {verb} not set where the server runs; set it there and start the server again")
