"""Undo and redo in the console, with a question where they may surprise."""

from tests.tui.changes import HistoryClient
from tests.tui.stage import console, words
from tests.tui.test_app import everything, shown, until
from tui.widgets.dialogs import Confirm


async def test_undo_says_what_it_undid_and_redo_does_it_again() -> None:
    async with shown(console(HistoryClient())) as (app, pilot):
        await pilot.press("u")
        told = "token 'ci' is as before (change 1: changed token 'ci', 2m00s ago, by this console). Press U to redo."
        await until(app, pilot, lambda: words(app) == [f"Undone: {told}"])
        await pilot.press("U")
        told = "token 'ci' is as before (change 1: 2m00s ago, by this console). Press u to undo."
        await until(app, pilot, lambda: words(app)[-1:] == [f"Redone: {told}"])


async def test_a_surprising_undo_is_confirmed_first() -> None:
    client = HistoryClient()
    client.doubts = ["It was made by the command line, 2m00s ago.", "5 calls used token 'ci' since then."]
    async with shown(console(client)) as (app, pilot):
        await pilot.press("u")
        await until(app, pilot, lambda: isinstance(app.screen, Confirm))
        assert "Undo change 1: changed token 'ci'?" in everything(app)
        assert "made by the command line, 2m00s ago" in everything(app)
        assert "5 calls used token 'ci'" in everything(app)
        await pilot.press("escape")
        await until(app, pilot, lambda: not isinstance(app.screen, Confirm))
        assert client.undos() == ["undo 0"]
        await pilot.press("u")
        await until(app, pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(app, pilot, lambda: words(app) != [])
        assert client.undos()[-1] == "undo 1 accepted"
