"""Wizard: the first steps: balance, channel, models and token, then a test call.

It opens by itself once, on an unused home. Esc leaves it at any step, and what earlier steps have saved stays. Each
step is a normal form, with the equivalent command. If the user goes back to change the channel, it is replaced.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.client.cells import aligned_rows
from gateway.domain.channel import Dialect
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.money import dollars, number, parse_dollars
from gateway.domain.price_view import PriceView
from gateway.domain.text import REFERENCE
from gateway.domain.units import Nanos
from gateway.domain.upstream_views import PresetView, SavedChannel
from gateway.domain.urls import base_url_warning, checked_base_url
from gateway.domain.views import ChannelView, NewToken, Offer
from tui import format as fmt
from tui.board import Board
from tui.console_app import ConsoleApp
from tui.pages.channel_actions import fetch_presets, price_news
from tui.pages.channel_form import preset_summary
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.choices import MultiSelect
from tui.widgets.combobox import Suggestion
from tui.widgets.connect import Connect
from tui.widgets.dialogs import BACK, notice, toast
from tui.widgets.form import Form, FormField, FormPlan, Values, require_text

DEMO = "the built-in demo, without a key"
ADDRESS = "another address"
NEXT = "Next"

Body = dict[str, Any]
PresetsByName = Mapping[str, PresetView]
"""Vendors and model servers by name."""
OffersByText = Mapping[str, Offer]
"""The discovered channels by the texts of their options."""
CreateChannel = Callable[[Values, Body | None], Awaitable[ChannelView]]
"""Creates the channel of a request body; without a body, the demo."""


def balance_plan(session: ConsoleSession, balance: Nanos) -> FormPlan:
    """Returns the form of step 1: how much may be spent."""

    def parse(text: str) -> int:
        nanos = parse_dollars(require_text(text))
        if nanos < 0:
            raise BadRequest("a balance cannot be negative")
        return nanos

    async def save(values: Values) -> bool:
        if values["balance"] != balance:
            await session.client.grant(values["balance"] - balance, "first steps")
        return True

    def command(values: Mapping[str, str]) -> str:
        more = parse_dollars(values["balance"]) - balance
        return fmt.cli_command("account", "grant", number(more)) if more else "account show"

    return FormPlan(
        title="First steps, 1 of 4: your balance",
        intro="Every call is charged to one balance, at the prices you set. No real money moves: it is your own limit.",
        fields=[FormField(id="balance", label="Balance, dollars", value=number(balance), parse=parse)],
        save=save,
        command=command,
        preview=lambda values: f"the balance will be {dollars(values['balance'])}; page 6 tops it up and sets budgets",
        verb=NEXT,
    )


def channel_plan(offers: Sequence[Offer], choose: CreateChannel, presets: Sequence[PresetView] = ()) -> FormPlan:
    """Returns the form of step 2: the channel. Discovered ones come first. ``choose`` creates the chosen one."""
    presets_by_name = {preset.name: preset for preset in presets}
    offers_by_text = {_offer_text(offer): offer for offer in offers}
    sources = [*offers_by_text, DEMO, ADDRESS]

    def parse_address(text: str) -> str:
        address = text.strip()
        return checked_base_url(address) if address and address not in presets_by_name else address

    async def save(values: Values) -> ChannelView:
        body = None if values["source"] == DEMO else channel_body(values, offers_by_text, presets_by_name)
        return await choose(values, body)

    return FormPlan(
        title="First steps, 2 of 4: a channel",
        intro="A channel is an upstream account: its address and key. Anything found on this machine is ready to use.",
        fields=[
            FormField(id="source", label="Channel", value=sources[0], options=sources),
            FormField(
                id="base_url",
                label="Address",
                hint="https://api.openai.com/v1, or a vendor: type to search",
                suggest=[Suggestion(preset.name, safe(preset.base_url)) for preset in presets],
                narrows=True,
                applies=lambda texts: texts["source"] == ADDRESS,
                parse=parse_address,
            ),
            FormField(
                id="key",
                label="Key",
                hint="the key, or env:NAME; stored here, never shown",
                secret=True,
                applies=lambda texts: texts["source"] == ADDRESS,
            ),
            FormField(
                id="name",
                label="Name",
                hint="openai; by default from the address",
                applies=lambda texts: texts["source"] != DEMO,
            ),
        ],
        save=save,
        command=lambda values: _channel_command(values, offers_by_text, presets_by_name),
        preview=lambda values: _channel_preview(values, offers_by_text, presets_by_name),
        verb=NEXT,
        back=True,
        progress_text="fetching its models ...",
    )


def model_options(session: ConsoleSession, channel: ChannelView) -> list[tuple[str, str]]:
    """Returns the models of a channel as options of step 3: names, and texts with aligned columns."""
    prices = {model.name: model.price for model in session.board.models if model.price is not None}
    if isinstance(channel, SavedChannel):  # its prices may not be on the board yet
        prices |= {price.model: price for price in channel.new_prices}
    views = [prices.get(model.name) for model in channel.models]
    width = max((len(fmt.price(view.input)) for view in views if view is not None), default=0)
    texts = aligned_rows(
        [safe(model.name, 48) for model in channel.models],
        [f"{fmt.brief_count(model.context)} tokens" if model.context else "" for model in channel.models],
        [_price_text(view, width) for view in views],
    )
    return [(model.name, text) for model, text in zip(channel.models, texts, strict=True)]


def _price_text(price: PriceView | None, width: int) -> str:
    """Returns the prices of input and output; the first one is padded to ``width`` cells."""
    if price is None:
        return "no price yet"
    return "free" if price.free else f"{fmt.price(price.input):>{width}} / {fmt.price(price.output)}"


def channel_body(values: Values, offers: OffersByText, presets: PresetsByName) -> Body:
    """Returns the request body of a new channel. Raises BadRequest if its address is missing or wrong."""
    url = values["base_url"].strip()
    if (offer := offers.get(values["source"])) is not None:
        body = offer.channel_body()
    elif not url:
        raise BadRequest("an address is required, for example https://api.openai.com/v1", param="base_url")
    elif (preset := presets.get(url)) is not None:
        body = {"name": preset.name, "preset": preset.name}
    else:
        body = {"name": _name_of(url), "dialect": Dialect.OPENAI.value, "base_url": url}
    return body | {name: values[name] for name in ("name", "key") if values[name]}


def _channel_command(values: Mapping[str, str], offers: OffersByText, presets: PresetsByName) -> str:
    if values["source"] == DEMO:
        return "channel show demo"
    body = channel_body(values, offers, presets)
    key = body.get("key")
    shown_key = "-" if key and not key.startswith(REFERENCE) else key
    source = "base_url" if "base_url" in body else "preset"
    return fmt.cli_command("channel", "add", body["name"], **{source: body[source]}, key=shown_key)


def _channel_preview(values: Values, offers: OffersByText, presets: PresetsByName) -> str:
    offer = offers.get(values["source"])
    if offer is not None:
        text = f"its key stays in the environment, as {offer.key}" if offer.key else "it needs no key"
        return f"{safe(offer.name)} at {safe(offer.base_url)}: {text}"
    if values["source"] == DEMO:
        return "it answers offline: three models that echo, tell a story, and fail on request"
    if (preset := presets.get(values["base_url"])) is not None:
        return preset_summary(preset)
    warning = base_url_warning(values["base_url"]) if values["base_url"] else ""
    return warning or "the gateway fetches its models; that is free"


def _offer_text(offer: Offer) -> str:
    if offer.key:
        return safe(f"{offer.name}, with {offer.key.removeprefix('env:')} from the environment", 60)
    return safe(f"{offer.name} on this machine, {fmt.count_text(len(offer.models), 'model')}", 60)


def _name_of(url: str) -> str:
    """Returns a name for a channel: ``openai`` for ``https://api.openai.com/v1``, otherwise the host."""
    host = urlsplit(checked_base_url(url)).hostname or ""
    parts = host.split(".")
    return parts[-2] if len(parts) > 1 and not parts[-1].isdigit() else host


