"""Owner: a fake server whose tables can be changed, and the console in front of it.

Long: one fake of the whole control surface.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from textual.app import App
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input, Static

from gateway.domain.channel import Check, ServedModel
from gateway.domain.diagnosis import Checkup, LimitView, PartyView, RouteView, Verdict, Why
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.events import EntityChanged
from gateway.domain.history import Question
from gateway.domain.price_view import PriceNews, PriceView
from gateway.domain.settings import Settings
from gateway.domain.units import Millis, Nanos
from gateway.domain.upstream_views import ListedModel, ListingView, PresetView, PriceProposal, SavedChannel
from gateway.domain.views import AccountView, ChannelView, GroupView, NewToken, Offer, Step
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, choice, chunk, delta, event, fail, reply, stream_bytes, whole
from tests.fakes.verdicts import route, verdict
from tests.house import FULL
from tests.tui.stage import NOW, FakeClient, budget, calls, channel, console, group, model, token, wait_until
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.preferences import Preferences
from tui.saved_state import PageState, SavedState
from tui.session import ConsoleSession

L = TypeVar("L")
KEY = "sk-tk-" + "k" * 43


def _answering(table: str) -> Any:
    """Returns a method that answers with an attribute of the server."""

    async def answer(self: "Owner", *_: object) -> Any:
        return getattr(self, table)

    return answer


def _finding(table: str) -> Any:
    """Returns a method that answers with the entity of this id or name."""

    async def answer(self: "Owner", ref: str) -> Any:
        return next(one for one in getattr(self, table) if ref in (getattr(one, "id", ""), getattr(one, "name", "")))

    return answer


def _noting(name: str, table: str = "") -> Any:
    """Returns a method that notes a change, and answers with an attribute, the first of a list, or what was done."""

    async def answer(self: "Owner", *arguments: object) -> Any:
        self.note(name, *arguments)
        value = getattr(self, table) if table else {"done": name}
        return value[0] if isinstance(value, list) else value

    return answer


class Owner(FakeClient):
    """Makes the requested changes and reports them; ``did`` lists them."""

    def __init__(self, count: int = 40, **attributes: Any) -> None:
        super().__init__(calls(count))
        self.did: list[tuple[Any, ...]] = []
        self.why_requests: list[dict[str, Any]] = []
        """What each request for a verdict has beside token and model."""
        self.refuses: BadRequest | None = None
        """What the next change is refused with."""
        self.listing = listing(
            listed("claude-sonnet-4-5"),
            listed("claude-haiku-4-5", state="gone"),
            listed("claude-opus-5", state="new", served=False, context=1_000_000),
        )
        self.check = Check(time=NOW, ok=True, ms=Millis(412), text="it lists 2 models")
        self.offered: list[Offer] = []
        self.new_prices: tuple[PriceView, ...] = ()
        """What a channel's models get when it is created or edited."""
        self.single_prices: list[PriceView] = []
        """Those of models at single channels."""
        self.unpriced: tuple[str, ...] = ()
        self.passed_key = {"key": "sk-tk-pass"}
        """What ends with the token that is removed next."""
        self.answer = refused()
        self.news = PriceNews()
        self.proposals = [
            proposal("gpt-5-mini", change="up", guard="five times as much"),
            proposal("my-finetune-7", now=None, change="new"),
            proposal("claude-sonnet-4-5", differs=False, change="same"),
            proposal("gemini-2.5-flash", kept=True, change="down"),
        ]
        self.machine_now = [Step(name="the disk", result="ok", text="9.0 GB are free")]
        for name, value in attributes.items():
            setattr(self, name, value)

    def note(self, *what: Any) -> None:
        """Remember the request, or refuse it."""
        if self.refuses is not None:
            refusal, self.refuses = self.refuses, None
            raise refusal
        self.did.append(what)

    def changed(self) -> None:
        """Notify the tables."""
        self.tell(
            EntityChanged(
                account=self.account_now,
                tokens=list(self.tokens_now),
                groups=list(self.groups_now),
                channels=list(self.channels_now),
                models=list(self.models_now),
                refuses_unpriced=self.refuses_unpriced,
            )
        )

    account, tokens, channels, models, offers, machine, price_news = map(
        _answering, ("account_now", "tokens_now", "channels_now", "models_now", "offered", "machine_now", "news")
    )
    edit_token, edit_group = _noting("edit_token", "tokens_now"), _noting("edit_group", "groups_now")
    add_key, remove_key, clear_key, clear_channel = (
        _noting(name, "channels_now") for name in ("add_key", "remove_key", "clear_key", "clear_channel")
    )
    refresh_channel, test_channel = _noting("refresh_channel", "listing"), _noting("test_channel", "check")
    remove_group, remove_channel = _noting("remove_group"), _noting("remove_channel")
    token_pass = _noting("token_pass", "passed_key")
    token, group, channel, call = map(_finding, ("tokens_now", "groups_now", "channels_now", "records"))

    async def add_token(self, body: Any) -> NewToken:
        self.note("add_token", body)
        made = token(body["name"], id="tok_made", last_used_ms=None, budgets=[])
        self.tokens_now.append(made)
        self.changed()
        return NewToken(key=KEY, token=made)

    async def rotate_token(self, ref: str) -> NewToken:
        self.note("rotate_token", ref)
        return NewToken(key=KEY, token=next(one for one in self.tokens_now if one.id == ref))

    async def add_group(self, body: Any) -> GroupView:
        self.note("add_group", body)
        self.groups_now.append(made := group(body["name"]))
        self.changed()
        return made

    async def add_channel(self, body: Any) -> SavedChannel:
        self.note("add_channel", body)
        served = [ServedModel(name="model-a"), ServedModel(name="model-b")]
        self.channels_now.append(made := channel(body["name"], models=served))
        self.changed()
        return self.saved(made)

    async def edit_channel(self, ref: str, patch: Any) -> SavedChannel:
        self.note("edit_channel", ref, patch)
        return self.saved(self.channels_now[0])

    def saved(self, view: ChannelView) -> SavedChannel:
        """The answer to an edit, with the prices that the channel's models got."""
        fields = {name: getattr(view, name) for name in view.__struct_fields__}
        return SavedChannel(
            **fields, new_prices=self.new_prices, unpriced=self.unpriced, refuses_unpriced=self.refuses_unpriced
        )

    async def presets(self) -> list[PresetView]:
        return [
            preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
            preset("ollama", "http://127.0.0.1:11434/v1"),
            preset("azure", ""),
        ]

    async def batch(self, kind: str, patches: Any, channel: str = "") -> str:
        self.note("batch", kind, patches)
        return f"changed {len(patches)} {kind}"

    async def checkup(self, ref: str) -> Checkup:
        name = next(one.name for one in self.channels_now if one.id == ref)
        return Checkup(step=Step(name=f"channel {name}", result="ok", text="it lists 2 models"), ahead_ms=Millis(0))

    async def verify(self) -> Verdict:
        zero = Nanos(0)
        return Verdict(
            equal=True, calls=40, cost_nanos=zero, granted_nanos=zero, balance_nanos=zero, checks=9, difference=""
        )

    async def set_price(self, model: str, body: Any, channel: str = "") -> PriceView:
        self.note("set_price", model, body, *([channel] if channel else []))
        return price_of("claude-haiku-4-5")

    async def import_prices(self, models: list[str] | None = None, **how: Any) -> list[PriceProposal]:
        if models is None:
            return self.proposals
        self.note("import_prices", models, how)
        return [msgspec.structs.replace(one, applied=True) for one in self.proposals if one.model in models]

    async def remove_price(self, model: str, channel: str = "") -> dict[str, str]:
        self.note("remove_price", model, *([channel] if channel else []))
        return {}

    async def prices(self) -> list[PriceView]:
        return [*(model.price for model in self.models_now if model.price is not None), *self.single_prices]

    async def set_account(self, patch: Any) -> AccountView:
        self.note("set_account", patch)
        self.account_now = msgspec.structs.replace(self.account_now, status=patch.get("status", "active"))
        self.changed()
        return self.account_now

    async def require_confirmed(self, text: str, reasons: Sequence[str], verb: str) -> None:
        """What the client of a server does that wants a change to be confirmed."""
        question = Question(text=text, reasons=[*reasons], verb=verb, answer="yes")
        if self.confirm is not None and not await self.confirm(question):
            raise Conflict("nothing was changed", code="declined")

    async def set_settings(self, patch: Any) -> Settings:
        if patch.get("keep_days", self.settings_now.keep_days) < self.settings_now.keep_days and self.expiring.records:
            await self.require_confirmed("Keep fewer?", [f"{self.expiring.text} are deleted for good."], "Delete")
        self.note("set_settings", patch)
        self.settings_now = msgspec.structs.replace(self.settings_now, **patch)
        return self.settings_now

    async def grant(self, nanos: int, note: str = "") -> AccountView:
        self.note("grant", nanos, note)
        balance = Nanos(self.account_now.balance_nanos + nanos)
        self.account_now = msgspec.structs.replace(self.account_now, balance_nanos=balance)
        return self.account_now

    async def why(self, token: str, model: str, **request: Any) -> Why:
        self.why_requests.append(request)
        self.asked.append(f"why {token} {model}")
        return msgspec.structs.replace(self.answer, token=token, model=model)


