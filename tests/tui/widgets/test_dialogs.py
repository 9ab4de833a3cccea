import asyncio

import pytest
from textual.app import App

from gateway.domain.errors import UpstreamError
from gateway.domain.units import Millis
from tests.tui.stage import words
from tests.tui.widgets.stage import WidgetStage, asked, press_keys
from tui.widgets.dialogs import Busy, Confirm, toast


@pytest.mark.parametrize(
    ("keys", "done"),
    [
        (["enter"], False),
        (["escape"], False),
        (["n"], False),
        (["y"], True),
        (["tab", "enter"], True),
        (["l", "enter"], True),
    ],
)
async def test_cancel_has_the_focus_and_only_a_yes_does_it(keys: list[str], done: bool) -> None:
    async with asked(Confirm("Delete [b]laptop[/]?", "Its clients get 401.", "Delete")) as (app, pilot):
        await press_keys(pilot, *keys)
        assert app.answers == [done]


async def test_the_button_with_the_focus_stands_out_most() -> None:
    async with asked(Confirm("Delete laptop?", "Its clients get 401.", "Delete")) as (app, pilot):
        cancel, delete = app.screen.query_one("#cancel"), app.screen.query_one("#do")
        panel = app.theme_variables["panel"].casefold()
        assert delete.styles.background.hex.casefold() == panel
        assert cancel.styles.background.hex.casefold() != panel
        await pilot.press("tab")
        assert delete.styles.background.hex.casefold() != panel
        assert cancel.styles.background.hex.casefold() == panel


@pytest.mark.parametrize(
    ("told", "changes", "left"),
    [
        (["same", "other", "same"], [], ["other", "same"]),
        (["Token a disabled.", "Copied.", "Undone: token a."], [0, 2], ["Copied.", "Undone: token a."]),
    ],
    ids=["what is still shown", "what was said of the change before"],
)
async def test_a_message_takes_the_place_of_an_earlier_one(
    told: list[str], changes: list[int], left: list[str]
) -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        for number, text in enumerate(told):
            toast(app, text, change=number in changes)
            await pilot.pause()
        assert words(app) == left


@pytest.mark.parametrize(("height", "lines"), [(10, 2), (16, 4), (50, 8)])
async def test_a_long_message_leaves_most_of_a_low_screen_to_the_page(height: int, lines: int) -> None:
    app = App[None]()
    async with app.run_test(size=(80, height)) as pilot:
        toast(app, "a line\n" * 20)
        await pilot.pause()
        (message,) = app._notifications  # noqa: SLF001 - there is no other list
        assert message.message.splitlines() == ["a line"] * lines + ["…"]


def now() -> Millis:
    return Millis(0)


async def test_the_result_is_the_answer() -> None:
    async def work() -> str:
        return "done"

    async with asked(Busy("Testing [b]x[/]", work, now)) as (app, _):
        assert app.answers == ["done"]


async def test_a_failure_is_the_answer_too() -> None:
    error = UpstreamError("no answer")

    async def work() -> str:
        raise error

    async with asked(Busy("Testing", work, now)) as (app, _):
        assert app.answers == [error]


async def test_work_can_be_left() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with asked(Busy("Testing", work, now)) as (app, pilot):
        await press_keys(pilot, "escape")
        assert app.answers == [None]
        async with asyncio.timeout(30):
            await ended.wait()


async def test_words_are_shown_without_reading_markup() -> None:
    app = WidgetStage()
    async with app.run_test():
        toast(app, "[@click=app.quit]x[/] \x1b[2J")
        assert app.words == ["[@click=app.quit]x[/] �[2J"]
        assert not app.markup


async def test_errors_stay_longer() -> None:
    app = WidgetStage()
    async with app.run_test():
        toast(app, "a")
        toast(app, "b", bad=True)
        assert app.notices == [("a", "information", 4.0), ("b", "error", 8.0)]