SEEN = "seen"
"""The name of the saved choice that keeps the wizard from opening by itself again."""
LEFT_EARLY = "Continue any time: page 4 for channels, page 2 for tokens, or : First steps."


def is_fresh(board: Board) -> bool:
    """Returns whether this home is unused: no call, no used token, no channel except the demo."""
    return (
        board.status is not None
        and board.status.records == 0
        and len(board.tokens) <= 1
        and all(token.last_used_ms is None for token in board.tokens)
        and all(channel.dialect == Dialect.MOCK for channel in board.channels)
    )


def offer_once(app: ConsoleApp) -> None:
    """Open the wizard once, if the home is unused."""
    if is_fresh(app.session.board) and SEEN not in app.session.state.view("wizard").choices:
        app.page.do(lambda _page: run(app))


async def run(app: ConsoleApp) -> None:
    """Run the steps in sequence, back and forth, until the last one is done or one is cancelled."""
    app.session.state.view("wizard").choices[SEEN] = "yes"
    steps = WizardSteps(app)
    sequence = [steps.balance, steps.channel, steps.models, steps.token]
    step = 0
    result: Any = None
    while step < len(sequence):
        result = await sequence[step]()
        if result is None:
            raise notice(LEFT_EARLY)
        step += -1 if result is BACK else 1
    failure = await app.push_screen_wait(Connect(app.session, result.token, result.key, first=steps.model))
    await app.action_page("live")
    if failure:
        edit = app.session.key("entity.edit")
        advice = f"page 4 changes the channel and its key ({edit}), page 8 checks every step."
        toast(app, f"Almost ready: the test call failed. Its row says why (enter); {advice}", bad=True)
    else:
        toast(app, "All set. Calls will appear here.")


