"""Channel actions: create, edit, enable, delete, test, fetch models, resume, reorder, edit keys, and discover channels.

Discovery finds local model servers and keys in the environment, and creates channels from them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import Check
from gateway.domain.errors import GatewayError
from gateway.domain.upstream_views import ListingView, PresetView
from gateway.domain.views import ChannelView, KeyView, Offer
from tui import format as fmt
from tui.cli_commands import cli_command
from tui.pages import channel_fields
from tui.pages.base import AnyPage, Verb
from tui.pages.channel_form import add_command, body, edit_command, fields, warning
from tui.pages.list_page import select_row
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.choices import MultiSelect
from tui.widgets.dialogs import Busy, toast
from tui.widgets.form import Field, Form, FormPlan, Values
from tui.widgets.text_block import Detail, IncidentList

NO_CALL = "none, its list only"
ASKING = "asking the upstream ..."


def selected_channel(page: AnyPage) -> ChannelView | None:
    """The channel under the cursor; says so if there is none."""
    row = page.table.current
    if row is None:
        toast(page, "there is no channel here; n makes one")
    return None if row is None else row.view


async def new(page: AnyPage) -> None:
    """Make a channel; without models its upstream is asked for the list."""
    await _create(page, None)


async def duplicate(page: AnyPage) -> None:
    """A new channel like this one; its key has to be given again, unless it is a reference."""
    if (channel := selected_channel(page)) is not None:
        await _create(page, channel)


async def edit(page: AnyPage) -> None:
    """Change the channel under the cursor."""
    channel, session = selected_channel(page), page.session
    if channel is None:
        return
    presets = await _presets(page)
    plan = FormPlan(
        title=f"Channel {channel.name}",
        fields=fields(session, channel, presets),
        save=lambda values: session.client.edit_channel(channel.id, body(values, channel)),
        command=lambda values: edit_command(channel, values),
        live=lambda values: warning(values, presets),
    )
    if await page.ask(Form(plan)) is not None:
        toast(page, f"channel {channel.name} was changed; u takes it back")


async def toggle(page: AnyPage) -> None:
    """Ask the channel no more, or again."""
    if (channel := selected_channel(page)) is not None:
        await page.session.client.edit_channel(channel.id, {"enabled": not channel.enabled})
        toast(page, f"channel {channel.name} is {'off' if channel.enabled else 'on'}; u takes it back")


async def delete(page: AnyPage) -> None:
    """Remove the channel, after asking; what nobody else serves is named."""
    channel = selected_channel(page)
    if channel is None:
        return
    alone = [model.name for model in page.session.board.models if model.channels == [channel.name]]
    lost = f"Nobody else serves {', '.join(safe(name, 40) for name in alone[:6])}" if alone else ""
    more = f" and {len(alone) - 6} more" if len(alone) > 6 else ""
    breaks = (
        f"{lost}{more}{'.' if lost else 'All its models are served by others, too.'} Running calls end as they will."
    )
    if await page.sure(f"Delete channel {channel.name}?", f"{breaks} History stays.", "Delete"):
        await page.session.client.remove_channel(channel.id)
        toast(page, f"deleted channel {channel.name}; u takes it back")


async def test(page: AnyPage) -> None:
    """Ask the upstream; with a model also for a tiny answer, which costs what it costs."""
    channel, session = selected_channel(page), page.session
    if channel is None:
        return
    models = [NO_CALL, *(model.name for model in channel.models)]

    async def save(values: Values) -> str:
        return "" if values["model"] == NO_CALL else str(values["model"])

    def command(values: Mapping[str, str]) -> str:
        return cli_command(
            "channel", "test", channel.name, model=None if values["model"] == NO_CALL else values["model"]
        )

    asked = Field(id="model", label="With a real call to", value=NO_CALL, options=models)
    plan = FormPlan(title=f"Test {channel.name}", fields=[asked], save=save, command=command, verb="Test")
    model = await page.ask(Form(plan))
    if model is None:
        return
    title = f"Testing {channel.name}{f' with {model}' if model else ''}"
    check = await page.ask(Busy(title, lambda: session.client.test_channel(channel.id, model), session.now))
    _report_check(page, channel, check)


def _report_check(page: AnyPage, channel: ChannelView, check: Check | GatewayError | None) -> None:
    if isinstance(check, GatewayError):
        raise check
    if check is not None:
        page.query_one(Detail).display = page.view.detail = True
        page.draw_detail()
        how = "is fine" if check.ok else "FAILED its test"
        toast(page, f"{channel.name} {how}, {fmt.seconds(check.ms)}:\n{check.text}", bad=not check.ok)


async def fetch(page: AnyPage) -> None:
    """Ask the upstream for its list, and choose what of it is offered."""
    channel, session = selected_channel(page), page.session
    if channel is None:
        return
    ask = Busy(f"Asking {channel.name} for its models", lambda: session.client.refresh_channel(channel.id), session.now)
    listing = await page.ask(ask)
    if isinstance(listing, GatewayError):
        raise listing
    if listing is not None:
        await choose_models(page, channel, listing)


async def choose_models(page: AnyPage, channel: ChannelView, listing: ListingView) -> None:
    """Show what is new, gone and not offered, and offer what is chosen."""
    if not listing.models:
        toast(page, f"{channel.name} gave no list: {safe(listing.error, 500) or 'it is empty'}", bad=True)
        return
    about = f"{channel_fields.listing_summary(listing)}. What is on is offered to clients."
    if listing.error:
        about += f"\nThis is its last good list: {safe(listing.error, 500)}"
    if channel.patterns:
        about += f"\nPatterns choose of it, also of what comes: {safe(', '.join(channel.patterns), 200)}"
    there = [model.name for model in listing.models if model.served]
    on = await page.ask(MultiSelect(f"Models of {channel.name}", about, channel_fields.listing_options(listing), there))
    if on is None:
        return
    if on == set(there):
        toast(page, "nothing was changed")
        return
    view = await page.session.client.edit_channel(
        channel.id, channel_fields.offering_with(channel, listing, on).patch()
    )
    toast(page, f"{channel.name} offers {len(view.models)} models now; u takes it back")


async def discover(page: AnyPage) -> None:
    """Look what is on this machine, and make channels of what is chosen."""
    session = page.session
    offers = await page.ask(Busy("Looking what is on this machine", session.client.offers, session.now))
    if isinstance(offers, GatewayError):
        raise offers
    if offers is None:
        return
    if not offers:
        toast(page, "nothing new: no further local server answers, and no vendor's key is in the environment")
        return
    about = "Local servers that answer, and vendors' keys in the server's environment. Nothing outside was asked.\n\n"
    about += "$ tollkeeper discover --add NAME"
    on = await page.ask(MultiSelect("Found on this machine", about, discovered_options(offers), []))
    if not on:
        return
    ask = Busy("Asking them for their models", lambda: add_discovered(session, offers, on), session.now)
    made, failed = await page.ask(ask) or ([], [])
    if made:
        select_row(page, made[-1].id)
        toast(page, f"made {', '.join(safe(one.name, 40) for one in made)}; t tests one, u takes the last back")
    if failed:
        toast(page, "\n".join(failed), bad=True)


async def keys(page: AnyPage) -> None:
    """Another key, one less, or one that is tried again."""
    channel = selected_channel(page)
    if channel is not None and (done := await page.ask(Form(keys_plan(page.session, channel)))):
        toast(page, f"{channel.name}: {done}")


async def resume(page: AnyPage) -> None:
    """Forget what is held against the channel."""
    if (channel := selected_channel(page)) is not None:
        await page.session.client.clear_channel(channel.id)
        toast(page, f"{channel.name} takes calls again")


async def incidents(page: AnyPage) -> None:
    """Who failed when, how long it rested, and where its calls went."""
    await page.ask(IncidentList(page.session))


async def raise_priority(page: AnyPage) -> None:
    """Ask it earlier."""
    await _reorder(page, 1)


async def lower_priority(page: AnyPage) -> None:
    """Ask it later."""
    await _reorder(page, -1)


async def _reorder(page: AnyPage, by: int) -> None:
    if (channel := selected_channel(page)) is not None:
        priority = channel.priority + by
        await page.session.client.edit_channel(channel.id, {"priority": priority})
        toast(page, f"{channel.name} has priority {priority} now")


async def _presets(page: AnyPage) -> list[PresetView]:
    """The known upstreams; none if the server cannot tell them, for a channel can be made without."""
    try:
        return list(await page.session.client.presets())
    except GatewayError:
        return []


async def _create(page: AnyPage, like: ChannelView | None) -> None:
    session, presets = page.session, await _presets(page)
    plan = FormPlan(
        title="New channel" if like is None else f"New channel like {like.name}",
        fields=fields(session, like, presets, copy=True),
        save=lambda values: session.client.add_channel(body(values)),
        command=add_command,
        live=lambda values: warning(values, presets),
        verb="Make it",
        waits=ASKING,
    )
    made = await page.ask(Form(plan))
    if made is not None:
        select_row(page, made.id)
        toast(page, f"channel {made.name} was made with {len(made.models)} models; t tests it, u takes it back")


VERBS: Mapping[str, Verb] = {
    "new": new,
    "edit": edit,
    "toggle": toggle,
    "delete": delete,
    "duplicate": duplicate,
    "test": test,
    "fetch": fetch,
    "clear": resume,
    "incidents": incidents,
    "discover": discover,
    "keys": keys,
    "raise": raise_priority,
    "lower": lower_priority,
}


KEEP, RESUME, REMOVE = "stays", "is tried again now", "is removed"
REFERENCE = "env:"


def keys_plan(session: ConsoleSession, channel: ChannelView) -> FormPlan:
    """A line a key that there is, and one for another."""
    return FormPlan(
        title=f"Keys of {channel.name}",
        intro="Each rests by itself when it is limited or refused; the others go on.",
        fields=[
            *(_field(key, session.now()) for key in channel.keys),
            Field(id="key", label="Another key", hint="the key, or env:NAME to keep a reference", secret=True),
        ],
        save=lambda values: save_keys(session, channel, values),
        command=lambda values: keys_command(channel, values),
    )


async def save_keys(session: ConsoleSession, channel: ChannelView, values: Values) -> str:
    """What was done, in words; keys are removed from the last on, so that numbers stay right."""
    done = []
    if values["key"]:
        await session.client.add_key(channel.id, values["key"])
        done.append("a key was added")
    for key in reversed(channel.keys):
        wanted = values[_id(key)]
        if wanted == REMOVE:
            await session.client.remove_key(channel.id, key.number)
            done.append(f"key {key.number} was removed")
        elif wanted == RESUME:
            await session.client.clear_key(channel.id, key.number)
            done.append(f"key {key.number} is tried again")
    return ", ".join(done) or "nothing was changed"


def keys_command(channel: ChannelView, values: Mapping[str, str]) -> str:
    """The commands that do the same."""
    verbs = {REMOVE: "remove", RESUME: "clear"}
    told = []
    if values["key"]:
        shown = values["key"] if values["key"].startswith(REFERENCE) else "-"
        told.append(cli_command("channel", "key", "add", channel.name, key=shown))
    told += [
        cli_command("channel", "key", verbs[values[_id(key)]], channel.name, str(key.number))
        for key in reversed(channel.keys)
        if values[_id(key)] in verbs
    ]
    return "; tollkeeper ".join(told)


def _field(key: KeyView, now: int) -> Field:
    rest = f" {fmt.countdown(now, key.until_ms)}" if key.until_ms is not None else ""
    state = f" {key.state.replace('_', ' ')}{rest}" if key.state != "ok" else ""
    options = (KEEP, REMOVE) if key.state == "ok" else (KEEP, RESUME, REMOVE)
    return Field(id=_id(key), label=safe(f"{key.number} {key.key}{state}", 19), value=KEEP, options=options)


def _id(key: KeyView) -> str:
    return f"key-{key.number}"


def discovered_options(offers: Sequence[Offer]) -> list[tuple[str, str]]:
    """Ids, and what is said of each."""
    return [(offer.name, _offer_text(offer)) for offer in offers]


async def add_discovered(
    session: ConsoleSession, offers: Sequence[Offer], on: Collection[str]
) -> tuple[list[ChannelView], list[str]]:
    """The channels that were made, and a sentence about each that could not be; one that fails stops no other."""
    taken = {channel.name for channel in session.board.channels}
    made, failed = [], []
    for offer in offers:
        if offer.name in on:
            try:
                made.append(await session.client.add_channel(discovered_body(offer, taken)))
                taken.add(made[-1].name)
            except GatewayError as error:
                failed.append(f"{safe(offer.name)}: {safe(error.message, 500)}")
    return made, failed


def discovered_body(offer: Offer, taken: Collection[str]) -> dict[str, Any]:
    """What the server takes; the name is another if it is taken."""
    names = (offer.name, *(f"{offer.name}-{number}" for number in range(2, 1_000)))
    name = next(name for name in names if name not in taken)
    made: dict[str, Any] = {"name": name, "dialect": offer.dialect, "base_url": offer.base_url}
    given = {"key": offer.key, "preset": offer.preset, "models": msgspec.to_builtins(offer.models)}
    return made | {name: value for name, value in given.items() if value}


def _offer_text(offer: Offer) -> str:
    where = safe(offer.base_url, 80)
    if offer.key:
        return f"{safe(offer.name):<12} {where}   with {safe(offer.key)}"
    names = ", ".join(safe(model.name, 40) for model in offer.models[:3])
    more = f" and {len(offer.models) - 3} more" if len(offer.models) > 3 else ""
    return f"{safe(offer.name):<12} {where}   {names}{more}"