def listed(name: str, **changes: Any) -> ListedModel:
    fields: dict[str, Any] = {
        "name": name,
        "state": "offered",
        "served": True,
        "public": name,
        "context": None,
        "published": None,
    }
    return ListedModel(**(fields | changes))


def listing(*models: ListedModel, **changes: Any) -> ListingView:
    fields: dict[str, Any] = {"channel": "anthropic", "patterns": [], "time_ms": NOW, "stale": False, "error": ""}
    return ListingView(models=list(models), **(fields | changes))


def preset(name: str, url: str, key: str = "") -> PresetView:
    return PresetView(name=name, dialect="openai", base_url=url, key_variable=key, local=not key)


def proposal(name: str, **changes: Any) -> PriceProposal:
    fields: dict[str, Any] = {
        "model": name,
        "channel": "openai-main",
        "now": price_of("gpt-5-mini"),
        "listed": price_of("claude-haiku-4-5"),
        "kept": False,
        "differs": True,
    }
    return PriceProposal(**(fields | changes))


def price_of(name: str) -> PriceView:
    price = model(name).price
    assert price is not None
    return price


def listing_of(make: Callable[[ConsoleSession], L], **tables: Sequence[Any]) -> L:
    """The rows of a page over these tables."""
    session, client = console().session, FakeClient()
    for name, views in tables.items():
        setattr(client, f"{name}_now", [*views])
    session.board.apply(client.snapshot())
    return make(session)


