from pathlib import Path

from textual.widgets import Input, Static

from tests.tui.pages.test_listpage import shown
from tests.tui.stage import words
from tui.actions import of
from tui.pages.list_page import VERBS
from tui.widgets.choices import ChooseColumns
from tui.widgets.text_block import Detail


def test_every_verb_has_its_line_in_the_table_of_actions() -> None:
    assert set(VERBS) <= {action.verb for action in of("list")}


async def test_the_pane_can_have_all_the_room() -> None:
    async with shown() as (app, pilot):
        await pilot.press("f")
        pane = app.fruits.query_one(Detail)
        assert pane.display
        assert pane.has_class("full")
        await pilot.press("f")
        assert not pane.has_class("full")


async def test_columns_can_be_chosen() -> None:
    async with shown() as (app, pilot):
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(app.screen, ChooseColumns)
        await pilot.press("j", "space", "enter")
        await pilot.pause()
        assert list(app.fruits.table.chosen) == ["name"]
        assert app.fruits.view.columns == ["name"]


async def test_only_marked_rows_can_be_shown() -> None:
    async with shown() as (app, pilot):
        await pilot.press("M")
        assert words(app) == ["nothing is marked; m marks a row"]
        await pilot.press("j", "m", "M")
        assert app.names() == ["apple"]
        await pilot.press("M")
        assert len(app.names()) == 4


async def test_what_is_shown_can_be_written_to_a_file(tmp_path: Path) -> None:
    async with shown() as (app, pilot):
        await pilot.press("E")
        await pilot.pause()
        app.screen.query_one(Input).value = str(tmp_path / "fruits.txt")
        await pilot.press("enter")
        assert "must end in .csv" in str(app.screen.query_one(".complaint", Static).visual)
        await pilot.press("escape")
        await pilot.pause()
        assert words(app) == []


async def test_choosing_no_columns_after_all_changes_nothing() -> None:
    async with shown() as (app, pilot):
        await pilot.press("o", "space", "escape")
        await pilot.pause()
        assert list(app.fruits.table.chosen) == []
