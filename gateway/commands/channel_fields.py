"""Channel fields: the options of ``channel add`` and ``channel edit``, and the request body that they make.

Most options come from the table of fields. Keys, models and mappings have options of their own. A key or the proxy may
come from stdin, and ``--models`` takes names, ``name=upstream`` and patterns, like the console's form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from gateway.commands import stdin
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import NAMES, NONE, RENAMING, Patch, with_options
from gateway.commands.output import notify
from gateway.domain.channel import ChannelFields, Dialect, ServedModel
from gateway.domain.fields import CHANNEL
from gateway.domain.human_values import unset_text
from gateway.domain.list_kinds import unique_pairs
from gateway.domain.quoting import Offering, offering_of, read_offering
from gateway.domain.text import REFERENCE, plain
from gateway.domain.views import ChannelView

F = TypeVar("F", bound=Callable[..., Any])

_WITHOUT = {
    "key": "without --key a new channel has none; 'tollkeeper channel key remove NAME 1' removes one",
    "proxy": f"for no proxy use --proxy {NONE}",
}
"""How to do without a value, by the option."""

_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--dialect",
        type=click.Choice([dialect.value for dialect in Dialect]),
        help="Wire format; mock needs no upstream. The default is the preset's, else openai; a channel that is edited "
        "keeps its own, and may need another --base-url for another one.",
    ),
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="The key, or env:NAME for a variable of the server's environment, or - to read a line of stdin. Repeat it "
        "for several keys; they replace the current ones.",
    ),
    click.option(
        "--models",
        type=NAMES,
        multiple=True,
        metavar="NAMES",
        help="Models to offer: a,b,c; under another name: fast=gpt-4o-mini; or patterns for the upstream's models: "
        "'gpt-*,!*-preview'. Put a name with a space in double quotes.",
    ),
    click.option(
        "--map",
        "maps",
        type=RENAMING,
        multiple=True,
        metavar="PUBLIC=UPSTREAM",
        help="Offer a model under another name, in addition to the others. In 'channel edit', PUBLIC=none removes the "
        "name.",
    ),
)


def channel_options(*omit: str) -> Callable[[F], F]:
    """Returns the options of all fields except these. The command passes their values to ``with_secrets``."""
    return with_options(*_OPTIONS, field_options(CHANNEL, *omit))


def with_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options' values with checked keys and proxy, which are read from stdin for ``-``."""
    proxy = values["proxy"]
    if proxy is not None:
        proxy = "" if proxy == NONE else read_key(proxy, "proxy")
    return {**values, "proxy": proxy, "keys": tuple(map(read_key, values["keys"]))}


def channel_patch(values: Mapping[str, Any], before: ChannelFields) -> Patch:
    """Returns the request body for the values that ``with_secrets`` returned."""
    patch = patch_of(CHANNEL, values, before)
    if values["dialect"]:
        patch["dialect"] = values["dialect"]
    if values["keys"]:
        patch["key"], *others = values["keys"]
        patch["keys"] = others
    return patch | _models_patch(values["models"], values["maps"], before)


def _models_patch(models: Sequence[str], maps: Sequence[tuple[str, str]], before: ChannelFields) -> Patch:
    """Returns the patch of models and patterns. ``--models`` replaces them, ``--map`` alone adds to them."""
    if not (models or maps):
        return {}
    offered = read_offering(",".join(models), before.models) if models else offering_of(before)
    typed = [(model.name, model.upstream) for model in offered.models] if models else []
    if typed == [(NONE, "")]:
        text = "--models none is ambiguous: use '*' for all models; to offer none, disable the channel"
        raise click.UsageError(text)
    if removed := [plain(name) for name, upstream in typed if upstream.lower() == NONE]:
        raise click.UsageError(f"--models cannot remove a mapping; use --map {removed[0]}=none")
    unique_pairs([*(pair for pair in typed if pair[1]), *maps], "--models and --map")
    by_name = {model.name: model for model in offered.models}
    for name, upstream in maps:
        if upstream.lower() != NONE:
            model = by_name.get(name, ServedModel(name=name))
            by_name[name] = msgspec.structs.replace(model, upstream="" if name == upstream else upstream)
        elif any(model.name == name and model.upstream not in ("", name) for model in before.models):
            by_name.pop(name, None)
        else:
            raise click.UsageError(f"the channel has no mapping '{plain(name)}'")
    return Offering([*by_name.values()], offered.patterns).patch()


def read_key(text: str, option: str = "key") -> str:
    """Returns the key or reference in ``--key``; for ``-``, the key on stdin. Raises BadParameter if it is empty.

    An empty value comes from an unset variable or a failed command, and must not remove the current key. ``option`` may
    be ``proxy``: one with a password is a secret like a key.
    """
    if text == "-":
        return stdin.read_secret(option, _WITHOUT[option])
    if not text.strip():
        message = f"the {option} is empty; nothing was changed; {_WITHOUT[option]}"
        raise click.BadParameter(message, param_hint=f"--{option}")
    if not text.startswith(REFERENCE) and (option == "key" or "@" in text):
        notify("note: other programs on this machine can see command lines; better use - and stdin, or env:NAME")
    return text


def warn_about_unset_variables(view: ChannelView) -> None:
    """Warn about variables that the channel refers to but the server's environment lacks."""
    if note := unset_text(view.missing_variables):
        pronoun = "it" if len(view.missing_variables) == 1 else "them"
        notify(f"note: {note}; set {pronoun} there and restart the server")
