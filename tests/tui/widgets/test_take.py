from tests.tui.widgets.stage import WidgetStage
from tui.widgets.choices import Checks, MultiSelect
from tui.widgets.dialogs import BACK

OPTIONS = [("a", "new [b]a[/]"), ("b", "gone b"), ("c", "new c")]


async def test_enter_gives_what_is_on() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("space", "down", "space", "enter")
        assert app.answers == [{"a"}]


async def test_all_or_none() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, []))
        await pilot.pause()
        await pilot.press("a", "enter")
        assert app.answers == [{"a", "b", "c"}]


async def test_escape_changes_nothing() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("a", "escape")
        assert app.answers == [None]


async def test_typing_after_a_slash_narrows_and_the_rest_stays_as_it_is() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("slash", *"new c", "enter", "a", "enter")
        assert app.answers == [{"b", "c"}]


async def test_escape_leaves_the_search_before_the_dialog() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("slash", *"zzz", "escape")
        assert app.answers == []
        assert app.screen.query_one(Checks).options == OPTIONS
        await pilot.press("escape")
        assert app.answers == [None]


async def test_back_is_there_only_where_a_step_is_before() -> None:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"]))
        await pilot.pause()
        await pilot.press("b", "escape")
        app.ask(MultiSelect("Models", "what to take", OPTIONS, ["b"], back=True))
        await pilot.pause()
        await pilot.press("b")
        assert app.answers == [None, BACK]
