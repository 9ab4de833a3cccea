"""``channel``: the upstream accounts that answer."""

from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun, former_name
from gateway.commands.channel_fields import (
    changed_groups,
    channel_options,
    channel_patch,
    dialect_option,
    group_options,
    warn_of_unset,
)
from gateway.commands.channel_key import key, keys_text
from gateway.commands.channel_probe import models, presets, test
from gateway.commands.completion import CHANNELS
from gateway.commands.options import confirm, json_option, yes_option
from gateway.commands.output import out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.domain.channel import ChannelFields, Dialect
from gateway.domain.fields import CHANNEL, details
from gateway.domain.human_values import count_text
from gateway.domain.incidents import reason_text
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain, word
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.urls import base_url_warning
from gateway.domain.views import ChannelView

COLUMNS = [
    ("Name", lambda c: c.name),
    ("State", formatting.channel_state),
    ("Dialect", lambda c: c.dialect),
    ("Base URL", lambda c: c.base_url),
    ("Groups", lambda c: formatting.some(c.groups)),
    (">Models", lambda c: str(len(c.models))),
    (">Priority", lambda c: str(c.priority)),
    (">Weight", lambda c: str(c.weight)),
    (">Calls", lambda c: f"{c.calls:,}"),
    (">Errors", lambda c: f"{c.errors:,}"),
    (">Spent", lambda c: brief_dollars(c.spent_nanos)),
    ("Reason", lambda c: plain(reason_text(c.reason), 60)),
]
DROP = ("Weight", "Priority", "Base URL", "Dialect", "Groups", "Spent", "Models")
"""Columns that a narrow terminal does without, the first one first."""


@click.group(cls=Noun, bare="list")
def channel() -> None:
    """The upstream accounts that answer calls."""


channel.add_command(test)
channel.add_command(models)
channel.add_command(presets)
channel.add_command(key)


@channel.command("list", examples=["tollkeeper channel list"])
@json_option
def list_channels(*, as_json: bool) -> None:
    """List all channels with their state.

    'Errors' counts calls that ended with a failure of the channel. Failures after which another channel answered are
    not among them; 'tollkeeper incident list' shows those, too.
    """
    found = run(lambda client: client.channels())
    out_list(found, COLUMNS, as_json=as_json, empty="no channels yet; see: tollkeeper channel add --help", drop=DROP)


