"""``discover``: finds local model servers and vendors' keys in the environment, and adds channels for them."""

import os
from collections.abc import Sequence

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, stdin
from gateway.commands.base import Command
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import ListColumn, notify, out_json, out_list, wants_json
from gateway.commands.session import run
from gateway.domain.human_values import count_text
from gateway.domain.text import plain
from gateway.domain.token import PREFIX
from gateway.domain.views import Offer

COLUMNS = [
    ListColumn("Name", lambda o: o.name, "name"),
    ListColumn("Base URL", lambda o: o.base_url),
    ListColumn("Key", lambda o: o.key or "none needed", "whole"),
    ListColumn(
        "Models",
        lambda o: formatting.brief_names([model.name for model in o.models]) or "fetched when it is added",
    ),
]


@click.command(
    cls=Command,
    examples=[
        "tollkeeper discover",
        "tollkeeper discover --add ollama --add openai",
        "tollkeeper discover --all --json",
    ],
)
@click.option(
    "--add", "names", multiple=True, metavar="NAME", help="Add this server or key as a channel. May be repeated."
)
@click.option("--all", "add_all", is_flag=True, help="Add all of them as channels.")
def discover(names: tuple[str, ...], *, add_all: bool) -> None:
    """Find model servers on this machine's usual ports, and vendors' API keys in the server's environment.

    Nothing outside this machine is contacted until you add a vendor; then its models are fetched. Keys are stored as
    references (env:NAME). On a terminal, the command asks which ones to add.
    """

    async def work(client: ControlClient) -> list[Offer]:
        offers = await client.offers()
        used = {offer.key for offer in offers} | {channel.key for channel in await client.channels()}
        variables = [preset.key_variable for preset in await client.presets() if preset.key_variable]
        for variable in variables:
            value = os.environ.get(variable, "").strip()
            if f"env:{variable}" not in used and value and not value.startswith(PREFIX):
                notify(f"{variable} is set here, but not in the server's environment: restart the server with it")
        return offers

    offers = run(work, create=bool(names) or add_all, needs_data=False)
    if not wants_json():
        out_list(offers, COLUMNS, empty="nothing found; see: tollkeeper channel add --help")
    chosen = _choose_offers(offers, names, add_all=add_all, ask=not wants_json())
    added, errors = run(lambda client: client.add_offers(chosen), create=True) if chosen else ([], {})
    failed = [{"name": name, "message": plain(error.message, 500)} for name, error in errors.items()]
    if wants_json():
        out_json({"offers": offers, "added": added, "failed": failed})
    for view in added:
        created = f"Channel '{view.name}' created: {count_text(len(view.models), 'model')}"
        notify(created, *formatting.price_notes(view))
    if failed:
        failures = "; ".join(f"{failure['name']}: {failure['message']}" for failure in failed)
        raise Quit(f"not added: {failures}", Exit.UPSTREAM)
    if offers and not chosen and not wants_json():
        notify("to add them: tollkeeper discover --add NAME, or --all")


def _choose_offers(offers: Sequence[Offer], names: Sequence[str], *, add_all: bool, ask: bool) -> list[Offer]:
    """Returns the offers to add, asking on a terminal if none is named. Raises Quit for an unknown name."""
    if add_all:
        return list(offers)
    by_name = {offer.name: offer for offer in offers}
    if missing := [name for name in names if name not in by_name]:
        raise Quit(f"'{plain(missing[0])}' was not found; found: {', '.join(by_name) or 'nothing'}", Exit.NOT_FOUND)
    if names or not ask or not stdin.is_terminal():
        return [by_name[name] for name in dict.fromkeys(names)]
    return [offer for offer in offers if click.confirm(f"add {plain(offer.name)}?", default=False, err=True)]