def typed_form(make: Any, view: Any = None, copy: Any = False, **typed: str) -> tuple[dict[str, Any], str]:
    """The body and the command of a form, with some inputs typed."""
    made = listing_of(lambda session: make(session, view, copy=copy))
    inputs = made.fields()
    texts = {field.id: field.value for field in inputs} | typed
    return made.body({field.id: field.parse(texts[field.id]) for field in inputs}), made.command(texts)


def limited_route() -> RouteView:
    """A channel that is paused for a rate limit."""
    return route(
        channel="anthropic",
        model="claude-sonnet-4-5",
        upstream_model="claude-sonnet-4-5",
        state="cooling",
        reason="429",
        until_ms=Millis(NOW + 30_000),
        passed="paused for 30 s: 429",
        cache_marks=True,
    )


def refused(**changes: Any) -> Why:
    """Why no channel can serve it: one is paused, another does not offer it."""
    rests = limited_route()
    other = msgspec.structs.replace(
        rests, channel="ollama", upstream_model="", state="ok", until_ms=None, in_flight=0, passed="does not offer it"
    )
    limits = [LimitView(name="requests", limit=60, left=0, whole_in_ms=Millis(30_000))]
    fields: dict[str, Any] = {
        "group": "batch",
        "model": "claude-sonnet-4-5",
        "works": False,
        "status": 503,
        "code": "no_channel_available",
        "message": "no channel can serve it now: anthropic is cooling",
        "fix": "'tollkeeper channel list' shows the state of each",
        "retry_after_s": 30.0,
        "rule": "group 'batch' has it from anthropic",
        "price": model("claude-sonnet-4-5").price,
        "multiplier": 500_000,
        "hold_nanos": Nanos(9_000_000),
        "hold_tokens": 5_000,
        "parties": [
            PartyView(kind="account", name="", budgets=[budget(16.4, 40)], limits=[]),
            PartyView(kind="group", name="batch", budgets=[], limits=[]),
            PartyView(kind="token", name="laptop", budgets=[], limits=limits),
        ],
        "routes": [rests, other],
    }
    return verdict(**(fields | changes))


