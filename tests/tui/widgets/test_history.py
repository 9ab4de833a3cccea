"""Undo and redo in the console, with a question where they may surprise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from gateway.config import Config
from gateway.domain.config_views import Difference, FieldDifference
from tests.tui.changes import COMMAND, HistoryClient, change
from tests.tui.owner import screen
from tests.tui.stage import NOW, console, words
from tests.tui.test_app import shown, until
from tui.app import Console
from tui.columns import fit_columns
from tui.exit_status import ExitStatus
from tui.saved_state import SavedState
from tui.session import ConsoleSession
from tui.widgets.dialogs import Confirm
from tui.widgets.history import HistoryScreen, history_columns


async def see(app: Console, pilot: Pilot[ExitStatus], text: str, *keys: str) -> None:
    """Press keys and wait for a text on the screen."""
    await pilot.press(*keys)
    await until(app, pilot, lambda: text in screen(app))


@asynccontextmanager
async def opened(
    client: HistoryClient, text: str = "4 changes, newest first"
) -> AsyncIterator[tuple[Console, Pilot[ExitStatus]]]:
    """The history of a server, as soon as a text is on the screen."""
    async with shown(console(client)) as (app, pilot):
        await see(app, pilot, text, "H")
        yield app, pilot


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
        assert "Undo change 1: changed token 'ci'?" in screen(app)
        assert "made by the command line, 2m00s ago" in screen(app)
        assert "5 calls used token 'ci'" in screen(app)
        await pilot.press("escape")
        await until(app, pilot, lambda: not isinstance(app.screen, Confirm))
        assert client.undos() == ["undo 0"]
        await pilot.press("u")
        await until(app, pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(app, pilot, lambda: words(app) != [])
        assert client.undos()[-1] == "undo 1 accepted"


def several() -> HistoryClient:
    client = HistoryClient()
    client.entries = [
        change(14, "undid change 11: added token 'old'", kind="undo", undoes=11),
        change(13, "changed token 'ci'"),
        change(12, "added channel 'up\x1b[31m'", source=COMMAND, differences=[]),
        change(11, "added token 'old'", undone_by=14),
    ]
    return client


async def test_the_history_lists_who_changed_what_and_when() -> None:
    async with opened(several()) as (app, _):
        text = screen(app)
        assert "command: token add" in text
        assert "this console" in text
        undone = [line for line in text.splitlines() if line.rstrip("│ ").endswith("undone")]
        assert len(undone) == 1
        assert "added token 'old'" in undone[0]
        assert "\x1b" not in text


async def test_the_selected_change_shows_before_and_after() -> None:
    async with opened(several()) as (app, pilot):
        await see(app, pilot, "13: changed token 'ci'", "j")
        assert "limits: default -> { rpm = 60 }" in screen(app)
        assert "2m00s ago, by this console" in screen(app)


async def test_a_long_change_is_scrolled_by_keys() -> None:
    client = several()
    fields = [FieldDifference(field=f"field {number}", before="", after="x") for number in range(40)]
    long = Difference(what="added", noun="channel", name="up", fields=fields)
    client.entries = [change(13, "added channel 'up'", differences=[long])]
    async with shown(console(client)) as (app, pilot):
        await see(app, pilot, "field 0", "H")
        assert "tab details" in screen(app)
        await see(app, pilot, "field 39", "tab", "G")
        await see(app, pilot, "field 0", "g")


async def test_enter_or_u_undoes_the_selected_change() -> None:
    client = several()
    async with opened(client) as (app, pilot):
        await pilot.press("j", "u")
        await until(app, pilot, lambda: client.undos() == ["undo 13"])
        await pilot.press("j", "enter")
        await until(app, pilot, lambda: client.undos() == ["undo 13", "undo 12"])
        await pilot.press("U")
        await until(app, pilot, lambda: client.undos()[-1] == "redo 0")
        assert isinstance(app.screen, HistoryScreen)


async def test_a_surprising_undo_of_an_old_change_is_confirmed() -> None:
    client = several()
    client.doubts = ["It was made by the command line."]
    async with opened(client) as (app, pilot):
        await pilot.press("j", "j", "u")
        await until(app, pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(app, pilot, lambda: client.undos() == ["undo 12", "undo 12 accepted"])


async def test_what_contradicts_is_shown() -> None:
    client = several()
    client.refusal = "token 'ci' was changed since, by change 14 (x); undo that one first"
    async with opened(client) as (app, pilot):
        await pilot.press("u")
        await until(app, pilot, lambda: words(app) == [client.refusal])


async def test_the_history_is_filtered_and_left_step_by_step() -> None:
    async with opened(several()) as (app, pilot):
        await see(app, pilot, "1 change, newest first", "slash", *"channel", "enter")
        await see(app, pilot, "4 changes", "escape")
        await pilot.press("escape")
        await until(app, pilot, lambda: not isinstance(app.screen, HistoryScreen))


async def test_an_empty_history_says_so() -> None:
    client = HistoryClient()
    client.entries = []
    async with opened(client, "no changes") as (_, pilot):
        await pilot.press("u", "enter")
        await pilot.pause()
        assert client.undos() == []


async def test_what_was_added_shows_its_fields() -> None:
    client = HistoryClient()
    fields = change(1).differences[0].fields
    client.entries = [change(1, differences=[Difference(what="added", noun="token", name="ci", fields=fields)])]
    async with opened(client, "limits: { rpm = 60 }"):
        assert client.undos() == []


def test_what_was_changed_has_more_room_than_who_changed_it() -> None:
    session = ConsoleSession(Config(home=Path("/nowhere")), lambda: NOW, SavedState())
    widths = {placed.id: placed.width for placed in fit_columns(history_columns(session), 92)}
    assert list(widths) == ["id", "time", "change", "by", "state"]
    assert widths["change"] > max(32, widths["by"])
