import asyncio

import pytest
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from tests.tui.stage import wait_until
from tui.key_queue import DIALOG_WORKERS, KeyQueueApp


class Ask(ModalScreen[str]):
    AUTO_FOCUS = "Input"

    def compose(self) -> ComposeResult:
        yield Input()


class Stage(KeyQueueApp[None]):
    BINDINGS = [  # noqa: RUF012
        ("slash", "search", "Search"),
        ("d", "delete", "Delete"),
        ("n", "ask", "Ask"),
        ("s", "ask_server", "Ask"),
    ]
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.deleted = 0
        self.answer = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Label("a")
        yield Input()

    def action_search(self) -> None:
        self.query_one(Input).focus()

    def action_delete(self) -> None:
        self.deleted += 1

    def action_ask(self) -> None:
        self.run_worker(self.push_screen_wait(Ask()), group=DIALOG_WORKERS)

    async def action_ask_server(self) -> None:
        async def ask() -> None:
            await self.answer.wait()
            await self.push_screen_wait(Ask())

        self.run_worker(ask(), group=DIALOG_WORKERS)

    def type_at_once(self, text: str) -> None:
        """All keys arrive before the first is handled."""
        for char in text:
            self.post_message(events.Key({"/": "slash"}.get(char, char), char))


@pytest.mark.parametrize(("keys", "typed"), [("/deploy", "deploy"), ("ndd", "dd")], ids=["a field", "a dialog"])
async def test_what_is_typed_after_a_key_goes_where_that_key_leads(keys: str, typed: str) -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once(keys)
        await wait_until(pilot, lambda: [one.value for one in app.screen.query(Input)] == [typed])
        assert (app.deleted, app.screen.is_modal) == (0, keys == "ndd")


async def test_keys_still_act_one_by_one() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once("dd")
        await wait_until(pilot, lambda: app.deleted == 2)


async def test_keys_wait_for_a_dialog_that_the_server_delays_however_slowly_they_are_typed() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        for key in "sdad":
            app.post_message(events.Key(key, key))
            await asyncio.sleep(0.1)
        app.answer.set()
        await wait_until(pilot, lambda: [one.value for one in app.screen.query(Input)] == ["dad"])
        assert app.deleted == 0


async def test_keys_act_after_a_second_if_the_server_never_answers() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.type_at_once("sdd")
        await asyncio.sleep(0.5)
        assert app.deleted == 0
        await wait_until(pilot, lambda: app.deleted > 0)
        app.type_at_once("dddd")
        await asyncio.sleep(0.5)  # the others do not wait a second each
        assert app.deleted == 6
        app.answer.set()


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
        await wait_until(pilot, lambda: app.query_one(Input).value == "x" + value)


async def test_a_paste_waits_its_turn_too() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.post_message(events.Key("slash", "/"))
        app.post_message(events.Paste("ddd"))
        await wait_until(pilot, lambda: app.query_one(Input).value == "ddd")
        assert app.deleted == 0
