"""Channel probe: what is out there: ``channel presets``, and what asks an upstream itself: ``test`` and ``models``."""

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands.base import Command
from gateway.commands.complete import CHANNELS
from gateway.commands.exits import Exit, Quit
from gateway.commands.options import json_option
from gateway.commands.output import out, out_json, out_list, words
from gateway.commands.session import run
from gateway.commands.show import count
from gateway.domain.channel import Served
from gateway.domain.patterns import matches
from gateway.domain.text import plain
from gateway.domain.views import ChannelView
from gateway.domain.written import brief_count, brief_span


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the upstream's own list."""

    name: str
    context: int | None
    served: bool
    """Whether the channel offers it to clients."""


PRESET_COLUMNS = [
    ("Preset", lambda p: p.name),
    ("Dialect", lambda p: p.dialect),
    ("Base URL", lambda p: p.base_url or "yours: give --base-url"),
    ("Key", lambda p: f"env:{p.key_variable}" if p.key_variable else "none needed" if p.local else ""),
]


@click.command(cls=Command, examples=["tollkeeper channel presets"])
@json_option
def presets(*, as_json: bool) -> None:
    """List the known vendors and local servers: dialect, address and where the key usually is."""
    out_list(run(lambda client: client.presets()), PRESET_COLUMNS, as_json=as_json, empty="no presets")


@click.command(cls=Command, examples=["tollkeeper channel test openai --model gpt-4o-mini"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@click.option(
    "--model", default="", help="Also make one tiny real call to this model; it costs what such a call costs."
)
@json_option
def test(ref: str, model: str, *, as_json: bool) -> None:
    """Ask a channel whether it can be reached and accepts its key; free of cost unless --model is given."""
    check = run(lambda client: client.test_channel(ref, model))
    if as_json:
        out_json(check)
    else:
        out(f"{'ok' if check.ok else 'failed'} after {brief_span(check.ms)} {plain(check.text)}".rstrip())
    if not check.ok:
        raise Quit(f"channel '{ref}' failed its test: {check.text}", Exit.UPSTREAM)


@click.command(
    cls=Command, examples=["tollkeeper channel models openai", "tollkeeper channel models openai 'gpt-4*' --add"]
)
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@click.argument("patterns", nargs=-1)
@click.option("--add", is_flag=True, help="Offer the listed models besides those it offers now.")
@click.option("--set", "replace", is_flag=True, help="Offer exactly the listed models.")
@json_option
def models(ref: str, patterns: tuple[str, ...], *, add: bool, replace: bool, as_json: bool) -> None:
    """List the models an upstream says it has; PATTERNS narrow the list."""
    if add and replace:
        raise click.UsageError("--add and --set exclude each other", click.get_current_context())

    async def work(client: ControlClient) -> tuple[list[Served], ChannelView]:
        found = [model for model in await client.channel_models(ref) if matches(model.name, patterns)]
        view = await client.channel(ref)
        if add or replace:
            wanted = merged(view.models if add else [], found, view.models)
            view = await client.edit_channel(view.id, {"models": msgspec.to_builtins(wanted)})
        return found, view

    found, view = run(work)
    now_served = {model.upstream_name for model in view.models}
    rows = [Offered(name=m.name, context=m.context, served=m.name in now_served) for m in found]
    columns = [
        ("Model", lambda m: m.name),
        ("Offered", lambda m: "yes" if m.served else "no"),
        (">Context", lambda m: brief_count(m.context) if m.context else ""),
    ]
    out_list(rows, columns, as_json=as_json, empty=f"channel '{ref}' lists no such model")
    if add or replace:
        words(f"channel '{view.name}' now offers {count(len(view.models), 'model')}")


def merged(kept: list[Served], found: list[Served], known: list[Served]) -> list[Served]:
    """Those kept and those found, each upstream name once; a model the channel knows stays as it is there."""
    by_upstream = {model.upstream_name: model for model in known}
    chosen = {model.upstream_name: model for model in kept}
    for model in found:
        chosen.setdefault(model.upstream_name, by_upstream.get(model.upstream_name, model))
    return list(chosen.values())
