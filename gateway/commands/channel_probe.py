"""Channel probe: ``channel presets``, and what contacts an upstream: ``test`` and ``models``."""

from collections.abc import Sequence

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands.base import Command
from gateway.commands.completion import CHANNELS, MODELS
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.formatting import moment, price_notes, unpriced_notes
from gateway.commands.options import Patch, json_option, now
from gateway.commands.output import ListColumn, cells, fit, out, out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.channel import Check, ServedModel
from gateway.domain.human_values import brief_context, brief_span, count_text, first_of
from gateway.domain.money import dollars
from gateway.domain.patterns import NOT, matches
from gateway.domain.text import plain, word
from gateway.domain.units import Millis, Nanos
from gateway.domain.upstream_views import ListedModel, ListingView, SavedChannel
from gateway.domain.views import ChannelView


class UpstreamModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the upstream's own list."""

    name: str
    context: int | None
    """The context used here: as the upstream lists it, else from the price list."""
    context_source: str
    """``upstream``, or the name of the price list; empty: unknown."""
    served: bool
    """Whether the channel offers it to clients."""
    state: str
    """``new``, ``gone``, ``offered`` or ``kept_out``."""
    public: str
    more_names: list[str]
    """Further public names."""
    input_nanos: Nanos | None
    """Its price there for a million tokens, if the upstream publishes it."""
    output_nanos: Nanos | None
    listed_ms: Millis | None
    stale: bool
    until_ms: Millis | None = None
    """Until when it is not requested, because the upstream said that it lacks it."""

    @property
    def offered(self) -> str:
        """Returns the names under which it is offered; ``yes`` for its own."""
        return ", ".join(
            ["yes" if self.public == self.name else self.public, *self.more_names] if self.served else ["no"]
        )

    @property
    def state_text(self) -> str:
        """Returns its state, and until when it is not requested."""
        return self.state.replace("_", " ") + (f", paused until {moment(self.until_ms)}" if self.until_ms else "")


COLUMNS = [
    ListColumn("Model", lambda m: m.name, "name", least=16),
    ListColumn("Offered", lambda m: m.offered),
    ListColumn("State", lambda m: m.state_text, "state"),
    ListColumn("Context", lambda m: brief_context(m.context, m.context_source), "number"),
    ListColumn(
        "Upstream price",
        lambda m: "" if m.input_nanos is None else f"{dollars(m.input_nanos)} / {dollars(m.output_nanos or 0)}",
    ),
]


PRESET_COLUMNS = [
    ListColumn("Preset", lambda p: p.name),
    ListColumn("Dialect", lambda p: p.dialect),
    ListColumn("Base URL", lambda p: p.base_url or "your own: give --base-url"),
    ListColumn(
        "Key", lambda p: f"env:{p.key_variable}" if p.key_variable else "none needed" if p.local else "", "whole"
    ),
]


@click.command(cls=Command, examples=["tollkeeper channel presets"])
@json_option
def presets(*, as_json: bool) -> None:
    """List the known vendors and local servers: dialect, base URL, and the usual variable of the key."""
    out_list(run(lambda client: client.presets()), PRESET_COLUMNS, as_json=as_json, empty="no presets")


@click.command(cls=Command, examples=["tollkeeper channel test", "tollkeeper channel test openai --model gpt-4o-mini"])
@click.argument("ref", metavar="[NAME]", required=False, shell_complete=CHANNELS)
@click.option(
    "--model",
    default="",
    shell_complete=MODELS,
    help="Also make one tiny real call to this model. It goes to the upstream directly, which bills it; 'usage' and "
    "budgets do not count it.",
)
@json_option
def test(ref: str | None, model: str, *, as_json: bool) -> None:
    """Check that a channel can be reached and accepts its key. Free unless --model is given.

    Without NAME all enabled channels are checked.
    """
    if ref is None:
        if model:
            raise click.UsageError("--model needs the NAME of a channel", click.get_current_context())
        _test_all(as_json=as_json)
        return
    check = run(lambda client: client.test_channel(ref, model))
    if as_json:
        out_json(check)
    else:
        out(_check_text(check))
    if not check.ok:
        reason = f": {check.text}" if as_json else ""  # otherwise the line above says it
        raise Quit(f"channel '{ref}' failed its test{reason}", Exit.UPSTREAM)
    if check.failed_keys:
        raise Quit(f"channel '{ref}' works, but not with all of its keys", Exit.UPSTREAM)


