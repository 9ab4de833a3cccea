"""``channel``: adds, edits and shows the upstream accounts that answer calls."""

from collections.abc import Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.channel_fields import (
    channel_options,
    channel_patch,
    warn_about_unset_variables,
    with_secrets,
)
from gateway.commands.channel_key import REVIVAL, key, keys_text
from gateway.commands.channel_probe import models, presets, test
from gateway.commands.completion import CHANNELS
from gateway.commands.editing import add_rename, change_together, find_each, named_text, names_argument
from gateway.commands.options import confirm, yes_option
from gateway.commands.output import ListColumn, notify, out_change, out_list, out_view
from gateway.commands.session import Work, run
from gateway.domain.channel import ChannelFields, Dialect
from gateway.domain.errors import BadRequest
from gateway.domain.fields import CHANNEL, details
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import count_text
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.quoting import offering_of, offering_words
from gateway.domain.text import plain, word
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.urls import base_url_warning
from gateway.domain.views import ChannelView

COLUMNS = [
    ListColumn("Name", lambda c: c.name, "name"),
    ListColumn("State", formatting.channel_state, "state"),
    ListColumn("Dialect", lambda c: c.dialect, drop=4),
    ListColumn("Base URL", lambda c: c.base_url, drop=3),
    ListColumn("Groups", lambda c: formatting.brief_names(c.groups), drop=5),
    ListColumn("Models", lambda c: str(len(c.models)), "number", drop=7),
    ListColumn("Priority", lambda c: str(c.priority), "number", drop=2),
    ListColumn("Weight", lambda c: str(c.weight), "number", drop=1),
    ListColumn("Calls", lambda c: f"{c.calls:,}", "number"),
    ListColumn("Errors", lambda c: f"{c.errors:,}", "number"),
    ListColumn("Spent", lambda c: brief_dollars(c.spent_nanos), "number", drop=6),
    ListColumn("Reason", lambda c: plain(c.reason or c.missing_text(options.now()) or _untested_text(c), 60)),
]


@click.group(cls=Noun, bare="list")
def channel() -> None:
    """The upstream accounts that answer calls."""


channel.add_command(test)
channel.add_command(models)
channel.add_command(presets)
channel.add_command(key)


@channel.command("list", examples=["tollkeeper channel list"])
def list_channels() -> None:
    """List all channels with their state.

    'Errors' counts the calls that failed at the channel. It does not count failures after which another channel
    answered; 'tollkeeper incident list' shows those too.
    """
    channels = run(lambda client: client.channels())
    out_list(channels, COLUMNS, empty="no channels yet; see: tollkeeper channel add --help")


