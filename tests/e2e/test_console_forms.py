"""The console's forms in front of a real server: what they ask for is done, what is refused stands at its field."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gateway.client import launch
from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.domain.human_values import parse_tier
from tests.fakes.provider import Provider
from tests.fakes.replies import reply
from tests.tui.owner import press, screen, see, text_of, until
from tui.app import Console, now
from tui.exit_status import ExitStatus
from tui.pages.list_page import ListPage
from tui.saved_state import PageState, SavedState
from tui.session import ConsoleSession, ServerLauncher
from tui.widgets.form import Form

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a socket of Unix"),
]
DOLLAR = 1_000_000_000


class ListeningConsole(Console):
    """A console that keeps its messages, because a toast is gone after four seconds."""

    def __init__(self, session: ConsoleSession, server: ServerLauncher) -> None:
        super().__init__(session, server)
        self.messages: list[str] = []

    def notify(self, message: str, **options: Any) -> None:
        self.messages.append(message)
        super().notify(message, **options)


class Seat:
    """Somebody at the console, and another way to the same server to see what came of it."""

    def __init__(self, app: ListeningConsole, pilot: Pilot[ExitStatus], control: ControlClient) -> None:
        self.app = app
        self.pilot = pilot
        self.control = control

    async def press(self, *keys: str, toast: str = "") -> None:
        """Press keys; wait for this ``toast`` if it is given."""
        await press(self.app, self.pilot, *keys)
        if toast:
            await self.wait_for_toast(toast)

    async def see(self, text: str, *keys: str) -> None:
        await see(self.app, self.pilot, text, *keys)

    async def wait(self, is_true: Callable[[], bool], failure: Callable[[], str]) -> None:
        """Wait until something is true."""
        for _ in range(400):
            if is_true():
                return
            await self.pilot.pause(0.05)
        raise AssertionError(failure())

    async def wait_for_toast(self, text: str) -> None:
        """Wait until it was reported after what was waited for before."""
        messages = self.app.messages
        await self.wait(
            lambda: any(text in message for message in messages),
            lambda: f"{text!r} was not shown, but {messages}:\n{screen(self.app)}",
        )
        messages.clear()

    async def field(self, name: str, text: str) -> None:
        """Type over the text of a field, after the advanced ones are unfolded if it is one of them."""
        selector = f"#field-{name}"
        await self.wait(lambda: isinstance(self.app.screen, Form), lambda: "no form is open")
        if not self.app.screen.query(selector):
            await self.press("ctrl+o")
        await self.wait(lambda: bool(self.app.screen.query(selector)), lambda: f"the form has no {selector}")
        field = self.app.screen.query_one(selector, Input)
        self.app.screen.set_focus(field)
        field.select_all()
        await self.press(f"={text}")

    async def selected(self, page: str, key: str) -> None:
        """Wait until the row of this key is the selected one."""
        table = self.app.query_one(f"#{page}", ListPage).table
        await self.wait(lambda: table.cursor_key == key, lambda: f"{key} was not selected")

    async def undo(self, change: str) -> None:
        await self.press("u")
        await self.wait_for_toast(f"Undone: {change}")


@asynccontextmanager
async def seated(folder: Path, page: str) -> AsyncIterator[Seat]:
    """The console on a new home with one token, a page open."""
    config = Config(home=folder / "home", port=0)
    endpoint = await launch.start(config)
    await ControlClient(endpoint).add_token({"name": "first"})
    try:
        state = SavedState(page=page, views={"wizard": PageState(choices={"seen": "yes"})})
        app = ListeningConsole(ConsoleSession(config, now, state), ServerLauncher(config))
        async with app.run_test(size=(110, 40)) as pilot:
            await until(app, pilot, "running 0")
            yield Seat(app, pilot, ControlClient(endpoint))
    finally:
        await launch.stop(endpoint, now=True)


async def test_tokens_are_created_edited_and_removed_in_forms(tmp_path: Path) -> None:
    async with seated(tmp_path, "tokens") as seat:
        await until(seat.app, seat.pilot, "first")
        await seat.see("key is shown only this once", "n", "=phone", "enter")
        await seat.press("escape")
        made = await seat.control.token("phone")
        await seat.selected("tokens", made.id)

        await seat.press("e")
        await seat.field("name", "first")
        await seat.see("there is already a token", "enter")
        assert "first" in text_of(seat.app, "#wrong-name")
        await seat.field("name", "mobile")
        await seat.field("budgets", "day=5")
        await seat.field("limits", "rpm=60")
        await seat.press("enter", toast="Token phone saved")
        found = await seat.control.token("mobile")
        assert (found.id, found.budgets[0].nanos, found.limits.rpm) == (made.id, 5 * DOLLAR, 60)

        await seat.press("space", toast="Disabled token 'mobile'")
        await seat.see("key is shown only this once", "D", "enter")
        await seat.press("escape")
        copied = await seat.control.token("mobile-2")
        await seat.selected("tokens", copied.id)
        assert (copied.budgets[0].nanos, copied.limits.rpm) == (5 * DOLLAR, 60)

        await seat.see("key is shown only this once", "R", "y")
        await seat.press("escape")
        assert (await seat.control.token("mobile-2")).hint != copied.hint

        await seat.press("d", "y", toast="Removed token 'mobile-2'")
        assert [token.name for token in await seat.control.tokens()] == ["first", "mobile"]
        await seat.see("works again", "u")
        await seat.press("y", toast="Undone: token 'mobile-2' is back")
        assert len(await seat.control.tokens()) == 3


async def test_groups_are_created_edited_and_copied_in_forms(tmp_path: Path) -> None:
    async with seated(tmp_path, "groups") as seat:
        await until(seat.app, seat.pilot, "default")
        await seat.press("n", "=friends")
        await seat.field("multiplier", "1.5")
        await seat.press("enter", toast="Group friends created")
        await seat.selected("groups", (await seat.control.group("friends")).id)
        await seat.press("e")
        await seat.field("budgets", "month=20")
        await seat.press("enter", toast="Group friends saved")
        await seat.press("D", "enter", toast="Group friends-2 created")
        copied = await seat.control.group("friends-2")
        await seat.selected("groups", copied.id)
        assert (copied.multiplier, copied.budgets[0].nanos) == (1_500_000, 20 * DOLLAR)
        await seat.press("d", "y", toast="Group friends-2 deleted")
        await seat.undo("group 'friends-2' is back")

        await seat.press("g", "d")  # default, which is used
        await until(seat.app, seat.pilot, "Move them to")
        await seat.press("enter", toast="Group default deleted")
        assert (await seat.control.token("first")).group == "friends"
        assert (await seat.control.channel("demo")).groups == ("friends",)


async def test_channels_are_created_and_edited_in_forms(tmp_path: Path) -> None:
    async with Provider().running() as provider, seated(tmp_path, "channels") as seat:
        await until(seat.app, seat.pilot, "demo")
        await seat.press("n", "=up")
        await seat.field("base_url", f"http://127.0.0.1:{provider.port}/v1")
        await seat.field("key", "sk-secret-0123456789-0001")
        await seat.field("models", "a, fast=b")
        await seat.press("enter", toast="Channel up created with 2 models")
        await seat.selected("channels", (await seat.control.channel("up")).id)
        await seat.press("e")
        await seat.field("headers", "x-team='red and secret'")
        await seat.press("enter", toast="Channel up saved")
        await seat.see("headers: x-team", "enter")

        await seat.press("e")
        await seat.field("priority", "many")
        await seat.press("enter")
        assert "'many' is not a whole number" in text_of(seat.app, "#wrong-priority")
        await seat.field("priority", "-3")
        await seat.press("enter", toast="Channel up saved")
        edited = await seat.control.channel("up")
        assert (edited.priority, edited.key[-4:], list(edited.headers)) == (-3, "0001", ["x-team"])

        await seat.press("D", "enter")
        assert "cannot be copied: enter it again" in text_of(seat.app, "#wrong-key")
        await seat.field("key", "sk-other-0123456789-0002")
        await seat.press("enter", toast="Channel up-2 created with 2 models")
        copied = await seat.control.channel("up-2")
        await seat.selected("channels", copied.id)
        assert (copied.key[-4:], [model.upstream for model in copied.models]) == ("0002", ["", "b"])

        await seat.press("space", toast="Disabled channel 'up-2'")
        await seat.press("d", "y", toast="Removed channel 'up-2'")
        await seat.undo("channel 'up-2' is back")
        assert (await seat.control.channel("up-2")).key[-4:] == "0002"


async def test_a_channel_keeps_what_its_patterns_let_in_when_something_else_is_changed(tmp_path: Path) -> None:
    async with Provider().running() as provider, seated(tmp_path, "channels") as seat:
        listed = [{"id": name} for name in ("gpt-5", "gpt-5-preview", "other")]
        provider.on("/v1/models", reply({"object": "list", "data": listed}))
        url = f"http://127.0.0.1:{provider.port}/v1"
        body = {"name": "up", "dialect": "openai", "base_url": url, "patterns": ["gpt-*"], "priority": 9}
        await seat.control.add_channel(body)
        await until(seat.app, seat.pilot, "up ")
        await seat.press("g", "e")
        await seat.field("note", "mine")
        await seat.press("enter", toast="Channel up saved")
        found = await seat.control.channel("up")
        assert ([one.name for one in found.models], found.patterns) == (["gpt-5", "gpt-5-preview"], ("gpt-*",))

        await seat.see("Models of up", "L")
        await seat.press("slash", "=preview", "enter", "space", "enter", toast="up now offers 1 model")
        found = await seat.control.channel("up")
        assert ([one.name for one in found.models], found.patterns) == (["gpt-5"], ("gpt-*", "!gpt-5-preview"))

        listed += [{"id": "gpt-6"}, {"id": "gpt-nova"}]
        provider.on("/v1/models", reply({"object": "list", "data": listed}))
        await seat.see("2 new", "L")
        await seat.press("slash", "=nova", "enter", "space", "enter", toast="up now offers 2 models")
        found = await seat.control.channel("up")
        assert [one.name for one in found.models] == ["gpt-5", "gpt-6"]
        assert found.patterns == ("gpt-*", "!gpt-5-preview", "!gpt-nova")


async def test_prices_are_set_in_a_form_that_refuses_other_texts(tmp_path: Path) -> None:
    async with seated(tmp_path, "models") as seat:
        await until(seat.app, seat.pilot, "demo-echo")
        await seat.press("e")
        await seat.field("input", "3")
        await seat.field("tiers", "200k=6/22.50")
        await seat.press("enter", toast="Price of demo-echo saved")
        await until(seat.app, seat.pilot, "manual")
        await seat.press("e")
        await seat.field("output", "x")
        await seat.press("enter")
        assert "'x' is not an amount of dollars" in text_of(seat.app, "#wrong-output")
        await seat.field("output", "15")
        await seat.see(" 15.00 ", "enter")
        found = next(price for price in await seat.control.prices() if price.model == "demo-echo")
        assert (found.input, found.output) == (3 * DOLLAR, 15 * DOLLAR)
        assert found.tiers == (parse_tier("200k=6/22.50"),)
        await seat.press("d", "y", toast="Price of demo-echo removed")
        await seat.undo("the price of 'demo-echo' is back")


async def test_the_account_is_topped_up_limited_and_suspended_in_the_console(tmp_path: Path) -> None:
    async with seated(tmp_path, "account") as seat:
        await until(seat.app, seat.pilot, "first amount")
        await seat.press("a", "=2.50", "tab", "=more", "enter", toast="Balance: $12.50")
        await seat.press("e")
        await seat.field("budgets", "fortnight=5")
        await seat.press("enter")
        assert "unknown budget window 'fortnight'" in text_of(seat.app, "#wrong-budgets")
        await seat.field("budgets", "day=5 month=50")
        await seat.press("enter", toast="Account saved")
        assert [one.nanos for one in (await seat.control.account()).budgets] == [5 * DOLLAR, 50 * DOLLAR]
        await seat.press("space", "y", toast="Account suspended")
        await until(seat.app, seat.pilot, "all calls are rejected")
        await seat.press("space", toast="Account active")