def _check_text(check: Check) -> str:
    text = f": {plain(check.text)}" if check.text else ""
    return f"{'ok' if check.ok else 'failed'} after {brief_span(check.ms)}{text}"


def _test_all(*, as_json: bool) -> None:
    """Prints a line for each channel as its answer comes; JSON is an object by name."""
    checks: dict[str, Check] = {}

    async def work(client: ControlClient) -> None:
        names = [channel.name for channel in await client.channels() if channel.enabled]
        width = max(map(cells, names), default=0)
        for name in names:
            checks[name] = await client.test_channel(name, "")
            if not as_json:
                out(f"{fit(plain(name), width)}  {_check_text(checks[name])}")

    run(work)
    if as_json:
        out_json(checks)
    failed = [name for name, check in checks.items() if not check.ok or check.failed_keys]
    if failed:
        raise Quit(f"{count_text(len(failed), 'channel')} failed the test: {', '.join(failed)}", Exit.UPSTREAM)


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
@click.option("--refresh", is_flag=True, help="Fetch the list now, even if the last one is recent.")
@click.option("--add", is_flag=True, help="Add the listed models to the offered ones.")
@click.option("--set", "replace", is_flag=True, help="Offer exactly the listed models.")
@click.option("--remove", is_flag=True, help="Stop offering the models that match PATTERNS.")
@json_option
def models(
    ref: str, patterns: tuple[str, ...], *, refresh: bool, add: bool, replace: bool, remove: bool, as_json: bool
) -> None:
    """List the models of a channel's upstream, and say which are new, gone or excluded. PATTERNS narrow the list."""
    wish = _wish(patterns, add=add, set=replace, remove=remove)

    async def work(client: ControlClient) -> tuple[ListingView, list[ListedModel], ChannelView]:
        listing = await _listing(client, ref, refresh=refresh)
        chosen = [model for model in listing.models if matches(model.name, patterns)]
        view = await client.channel(ref)
        if wish in ("add", "set"):
            _demand_some(ref, listing, chosen, patterns)
            view = await client.edit_channel(view.id, _patch(view, chosen, replace=replace))
        elif wish:
            view = await client.edit_channel(view.id, patch_without(view, patterns))
        return listing, chosen, view

    listing, chosen, view = run(work)
    rows = _rows(listing, chosen, view, changed=bool(wish))
    if rows or as_json or wish != "remove":  # a name of one's own is not in the list
        out_list(rows, COLUMNS, as_json=as_json, empty=f"channel '{ref}' lists no matching models")
    if listing.unnamed:
        left_out = count_text(listing.unnamed, "model")
        words(f"note: {left_out} left out: without a name, or with one that is too long or has control characters")
    if listing.stale:
        age = brief_span(max(0, now() - (listing.time_ms or 0)))
        words(f"note: this list is {age} old ({moment(listing.time_ms)}); {listing.error or 'use --refresh'}")
    unpriced = [m.public for m in rows if m.state == "new" and m.served and m.public in listing.unpriced]
    refused = bool(unpriced) and run(lambda client: client.settings()).refuse_unpriced
    for line in price_notes(view) if isinstance(view, SavedChannel) else unpriced_notes(unpriced, refused=refused):
        words(line)
    if wish:
        words(f"channel '{view.name}' now offers {count_text(len(view.models), 'model')}")
    if refresh and listing.error:
        raise Quit(f"channel '{ref}': the list could not be refreshed; the last good one stays in use", Exit.UPSTREAM)


def _wish(patterns: Sequence[str], **options: bool) -> str:
    """Returns the one option that is given; empty if there is none. Raises UsageError."""
    given = [name for name, on in options.items() if on]
    if len(given) > 1:
        raise click.UsageError("--add, --set and --remove exclude each other", click.get_current_context())
    if given == ["remove"] and not patterns:
        raise click.UsageError("--remove needs the models to remove: NAME PATTERNS", click.get_current_context())
    return "".join(given)


