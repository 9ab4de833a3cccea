from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widgets import Input, Static

from tests.tui.stage import console, words
from tui.actions import bindings
from tui.listing import Column, Listing
from tui.pages.list_page import ListPage
from tui.saved_state import View
from tui.session import Session
from tui.text import content
from tui.themes import DARK
from tui.widgets.text_block import Detail

FRUITS = ["pear", "apple", "fig", "cherry"]


class Fruits(Listing[str]):
    noun = "fruit"
    there: list[str]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.there = list(FRUITS)

    def columns(self) -> list[Column[str]]:
        return [
            Column("name", "Name", 8, str, sort=str),
            Column("size", "Size", 4, lambda row: str(len(row)), sort=len, right=True),
        ]

    def rows(self) -> list[str]:
        return self.there

    def key(self, row: str) -> Hashable:
        return row

    def name(self, row: str) -> str:
        return row

    def twin(self, row: str) -> str:
        return f"tollkeeper fruit show {row}"

    def lead(self, width: int) -> Content:
        return content(f" {len(self.there)} fruits")

    def detail(self, row: str, width: int) -> Content:
        return content(f"all about {row}")


class FruitPage(ListPage[str]):
    BINDINGS = bindings("list")

    def __init__(self, session: Session) -> None:
        super().__init__(session, "fruits", Fruits(session))


class Stage(App[None]):
    def __init__(self, view: View | None = None) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        session = console().session
        session.remembered.views["fruits"] = view or View()
        self.fruits = FruitPage(session)

    def compose(self) -> ComposeResult:
        yield self.fruits

    def names(self) -> list[str | None]:
        return [self.fruits.source.row(i) for i in range(self.fruits.source.count)]

    def drawn(self, selector: str) -> str:
        return str(self.fruits.query_one(selector, Static).visual)


@asynccontextmanager
async def shown(view: View | None = None) -> AsyncIterator[tuple[Stage, Pilot[None]]]:
    app = Stage(view)
    async with app.run_test(size=(60, 20)) as pilot:
        app.fruits.take_focus()
        await pilot.pause()
        yield app, pilot


async def typed(app: Stage, pilot: Pilot[None], text: str) -> None:
    await pilot.press("slash", *text)
    app.fruits.renew()
    await pilot.pause()


async def test_rows_and_the_line_above_come_from_the_listing() -> None:
    async with shown() as (app, _):
        assert app.names() == FRUITS
        assert app.drawn(".lead") == " 4 fruits"


async def test_typing_narrows_and_esc_takes_it_back() -> None:
    async with shown() as (app, pilot):
        await typed(app, pilot, "e !p")
        assert app.names() == ["cherry"]
        await pilot.press("escape")
        app.fruits.renew()
        assert app.names() == FRUITS
        assert not app.fruits.query_one(Input).display


async def test_enter_keeps_the_filter_and_goes_to_the_table() -> None:
    async with shown() as (app, pilot):
        await typed(app, pilot, "fig")
        await pilot.press("enter")
        assert app.fruits.table.has_focus
        assert app.fruits.query_one(Input).display


async def test_nothing_that_fits_says_how_to_go_on() -> None:
    async with shown() as (app, pilot):
        await typed(app, pilot, "melon")
        assert app.drawn(".empty") == "Nothing fits the filter. esc clears it."


async def test_an_empty_page_says_what_to_do() -> None:
    async with shown() as (app, _):
        assert isinstance(app.fruits.listing, Fruits)
        app.fruits.listing.there = []
        app.fruits.renew()
        assert app.drawn(".empty") == "No fruits yet."
        assert app.fruits.table.has_focus


async def test_the_pane_shows_the_row_under_the_cursor() -> None:
    async with shown() as (app, pilot):
        await pilot.press("enter", "j")
        await pilot.pause()
        assert app.drawn("Detail Static") == "all about apple"
        await pilot.press("escape")
        assert not app.fruits.query_one(Detail).display


async def test_sorting_goes_round_and_keeps_the_cursor_on_its_row() -> None:
    async with shown() as (app, pilot):
        await pilot.press("s")
        assert app.names() == ["apple", "cherry", "fig", "pear"]
        assert app.fruits.table.current == "pear"
        await pilot.press("s", "S")
        assert app.names() == ["cherry", "apple", "pear", "fig"]
        await pilot.press("s")
        assert app.names() == FRUITS


async def test_copying_tells_what_was_copied() -> None:
    async with shown() as (app, pilot):
        await pilot.press("y")
        assert app.clipboard == "pear"
        await pilot.press("Y")
        assert app.clipboard == "tollkeeper fruit show pear"
        assert words(app) == ["copied: pear", "copied:\ntollkeeper fruit show pear"]


async def test_a_view_is_as_it_was_left() -> None:
    async with shown(View(sort="size", reverse=True, filter="e", detail=True, columns=["name"])) as (app, _):
        assert app.names() == ["cherry", "apple", "pear"]
        assert app.fruits.query_one(Detail).display
        assert list(app.fruits.table.chosen) == ["name"]


async def test_what_is_remembered_but_makes_no_sense_is_the_default() -> None:
    async with shown(View(sort="colour", columns=["weight"])) as (app, _):
        assert app.names() == FRUITS
        assert list(app.fruits.table.chosen) == []


async def test_what_is_being_selected_does_not_move() -> None:
    async with shown() as (app, _):
        app.screen.selections = {app.fruits.table: Selection(Offset(0, 1), Offset(3, 1))}
        assert isinstance(app.fruits.listing, Fruits)
        app.fruits.listing.there = ["new", *FRUITS]
        app.fruits.renew()
        assert app.names() == FRUITS


async def test_marks_are_kept_by_row() -> None:
    async with shown() as (app, pilot):
        await pilot.press("m", "m")
        assert app.fruits.table.marks == {"pear", "apple"}
        assert app.fruits.table.cursor == 2
