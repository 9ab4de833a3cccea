"""Channel verbs: make, edit, switch, delete; test it, fetch its models, clear what is held against it, reorder."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.channel import Check
from gateway.domain.errors import GatewayError
from gateway.domain.upstream_views import ListingView, PresetView
from gateway.domain.views import ChannelView
from tui import format as fmt
from tui.pages import channel_keys, discovery, offering
from tui.pages.base import Verb
from tui.pages.channel_form import add_twin, body, edit_twin, fields, warning
from tui.pages.seek import seek
from tui.safe import safe
from tui.twins import command
from tui.widgets.busy import Busy
from tui.widgets.detail import Detail
from tui.widgets.form import Field, Form, Plan, Values
from tui.widgets.story import Story
from tui.widgets.take import Take
from tui.widgets.toast import tell

Channels = Any
"""The page; it imports this file."""

LIST_ONLY = "none, its list only"
WAITS = "asking the upstream ..."


def chosen(page: Channels) -> ChannelView | None:
    """The channel under the cursor; says so if there is none."""
    row = page.table.current
    if row is None:
        tell(page, "there is no channel here; n makes one")
    return None if row is None else row.view


async def new(page: Channels) -> None:
    """Make a channel; without models its upstream is asked for the list."""
    await _make(page, None)


async def duplicate(page: Channels) -> None:
    """A new channel like this one; its key has to be given again, unless it is a reference."""
    if (channel := chosen(page)) is not None:
        await _make(page, channel)


async def edit(page: Channels) -> None:
    """Change the channel under the cursor."""
    channel, session = chosen(page), page.session
    if channel is None:
        return
    presets = await _presets(page)
    plan = Plan(
        title=f"Channel {channel.name}",
        fields=fields(session, channel, presets),
        save=lambda values: session.client.edit_channel(channel.id, body(values, channel)),
        twin=lambda values: edit_twin(channel, values),
        live=lambda values: warning(values, presets),
    )
    if await page.ask(Form(plan)) is not None:
        tell(page, f"channel {channel.name} was changed; u takes it back")


async def toggle(page: Channels) -> None:
    """Ask the channel no more, or again."""
    if (channel := chosen(page)) is not None:
        await page.session.client.edit_channel(channel.id, {"enabled": not channel.enabled})
        tell(page, f"channel {channel.name} is {'off' if channel.enabled else 'on'}; u takes it back")


async def delete(page: Channels) -> None:
    """Remove the channel, after asking; what nobody else serves is named."""
    channel = chosen(page)
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
        tell(page, f"deleted channel {channel.name}; u takes it back")


async def test(page: Channels) -> None:
    """Ask the upstream; with a model also for a tiny answer, which costs what it costs."""
    channel, session = chosen(page), page.session
    if channel is None:
        return
    models = [LIST_ONLY, *(model.name for model in channel.models)]

    async def save(values: Values) -> str:
        return "" if values["model"] == LIST_ONLY else str(values["model"])

    def twin(values: Mapping[str, str]) -> str:
        return command("channel", "test", channel.name, model=None if values["model"] == LIST_ONLY else values["model"])

    asked = Field(id="model", label="With a real call to", value=LIST_ONLY, options=models)
    plan = Plan(title=f"Test {channel.name}", fields=[asked], save=save, twin=twin, verb="Test")
    model = await page.ask(Form(plan))
    if model is None:
        return
    title = f"Testing {channel.name}{f' with {model}' if model else ''}"
    check = await page.ask(Busy(title, lambda: session.client.test_channel(channel.id, model), session.now))
    _tell_check(page, channel, check)


def _tell_check(page: Channels, channel: ChannelView, check: Check | GatewayError | None) -> None:
    if isinstance(check, GatewayError):
        raise check
    if check is not None:
        page.query_one(Detail).display = page.view.detail = True
        page.draw_detail()
        how = "is fine" if check.ok else "FAILED its test"
        tell(page, f"{channel.name} {how}, {fmt.seconds(check.ms)}:\n{check.text}", bad=not check.ok)


async def fetch(page: Channels) -> None:
    """Ask the upstream for its list, and choose what of it is offered."""
    channel, session = chosen(page), page.session
    if channel is None:
        return
    ask = Busy(f"Asking {channel.name} for its models", lambda: session.client.refresh_channel(channel.id), session.now)
    listing = await page.ask(ask)
    if isinstance(listing, GatewayError):
        raise listing
    if listing is not None:
        await take(page, channel, listing)


async def take(page: Channels, channel: ChannelView, listing: ListingView) -> None:
    """Show what is new, gone and not offered, and offer what is chosen."""
    if not listing.models:
        tell(page, f"{channel.name} gave no list: {safe(listing.error, 500) or 'it is empty'}", bad=True)
        return
    about = f"{offering.counted(listing)}. What is on is offered to clients."
    if listing.error:
        about += f"\nThis is its last good list: {safe(listing.error, 500)}"
    if channel.patterns:
        about += f"\nPatterns choose of it, also of what comes: {safe(', '.join(channel.patterns), 200)}"
    there = [model.name for model in listing.models if model.served]
    on = await page.ask(Take(f"Models of {channel.name}", about, offering.listed(listing), there))
    if on is None:
        return
    if on == set(there):
        tell(page, "nothing was changed")
        return
    view = await page.session.client.edit_channel(channel.id, offering.chosen(channel, listing, on).patch())
    tell(page, f"{channel.name} offers {len(view.models)} models now; u takes it back")


async def discover(page: Channels) -> None:
    """Look what is on this machine, and make channels of what is chosen."""
    session = page.session
    offers = await page.ask(Busy("Looking what is on this machine", session.client.offers, session.now))
    if isinstance(offers, GatewayError):
        raise offers
    if offers is None:
        return
    if not offers:
        tell(page, "nothing new: no further local server answers, and no vendor's key is in the environment")
        return
    about = "Local servers that answer, and vendors' keys in the server's environment. Nothing outside was asked.\n\n"
    about += "$ tollkeeper discover --add NAME"
    on = await page.ask(Take("Found on this machine", about, discovery.options(offers), []))
    if not on:
        return
    ask = Busy("Asking them for their models", lambda: discovery.add(session, offers, on), session.now)
    made, failed = await page.ask(ask) or ([], [])
    if made:
        seek(page, made[-1].id)
        tell(page, f"made {', '.join(safe(one.name, 40) for one in made)}; t tests one, u takes the last back")
    if failed:
        tell(page, "\n".join(failed), bad=True)


async def keys(page: Channels) -> None:
    """Another key, one less, or one that is tried again."""
    channel = chosen(page)
    if channel is not None and (done := await page.ask(Form(channel_keys.plan(page.session, channel)))):
        tell(page, f"{channel.name}: {done}")


async def clear(page: Channels) -> None:
    """Forget what is held against the channel."""
    if (channel := chosen(page)) is not None:
        await page.session.client.clear_channel(channel.id)
        tell(page, f"{channel.name} takes calls again")


async def incidents(page: Channels) -> None:
    """Who failed when, how long it rested, and where its calls went."""
    await page.ask(Story(page.session))


async def raise_priority(page: Channels) -> None:
    """Ask it earlier."""
    await _reorder(page, 1)


async def lower(page: Channels) -> None:
    """Ask it later."""
    await _reorder(page, -1)


async def _reorder(page: Channels, by: int) -> None:
    if (channel := chosen(page)) is not None:
        priority = channel.priority + by
        await page.session.client.edit_channel(channel.id, {"priority": priority})
        tell(page, f"{channel.name} has priority {priority} now")


async def _presets(page: Channels) -> list[PresetView]:
    """The known upstreams; none if the server cannot tell them, for a channel can be made without."""
    try:
        return list(await page.session.client.presets())
    except GatewayError:
        return []


async def _make(page: Channels, like: ChannelView | None) -> None:
    session, presets = page.session, await _presets(page)
    plan = Plan(
        title="New channel" if like is None else f"New channel like {like.name}",
        fields=fields(session, like, presets, copy=True),
        save=lambda values: session.client.add_channel(body(values)),
        twin=add_twin,
        live=lambda values: warning(values, presets),
        verb="Make it",
        waits=WAITS,
    )
    made = await page.ask(Form(plan))
    if made is not None:
        seek(page, made.id)
        tell(page, f"channel {made.name} was made with {len(made.models)} models; t tests it, u takes it back")


VERBS: Mapping[str, Verb] = {
    "new": new,
    "edit": edit,
    "toggle": toggle,
    "delete": delete,
    "duplicate": duplicate,
    "test": test,
    "fetch": fetch,
    "clear": clear,
    "incidents": incidents,
    "discover": discover,
    "keys": keys,
    "raise": raise_priority,
    "lower": lower,
}