def _rows(listing: ListingView, chosen: list[ListedModel], view: ChannelView, *, changed: bool) -> list[UpstreamModel]:
    now_served: dict[str, list[str]] = {}
    for model in sorted(view.models, key=lambda model: model.name != model.upstream_name):
        now_served.setdefault(model.upstream_name, []).append(model.name)
    return [
        UpstreamModel(
            name=m.name,
            context=m.known_context or m.context,
            context_source=m.context_source,
            served=m.name in now_served,
            state=_state(m, changed=changed, served=m.name in now_served),
            public=next(iter(now_served.get(m.name, [])), ""),
            more_names=now_served.get(m.name, [])[1:],
            input_nanos=m.told.input if m.told else None,
            output_nanos=m.told.output if m.told else None,
            listed_ms=listing.time_ms,
            stale=listing.stale,
            until_ms=next((until for n in now_served.get(m.name, []) if (until := view.missing_models.get(n))), None),
        )
        for m in chosen
    ]


def _state(model: ListedModel, *, changed: bool, served: bool) -> str:
    """Returns the state after the change, if there was one."""
    if not changed or model.state == "gone":
        return model.state
    return "offered" if served else "kept_out" if model.served else model.state


def patch_without(view: ChannelView, patterns: tuple[str, ...]) -> Patch:
    """Returns the patch that removes models from a channel, by their names here or upstream. Raises Quit if none match,
    or none would be left.

    What the channel's own patterns select is excluded by a pattern.
    """
    removed = [
        model for model in view.models if matches(model.name, patterns) or matches(model.upstream_name, patterns)
    ]
    chosen, names = " ".join(map(word, patterns)), {model.name for model in removed}
    if not removed:
        offered = first_of([plain(model.name) for model in view.models], 12)
        text = f"channel '{view.name}' offers no model that matches {chosen}; it offers {offered}; nothing was changed"
        raise Quit(text, Exit.NOT_FOUND)
    if len(removed) == len(view.models):
        disable = f"to offer none: tollkeeper channel disable {word(view.name)}"
        raise Quit(f"channel '{view.name}' offers nothing else; nothing was changed; {disable}", Exit.USAGE)
    kept = [model for model in view.models if model.name not in names and not model.live]
    left = {model.upstream_name for model in view.models if model.name not in names}
    out = sorted({model.upstream_name for model in removed} - left) if view.patterns else []
    excluded = [f"{NOT}{name}" for name in out if matches(name, view.patterns)]
    fixed: Patch = {"patterns": [*view.patterns, *excluded]} if excluded else {}
    return {"models": msgspec.to_builtins(kept)} | fixed


def _demand_some(ref: str, listing: ListingView, listed: list[ListedModel], patterns: tuple[str, ...]) -> None:
    """Raises Quit if there is nothing to add or set: a mistyped pattern must not remove all models of a channel."""
    if any(model.state != "gone" for model in listed):
        return
    if listing.error:
        raise Quit(f"channel '{ref}': {plain(listing.error)}; nothing was changed", Exit.UPSTREAM)
    chosen = f"model that matches {' '.join(map(word, patterns))}" if patterns else "models"
    raise Quit(f"the upstream of channel '{ref}' lists no {chosen}; nothing was changed", Exit.NOT_FOUND)


async def _listing(client: ControlClient, ref: str, *, refresh: bool) -> ListingView:
    """Returns the last list while it is fresh, else a new one."""
    listing = await client.channel_listing(ref)
    # after an hour it is fetched again
    if refresh or listing.stale or not listing.models or (listing.time_ms or 0) < now() - 3_600_000:
        return await client.refresh_channel(ref)
    return listing


def _patch(view: ChannelView, chosen: list[ListedModel], *, replace: bool) -> Patch:
    """Returns the patch that adds models, or replaces all by them; a model that is offered already keeps all of its
    names. ``--set`` makes a fixed list, even if patterns selected before.
    """
    listed = {m.name: m for m in chosen if m.state != "gone"}
    kept = [model for model in view.models if not replace or model.upstream_name in listed]
    there = {model.upstream_name for model in kept}
    new = [
        ServedModel(name=m.name, context=m.context, max_output=m.max_output, told=m.told)
        for m in listed.values()
        if m.name not in there
    ]
    fixed: Patch = {"patterns": []} if replace and view.patterns else {}
    return {"models": msgspec.to_builtins([*kept, *new])} | fixed
