from textual.widgets import Static

from tests.tui.widgets.stage import WidgetStage
from tui.widgets.dialogs import Prompt


def check(text: str) -> str:
    return "" if text.isdigit() else f"{text} is no number"


async def test_a_text_is_checked_while_it_is_typed() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Prompt("How many?", "12", check))
        await pilot.pause()
        await pilot.press("x", "enter")
        assert str(app.screen.query_one(".complaint", Static).visual) == "x is no number"
        assert app.answers == []
        await pilot.press("backspace", "7", "enter")
        await pilot.pause()
        assert app.answers == ["7"]


async def test_it_can_be_left() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Prompt("How many?", "12", check))
        await pilot.pause()
        await pilot.press("enter", "1", "escape")
        await pilot.pause()
        assert app.answers == [None]
