from tests.tui.widgets.stage import WidgetStage
from tui.widgets.dialogs import tell


async def test_words_are_shown_without_reading_markup() -> None:
    app = WidgetStage()
    async with app.run_test():
        tell(app, "[@click=app.quit]x[/] \x1b[2J")
        assert app.words == ["[@click=app.quit]x[/] �[2J"]
        assert not app.markup


async def test_what_went_wrong_stays_longer() -> None:
    app = WidgetStage()
    async with app.run_test():
        tell(app, "a")
        tell(app, "b", bad=True)
        assert app.notices == [("a", "information", 4.0), ("b", "error", 8.0)]
