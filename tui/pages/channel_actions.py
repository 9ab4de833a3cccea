"""Channel actions: create, edit, enable, delete, test, fetch models, resume, reorder, edit keys, and discover channels.

Discovery finds local model servers and API keys in the environment, and creates channels from them.
"""

from collections.abc import Mapping
from functools import partial

from textual.content import Content

from gateway.client.cells import aligned_rows
from gateway.domain.channel import Check
from gateway.domain.errors import Conflict, GatewayError
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.human_values import brief_context, first_of, plural, state_word
from gateway.domain.quoting import change_offering
from gateway.domain.upstream_views import ListingView, PresetView, SavedChannel
from gateway.domain.views import ChannelView, Offer
from tui import format as fmt
from tui.incidents import timeline
from tui.pages import marked
from tui.pages.base import AnyPage, Verb, on_selected, selection
from tui.pages.channel_form import ChannelForm, keys_plan
from tui.pages.entities import ask_changes, ask_new, creating_verbs
from tui.pages.list_page import select_row
from tui.session import ConsoleSession
from tui.text import key_hints, safe
from tui.widgets.choices import MultiSelect
from tui.widgets.dialogs import notice, toast
from tui.widgets.form import Form, FormField, field_plan
from tui.widgets.text_block import TextDialog

NO_CALL = "list models only"
"""The option of a test that makes no completion."""

HEALTHY = ("ok", "off")
"""The states of channels that are not paused."""


@on_selected
async def _edit(page: AnyPage, channel: ChannelView) -> None:
    session: ConsoleSession = page.session
    form = ChannelForm(session, channel, await fetch_presets(session))
    saved = await ask_changes(page, form, session.client.edit_channel)
    if saved.unchanged:
        is_resumed = channel.state not in HEALTHY and saved.state in HEALTHY  # its key was entered again
        resumed = f"Channel {channel.name} saved unchanged; it is in use again."
        raise notice(resumed if is_resumed else f"{NOTHING_CHANGED.capitalize()}.")
    page.report_change(f"Channel {channel.name} saved.", price_news(saved))


@on_selected
async def _test(page: AnyPage, channel: ChannelView) -> None:
    """Test the upstream by listing its models, or with a chosen model by a tiny completion, which is charged."""
    session: ConsoleSession = page.session
    models = [NO_CALL, *(model.name for model in channel.models)]

    def parse(text: str) -> str:
        return "" if text == NO_CALL else text

    def command(texts: Mapping[str, str]) -> str:
        return fmt.cli_command("channel", "test", channel.name, model=parse(texts["model"]) or None)

    field = FormField(id="model", label="Test", value=NO_CALL, options=models, parse=parse)
    model = await page.ask(Form(field_plan(f"Test {channel.name}", field, "Test", command=command)))
    title = f"Testing {channel.name}{f' with {model}' if model else ''}"
    check: Check = await page.wait(title, lambda: session.client.test_channel(channel.id, model))
    page.view.detail = page.pane.display = True
    page.draw_detail()
    is_good = check.ok and not check.failed_keys
    result = "passed" if check.ok else "FAILED"
    if check.ok and not is_good:
        result = "passed, but not with every key,"
    toast(page, f"Test of {channel.name} {result} in {fmt.duration(check.ms)}:\n{check.text}", bad=not is_good)


@on_selected
async def _fetch(page: AnyPage, channel: ChannelView) -> None:
    """Fetch the upstream's list, show which models are new, gone, offered or not, and offer those that are checked."""
    session: ConsoleSession = page.session
    title = f"Fetching the models of {channel.name}"
    listing: ListingView = await page.wait(title, lambda: session.client.refresh_channel(channel.id))
    summary = listing_summary(listing)
    if not listing.models:
        reason = safe(session.advice(listing.error), 500) or summary or "its list is empty"
        raise Conflict(f"{channel.name} returned no models: {reason}")
    about = f"{summary}. Selected models are offered to clients."
    if listing.error:
        about += f"\nShowing the last good list: {safe(session.advice(listing.error), 500)}"
    if channel.patterns:
        about += f"\nPatterns also select future models: {safe(', '.join(channel.patterns), 200)}"
    offered = {model.name for model in listing.models if model.served}
    checked = await page.ask(MultiSelect(f"Models of {channel.name}", about, listing_options(listing), offered))
    if checked == offered:
        raise notice("No changes.")
    current = await session.client.channel(channel.id)  # it may have changed since it was shown
    removed = {model.name for model in current.models if model.upstream_name in offered - checked}
    offering = change_offering(current, add=sorted(checked - offered), remove=removed)
    saved = await session.client.edit_channel(channel.id, offering.patch())
    page.report_change(f"{channel.name} now offers {fmt.count_text(len(saved.models), 'model')}.", price_news(saved))


