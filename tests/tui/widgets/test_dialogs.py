import asyncio

import pytest
from textual.app import App
from textual.widgets._toast import Toast

from gateway.domain.errors import UpstreamError
from gateway.domain.units import Millis
from tests.tui.widgets.stage import WidgetStage, asked, press_keys
from tui.app import STYLESHEET
from tui.themes import DARK
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


async def test_a_message_that_is_still_shown_is_not_shown_twice() -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        for text in ("same", "other", "same"):
            toast(app, text)
            await pilot.pause()
        assert [one.message for one in app._notifications] == ["other", "same"]  # noqa: SLF001 - there is no other list


@pytest.mark.parametrize(("height", "lines"), [(10, 2), (16, 4), (50, 8)])
async def test_a_long_message_leaves_most_of_a_low_screen_to_the_page(height: int, lines: int) -> None:
    app = App[None]()
    async with app.run_test(size=(80, height)) as pilot:
        toast(app, "a line\n" * 20)
        await pilot.pause()
        (message,) = app._notifications  # noqa: SLF001 - there is no other list
        assert message.message.splitlines() == ["a line"] * lines + ["…"]


async def test_a_message_leaves_a_dialog_free() -> None:
    app = App[None](css_path=STYLESHEET)
    app.register_theme(DARK)
    app.theme = DARK.name
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        app.push_screen(Confirm("Delete laptop?", "Its clients get 401.", "Delete"))
        await pilot.pause()
        toast(app, "Copied")
        for _ in range(100):
            await pilot.pause()
            if app.screen.query(Toast) and app.screen.query_one(Toast).region.height:
                break
        shown = app.screen.query_one(Toast)
        assert not shown.region.overlaps(app.screen.query_one(".dialog").region)


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


async def test_what_went_wrong_stays_longer() -> None:
    app = WidgetStage()
    async with app.run_test():
        toast(app, "a")
        toast(app, "b", bad=True)
        assert app.notices == [("a", "information", 4.0), ("b", "error", 8.0)]


async def test_a_message_about_a_change_takes_the_place_of_that_about_the_change_before() -> None:
    app = App[None]()
    async with app.run_test() as pilot:
        for text, change in (("Token a disabled.", True), ("Copied.", False), ("Undone: token a.", True)):
            toast(app, text, change=change)
            await pilot.pause()
        assert [one.message for one in app._notifications] == ["Copied.", "Undone: token a."]  # noqa: SLF001 - there is no other list
