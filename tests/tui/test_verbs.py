from pathlib import Path

from tests.tui.stage import FakeClient, calls, console, words
from tests.tui.test_app import everything, shown
from tui import themes
from tui.actions import of
from tui.global_actions import VERBS, remember, start, wear
from tui.saved_state import NAME, load
from tui.widgets.help import Help


def test_every_verb_has_its_line_in_the_table_of_actions() -> None:
    assert set(VERBS) == {action.verb for action in of("app")}


async def test_a_theme_that_is_none_is_the_first() -> None:
    async with shown() as (app, _):
        wear(app, "gone")
        assert app.theme == themes.NAMES[0]


async def test_without_colours_what_was_remembered_stays() -> None:
    app = console(FakeClient(calls(3)), colour=False)
    app.session.remembered.theme = "light"
    async with shown(app):
        assert (app.theme, app.session.remembered.theme) == ("plain", "light")


async def test_starting_a_server_that_runs_is_nothing() -> None:
    async with shown() as (app, pilot):
        start(app)
        await pilot.pause()
        assert words(app) == ["the server is running"]


async def test_what_is_remembered_is_written_down_while_it_runs(tmp_path: Path) -> None:
    async with shown(console(FakeClient(calls(3)), home=tmp_path)) as (app, pilot):
        await pilot.press("T")
        remember(app)
        assert load(tmp_path)[0].theme == "light"
        (tmp_path / NAME).unlink()
        remember(app)
        assert not (tmp_path / NAME).exists()


async def test_the_mouse_can_be_left_to_the_terminal() -> None:
    async with shown() as (app, pilot):
        app.action_act("mouse")
        await pilot.pause()
        assert not app.session.remembered.mouse
        assert words(app) == ["the mouse is left to the terminal from the next start on"]


async def test_the_screen_can_become_ascii_and_back() -> None:
    async with shown() as (app, pilot):
        app.action_act("ascii")
        await pilot.pause()
        assert everything(app).isascii()
        app.action_act("ascii")
        await pilot.pause()
        assert not everything(app).isascii()


async def test_help_is_the_pages_own() -> None:
    async with shown() as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Help)
        await pilot.press("question_mark")
        await pilot.pause()
        assert not app.screen.is_modal


async def test_detaching_leaves_in_any_case() -> None:
    async with shown() as (app, pilot):
        app.action_act("detach")
        await pilot.pause()
    assert app.return_value is not None
    assert app.return_value.sentence.startswith("left; still serving")
