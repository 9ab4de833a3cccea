"""What the pages with a list have in common: the cursor, the pane, the filter, marks and messages.

Long: all of it is tried on one made-up page.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widgets import Input, Static
from textual.widgets._toast import Toast

from gateway.domain.call import Attempt, FailureKind
from gateway.domain.events import CallSettled
from gateway.domain.units import DAY_MS, Millis
from tests.tui.owner import Owner, press, screen, see, settle, shown, until
from tests.tui.stage import FakeClient, FakeLauncher, call, console, token, words
from tests.tui.widgets.stage import WidgetStage, press_keys
from tui.actions import bindings
from tui.app import Console
from tui.columns import Column
from tui.exit_status import ExitStatus
from tui.pages.list_page import ListPage, select_row, shown_columns
from tui.saved_state import PageState, SavedState
from tui.session import AttachedServer, ConsoleSession
from tui.text import content
from tui.widgets.dialogs import toast
from tui.widgets.table import HEAD, LiveTable
from tui.widgets.text_block import Detail

FRUITS = ["pear", "apple", "fig", "cherry"]


class FruitPage(ListPage[str]):
    BINDINGS = bindings("list")
    noun = "fruit"
    guide = ("No fruits yet.", "{entity.new} grows one")
    there: list[str]

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self.there = list(FRUITS)

    def all_columns(self) -> list[Column[str]]:
        return [
            Column("name", "Name", 8, str, sort=str),
            Column("size", "Size", 4, lambda row: str(len(row)), sort=len, right=True),
        ]

    def rows(self) -> list[str]:
        return self.there

    def key(self, row: str) -> Hashable:
        return row

    def row_name(self, row: str) -> str:
        return row

    def command(self, row: str) -> str:
        return f"tollkeeper fruit show {row}"

    def lead(self, width: int) -> Content:
        return content(f" {self.count_rows(len(self.there))}")

    def detail(self, row: str, width: int) -> Content:
        return content(f"all about {row}")


class Stage(WidgetStage):
    def __init__(self, view: PageState | None = None) -> None:
        super().__init__()
        self.owner_session = console().session
        self.owner_session.link = "attached"
        self.owner_session.board.apply(FakeClient().snapshot())
        self.owner_session.state.views["fruit"] = view or PageState()

    def compose(self) -> ComposeResult:
        self.fruits = FruitPage(self.owner_session)
        yield self.fruits

    def names(self) -> list[str | None]:
        return [self.fruits.source.row(i) for i in range(self.fruits.source.count)]

    def drawn(self, selector: str) -> str:
        return str(self.fruits.query_one(selector, Static).visual)


@asynccontextmanager
async def fruit_page(view: PageState | None = None) -> AsyncIterator[tuple[Stage, Pilot[None]]]:
    app = Stage(view)
    async with app.run_test(size=(60, 20)) as pilot:
        app.fruits.take_focus()
        await pilot.pause()
        yield app, pilot


async def typed(app: Stage, pilot: Pilot[None], text: str) -> None:
    await pilot.press("slash", *text)
    app.fruits.renew()
    await pilot.pause()


@pytest.mark.parametrize(
    ("keys", "names", "current", "lead"),
    [
        (["slash", *"e"], ["pear", "apple", "cherry"], "pear", " 3 of 4 fruits"),
        (["slash", *"e !p"], ["cherry"], "cherry", " 1 of 4 fruits"),
        (["slash", *"e !p", "escape"], FRUITS, "cherry", " 4 fruits"),
        (["s"], ["apple", "cherry", "fig", "pear"], "apple", " 4 fruits"),
        (["s", "s"], ["cherry", "apple", "pear", "fig"], "cherry", " 4 fruits"),  # the largest number comes first
        (["s", "s", "S"], ["fig", "pear", "apple", "cherry"], "fig", " 4 fruits"),
        (["s", "s", "S", "s"], FRUITS, "pear", " 4 fruits"),
        (["j", "m", "M"], ["apple"], "apple", " 1 marked: b changes them all, M shows all rows"),
        (["j", "m", "M", "M"], FRUITS, "apple", " 1 marked: b changes them all  "),
        (["j", "m", "M", "escape"], FRUITS, "apple", " 1 marked: b changes them all  "),
        (["j", "m", "M", "m"], FRUITS, "apple", " 4 fruits"),
        (["m", "asterisk"], FRUITS, "apple", " 4 marked: b changes them all  "),
        (["m", "asterisk", "asterisk"], FRUITS, "apple", " 4 fruits"),
        (["j", "m", "M", "asterisk"], FRUITS, "apple", " 4 fruits"),
        (["slash", *"e", "enter", "asterisk"], ["pear", "apple", "cherry"], "pear", " 3 marked: b changes them all  "),
        (["slash", *"e", "enter", "asterisk", "escape"], FRUITS, "pear", " 3 marked: b changes them all  "),
    ],
)
async def test_keys_filter_sort_and_mark(keys: list[str], names: list[str], current: str, lead: str) -> None:
    async with fruit_page() as (app, pilot):
        for key in keys:
            await pilot.press(key)
            app.fruits.renew()
            await pilot.pause()
        assert (app.names(), app.fruits.table.current, app.words) == (names, current, [])
        assert app.drawn(".lead").startswith(lead)
        assert app.fruits.query_one(Input).display == (keys[0] == "slash" and keys[-1] != "escape")


async def test_without_a_mark_no_row_is_hidden() -> None:
    async with fruit_page() as (app, pilot):
        await pilot.press("M")
        assert (app.names(), app.words) == (FRUITS, ["Nothing is marked. Press m to mark a row."])


async def test_if_a_filter_hides_the_row_of_the_cursor_the_first_one_that_fits_is_selected() -> None:
    async with fruit_page() as (app, pilot):
        app.fruits.table.go(FRUITS.index("fig"))
        await typed(app, pilot, "e")
        assert (app.names(), app.fruits.table.current) == (["pear", "apple", "cherry"], "pear")
        app.fruits.table.go(2)
        await pilot.press("space", "r", "enter")
        app.fruits.renew()
        assert (app.names(), app.fruits.table.current) == (["pear", "cherry"], "cherry")
        assert (app.fruits.table.has_focus, app.fruits.query_one(Input).display) == (True, True)


async def test_without_rows_the_page_says_how_to_go_on() -> None:
    async with fruit_page() as (app, pilot):
        await typed(app, pilot, "melon")
        assert app.drawn(".empty") == "No fruit matches melon.\n\nesc clears the filter   / changes it"
        await press_keys(pilot, "escape")
        app.fruits.there = []
        app.fruits.renew()
        assert app.drawn(".empty").split("\n") == ["No fruits yet.", "", "n grows one"]
        assert app.fruits.table.has_focus


async def test_the_pane_shows_the_row_under_the_cursor() -> None:
    async with fruit_page() as (app, pilot):
        await press_keys(pilot, "enter", "j")
        pane = app.fruits.query_one(Detail)
        assert app.drawn("Detail Static") == "all about apple"
        await pilot.press("escape")
        assert not pane.display
        await pilot.press("f")
        assert (bool(pane.display), pane.has_class("full")) == (True, True)
        await pilot.press("f")
        assert not pane.has_class("full")


async def test_a_click_on_a_title_sorts_and_another_reverses() -> None:
    async with fruit_page() as (app, pilot):
        await pilot.click(app.fruits.table, offset=(2, 0))
        assert app.names() == ["apple", "cherry", "fig", "pear"]
        assert "Name▴" in app.fruits.table.render_line(0).text
        await pilot.click(app.fruits.table, offset=(2, 0))
        assert app.names() == ["pear", "fig", "cherry", "apple"]
        assert "Name▾" in app.fruits.table.render_line(0).text
        size = app.fruits.table.render_line(0).text.index("Size")
        await pilot.click(app.fruits.table, offset=(size, 0))
        assert (app.fruits.view.sort, app.fruits.view.reverse) == ("size", False)


async def test_a_click_on_a_title_without_an_order_says_so() -> None:
    async with fruit_page() as (app, pilot):
        app.fruits.columns = app.fruits.table.columns = [Column("name", "Name", 8, str)]
        app.fruits.table.rearrange()
        await pilot.click(app.fruits.table, offset=(2, 0))
        assert app.words == ["You cannot sort by Name."]
        assert app.names() == FRUITS


@pytest.mark.parametrize("page", ["tokens", "groups", "channels", "models", "live"])
async def test_every_column_of_a_page_sorts_by_its_title(page: str) -> None:
    async with shown(page, size=(200, 50)) as (app, pilot, _):
        table = app.page.query_one(LiveTable)
        table.chosen_ids = [column.id for column in table.columns]
        table.rearrange()
        for column in shown_columns(table):
            table.request_sort(column.id)
            await pilot.pause()
            assert table.sort == column.id
            assert ("▾" if column.largest_first else "▴") in table.render_line(0).text
        numbers = {column.id for column in shown_columns(table) if column.largest_first}
        assert not numbers & {"name", "model", "group", "token", "channel"}
        assert numbers & {"today", "cost", "spent", "month"}


async def test_copying_tells_what_was_copied() -> None:
    async with fruit_page() as (app, pilot):
        await pilot.press("y")
        assert app.clipboard == "pear"
        await pilot.press("Y")
        assert app.clipboard == "tollkeeper fruit show pear"
        assert app.words == ["Copied: pear", "Copied:\ntollkeeper fruit show pear"]


async def test_a_view_is_as_it_was_left() -> None:
    async with fruit_page(PageState(sort="size", reverse=False, filter="e", detail=True, columns=["name"])) as (app, _):
        assert app.names() == ["cherry", "apple", "pear"]
        assert app.fruits.query_one(Detail).display
        assert list(app.fruits.table.chosen_ids) == ["name"]


async def test_what_is_remembered_but_makes_no_sense_is_the_default() -> None:
    async with fruit_page(PageState(sort="colour", columns=["weight"])) as (app, _):
        assert app.names() == FRUITS
        assert list(app.fruits.table.chosen_ids) == []


async def test_what_is_being_selected_does_not_move() -> None:
    async with fruit_page() as (app, _):
        app.screen.selections = {app.fruits.table: Selection(Offset(0, 1), Offset(3, 1))}
        app.fruits.there = ["new", *FRUITS]
        app.fruits.renew()
        assert app.names() == FRUITS


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], []),
        (["j", "space", "enter"], ["name"]),
        (["space", "enter"], ["size"]),
        (["space", "j", "space", "enter"], []),
        (["space", "escape"], []),
        (["space", "enter", "o", "r"], []),
    ],
    ids=["as is", "first", "second", "without any: as many as fit", "left as it was", "as many as fit again"],
)
async def test_columns_are_chosen(keys: list[str], chosen: list[str]) -> None:
    async with fruit_page() as (app, pilot):
        await press_keys(pilot, "o", *keys)
        assert list(app.fruits.table.chosen_ids) == chosen == app.fruits.view.columns


async def test_the_line_above_follows_the_width_though_nothing_else_changes() -> None:
    async with fruit_page() as (app, pilot):
        app.fruits.lead = lambda width: Content(f"{width} cells")  # type: ignore[method-assign]
        await pilot.resize_terminal(90, 20)
        await pilot.pause()
        assert app.drawn(".lead") == "90 cells"


async def test_what_is_shown_can_be_written_to_a_file(tmp_path: Path) -> None:
    async with fruit_page() as (app, pilot):
        await press_keys(pilot, "E")
        app.screen.query_one(Input).value = str(tmp_path / "fruits.txt")
        await pilot.press("enter")
        assert "must end in .csv" in str(app.screen.query_one(".complaint", Static).visual)
        await press_keys(pilot, "escape")
        assert app.words == []


@pytest.mark.parametrize(
    ("page", "keys", "told"),
    [
        ("tokens", ("e", "D", "space", "d", "R", "c"), "No token selected. Press n to create one."),
        ("groups", ("e", "D", "d"), "No group selected. Press n to create one."),
        ("channels", ("e", "D", "space", "d", "t", "L", "z", "K"), "No channel selected. Press n to create one."),
        ("models", ("e", "0", "d"), "No model selected. Page 4 lists the channels."),
    ],
)
async def test_without_a_row_there_is_nothing_to_do(page: str, keys: tuple[str, ...], told: str) -> None:
    empty: dict[str, Any] = {f"{page}_now": []}
    async with shown(page, Owner(**empty)) as (app, pilot, _):
        for key in keys:
            await press(app, pilot, key)
            assert (key, words(app), app.screen.is_modal) == (key, [told], False)
            app.clear_notifications()


async def test_a_row_is_selected_however_late_it_comes() -> None:
    async with shown("tokens") as (app, _, owner):
        select_row(app.page, "tok_zebra")
        assert app.page.query_one("LiveTable").cursor == 0
        owner.tokens_now.append(token("zebra", last_used_ms=Millis(1)))
        app.session.board.apply(owner.snapshot())
        app.page.renew()
        assert app.page.query_one("LiveTable").cursor == 5


async def test_a_page_asks_for_its_own_sums() -> None:
    async with shown("channels") as (app, pilot, owner):
        await settle(app, pilot)
        sums = {asked for asked in owner.asked if asked.startswith("summary ")}
        assert sums == {"summary  ", "summary channel hour"}


@pytest.mark.parametrize(
    ("failed", "passed_ms", "fetches"), [(True, 999, 1), (True, 1_000, 2), (False, 9_999, 1), (False, 10_000, 2)]
)
async def test_a_page_fetches_its_sums_soon_after_a_failure(failed: bool, passed_ms: int, fetches: int) -> None:
    async with shown("channels") as (app, pilot, owner):
        await settle(app, pilot)
        later = Millis(app.page.fetched_ms + passed_ms)
        app.session.now = lambda: later
        attempt = Attempt(channel="anthropic", status=500, kind=FailureKind.SERVER)
        owner.tell(CallSettled(call=call(99, later, attempts=[attempt] if failed else [])))
        await settle(app, pilot)
        await settle(app, pilot)
        assert owner.asked.count("summary channel hour") == fetches


async def test_sums_of_days_are_fetched_again_when_the_day_ends_without_a_call() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await settle(app, pilot)
        times = [app.session.now()]
        app.session.now = lambda: times[0]
        for later, fetches in ((60_000, 1), (DAY_MS, 2)):
            times[0] = Millis(times[0] + later)
            await settle(app, pilot)
            assert owner.asked.count("summary token day") == fetches


@asynccontextmanager
async def with_messages(
    size: tuple[int, int], *keys: str, page: str = "live", text: str = " calls "
) -> AsyncIterator[tuple[Console, Pilot[ExitStatus]]]:
    """A console that shows messages, as soon as a text is on its page, and after some keys."""
    app = console(state=SavedState(page=page))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(app, pilot, text)
        await settle(app, pilot)
        await press(app, pilot, *keys)
        yield app, pilot


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (140, 40)])
@pytest.mark.parametrize("keys", [["enter"], ["enter", "f"]])
async def test_a_message_covers_neither_the_rows_nor_the_pane(size: tuple[int, int], keys: list[str]) -> None:
    async with with_messages(size, *keys) as (app, pilot):
        toast(app, "Something failed. " * 12, bad=True)
        await until(app, pilot, "Something failed.")
        (message,), pane = app.screen.query(Toast), app.page.query_one(Detail)
        assert pane.is_on_screen
        assert not message.region.overlaps(pane.region)
        assert not message.region.overlaps(app.page.query_one(LiveTable).region)


@pytest.mark.parametrize("keys", [["enter"], ["enter", "slash"]])
async def test_messages_on_a_low_screen_leave_rows_beside_the_pane(keys: list[str]) -> None:
    async with with_messages((60, 16), *keys) as (app, pilot):
        for number in range(4):
            toast(app, f"{number}: something failed, and here is why. " * 3, bad=True)
        await until(app, pilot, "3: something")
        await settle(app, pilot)
        assert screen(app).splitlines()[-1] == "▌ why."
        table, pane = app.page.query_one(LiveTable), app.page.query_one(Detail)
        assert min(table.size.height - HEAD, pane.size.height) >= 2


async def test_tab_goes_into_the_pane_to_scroll_it_and_back_where_another_row_begins_at_its_top() -> None:
    async with shown("channels", size=(60, 16)) as (app, pilot, _):
        await press(app, pilot, "enter", "tab")
        pane = app.page.query_one(Detail)
        assert pane.has_focus
        await press(app, pilot, "G")
        assert pane.scroll_offset.y == pane.max_scroll_y > 0
        app.page.renew()
        await press(app, pilot, "tab")
        assert app.page.query_one(LiveTable).has_focus
        assert pane.scroll_offset.y == pane.max_scroll_y
        await press(app, pilot, "j")
        assert pane.scroll_offset.y == 0


async def test_the_pane_of_a_low_screen_can_have_nearly_all_of_it() -> None:
    async with shown("live", size=(60, 16)) as (app, pilot, _):
        await press(app, pilot, "f")
        assert app.page.query_one(Detail).size.height >= 8


async def test_a_short_message_takes_the_place_of_the_footer_and_moves_nothing() -> None:
    async with with_messages((100, 30)) as (app, pilot):
        before = app.page.region
        toast(app, "Done.")
        await until(app, pilot, "Done.")
        assert screen(app).splitlines()[-1].strip("▌ ") == "Done."
        assert app.page.region == before


async def test_a_message_does_not_cover_a_dialog() -> None:
    async with with_messages((100, 30), "c", page="tokens", text="laptop") as (app, pilot):
        await until(app, pilot, "test call")
        toast(app, "Copied: something")
        await until(app, pilot, "Copied")
        dialog = app.screen.query_one(".dialog").region
        assert [one for one in app.screen.query(Toast) if one.region.overlaps(dialog)] == []


class NeverFound(FakeLauncher):
    """Waits for a server for ever."""

    async def find(self) -> AttachedServer | None:
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize("page", ["live", "tokens", "groups", "channels", "models"])
async def test_before_there_is_data_a_page_says_what_it_waits_for(page: str) -> None:
    """Otherwise it would say how to create the first token, although the home has some."""
    app = console(state=SavedState(page=page))
    app.feed._launcher = NeverFound(FakeClient())  # noqa: SLF001 - the fake is switched
    async with app.run_test() as pilot:
        await until(app, pilot, "Connecting to the server ...")
        await see(app, pilot, "Connecting to the server ...", "slash", *"nope")
