import asyncio
from collections.abc import Callable

import pytest
from textual import events
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from tui.key_queue import DIALOG_WORKERS, KeyQueueApp


class Ask(ModalScreen[str]):
    AUTO_FOCUS = "Input"

    def compose(self) -> ComposeResult:
        yield Input()


class Stage(KeyQueueApp[None]):
    BINDINGS = [("slash", "search", "Search"), ("d", "delete", "Delete"), ("n", "ask", "Ask")]  # noqa: RUF012
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.deleted = 0

    def compose(self) -> ComposeResult:
        yield Label("a")
        yield Input()

    def action_search(self) -> None:
        self.query_one(Input).focus()

    def action_delete(self) -> None:
        self.deleted += 1

    def action_ask(self) -> None:
        self.run_worker(self.push_screen_wait(Ask()), group=DIALOG_WORKERS)

    def type_at_once(self, text: str) -> None:
        """All keys arrive before the first is handled."""
        for char in text:
            self.post_message(events.Key({"/": "slash"}.get(char, char), char))


async def until(pilot: Pilot[None], there: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not there():
            await pilot.pause(0.01)


@pytest.mark.parametrize(("keys", "typed"), [("/deploy", "deploy"), ("ndd", "dd")], ids=["a field", "a dialog"])
async def test_what_is_typed_after_a_key_goes_where_that_key_leads(keys: str, typed: str) -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once(keys)
        await until(pilot, lambda: [one.value for one in app.screen.query(Input)] == [typed])
        assert (app.deleted, app.screen.is_modal) == (0, keys == "ndd")


async def test_keys_still_act_one_by_one() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once("dd")
        await until(pilot, lambda: app.deleted == 2)


@pytest.mark.parametrize(
    ("pasted", "value"),
    [
        ("tok:a\nst:err\n", "tok:a st:err"),
        ("\r\n sk-1\r\n", " sk-1"),
        ("a\rb", "a b"),
        ("\n", ""),
    ],
    ids=["words", "a line between others", "as xterm sends it", "no text"],
)
async def test_all_lines_of_a_pasted_text_are_taken(pasted: str, value: str) -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once("/x")
        app.post_message(events.Paste(pasted))
        await until(pilot, lambda: app.query_one(Input).value == "x" + value)


async def test_a_paste_waits_its_turn_too() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.post_message(events.Key("slash", "/"))
        app.post_message(events.Paste("ddd"))
        await until(pilot, lambda: app.query_one(Input).value == "ddd")
        assert app.deleted == 0