@channel.command("show", examples=["tollkeeper channel show openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def show_channel(ref: str, *, as_json: bool) -> None:
    """Show one channel. Its key is masked."""
    view = run(lambda client: client.channel(ref))
    if as_json:
        out_json(view)
        return
    _print(view)


@channel.command(
    "add",
    examples=[
        "tollkeeper channel add claude --preset anthropic --key env:ANTHROPIC_API_KEY",
        "tollkeeper channel add openai --preset openai --key env:OPENAI_API_KEY --models 'gpt-*,!*-preview'",
        "tollkeeper channel add mine --base-url https://models.example.com/v1 --key env:MY_KEY --models a,b",
        "tollkeeper channel add local --base-url http://127.0.0.1:11434/v1 --models qwen3:8b",
        "tollkeeper channel add work --preset openai --key env:WORK_KEY --models gpt-4o,fast=gpt-4o-mini --no-prices",
        "tollkeeper channel add slow --dialect mock --models test --option latency=2000",
    ],
)
@click.argument("name")
@dialect_option("Wire format (default: the preset's, else openai); mock needs no upstream.")
@channel_options("name")
@json_option
def add_channel(name: str, dialect: str | None, *, as_json: bool, **given: Any) -> None:
    """Create a channel.

    A preset fills in the dialect and the base URL. Without --models all models that the upstream lists are offered.
    Models without a price get their vendor's list price, unless you say --no-prices.
    """
    if not given["preset"]:
        dialect = dialect or Dialect.OPENAI.value
        if dialect == Dialect.OPENAI and not given["base_url"]:
            raise click.UsageError(
                "--preset or --base-url is required; 'tollkeeper channel presets' lists the presets",
                click.get_current_context(),
            )
    body = {"name": name} | options.given_values(dialect=dialect) | channel_patch(given, ChannelFields(name=name))
    view = run(lambda client: client.add_channel(body), create=True)
    if as_json:
        out_json(view)
    if warning := base_url_warning(view.base_url) if view.base_url else "":
        words(f"note: {warning}")
    warn_of_unset(view)
    offer = f"{count_text(len(view.models), 'model')} for {', '.join(view.groups) or 'no group'}"
    words(f"Channel '{view.name}' created: {offer}.")
    for line in formatting.price_notes(view):
        words(line)
    words(f"Try it: tollkeeper channel test {word(view.name)}")


@channel.command(
    "edit",
    examples=[
        "tollkeeper channel edit openai --priority 10 --map fast=gpt-4o-mini",
        "tollkeeper channel edit openai --add-group friends",
        "tollkeeper channel edit proxy --dialect anthropic --base-url https://models.example.com",
    ],
)
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@dialect_option("Another wire format; if it is at another address, give --base-url too.")
@channel_options()
@group_options
@json_option
def edit_channel(
    ref: str,
    dialect: str | None,
    *,
    add_groups: tuple[str, ...],
    remove_groups: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Change a channel. Only the given options change."""

    async def work(client: ControlClient) -> tuple[SavedChannel, str, list[str]]:
        view = await client.channel(ref)
        patch = options.given_values(dialect=dialect) | channel_patch(given, view)
        patch |= changed_groups(view.groups, add_groups, remove_groups, whole="groups" in patch)
        saved = await client.edit_channel(view.id, options.something(patch))
        prices = formatting.price_notes(saved.of_changed(view))
        done = options.saved_text(patch, view, saved)
        lost = {model.name for model in view.models} - {model.name for model in saved.models}
        poorer = set(view.groups) - (set() if lost else set(saved.groups))
        return saved, done, [*await formatting.groups_without_models(client, poorer), *prices]

    view, done, notes = run(work)
    _print_saved(view, done, as_json=as_json)
    for line in notes:
        words(line)


@channel.command("rename", examples=["tollkeeper channel rename openai openai-work"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@click.argument("new", metavar="NEW")
@json_option
def rename_channel(ref: str, new: str, *, as_json: bool) -> None:
    """Give a channel another name."""
    view = run(lambda client: client.edit_channel(ref, {"name": new}))
    if as_json:
        out_json(view)
    words(f"Channel '{plain(ref)}' renamed to '{view.name}'.")


@channel.command("enable", examples=["tollkeeper channel enable openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def enable_channel(ref: str, *, as_json: bool) -> None:
    """Use a channel again, and resume it if it was paused."""

    async def work(client: ControlClient) -> ChannelView:
        await client.edit_channel(ref, {"enabled": True})
        await client.clear_channel(ref)
        return await client.channel(ref)

    _print_saved(run(work), "enabled", as_json=as_json)


@channel.command("disable", examples=["tollkeeper channel disable openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def disable_channel(ref: str, *, as_json: bool) -> None:
    """Stop using a channel until it is enabled again. Running calls continue."""

    async def work(client: ControlClient) -> tuple[ChannelView, list[str]]:
        view = await client.edit_channel(ref, {"enabled": False})
        return view, await formatting.groups_without_models(client, set(view.groups))

    view, notes = run(work)
    _print_saved(view, "disabled", as_json=as_json)
    for line in notes:
        words(line)


@channel.command("resume", examples=["tollkeeper channel resume openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def resume_channel(ref: str, *, as_json: bool) -> None:
    """Use a paused channel and its keys again at once."""
    view = run(lambda client: client.clear_channel(ref))
    _print_saved(view, "resumed", as_json=as_json)
    if not view.enabled:
        words(f"note: it is disabled; use it again: tollkeeper channel enable {word(view.name)}")


channel.add_command(former_name(resume_channel), "clear")


@channel.command("remove", examples=["tollkeeper channel remove openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@yes_option
def remove_channel(ref: str, *, yes: bool) -> None:
    """Remove a channel and its key. Its calls stay in the log."""
    view = run(lambda client: client.channel(ref))
    confirm(f"Remove channel '{view.name}' and its key? Its calls stay in the log.", yes=yes)

    async def work(client: ControlClient) -> list[str]:
        await client.remove_channel(view.id)
        return await formatting.groups_without_models(client, set(view.groups))

    notes = run(work)
    words(f"Channel '{view.name}' removed.")
    for line in notes:
        words(line)


def _print_saved(view: ChannelView, done: str, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
    state = formatting.channel_state(view)
    words(f"Channel '{view.name}' {done}; it {state if state.startswith('needs') else f'is {state}'}.")
    warn_of_unset(view)
    if view.list_error:
        words(f"note: its list of models could not be refreshed: {view.list_error}")


def _print(view: ChannelView) -> None:
    check = view.last_check
    models = [f"{m.name} (upstream name: {m.upstream})" if m.upstream else m.name for m in view.models]
    key = ("keys", keys_text(view.keys)) if len(view.keys) > 1 else ("key", view.key or "none")
    out_pairs(
        [
            ("name", view.name),
            ("id", view.id),
            ("state", f"{formatting.channel_state(view)} {reason_text(view.reason)}".rstrip()),
            ("dialect", view.dialect.value),
            key,
            ("not set", ", ".join(view.missing_variables)),
            ("models", ", ".join(models) or "none"),
            ("patterns", ", ".join(view.patterns)),
            ("listed", f"{formatting.moment(view.listed_ms)} {view.list_error}".strip()),
            *details(CHANNEL, view, "name", *([] if view.dialect is Dialect.ANTHROPIC else ["cache_marks"])),
            ("in flight", f"{view.in_flight}, {view.waiting} waiting" if view.waiting else str(view.in_flight)),
            ("calls, errors", f"{view.calls}, {view.errors}"),
            ("spent", dollars(view.spent_nanos)),
            ("possible", dollars(view.possible_nanos) if view.possible_nanos else ""),
            ("created", formatting.moment(view.created_ms)),
            (
                "last test",
                f"{'ok' if check.ok else 'failed'} {formatting.moment(check.time)} {check.text}" if check else "",
            ),
        ]
    )