class WizardSteps:
    """The steps, and the results of those done. A step returns its result, BACK, or None if the wizard was closed."""

    def __init__(self, app: ConsoleApp) -> None:
        self._app = app
        self._session: ConsoleSession = app.session
        self._channel: ChannelView | None = None
        self._channel_values: Values = {}
        """The values of the form that created it."""
        self._drafts: dict[str, Mapping[str, str]] = {}
        """The texts that each form was left with, by its title."""
        self._checked: tuple[str, Collection[str]] = ("", ())
        """The id of a channel, and the models that were checked in step 3 when it was left."""
        self.model = ""
        """The first model that the channel offers."""

    async def balance(self) -> Any:
        account = await self._session.client.account()
        return await self._ask(balance_plan(self._session, account.balance_nanos))

    async def channel(self) -> Any:
        session = self._session
        offers: Sequence[Offer] = []
        with suppress(GatewayError):  # the dialog may be closed, too
            offers = await self._app.page.wait("Looking for local servers and API keys", session.client.offers)
        return await self._ask(channel_plan(offers, self._create_channel, await fetch_presets(session)))

    async def models(self) -> Any:
        session, channel = self._session, self._channel
        if channel is None:
            return BACK
        names = [model.name for model in channel.models]
        command = fmt.cli_command("channel", "edit", channel.name, models="NAMES")
        about = f"{safe(channel.name)} has {len(names)}; selected ones are offered to clients."
        about += " Prices are dollars per million tokens, in / out."
        about += price_news(channel) if isinstance(channel, SavedChannel) else ""
        about += f"\n\n$ tollkeeper {command}"
        options = model_options(session, channel)
        checked = self._checked[1] if self._checked[0] == channel.id else names
        dialog = MultiSelect("First steps, 3 of 4: models", about, options, checked, back=True)
        result = await self._app.push_screen_wait(dialog)
        self._checked = (channel.id, dialog.choices.checked)
        if result is None or result is BACK:
            return result
        offered = [model for model in channel.models if model.name in result] or channel.models
        current = await session.client.channel(channel.id)
        if [model.name for model in offered] != [model.name for model in current.models]:
            fixed = [msgspec.structs.replace(model, live=False) for model in offered]  # whatever is listed later
            body = {"models": msgspec.to_builtins(fixed), "patterns": []}
            await session.client.edit_channel(channel.id, body)
        self.model = offered[0].name if offered else ""
        return True

    async def token(self) -> Any:
        """Ask for the token, the key that clients present."""
        session = self._session
        used_names = {token.name for token in session.board.tokens}
        names = ("first", "laptop", *(f"laptop-{i}" for i in range(2, 100)))
        name = next(name for name in names if name not in used_names)

        async def save(values: Values) -> NewToken:
            return await session.client.add_token({"name": values["name"]})

        plan = FormPlan(
            title="First steps, 4 of 4: a token",
            intro="A token is the key that a client presents. Its key is shown once; then a test call is made with it.",
            fields=[FormField(id="name", label="Name", value=name, parse=require_text)],
            save=save,
            command=lambda values: fmt.cli_command("token", "add", values["name"] or "NAME"),
            verb="Create and test",
            back=True,
        )
        return await self._ask(plan)

    async def _ask(self, plan: FormPlan) -> Any:
        """Show the form of a step, with the texts that it was left with. Returns its result."""
        draft = self._drafts.get(plan.title, {})
        fields = []
        for field in plan.fields:
            text = draft.get(field.id, field.value)
            is_option = not field.options or text in field.options  # options may have changed since
            fields.append(msgspec.structs.replace(field, value=text) if is_option else field)
        form = Form(msgspec.structs.replace(plan, fields=fields))
        result = await self._app.push_screen_wait(form)
        if result is not None:
            self._drafts[plan.title] = form.fields.texts()
        return result

    async def _create_channel(self, values: Values, body: Body | None) -> ChannelView:
        """Returns the channel for these values: a new one, unless they are the same as before. Raises GatewayError.

        Without a body, it is the existing demo, or a new one.
        """
        client, channel = self._session.client, self._channel
        if channel is not None and values == self._channel_values:
            return channel
        if isinstance(channel, SavedChannel):  # it was created here
            await client.remove_channel(channel.id)
        self._channel = None
        demos = [view for view in self._session.board.channels if view.dialect == Dialect.MOCK]
        if body is None and demos:
            channel = next((view for view in demos if view.name == "demo"), demos[0])
        else:
            channel = await client.add_channel(body or {"name": "demo", "dialect": Dialect.MOCK.value})
        self._channel, self._channel_values = channel, values
        return channel
