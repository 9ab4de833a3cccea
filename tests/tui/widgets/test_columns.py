from tests.tui.widgets.stage import WidgetStage
from tui.listing import Column
from tui.widgets.choices import ChooseColumns

COLUMNS = [
    Column[str]("name", "Name", 8, str),
    Column[str]("size", "Size", 8, str),
    Column[str]("more", "More", 8, str, extra=True),
]


async def answer(*keys: str) -> object:
    app = WidgetStage()
    async with app.run_test() as pilot:
        app.ask(ChooseColumns(COLUMNS, []))
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        return app.answers[0]


async def test_the_usual_columns_are_on_at_first() -> None:
    assert await answer("enter") == ["name", "size"]


async def test_columns_come_in_their_own_order() -> None:
    assert await answer("up", "space", "down", "down", "space", "enter") == ["name", "more"]


async def test_one_can_go_back_to_the_usual_ones_or_leave_all_as_it_was() -> None:
    assert await answer("space", "r") == []
    assert await answer("space", "escape") is None