@asynccontextmanager
async def public(owner: Owner, status: int = 200, message: str = "no channel takes calls") -> AsyncIterator[list[str]]:
    """A /v1 of the fake server: every call is its newest record; the paths and keys that came."""
    asked: list[str] = []

    async def answer(exchange: Exchange) -> None:
        asked.append(f"{exchange.path} {exchange.head.get('authorization')}")
        headers = {"x-request-id": owner.records[0].id}
        script = reply(whole("m", choice("ok")), headers=headers)
        if status != 200:
            script = fail(status, message, code="no_channel_available", headers=headers)
        elif exchange.path.endswith("/models"):
            script = reply({"data": [{"id": name} for name in ("claude-sonnet-4-5", "gpt-5-mini")]})
        elif b'"stream":true' in exchange.body:
            script = stream_bytes(event(chunk(delta("ok"))) + DONE, headers=headers)
        await script(exchange)

    async with Provider().running() as provider:
        provider.other = answer
        owner.address = provider.base_url
        yield asked
        assert provider.faults == []


@asynccontextmanager
async def shown(
    page: str,
    client: Owner | None = None,
    *,
    size: tuple[int, int] = (100, 30),
    theme: str = "dark",
    view: PageState | None = None,
    home: Path = Path("/nowhere"),
    in_ascii: bool = False,
    preferences: Preferences | None = None,
    colour: bool = True,
    **attributes: Any,
) -> AsyncIterator[tuple[Console, Pilot[ExitStatus], Owner]]:
    """The console with a page open, everything drawn. A server that is not given has these attributes."""
    owner = client or Owner(**attributes)
    state = SavedState(page=page, theme=theme, views={page: view} if view else {})
    app = console(owner, home=home, state=state, preferences=preferences, in_ascii=in_ascii, colour=colour)
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: app.session.board.status is not None)
        await settle(app, pilot)
        yield app, pilot, owner
        if FULL and app.is_running and app.screen_stack:
            screen(app)  # it can be drawn as it is now; that takes a third of the time of a short test


async def settle(app: Console, pilot: Pilot[ExitStatus]) -> None:
    """Let everything that happened reach the screen, and what it led to."""
    for _ in range(2):
        await pilot.pause()
        if not app.screen.is_modal:
            app.page.renew()
    await pilot.pause()


async def press(app: Console, pilot: Pilot[ExitStatus], *keys: str) -> None:
    """Press keys (``=text`` pastes it, which costs as much as one key) and let their effects settle."""
    for key in keys:
        if key.startswith("="):
            app.post_message(Paste(key[1:]))
        else:
            await pilot.press(key)
        await pilot.pause()
    await settle(app, pilot)


def doing(app: Console, *keys: str) -> Callable[[Pilot[ExitStatus]], Awaitable[None]]:
    """What is done before a picture is taken: these keys are pressed, and no cursor blinks."""

    async def run(pilot: Pilot[ExitStatus]) -> None:
        await settle(app, pilot)
        await press(app, pilot, *keys)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause()

    return run


async def until(app: Console, pilot: Pilot[ExitStatus], text: str) -> None:
    await wait_until(pilot, lambda: text in screen(app))


async def see(app: Console, pilot: Pilot[ExitStatus], text: str, *keys: str) -> None:
    """Press keys and wait for a text on the screen."""
    await press(app, pilot, *keys)
    await until(app, pilot, text)


def screen(app: Console) -> str:
    width, height = app.size
    lines = app.screen._compositor.render_strips()  # noqa: SLF001 - Textual gives it nowhere else
    return "\n".join("".join(segment.text for segment in strip)[:width].rstrip() for strip in lines[:height])


def text_of(app: App[Any], selector: str) -> str:
    """The text of a widget of the open dialog or page."""
    return str(app.screen.query_one(selector, Static).visual)
