"""``settings``: what the owner decides for the whole gateway."""

from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import json_option, yes_option
from gateway.commands.output import out_json, out_pairs, out_view
from gateway.commands.session import run
from gateway.domain.fields import SETTINGS, details
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import count_text
from gateway.domain.settings import Settings

NONE = "none"


@click.group(cls=Noun, bare="show")
def settings() -> None:
    """Settings of the whole gateway."""


@settings.command("show", examples=["tollkeeper settings show"])
@json_option
def show_settings(*, as_json: bool) -> None:
    """Show all settings."""
    _print(run(lambda client: client.settings()), as_json=as_json)


@settings.command(
    "set",
    examples=[
        "tollkeeper settings set --durability call",
        "tollkeeper settings set --hosts gateway.lan,10.0.0.5 --refuse-unpriced",
    ],
)
@field_options(SETTINGS)
@click.option("--add-host", "add_hosts", multiple=True, help="Add one to the host names. May be repeated.")
@click.option("--add-origin", "add_origins", multiple=True, help="Add one to the origins. May be repeated.")
@yes_option
@json_option
def set_settings(
    *, add_hosts: tuple[str, ...], add_origins: tuple[str, ...], yes: bool, as_json: bool, **given: Any
) -> None:
    """Change settings. Only the given options change.

    Asks first if --keep-days deletes call records.
    """
    patch: dict[str, Any] = dict(patch_of(SETTINGS, given, Settings()))
    if add_hosts or add_origins:
        now = run(lambda client: client.settings())
        for field, before, added in (("hosts", now.hosts, add_hosts), ("origins", now.origins, add_origins)):
            if added:
                patch[field] = list(dict.fromkeys((*patch.get(field, before), *added)))
    changes = options.something(patch)
    if "keep_days" in patch:
        expiring = run(lambda client: client.expiring_records(patch["keep_days"]), create=True)
        if expiring.records:
            question = (
                f"Keep records for {count_text(patch['keep_days'], 'day')}? {expiring.text} are deleted for good."
            )
            options.confirm(question, yes=yes)

    async def work(client: ControlClient) -> tuple[Settings, Settings]:
        return await client.settings(), await client.set_settings(changes)

    was, after = run(work, create=True)
    both = zip(details(SETTINGS, was), details(SETTINGS, after), strict=True)
    changed = [(name, f"{old or NONE} -> {new or NONE}") for (name, old), (_, new) in both if old != new]
    out_view(after, changed or [("settings", f"as before: {NOTHING_CHANGED}")], as_json=as_json)


def _print(view: Settings, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
        return
    status = run(lambda client: client.status())
    now = f"{status.most_connections}{formatting.files_note(status)}" if status.open_files else ""
    options = [field.flags.replace("/", " ") for field in SETTINGS]
    pairs = details(SETTINGS, view)
    # longer values push their option to the right
    wide = max(len(value) for _, value in pairs if len(value) <= 24)
    shown = [(name, f"{value or NONE:<{wide}}  {option}") for (name, value), option in zip(pairs, options, strict=True)]
    out_pairs([*shown, ("connections now", now)])
