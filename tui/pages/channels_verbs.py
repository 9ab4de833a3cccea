"""Channel verbs: make, edit, switch, delete; test it, fetch its models, clear what is held against it, reorder."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain.channel import Check, Served
from gateway.domain.errors import GatewayError
from gateway.domain.views import ChannelView
from tui import format as fmt
from tui.pages.base import Verb
from tui.pages.channel_form import add_twin, body, edit_twin, fields, intro, warning
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
    plan = Plan(
        title=f"Channel {channel.name}",
        intro=intro(channel),
        fields=fields(session, channel),
        save=lambda values: session.client.edit_channel(channel.id, body(values, channel)),
        twin=lambda values: edit_twin(channel, values),
        live=warning,
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
    """Ask the upstream for its list, and choose what of the difference to take."""
    channel, session = chosen(page), page.session
    if channel is None:
        return
    ask = Busy(f"Asking {channel.name} for its models", lambda: session.client.channel_models(channel.id), session.now)
    listed = await page.ask(ask)
    if isinstance(listed, GatewayError):
        raise listed
    if listed is not None:
        await take(page, channel, listed)


async def take(page: Channels, channel: ChannelView, listed: list[Served]) -> None:
    """Show what is new and what is gone, and offer what is chosen."""
    fresh, gone = difference(channel.models, listed)
    same = len(channel.models) - len(gone)
    if not fresh and not gone:
        tell(page, f"{channel.name} lists the {same} models it offers: nothing is new, nothing is gone")
        return
    options = [(model.name, f"new    {_said(model)}") for model in fresh]
    options += [(model.name, f"gone   {_said(model)}") for model in gone]
    about = f"{len(fresh)} new, {len(gone)} gone, {same} as before. What is on will be offered to clients."
    on = await page.ask(Take(f"Models of {channel.name}", about, options, [model.name for model in gone]))
    if on is None:
        return
    kept = [model for model in channel.models if model not in gone or model.name in on]
    wanted = [*kept, *(model for model in fresh if model.name in on)]
    if wanted == list(channel.models):
        tell(page, "nothing was changed")
        return
    await page.session.client.edit_channel(channel.id, {"models": msgspec.to_builtins(wanted)})
    tell(page, f"{channel.name} offers {len(wanted)} models now; u takes it back")


def difference(offered: list[Served], listed: list[Served]) -> tuple[list[Served], list[Served]]:
    """What the upstream lists and is not offered, and what is offered and not listed any more."""
    there = {model.upstream_name for model in offered}
    names = {model.upstream_name for model in listed}
    taken = {model.name for model in offered}
    fresh = {m.name: m for m in listed if m.upstream_name not in there and m.name not in taken}
    return list(fresh.values()), [m for m in offered if m.upstream_name not in names]


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


async def _make(page: Channels, like: ChannelView | None) -> None:
    session = page.session
    plan = Plan(
        title="New channel" if like is None else f"New channel like {like.name}",
        intro="" if like is None else intro(like, copy=True),
        fields=fields(session, like, copy=True),
        save=lambda values: session.client.add_channel(body(values)),
        twin=add_twin,
        live=warning,
        verb="Make it",
        waits=WAITS,
    )
    made = await page.ask(Form(plan))
    if made is not None:
        seek(page, made.id)
        tell(page, f"channel {made.name} was made with {len(made.models)} models; t tests it, u takes it back")


def _said(model: Served) -> str:
    context = f"   {fmt.short(model.context)} tokens" if model.context else ""
    return safe(model.name) + context


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
    "raise": raise_priority,
    "lower": lower,
}