async def _discover(page: AnyPage) -> None:
    """Discover servers and keys on this machine, and create channels from those that the user checks."""
    session = page.session
    offers = await page.wait("Looking for local servers and API keys", session.client.offers)
    if not offers:
        raise notice("Nothing new found: no other local server answers, and the environment holds no other API key.")
    about = "Local servers that answered, and API keys in the server's environment. Nothing was sent elsewhere.\n\n"
    about += "$ tollkeeper discover --add NAME"
    options = [(offer.name, offer_text(offer)) for offer in offers]
    checked = await page.ask(MultiSelect("Discovered on this machine", about, options, []))
    chosen = [offer for offer in offers if offer.name in checked]
    if not chosen:
        return
    created, errors = await page.wait("Fetching their models", lambda: session.client.add_offers(chosen))
    if created:
        select_row(page, created[-1].id)
        names = ", ".join(safe(channel.name, 40) for channel in created)
        news = price_news(*created)
        test_key, undo_key = session.key("channels.test"), session.key("app.undo")
        advice = f"Press {test_key} to test one, {undo_key} to undo the last."
        toast(page, f"Created {names}. {advice}{news}", change=True)
    if errors:
        failures = [f"{safe(name)}: {safe(error.message, 500)}" for name, error in errors.items()]
        toast(page, "\n".join(failures), bad=True)


async def _show_incidents(page: AnyPage) -> None:
    session: ConsoleSession = page.session
    resume = (session.key("channels.clear"), " on the page resumes a channel  ")

    def draw(width: int) -> Content:
        return timeline(session.board.incidents.newest(), session.now(), width)

    hint = key_hints(resume, ("j k", " scroll  "), ("esc", " closes"))
    await page.ask(TextDialog("Incidents, newest first", draw, hint))


@on_selected
async def _keys(page: AnyPage, channel: ChannelView) -> None:
    summary = await page.ask(Form(keys_plan(page.session, channel)))
    toast(page, f"{channel.name}: {summary}", change=True)


@on_selected
async def _resume(page: AnyPage, channel: ChannelView) -> None:
    """Resume a channel that is paused or needs attention."""
    resumed = await page.session.client.clear_channel(channel.id)  # of a healthy channel, single models may be paused
    if resumed.state == "attention" and resumed.missing_variables:
        toast(page, f"Channel {channel.name} still needs attention: {safe(resumed.reason)}", bad=True)
    elif channel.missing_text(page.session.now()):
        toast(page, f"Channel {channel.name}: the next call tries {first_of([*channel.missing_models], 3)} again.")
    elif channel.state in HEALTHY and all(key.state in ("ok", "unset") for key in channel.keys):
        off = f" It is disabled: {page.session.key('entity.toggle')} enables it." if channel.state == "off" else ""
        toast(page, f"Channel {channel.name} is not paused.{off}")
    else:
        toast(page, f"Channel {channel.name} resumed.")


async def _reorder(page: AnyPage, by: int) -> None:
    channel = await page.session.client.channel(selection(page).id)  # the list shows the effect of the last key later
    priority = channel.priority + by
    await page.session.client.edit_channel(channel.id, {"priority": priority})
    page.report_change(f"{channel.name} now has priority {priority}.")


async def fetch_presets(session: ConsoleSession) -> list[PresetView]:
    """Returns the known presets; none if the server is gone, because a form without presets is useful, too."""
    try:
        return list(await session.client.presets())
    except GatewayError:
        return []


