"""Undo and redo in the console, with a question where they may surprise."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.errors import Conflict
from gateway.domain.history import ChangeSource, HistoryView, UndoView
from gateway.domain.units import Millis
from tests.tui.owner import Owner, screen, see, settle, shown
from tests.tui.stage import NOW, console, words
from tests.tui.test_app import until
from tui.columns import fit_columns
from tui.pages.history import HistoryPage, HistoryScreen
from tui.widgets.dialogs import Confirm
from tui.widgets.table import LiveTable

THIS = ChangeSource(via="console", session="this", place="pts/1")
FIELDS = [FieldDifference(field="limits", before="", after="{ rpm = 60 }")]


def change(number: int, text: str = "changed token 'ci'", **fields: Any) -> HistoryView:
    """An entry, made by this console two minutes ago."""
    difference = Difference(action="changed", noun="token", name="ci", fields=FIELDS)
    given: dict[str, Any] = {"kind": "change", "source": THIS, "undone_by": 0, "undoes": 0}
    given |= {"time_ms": Millis(NOW - 120_000), "differences": [difference]}
    return HistoryView(id=number, text=text, **(given | fields))


COMMAND = ChangeSource(via="command", command="token add", place="pts/2")
SEVERAL = [
    change(14, "undid change 11: added token 'old'", kind="undo", undoes=11),
    change(13),
    change(12, "added channel 'up\x1b[31m'", source=COMMAND, differences=[]),
    change(11, "added token 'old'", undone_by=14),
]


class Keeper(Owner):
    """A server whose history does not change by itself."""

    def __init__(
        self, entries: Sequence[HistoryView] = (change(1),), doubts: Sequence[str] = (), refusal: str = ""
    ) -> None:
        """Newest first; why an undo has to be confirmed, and why none is possible."""
        super().__init__(3, source=THIS)
        self.entries, self.doubts, self.refusal = [*entries], [*doubts], refusal

    async def history(self, **_: object) -> list[HistoryView]:
        return self.entries

    async def undo(self, number: int = 0) -> UndoView:
        return await self._undone("undo", number)

    async def redo(self, number: int = 0) -> UndoView:
        return await self._undone("redo", number)

    def undos(self) -> list[str]:
        """What was requested."""
        return [one for one in self.asked if one.startswith(("undo", "redo"))]

    async def _undone(self, kind: Literal["undo", "redo"], number: int) -> UndoView:
        self.asked.append(f"{kind} {number}")
        if self.refusal:
            raise Conflict(self.refusal, code="newer_change")
        entry = next(one for one in self.entries if number in (0, one.id))
        if self.doubts:
            await self.require_confirmed(f"Undo change {entry.id} ({entry.text})?", self.doubts, "Undo")
            self.asked.append(f"{kind} {entry.id} accepted")
        return UndoView(id=entry.id + 1, kind=kind, text="token 'ci' is as before", target=entry)


LISTED = "4 changes, newest first"


async def test_undo_says_what_it_undid_and_redo_does_it_again() -> None:
    async with shown("live", Keeper()) as (app, pilot, _):
        told = "token 'ci' is as before (change 1: changed token 'ci', 2m00s ago, by this console). Press U to redo."
        await until(app, pilot, lambda: words(app) == [f"Undone: {told}"], "u")
        told = "token 'ci' is as before (change 1: 2m00s ago, by this console). Press u to undo."
        await until(app, pilot, lambda: words(app)[-1:] == [f"Redone: {told}"], "U")


async def test_a_surprising_undo_is_confirmed_first() -> None:
    doubts = ("It was made by the command line, 2m00s ago.", "5 calls used token 'ci' since then.")
    async with shown("live", client := Keeper(doubts=doubts)) as (app, pilot, _):
        await until(app, pilot, lambda: isinstance(app.screen, Confirm), "u")
        assert "Undo change 1 (changed token 'ci')?" in screen(app)
        assert "made by the command line, 2m00s ago" in screen(app)
        assert "5 calls used token 'ci'" in screen(app)
        await until(app, pilot, lambda: not isinstance(app.screen, Confirm), "escape")
        await until(app, pilot, lambda: words(app) == ["nothing was changed"])
        assert client.undos() == ["undo 0"]
        await until(app, pilot, lambda: isinstance(app.screen, Confirm), "u")
        await until(app, pilot, lambda: len(words(app)) > 1, "y")
        assert client.undos()[-1] == "undo 1 accepted"


async def test_the_history_lists_who_changed_what_and_when() -> None:
    async with shown("live", Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        text = screen(app)
        assert "command: token add" in text
        assert "this console" in text
        undone = [line for line in text.splitlines() if line.rstrip("│ ").endswith("undone")]
        assert len(undone) == 1
        assert "added token 'old'" in undone[0]
        assert "\x1b" not in text


async def test_the_selected_change_shows_before_and_after() -> None:
    async with shown("live", Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, "13: changed token 'ci'", "H", "j")
        assert "limits: default -> { rpm = 60 }" in screen(app)
        assert "2m00s ago, by this console" in screen(app)


async def test_a_long_change_is_scrolled_by_keys() -> None:
    fields = [FieldDifference(field=f"field {number}", before="", after="x") for number in range(40)]
    long = Difference(action="added", noun="channel", name="up", fields=fields)
    async with shown("live", Keeper(entries=[change(13, differences=[long])])) as (app, pilot, _):
        await see(app, pilot, "field 0", "H")
        assert "tab details" in screen(app)
        await see(app, pilot, "field 39", "tab", "G")
        await see(app, pilot, "field 0", "g")


async def test_enter_or_u_undoes_the_selected_change() -> None:
    async with shown("live", client := Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        await until(app, pilot, lambda: client.undos() == ["undo 13"], "j", "u")
        await until(app, pilot, lambda: client.undos() == ["undo 13", "undo 12"], "j", "enter")
        await until(app, pilot, lambda: client.undos()[-1] == "redo 0", "U")
        assert isinstance(app.screen, HistoryScreen)


async def test_the_history_may_be_closed_before_an_undo_is_done() -> None:
    class Slow(Keeper):
        done = asyncio.Event()

        async def undo(self, number: int = 0) -> UndoView:
            await self.done.wait()
            return await super().undo(number)

    async with shown("live", client := Slow(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        await until(app, pilot, lambda: not isinstance(app.screen, HistoryScreen), "u", "escape")
        client.done.set()
        await until(app, pilot, lambda: len(words(app)) == 1)
        await settle(app, pilot)
        assert client.undos() == ["undo 14"]


async def test_a_surprising_undo_of_an_old_change_is_confirmed() -> None:
    async with shown("live", client := Keeper(entries=SEVERAL, doubts=("It is old.",))) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        await until(app, pilot, lambda: isinstance(app.screen, Confirm), "j", "j", "u")
        await until(app, pilot, lambda: client.undos() == ["undo 12", "undo 12 accepted"], "y")


async def test_a_refused_undo_is_shown() -> None:
    told = "token 'ci' was changed since, by change 14 (x); undo that one first"
    async with shown("live", Keeper(entries=SEVERAL, refusal=told)) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        await until(app, pilot, lambda: words(app) == [told], "u")


async def test_the_history_is_filtered_and_left_step_by_step() -> None:
    async with shown("live", Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, "1 of 4 changes, newest first", "H", "slash", *"channel", "enter")
        await see(app, pilot, LISTED, "escape")
        await until(app, pilot, lambda: not isinstance(app.screen, HistoryScreen), "escape")


async def test_escape_in_the_details_closes_the_filter_and_goes_back_to_the_list() -> None:
    async with shown("live", Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, "1 of 4 changes, newest first", "H", "slash", *"channel", "enter", "tab")
        assert not app.screen.query_one(LiveTable).has_focus
        await see(app, pilot, LISTED, "escape")
        assert app.screen.query_one(LiveTable).has_focus


async def test_what_others_change_meanwhile_is_listed() -> None:
    async with shown("live", client := Keeper(entries=SEVERAL)) as (app, pilot, _):
        await see(app, pilot, LISTED, "H")
        client.entries = [change(15, "added group 'friends'"), *client.entries]
        app.session.board.tables_version += 1
        app.screen.query_one(HistoryPage).renew()
        await see(app, pilot, "5 changes, newest first")
        assert "added group 'friends'" in screen(app)


async def test_an_empty_history_says_so() -> None:
    async with shown("live", client := Keeper(entries=[])) as (app, pilot, _):
        await see(app, pilot, "No changes.", "H")
        await pilot.press("u", "enter")
        await pilot.pause()
        assert client.undos() == []


async def test_an_added_entity_shows_its_fields() -> None:
    added = Difference(action="added", noun="token", name="ci", fields=FIELDS)
    async with shown("live", Keeper(entries=[change(1, differences=[added])])) as (app, pilot, _):
        await see(app, pilot, "limits: { rpm = 60 }", "H")


def test_what_was_changed_has_more_room_than_who_changed_it() -> None:
    widths = {placed.id: placed.width for placed in fit_columns([*HistoryPage(console().session).all_columns()], 92)}
    assert list(widths) == ["id", "time", "change", "by", "state"]
    assert widths["change"] > max(32, widths["by"])
