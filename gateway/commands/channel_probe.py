"""Channel probe: the commands ``channel test`` and ``channel models``, which contact an upstream, and ``presets``."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich.cells import cell_len

from gateway.client.control import ControlClient
from gateway.commands.base import Command
from gateway.commands.completion import CHANNELS, MODELS
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.formatting import moment, price_notes, unpriced_notes
from gateway.commands.options import now
from gateway.commands.output import ListColumn, notify, out, out_json, out_list, pad, wants_json
from gateway.commands.session import run
from gateway.domain.channel import Check
from gateway.domain.human_values import brief_context, brief_span, count_text, first_of, state_word
from gateway.domain.money import dollars
from gateway.domain.patterns import matches
from gateway.domain.quoting import Offering, change_offering
from gateway.domain.text import plain, word
from gateway.domain.upstream_views import ListedModel, ListingView, PresetView, SavedChannel
from gateway.domain.views import ChannelView

COLUMNS = [
    ListColumn("Model", lambda m: m["name"], "name", min_width=16),
    ListColumn(
        "Offered",
        lambda m: ", ".join(["yes" if m["public"] == m["name"] else m["public"], *m["more_names"]]) or "no",
    ),
    ListColumn(
        "State",
        lambda m: state_word(m["state"]) + (f", paused until {moment(m['until_ms'])}" if m["until_ms"] else ""),
        "state",
    ),
    ListColumn("Context", lambda m: brief_context(m["context"], m["context_source"]), "number"),
    ListColumn(
        "Upstream price",
        lambda m: (
            "" if m["input_nanos"] is None else f"{dollars(m['input_nanos'])} / {dollars(m['output_nanos'] or 0)}"
        ),
    ),
]


def _preset_key(preset: PresetView) -> str:
    if preset.key_variable:
        return f"env:{preset.key_variable}"
    return "none needed" if preset.local else ""


PRESET_COLUMNS = [
    ListColumn("Preset", lambda p: p.name),
    ListColumn("Dialect", lambda p: p.dialect),
    ListColumn("Base URL", lambda p: p.base_url or "yours, set with --base-url"),
    ListColumn("Key", _preset_key, "whole"),
]


@click.command(cls=Command, examples=["tollkeeper channel presets"])
def presets() -> None:
    """List the known vendors and local servers, each with its dialect, base URL, and usual variable for the key."""
    out_list(run(lambda client: client.presets()), PRESET_COLUMNS, empty="no presets")


@click.command(cls=Command, examples=["tollkeeper channel test", "tollkeeper channel test openai --model gpt-4o-mini"])
@click.argument("ref", metavar="[NAME]", required=False, shell_complete=CHANNELS)
@click.option(
    "--model",
    default="",
    shell_complete=MODELS,
    help="Also make a tiny real call to this model. The upstream charges for it, but it does not appear in 'usage' and "
    "budgets.",
)
def test(ref: str | None, model: str) -> None:
    """Check that a channel's upstream can be reached and accepts the key. This is free of charge without --model.

    Without NAME, all enabled channels are checked.
    """
    if ref is None and model:
        raise click.UsageError("--model needs the NAME of a channel")
    checks: dict[str, Check] = {}

    async def work(client: ControlClient) -> None:
        names = [channel.name for channel in await client.channels() if channel.enabled] if ref is None else [ref]
        width = max(map(cell_len, names), default=0)
        for name in names:
            checks[name] = await client.test_channel(name, model)
            if not wants_json():
                start = "" if ref else f"{pad(plain(name), width)}  "
                out(start + _check_text(checks[name]))

    run(work)
    if wants_json():
        out_json(checks[ref] if ref else checks)
    if failures := [_failure(name, check) for name, check in checks.items() if not check.ok or check.failed_keys]:
        raise Quit("; ".join(failures), Exit.UPSTREAM)


def _check_text(check: Check) -> str:
    text = f": {plain(check.text)}" if check.text else ""
    return f"{'ok' if check.ok else 'failed'} after {brief_span(check.ms)}{text}"


def _failure(name: str, check: Check) -> str:
    if check.ok:
        return f"channel '{name}' works, but some of its keys do not"
    reason = f": {check.text}" if wants_json() else ""  # else the line above has it
    return f"channel '{name}' failed its test{reason}"


@click.command(
    cls=Command,
    examples=[
        "tollkeeper channel models openai --refresh",
        "tollkeeper channel models openai 'gpt-*' '!*-preview' --add",
        "tollkeeper channel models openai gpt-4.1 --remove",
    ],
)
@click.argument("ref", metavar="NAME", shell_complete=CHANNELS)
@click.argument("patterns", nargs=-1)
@click.option("--refresh", is_flag=True, help="Fetch the list now, even if it was fetched recently.")
@click.option("--add", is_flag=True, help="Also offer the models that match PATTERNS, or all listed ones.")
@click.option("--set", "replace", is_flag=True, help="Offer only the models that match PATTERNS, or all listed ones.")
@click.option("--remove", is_flag=True, help="Stop offering the models that match PATTERNS.")
def models(ref: str, patterns: tuple[str, ...], *, refresh: bool, add: bool, replace: bool, remove: bool) -> None:
    """List the models of a channel's upstream, and say which are new, gone or not offered. PATTERNS narrow the list."""
    action = _action(patterns, add=add, set=replace, remove=remove)

    async def work(client: ControlClient) -> tuple[ListingView, list[ListedModel], ChannelView]:
        listing = await client.channel_listing(ref)
        is_fresh = not listing.stale and listing.models and (listing.time_ms or 0) >= now() - 3_600_000
        if refresh or not (is_fresh or remove):  # a model can be removed while the upstream is down
            listing = await client.refresh_channel(ref)
        matching = [model for model in listing.models if matches(model.name, patterns)]
        view = await client.channel(ref)
        if action:
            offering = _new_offering(action, view, listing, matching, patterns)
            view = await client.edit_channel(view.id, offering.patch())
        return listing, matching, view

    listing, matching, view = run(work)
    rows = _rows(listing, matching, view, changed=bool(action))
    if rows or wants_json() or action != "remove":  # a removed model need not be in the list
        out_list(rows, COLUMNS, empty=f"channel '{ref}' lists no matching models")
    _print_notes(listing, rows, view)
    if action:
        notify(f"channel '{view.name}' now offers {count_text(len(view.models), 'model')}")
    if refresh and listing.error:
        raise Quit(f"channel '{ref}': the list could not be refreshed; the last good one stays in use", Exit.UPSTREAM)


