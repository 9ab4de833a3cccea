"""``settings``: shows and changes the settings of the whole gateway."""

from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import NONE, yes_option
from gateway.commands.output import notify, out_json, out_pairs, out_view, wants_json
from gateway.commands.session import run
from gateway.domain.fields import SETTINGS, details
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.settings import Settings


@click.group(cls=Noun, bare="show")
def settings() -> None:
    """Settings of the whole gateway."""


@settings.command("show", examples=["tollkeeper settings show"])
def show_settings() -> None:
    """Show all settings."""
    view = run(lambda client: client.settings())
    if wants_json():
        out_json(view)
        return
    status = run(lambda client: client.status())
    possible = f"{status.most_connections}{formatting.files_note(status)}" if status.open_files else ""
    flags = [field.flags.replace("/", " ") for field in SETTINGS]
    pairs = details(SETTINGS, view)
    # the flags after longer values are not aligned
    width = max(len(value) for _, value in pairs if len(value) <= 24)
    rows = [(name, f"{value or NONE:<{width}}  {flag}") for (name, value), flag in zip(pairs, flags, strict=True)]
    out_pairs([*rows, ("connections now", possible)])


@settings.command(
    "set",
    examples=[
        "tollkeeper settings set --durability call",
        "tollkeeper settings set --hosts gateway.lan,10.0.0.5 --refuse-unpriced",
    ],
)
@field_options(SETTINGS)
@yes_option()
def set_settings(**values: Any) -> None:
    """Change settings. Only the given options change.

    Asks first if --keep-days deletes call records.
    """

    async def work(client: ControlClient) -> tuple[Settings, Settings, str]:
        before = await client.settings()
        changes = options.require_changes(patch_of(SETTINGS, values, before))
        after = await client.set_settings(changes)
        return before, after, (await client.status()).ollama_error if "ollama_port" in changes else ""

    before, after, ollama_error = run(work, create=True)
    pairs = zip(details(SETTINGS, before), details(SETTINGS, after), strict=True)
    changed = [(name, f"{old or NONE} -> {new or NONE}") for (name, old), (_, new) in pairs if old != new]
    out_view(after, changed or [("settings", f"as before: {NOTHING_CHANGED}")])
    notify(f"note: Ollama's port is closed: {ollama_error}" if ollama_error else "")
