"""``discover``: model servers on this machine and vendors' keys in the environment, and channels made from them."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import json_option
from gateway.commands.output import ListColumn, out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.errors import GatewayError
from gateway.domain.human_values import count_text
from gateway.domain.text import plain
from gateway.domain.token import PREFIX
from gateway.domain.upstream_views import PresetView, SavedChannel
from gateway.domain.views import Offer

COLUMNS = [
    ListColumn("Name", lambda o: o.name, "name"),
    ListColumn("Base URL", lambda o: o.base_url),
    ListColumn("Key", lambda o: o.key or "none needed", "whole"),
    ListColumn(
        "Models",
        lambda o: formatting.some([model.name for model in o.models]) if o.models else "fetched when it is added",
    ),
]


class DiscoveryFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An offer that could not be added."""

    name: str
    message: str


class DiscoverResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, added and not added."""

    offers: list[Offer]
    added: list[SavedChannel]
    failed: list[DiscoveryFailed]


@click.command(
    cls=Command,
    examples=[
        "tollkeeper discover",
        "tollkeeper discover --add ollama --add openai",
        "tollkeeper discover --all --json",
    ],
)
@click.option(
    "--add", "wanted", multiple=True, metavar="NAME", help="Add the one with this name as a channel. May be repeated."
)
@click.option("--all", "take_all", is_flag=True, help="Add all of them as channels.")
@json_option
def discover(wanted: tuple[str, ...], *, take_all: bool, as_json: bool) -> None:
    """Find model servers on this machine's usual ports, and vendors' API keys in the server's environment.

    Nothing outside this machine is contacted until you add a vendor; then its models are fetched. Keys are kept as
    references (env:NAME). On a terminal, the command asks which ones to add.
    """
    offers, unknown = run(_look, create=bool(wanted) or take_all, needs_data=False)
    for note in _elsewhere(unknown, os.environ):
        words(note)
    if not as_json:
        out_list(offers, COLUMNS, as_json=False, empty="nothing found; see: tollkeeper channel add --help")
    chosen = _choose_offers(offers, wanted, take_all=take_all, ask=not as_json)
    result = (
        run(lambda client: _add(client, offers, chosen), create=True)
        if chosen
        else DiscoverResult(offers=offers, added=[], failed=[])
    )
    if as_json:
        out_json(result)
    for view in result.added:
        words(f"Channel '{view.name}' created: {count_text(len(view.models), 'model')}")
        for line in formatting.price_notes(view):
            words(line)
    if result.failed:
        told = "; ".join(f"{failed.name}: {failed.message}" for failed in result.failed)
        raise Quit(f"not added: {told}", Exit.UPSTREAM)
    if offers and not chosen and not as_json:
        words("add them: tollkeeper discover --add NAME, or --all")


async def _look(client: ControlClient) -> tuple[list[Offer], list[PresetView]]:
    """Returns the offers, and the vendors whose key the server neither sees nor uses."""
    offers = await client.offers()
    used = {offer.key for offer in offers} | {channel.key for channel in await client.channels()}
    return offers, [p for p in await client.presets() if p.key_variable and f"env:{p.key_variable}" not in used]


def _elsewhere(unknown: Sequence[PresetView], environ: Mapping[str, str]) -> Iterator[str]:
    """Yields a note for each key that is set here but not in the server's environment, where it is needed."""
    for preset in unknown:
        value = environ.get(preset.key_variable, "").strip()
        if value and not value.startswith(PREFIX):
            yield f"{preset.key_variable} is set here, but not in the server's environment: restart the server with it"


def _choose_offers(offers: Sequence[Offer], wanted: Sequence[str], *, take_all: bool, ask: bool) -> list[Offer]:
    """Returns those to add. Raises Quit for a name that is not offered."""
    if take_all:
        return list(offers)
    names = {offer.name: offer for offer in offers}
    if missing := [name for name in wanted if name not in names]:
        there = ", ".join(names) or "nothing"
        raise Quit(f"'{plain(missing[0])}' was not found; found: {there}", Exit.NOT_FOUND)
    if wanted or not ask or not (sys.stdin and sys.stdin.isatty()):
        return [names[name] for name in dict.fromkeys(wanted)]
    return [offer for offer in offers if click.confirm(f"add {plain(offer.name)}?", default=False, err=True)]


async def _add(client: ControlClient, offers: list[Offer], chosen: list[Offer]) -> DiscoverResult:
    """Add the offers one after the other. A failure does not stop the others."""
    result = DiscoverResult(offers=offers, added=[], failed=[])
    taken = {channel.name for channel in await client.channels()}
    for offer in chosen:
        name = _free(offer.name, taken)
        taken.add(name)
        try:
            result.added.append(await client.add_channel(_body(name, offer)))
        except GatewayError as error:
            result.failed.append(DiscoveryFailed(name=offer.name, message=plain(error.message, 500)))
    return result


def _body(name: str, offer: Offer) -> dict[str, object]:
    body: dict[str, object] = {"name": name, "dialect": offer.dialect, "base_url": offer.base_url}
    given = {"preset": offer.preset, "key": offer.key, "models": offer.models}
    return body | {field: value for field, value in given.items() if value}


def _free(name: str, taken: set[str]) -> str:
    """Returns the name, with a number if it is in use."""
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