def _new_offering(
    action: str, view: ChannelView, listing: ListingView, models: Sequence[ListedModel], patterns: tuple[str, ...]
) -> Offering:
    """Returns what the channel offers after an action. Models that it offers already keep their names."""
    if action == "remove":
        return change_offering(view, remove=_removed_names(view, patterns))
    names = [model.name for model in models if model.state != "gone"]
    if not names:
        raise _no_match_error(listing, patterns)
    if action == "add":
        return change_offering(view, add=names)
    kept = [msgspec.structs.replace(model, live=False) for model in view.models if model.upstream_name in names]
    return change_offering(msgspec.structs.replace(view, models=tuple(kept), patterns=()), add=names)


def _print_notes(listing: ListingView, rows: list[dict[str, Any]], view: ChannelView) -> None:
    if listing.unnamed:
        count = count_text(listing.unnamed, "model")
        notify(f"note: {count} left out, without a name or with one that is too long or has control characters")
    if listing.stale:
        age = brief_span(max(0, now() - (listing.time_ms or 0)))
        notify(f"note: this list is {age} old ({moment(listing.time_ms)}); {listing.error or 'use --refresh'}")
    if isinstance(view, SavedChannel):
        notes = price_notes(view)
    else:
        unpriced = [m["public"] for m in rows if m["state"] == "new" and m["public"] in listing.unpriced]
        notes = unpriced_notes(unpriced, refused=listing.refuses_unpriced)
    notify(*notes)


def _action(patterns: Sequence[str], **flags: bool) -> str:
    """Returns the flag that is set; empty if none is. Raises UsageError for several."""
    names = [name for name, is_set in flags.items() if is_set]
    if len(names) > 1:
        raise click.UsageError("--add, --set and --remove exclude each other")
    if names == ["remove"] and not patterns:
        raise click.UsageError("--remove needs the models to remove: NAME PATTERNS")
    return "".join(names)


def _rows(listing: ListingView, models: list[ListedModel], view: ChannelView, *, changed: bool) -> list[dict[str, Any]]:
    public_names: dict[str, list[str]] = {}
    for served in sorted(view.models, key=lambda model: model.name != model.upstream_name):
        public_names.setdefault(served.upstream_name, []).append(served.name)
    return [_row(model, public_names.get(model.name, []), listing, view, changed=changed) for model in models]


def _row(m: ListedModel, names: list[str], listing: ListingView, view: ChannelView, *, changed: bool) -> dict[str, Any]:
    """Returns what ``--json`` prints about a model: its public names, context length and published price, and so on."""
    return {
        "name": m.name,
        "context": m.known_context or m.context,
        "context_source": m.context_source,
        "served": bool(names),
        "state": _state(m, changed=changed, served=bool(names)),
        "public": names[0] if names else "",
        "more_names": names[1:],
        "input_nanos": m.published.input if m.published else None,
        "output_nanos": m.published.output if m.published else None,
        "listed_ms": listing.time_ms,
        "stale": listing.stale,
        "until_ms": next((until for name in names if (until := view.missing_models.get(name))), None),
    }


def _state(model: ListedModel, *, changed: bool, served: bool) -> str:
    if not changed or model.state == "gone":
        return model.state
    if served:
        return "offered"
    return "kept_out" if model.served else model.state


def _removed_names(view: ChannelView, patterns: tuple[str, ...]) -> set[str]:
    """Returns the public names of the models to remove, by their public or upstream names.

    Raises Quit if no model matches, or if the channel would be left without models.
    """
    names = {m.name for m in view.models if matches(m.name, patterns) or matches(m.upstream_name, patterns)}
    if not names:
        offered = first_of([plain(model.name) for model in view.models], 12)
        problem = f"channel '{view.name}' offers no model that matches {' '.join(map(word, patterns))}"
        raise Quit(f"{problem}; it offers {offered}; nothing was changed", Exit.NOT_FOUND)
    if len(names) == len(view.models):
        disable = f"to stop using it: tollkeeper channel disable {word(view.name)}"
        raise Quit(f"channel '{view.name}' offers no other models; nothing was changed; {disable}", Exit.USAGE)
    return names


def _no_match_error(listing: ListingView, patterns: tuple[str, ...]) -> Quit:
    """Returns the error that no listed model matches: a mistyped pattern must not remove all models of a channel."""
    if listing.error:
        return Quit(f"channel '{listing.channel}': {plain(listing.error)}; nothing was changed", Exit.UPSTREAM)
    missing = f"model that matches {' '.join(map(word, patterns))}" if patterns else "models"
    return Quit(f"the upstream of channel '{listing.channel}' lists no {missing}; nothing was changed", Exit.NOT_FOUND)