@channel.command("show", examples=["tollkeeper channel show openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
def show_channel(ref: str) -> None:
    """Show one channel. Keys are masked."""
    view = run(lambda client: client.channel(ref))
    out_view(view, _pairs(view))


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
@channel_options("name", "add_group", "remove_group")
def add_channel(name: str, **values: Any) -> None:
    """Create a channel.

    A preset sets the dialect and the base URL. Without --models, the channel offers all models that its upstream lists.
    Models without a price get the vendor's list price, unless --no-prices is given.
    """
    if not values["preset"]:
        values["dialect"] = values["dialect"] or Dialect.OPENAI
        if values["dialect"] == Dialect.OPENAI and not values["base_url"]:
            raise click.UsageError("--preset or --base-url is required; 'tollkeeper channel presets' lists the presets")
    body = {"name": name} | channel_patch(with_secrets(values), ChannelFields(name=name))

    async def work(client: ControlClient) -> tuple[SavedChannel, list[str]]:
        if values["maps"] and not values["models"]:
            saved, no_list_note = await _add_with_all_models(client, body)
        else:
            saved, no_list_note = await client.add_channel(body), ""
        return saved, [no_list_note, await _keyless_note(client, saved)]

    view, notes = run(work, create=True)
    warning = base_url_warning(view.base_url) if view.base_url else ""
    out_change(view, f"note: {warning}" if warning else "")
    warn_about_unset_variables(view)
    models_text = f"{count_text(len(view.models), 'model')} for {', '.join(view.groups) or 'no group'}"
    notify(f"Channel '{view.name}' created: {models_text}.")
    notify(*notes, *formatting.price_notes(view))
    notify(f"Try it: tollkeeper channel test {word(view.name)}")


async def _add_with_all_models(client: ControlClient, body: options.Patch) -> tuple[SavedChannel, str]:
    """Add a channel with all listed models and the mapped ones. Returns it, and a note if the upstream lists none."""
    try:
        return await client.add_channel({**body, "patterns": ["*"]}), ""
    except BadRequest as error:
        if error.code != "no_model_list":
            raise
    saved = await client.add_channel(body)
    mapped = ",".join(offering_words(offering_of(saved)))
    command = f"tollkeeper channel edit {word(saved.name)} --models {word(f'{mapped},MODEL')}"
    return saved, f"note: the upstream lists no models, so only the names in --map are offered; add others: {command}"


async def _keyless_note(client: ControlClient, view: SavedChannel) -> str:
    """Returns a note if the channel has no key but its vendor requires one; else an empty text."""
    if view.key or not view.preset:
        return ""
    variable = next((preset.key_variable for preset in await client.presets() if preset.name == view.preset), "")
    command = f"tollkeeper channel edit {word(view.name)} --key env:{variable}"
    return f"note: the channel has no key, but {plain(view.preset)} requires one: {command}" if variable else ""


@channel.command(
    "edit",
    examples=[
        "tollkeeper channel edit openai --priority 10 --map fast=gpt-4o-mini",
        "tollkeeper channel edit openai claude --add-group friends",
        "tollkeeper channel edit proxy --dialect anthropic --base-url https://models.example.com",
    ],
)
@names_argument(CHANNELS)
@channel_options()
@yes_option(text=REVIVAL)
def edit_channel(refs: tuple[str, ...], **values: Any) -> None:
    """Change a channel, or several in one step. Only the given options change.

    With --json, several channels are printed as an array.
    """
    resolved = with_secrets(values)

    async def work(client: ControlClient) -> tuple[list[ChannelView], list[str]]:
        before = await find_each(client.channel, refs)
        patches = {view.id: options.require_changes(channel_patch(resolved, view)) for view in before}
        if len(before) > 1:
            message = await change_together(client, "channels", patches)
            after = await find_each(client.channel, patches)
            offered = {model.name for view in after if view.dialect is not Dialect.MOCK for model in view.models}
            notes = [*await _edit_notes(client, before, after), *await _unpriced_notes(client, before, offered)]
            return after, [message, *notes]
        (view,) = before
        saved = await client.edit_channel(view.id, patches[view.id])
        result = f"is as before: {NOTHING_CHANGED}" if saved.unchanged else "saved"
        notes = [*await _edit_notes(client, before, [saved]), *formatting.price_notes(saved)]
        return [saved], [_state_text(saved, result), *notes]

    _run_and_print(work)


def _run_and_print(work: Work[tuple[list[ChannelView], list[str]]]) -> None:
    """Run ``work``, then print its messages and, with ``--json``, the changed channels, several of them as an array."""
    views, lines = run(work)
    out_change(views if len(views) > 1 else views[0], *lines)
    for view in views:
        warn_about_unset_variables(view)
        if view.list_error:
            notify(f"note: the model list of channel '{view.name}' could not be refreshed: {view.list_error}")


async def _edit_notes(client: ControlClient, before: Sequence[ChannelView], after: Sequence[ChannelView]) -> list[str]:
    groups = set[str]()
    for view, saved in zip(before, after, strict=True):
        lost_models = {model.name for model in view.models} - {model.name for model in saved.models}
        groups |= set(view.groups) if lost_models else set(view.groups) - set(saved.groups)
    return await formatting.groups_without_models(client, groups)


async def _unpriced_notes(client: ControlClient, before: Sequence[ChannelView], names: set[str]) -> list[str]:
    """Returns notes about the models with these names that have no price and were offered by no channel before."""
    new = names.difference(model.name for view in before for model in view.models)
    if not new:
        return []
    unpriced = [model.name for model in await client.models() if model.name in new and model.price is None]
    return [*formatting.unpriced_notes(unpriced, refused=(await client.settings()).refuse_unpriced)]


add_rename(channel, CHANNELS, "openai openai-work", "Give a channel another name.")


@channel.command("enable", examples=["tollkeeper channel enable openai"])
@names_argument(CHANNELS)
def enable_channel(refs: tuple[str, ...]) -> None:
    """Enable one or more channels, and resume those that are paused."""
    _set_enabled(refs, enabled=True)


@channel.command("disable", examples=["tollkeeper channel disable openai"])
@names_argument(CHANNELS)
def disable_channel(refs: tuple[str, ...]) -> None:
    """Stop using one or more channels until they are enabled again. Running calls go on."""
    _set_enabled(refs, enabled=False)


def _set_enabled(refs: tuple[str, ...], *, enabled: bool) -> None:
    """Enable or disable channels. Enabling also resumes paused ones."""

    async def work(client: ControlClient) -> tuple[list[ChannelView], list[str]]:
        before = await find_each(client.channel, refs)
        await change_together(client, "channels", {view.id: {"enabled": enabled} for view in before})
        message = f"{'Enabled' if enabled else 'Disabled'} {named_text('channel', before)}."
        for view in before if enabled else ():
            await client.clear_channel(view.id)
        groups = set() if enabled else {group for view in before for group in view.groups}
        views = await find_each(client.channel, [view.id for view in before])
        return views, [message, *await formatting.groups_without_models(client, groups)]

    _run_and_print(work)


@channel.command("resume", examples=["tollkeeper channel resume openai"])
@names_argument(CHANNELS)
def resume_channel(refs: tuple[str, ...]) -> None:
    """Use one or more paused channels, and their paused keys, again at once."""

    async def work(client: ControlClient) -> tuple[list[ChannelView], list[str]]:
        views = [await client.clear_channel(view.id) for view in await find_each(client.channel, refs)]
        off_names = [view.name for view in views if not view.enabled]
        advice = "is disabled; enable it: tollkeeper channel enable"
        notes = [f"note: channel '{name}' {advice} {word(name)}" for name in off_names]
        return views, [*(_state_text(view, "resumed") for view in views), *notes]

    _run_and_print(work)


@channel.command("remove", json_help="", examples=["tollkeeper channel remove openai"])
@names_argument(CHANNELS)
@yes_option()
def remove_channel(refs: tuple[str, ...]) -> None:
    """Remove a channel and its keys, or several in one step. Their calls stay in the log."""
    views = run(lambda client: find_each(client.channel, refs))
    confirm(f"Remove {named_text('channel', views)}? Keys are removed too; calls stay in the log.")

    async def work(client: ControlClient) -> list[str]:
        message = await change_together(client, "channels", {view.id: None for view in views})
        groups = {group for view in views for group in view.groups}
        return [message, *await formatting.groups_without_models(client, groups)]

    notify(*run(work))


def _untested_text(view: ChannelView) -> str:
    return "nothing has succeeded here yet" if view.shown_state == "untested" else ""


def _state_text(view: ChannelView, result: str) -> str:
    """Returns ``Channel 'openai' saved; it is ok.``."""
    state = formatting.channel_state(view)
    return f"Channel '{view.name}' {result}; it {state if state.startswith('needs') else f'is {state}'}."


def _pairs(view: ChannelView) -> list[tuple[str, str]]:
    check = view.last_check
    models = [f"{m.name} (upstream name: {m.upstream})" if m.upstream else m.name for m in view.models]
    key = ("keys", keys_text(view.keys)) if len(view.keys) > 1 else ("key", view.key or "none")
    return [
        ("name", view.name),
        ("id", view.id),
        ("state", ": ".join(filter(None, [formatting.channel_state(view), view.reason or _untested_text(view)]))),
        ("missing", view.missing_text(options.now())),
        ("dialect", view.dialect.value),
        key,
        ("not set", ", ".join(view.missing_variables)),
        ("models", ", ".join(models) or "none"),
        ("patterns", ", ".join(view.patterns)),
        ("listed", f"{formatting.moment(view.listed_ms)} {view.list_error}".strip()),
        *details(CHANNEL, view, "name", *([] if view.dialect is Dialect.ANTHROPIC else ["cache_marks"])),
        ("rejected", f"{', '.join(view.refused_params)}: left out for an hour" if view.refused_params else ""),
        ("in flight", f"{view.in_flight}, {view.waiting} waiting" if view.waiting else str(view.in_flight)),
        ("calls, errors", f"{view.calls}, {view.errors}"),
        ("spent", dollars(view.spent_nanos)),
        ("possible", f"{dollars(view.possible_nanos)} at the upstream, not charged" if view.possible_nanos else ""),
        ("created", formatting.moment(view.created_ms)),
        (
            "last test",
            f"{'ok' if check.ok else 'failed'} {formatting.moment(check.time)}: {check.text}" if check else "",
        ),
    ]
