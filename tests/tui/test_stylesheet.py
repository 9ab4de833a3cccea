import pytest
from textual.css.stylesheet import Stylesheet

from tests.tui.owner import press, screen, shown
from tests.tui.stage import console
from tui.app import STYLESHEET
from tui.widgets.choices import CheckList
from tui.widgets.combobox import ChoiceList


async def test_the_stylesheet_is_valid() -> None:
    """Every variable in it is defined by our themes."""
    app = console()
    async with app.run_test():
        sheet = Stylesheet(variables=app.get_css_variables())
        sheet.read(STYLESHEET)
        sheet.parse()
        assert sheet.rules


async def test_without_colours_a_list_of_suggestions_has_a_border(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names would read as values of the fields below it."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "n", "tab", "tab")
        assert [edge for edge, _ in app.screen.query_one(ChoiceList).styles.border] == ["solid"] * 4
        below = next(line for line in screen(app).splitlines() if "Budget, dollars" in line)
        assert "\N{BOX DRAWINGS LIGHT DOWN AND RIGHT}\N{BOX DRAWINGS LIGHT HORIZONTAL}" in below


async def test_on_the_lowest_screen_a_list_of_choices_has_some_lines() -> None:
    async with shown("tokens", size=(30, 10)) as (app, pilot, _):
        await press(app, pilot, "o")
        assert app.screen.query_one(CheckList).size.height >= 3
