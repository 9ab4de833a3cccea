"""Wizard: the first steps, four at most: a purse, a channel, its models, a token; at the end a call that works.

It comes by itself when nothing was ever done here, and only once; esc leaves it at any step, and nothing is lost by
that. Each step is a form as everywhere, with the command that does the same, and can be gone back to: what was made
there is then made anew only if something else is asked for.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.domain.channel import Dialect
from gateway.domain.errors import GatewayError
from gateway.domain.upstream_views import PresetView
from gateway.domain.views import ChannelView, NewToken
from tui import wizard_plans as plans
from tui.board import Board
from tui.safe import safe
from tui.session import Session
from tui.twins import command
from tui.widgets.busy import Busy
from tui.widgets.connect import Connect
from tui.widgets.form import BACK, Form, Values
from tui.widgets.take import Take
from tui.widgets.toast import tell

Console = Any
"""The app; it imports this file."""

SEEN = "seen"
LATER = "left; everything can be done later: 4 channels, 2 tokens, or ':' First steps"

Step = Callable[[], Awaitable[Any]]
"""Gives what was decided, BACK, or None if the wizard was left."""


def is_fresh(board: Board) -> bool:
    """Whether nothing was ever done here: no call, no token in use, no channel but the demo."""
    return (
        board.status is not None
        and board.status.records == 0
        and len(board.tokens) <= 1
        and all(token.last_used_ms is None for token in board.tokens)
        and all(channel.dialect == Dialect.MOCK for channel in board.channels)
    )


def offer_once(app: Console) -> None:
    """Begin by itself if the home is fresh and it was not left before."""
    choices = app.session.remembered.view("wizard").choices
    if is_fresh(app.session.board) and SEEN not in choices:
        choices[SEEN] = "yes"
        app.page.do(lambda _page: run(app))


async def run(app: Console) -> None:
    """All steps, until one is left."""
    app.session.remembered.view("wizard").choices[SEEN] = "yes"
    steps = Steps(app)
    order: list[Step] = [steps.purse, steps.channel, steps.models, steps.token]
    at = 0
    found: Any = None
    while at < len(order):
        found = await order[at]()
        if found is None:
            tell(app, LATER)
            return
        at += -1 if found is BACK else 1
    await app.push_screen_wait(Connect(app.session, found.token, found.key, first=steps.model))
    await app.action_page("live")
    tell(app, "that is all: clients can call now, and every call is a line here")


class Steps:
    """The steps, and what was decided in those before."""

    def __init__(self, app: Console) -> None:
        self._app = app
        self._session: Session = app.session
        self._typed: Values = {}
        """What the channel's form was left with."""
        self._made: ChannelView | None = None
        """The channel of the second step, as it came from its upstream."""
        self._new = False
        """Whether it was made here, and did not exist before."""
        self.model = ""

    async def purse(self) -> Any:
        """Step 1: what may be spent."""
        account = await self._session.client.account()
        return await self._app.push_screen_wait(Form(plans.purse_plan(self._session, account.balance_nanos)))

    async def channel(self) -> Any:
        """Step 2: who answers."""
        session = self._session
        look = Busy("Looking what is on this machine", session.client.offers, session.now)
        offers = await self._app.push_screen_wait(look)
        found = [] if offers is None or isinstance(offers, GatewayError) else offers
        plan = plans.channel_plan(found, self._choose, self._typed, await self._presets())
        return await self._app.push_screen_wait(Form(plan))

    async def models(self) -> Any:
        """Step 3: what is offered of what the channel has."""
        session, channel = self._session, self._made
        if channel is None:
            return BACK
        names = [model.name for model in channel.models]
        twin = command("channel", "edit", safe(channel.name), models="NAMES")
        about = (
            f"{channel.name} has {len(names)}; those that are on are offered to clients. Models without a price are "
            f"counted and not charged: page 5 sets prices.\n\n$ tollkeeper {twin}"
        )
        options = plans.model_options(session, channel)
        on = await self._app.push_screen_wait(Take("First steps, 3 of 4: models", about, options, names, back=True))
        if on is None or on is BACK:
            return on
        kept = [model for model in channel.models if model.name in on] or channel.models
        there = await session.client.channel(channel.id)
        if [model.name for model in kept] != [model.name for model in there.models]:
            await session.client.edit_channel(channel.id, plans.only(kept))
        self.model = kept[0].name if kept else ""
        return True

    async def token(self) -> Any:
        """Step 4: the key that clients present."""
        found: NewToken | None = await self._app.push_screen_wait(Form(plans.token_plan(self._session)))
        return found

    async def _choose(self, values: Values, body: plans.Body | None) -> ChannelView:
        """The channel that was asked for: the demo, the one made just now, or a new one. Raises GatewayError."""
        if self._made is None or values != self._typed:
            await self._drop()
            self._made = await plans.made(self._session, body)
            self._new = body is not None
            self._typed = values
        return self._made

    async def _presets(self) -> list[PresetView]:
        """None if the server cannot tell them: an address will do."""
        try:
            return list(await self._session.client.presets())
        except GatewayError:
            return []

    async def _drop(self) -> None:
        """Something else is wanted than what was made here before."""
        if self._made is not None and self._new:
            await self._session.client.remove_channel(self._made.id)
        self._made = None