async def _create(page: AnyPage, template: ChannelView | None) -> None:
    """Create a channel, empty or as a copy. Without models, the server fetches the upstream's list."""
    session = page.session
    form = ChannelForm(session, template, await fetch_presets(session), copy=True)
    created = await ask_new(
        page, form, session.client.add_channel, template, progress_text="contacting the upstream ..."
    )
    select_row(page, created.id)
    count = fmt.count_text(len(created.models), "model")
    news = price_news(created)
    advice = f"Press {session.key('channels.test')} to test it, {session.key('app.undo')} to undo."
    toast(page, f"Channel {created.name} created with {count}. {advice}{news}", change=True)


VERBS: Mapping[str, Verb] = {
    **creating_verbs(_create),
    "edit": _edit,
    "toggle": marked.toggle,
    "delete": marked.delete,
    "test": _test,
    "fetch": _fetch,
    "clear": lambda page: marked.resume(page) if page.table.marks else _resume(page),
    "incidents": _show_incidents,
    "discover": _discover,
    "keys": _keys,
    "bulk": marked.bulk,
    "raise": partial(_reorder, by=1),
    "lower": partial(_reorder, by=-1),
}

STATES = ("new", "gone", "kept_out", "offered")
"""The states of listed models, the most interesting first."""


def listing_options(listing: ListingView) -> list[tuple[str, str]]:
    """Returns the names and texts of all listed models, new and gone ones first."""
    ranks = {state: rank for rank, state in enumerate(STATES)}
    models = sorted(listing.models, key=lambda model: (ranks.get(model.state, len(ranks)), model.name))
    prices = [model.published for model in models]
    texts = aligned_rows(
        [state_word(model.state) for model in models],
        [f"{safe(m.name)} as {safe(m.public)}" if m.public not in ("", m.name) else safe(m.name) for m in models],
        [brief_context(model.known_context or model.context, model.context_source, " tokens") for model in models],
        [f"{fmt.price(price.input)} / {fmt.price(price.output)} $/M list price" if price else "" for price in prices],
    )
    return [(model.name, text) for model, text in zip(models, texts, strict=True)]


def listing_summary(listing: ListingView) -> str:
    """Returns ``2 new, 1 gone, 12 not offered, 40 offered, 3 left out (names not usable)``."""
    states = [model.state for model in listing.models]
    parts = [f"{states.count(state):,} {state_word(state)}" for state in STATES if state in states]
    if listing.unnamed:
        parts.append(f"{listing.unnamed:,} left out ({plural(listing.unnamed, 'name')} not usable)")
    return ", ".join(parts)


def price_news(*saved: SavedChannel) -> str:
    """Returns lines about the known prices that new models got, and about new models without a price."""
    priced = [price for channel in saved for price in channel.new_prices]
    unpriced = [name for channel in saved for name in channel.unpriced]
    text = ""
    if priced:
        sources = ", ".join(dict.fromkeys(safe(price.source, 40) for price in priced))
        first = priced[0]
        rates = "free" if first.free else f"${fmt.price(first.input)} / ${fmt.price(first.output)}"
        more = f", and {len(priced) - 1} more" if len(priced) > 1 else ""
        text += f"\nPrices from {sources}: {safe(first.model, 40)} {rates}{more}. Page 5 changes them."
    if unpriced:
        verb = "has" if len(unpriced) == 1 else "have"
        effect = "calls are refused" if any(channel.refuses_unpriced for channel in saved) else "counted, not charged"
        text += f"\n{fmt.count_text(len(unpriced), 'model')} {verb} no price: {effect}. Page 5 sets prices."
    return text


def offer_text(offer: Offer) -> str:
    """Returns the text of an offer in the list: its name, its address, and its key or its first models."""
    url = safe(offer.base_url, 80)
    if offer.key:
        return f"{safe(offer.name):<12} {url}   with {safe(offer.key)}"
    names = first_of([safe(model.name, 40) for model in offer.models], 3)
    return f"{safe(offer.name):<12} {url}   {names}"
