"""``channel``: the upstream accounts that answer."""

from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.channel_fields import CurrentChannel, channel_options, fields_of, overrides_shown, patch_of
from gateway.commands.channel_key import in_words, key
from gateway.commands.channel_probe import models, presets, test
from gateway.commands.completion import CHANNELS
from gateway.commands.options import confirm, json_option, yes_option
from gateway.commands.output import out_json, out_list, out_pairs, words
from gateway.commands.session import run
from gateway.domain.channel import Dialect
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain, word
from gateway.domain.units import MILLION
from gateway.domain.urls import base_url_warning
from gateway.domain.views import ChannelView

COLUMNS = [
    ("Name", lambda c: c.name),
    ("State", lambda c: c.state),
    ("Dialect", lambda c: c.dialect),
    ("Base URL", lambda c: c.base_url),
    ("Groups", lambda c: formatting.some(c.groups)),
    (">Models", lambda c: str(len(c.models))),
    (">Priority", lambda c: str(c.priority)),
    (">Weight", lambda c: str(c.weight)),
    (">Calls", lambda c: str(c.calls)),
    (">Errors", lambda c: str(c.errors)),
    (">Spent", lambda c: brief_dollars(c.spent_nanos)),
    ("Reason", lambda c: plain(c.reason, 60)),
]


@click.group(cls=Noun)
def channel() -> None:
    """The upstream accounts that answer calls."""


channel.add_command(test)
channel.add_command(models)
channel.add_command(presets)
channel.add_command(key)


@channel.command("list", examples=["tollkeeper channel list"])
@json_option
def list_channels(*, as_json: bool) -> None:
    """List all channels with their state."""
    found = run(lambda client: client.channels())
    out_list(found, COLUMNS, as_json=as_json, empty="no channels yet; see: tollkeeper channel add --help")


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
        "tollkeeper channel add slow --dialect mock --models test --option latency=2000",
    ],
)
@click.argument("name")
@click.option(
    "--dialect",
    type=click.Choice([d.value for d in Dialect]),
    help="Its wire format (default: the preset's, else openai); mock answers by itself.",
)
@channel_options
@json_option
def add_channel(name: str, dialect: str | None, *, as_json: bool, **given: Any) -> None:
    """Add a channel. A preset knows dialect and address; without --models the upstream is asked which it has."""
    if not given["preset"]:
        dialect = dialect or Dialect.OPENAI.value
        if dialect == Dialect.OPENAI and not given["base_url"]:
            raise click.UsageError(
                "--preset or --base-url is needed; 'tollkeeper channel presets' lists what is known",
                click.get_current_context(),
            )
    body = {"name": name} | options.given(dialect=dialect)
    body |= patch_of(fields_of(given), CurrentChannel())
    view = run(lambda client: client.add_channel(body))
    if as_json:
        out_json(view)
    if warning := base_url_warning(view.base_url) if view.base_url else "":
        words(f"note: {warning}")
    offer = f"{formatting.count(len(view.models), 'model')} for {', '.join(view.groups) or 'no group'}"
    words(f"channel '{view.name}' was made: {offer}")
    words(f"try it: tollkeeper channel test {word(view.name)}")


@channel.command("edit", examples=["tollkeeper channel edit openai --priority 10 --map fast=gpt-4o-mini"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@click.option("--rename", metavar="NAME", help="The new name.")
@channel_options
@json_option
def edit_channel(ref: str, rename: str | None, *, as_json: bool, **given: Any) -> None:
    """Change a channel; only what is named changes."""

    async def work(client: ControlClient) -> ChannelView:
        view = await client.channel(ref)
        patch = patch_of(fields_of(given), CurrentChannel.of(view))
        return await client.edit_channel(view.id, options.something(patch | options.given(name=rename)))

    _changed(run(work), as_json=as_json)


@channel.command("enable", examples=["tollkeeper channel enable openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def enable_channel(ref: str, *, as_json: bool) -> None:
    """Use a channel again, and forget its failures."""

    async def work(client: ControlClient) -> ChannelView:
        await client.edit_channel(ref, {"enabled": True})
        await client.clear_channel(ref)
        return await client.channel(ref)

    _changed(run(work), as_json=as_json)


@channel.command("disable", examples=["tollkeeper channel disable openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def disable_channel(ref: str, *, as_json: bool) -> None:
    """Ask a channel no more until it is enabled; running calls end as they will."""
    _changed(run(lambda client: client.edit_channel(ref, {"enabled": False})), as_json=as_json)


@channel.command("clear", examples=["tollkeeper channel clear openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@json_option
def clear_channel(ref: str, *, as_json: bool) -> None:
    """Forget what is held against a channel and its keys: it is asked again at once."""
    _changed(run(lambda client: client.clear_channel(ref)), as_json=as_json)


@channel.command("remove", examples=["tollkeeper channel remove openai"])
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@yes_option
def remove_channel(ref: str, *, yes: bool) -> None:
    """Remove a channel and its key. Its calls stay in the log."""
    confirm(f"Remove channel '{ref}' and its key? Its calls stay in the log.", yes=yes)
    run(lambda client: client.remove_channel(ref))
    words(f"channel '{ref}' was removed")


def _changed(view: ChannelView, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
    words(f"channel '{view.name}' was changed (it is {view.state})")
    if view.list_error:
        words(f"note: the list of its models could not be had anew: {view.list_error}")


def _print(view: ChannelView) -> None:
    check = view.last_check
    models = [f"{m.name} (there: {m.upstream})" if m.upstream else m.name for m in view.models]
    timeouts = [f"{name} {getattr(view.timeouts, name):g}s" for name in view.timeouts.__struct_fields__]
    out_pairs(
        [
            ("name", view.name),
            ("id", view.id),
            ("state", f"{view.state} {view.reason} {formatting.moment(view.until_ms)}".rstrip()),
            ("dialect", f"{view.dialect} {view.preset}".rstrip()),
            ("base URL", view.base_url),
            (
                "keys" if len(view.keys) > 1 else "key",
                in_words(view.keys) if len(view.keys) > 1 else view.key or "none",
            ),
            ("models", ", ".join(models) or "none"),
            ("patterns", ", ".join(view.patterns)),
            ("listed", f"{formatting.moment(view.listed_ms)} {view.list_error}".strip()),
            ("groups", ", ".join(view.groups) or "none"),
            ("priority, weight", f"{view.priority}, {view.weight}"),
            ("cost", f"{formatting.multiplier(view.cost_factor)} the price" if view.cost_factor != MILLION else ""),
            ("limits", formatting.limits(view.limits)),
            ("deadlines", ", ".join(timeouts)),
            ("headers", ", ".join(f"{name}: {value}" for name, value in view.headers.items())),
            *overrides_shown(view.overrides),
            ("proxy", view.proxy),
            ("knobs", ", ".join(f"{name}={value}" for name, value in view.options.items())),
            ("output limit", view.token_limit_field or ""),
            ("parameters", "never dropped" if view.strict else "dropped when it refuses them"),
            ("abandoned", "plain calls are finished" if view.finish_abandoned else "plain calls are cancelled"),
            ("in flight", f"{view.in_flight}, {view.waiting} waiting" if view.waiting else str(view.in_flight)),
            ("calls, errors", f"{view.calls}, {view.errors}"),
            ("spent", dollars(view.spent_nanos)),
            ("possible", dollars(view.possible_nanos) if view.possible_nanos else ""),
            ("created", formatting.moment(view.created_ms)),
            (
                "last test",
                f"{'ok' if check.ok else 'failed'} {formatting.moment(check.time)} {check.text}" if check else "",
            ),
            ("note", view.note),
        ]
    )
