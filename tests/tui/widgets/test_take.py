from tests.tui.widgets.stage import WidgetStage
from tui.widgets.take import Take

OPTIONS = [("a", "new [b]a[/]"), ("b", "gone b"), ("c", "new c")]


async def test_enter_gives_what_is_on() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Take("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("space", "down", "space", "enter")
        assert app.answers == [{"a"}]


async def test_all_or_none() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Take("Models", "what to take", OPTIONS, []))
        await pilot.pause()
        await pilot.press("a", "enter")
        assert app.answers == [{"a", "b", "c"}]


async def test_escape_changes_nothing() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(Take("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("a", "escape")
        assert app.answers == [None]
