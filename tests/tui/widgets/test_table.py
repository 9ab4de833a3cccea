from collections.abc import AsyncIterator, Collection, Hashable
from contextlib import asynccontextmanager

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.strip import Strip

from tui.columns import Column, fit_columns
from tui.listing import ListRows
from tui.themes import DARK
from tui.widgets.table import LiveTable, RowPainter, select_span

COLUMNS = [Column[int]("name", "Name", 8, lambda row: f"row {row}", flex=True)]


class Countdown:
    """Rows from the newest down; row 7 is always row 7."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def row(self, index: int) -> int:
        self.asked += 1
        return self.count - index

    def key(self, index: int) -> Hashable:
        return self.count - index

    def index(self, key: Hashable) -> int | None:
        assert isinstance(key, int)
        return self.count - key if key <= self.count else None

    def restrict(self, keys: Collection[Hashable] | None) -> None:
        raise NotImplementedError

    def pin(self, key: Hashable) -> None:
        """Nothing is filtered."""

    def order(self, column: Column[int] | None, *, descending: bool) -> None:
        raise NotImplementedError


class Stage(App[None]):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        self.source = Countdown(count)
        self.table: LiveTable[int] = LiveTable(COLUMNS, self.source)
        self.opened = 0

    def compose(self) -> ComposeResult:
        yield self.table

    def on_live_table_opened(self) -> None:
        self.opened += 1

    def lines(self) -> list[str]:
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]


def selected(app: Stage) -> int | None:
    return app.table.current


@asynccontextmanager
async def shown(count: int, *, follows: bool = True) -> AsyncIterator[tuple[Stage, Pilot[None]]]:
    app = Stage(count)
    app.table.follows = follows
    async with app.run_test(size=(20, 6)) as pilot:
        app.table.focus()
        app.table.renew()
        await pilot.pause()
        yield app, pilot


async def test_a_million_rows_cost_what_is_on_screen() -> None:
    async with shown(1_000_000) as (app, pilot):
        app.source.asked = 0
        await pilot.press("G")
        assert app.table.current == 1
        assert app.lines()[-1] == " row 1"
        assert app.source.asked < 100


async def test_keys_move_the_cursor() -> None:
    async with shown(100) as (app, pilot):
        await pilot.press("j", "down", "k")
        assert app.table.cursor == 1
        await pilot.press("ctrl+f")
        assert app.table.cursor == 5
        await pilot.press("g")
        assert app.table.cursor == 0


async def test_the_row_under_the_cursor_stays_on_the_screen_when_the_table_gets_lower() -> None:
    async with shown(100) as (app, pilot):
        await pilot.press(*"jjjj")
        app.table.styles.height = 3
        await pilot.pause()
        assert app.lines() == [" Name", " row 97", " row 96"]


@pytest.mark.parametrize(("follows", "current"), [(True, 105), (False, 100)])
async def test_at_the_top_it_follows_the_newest_unless_nothing_is_followed(follows: bool, current: int) -> None:
    async with shown(100, follows=follows) as (app, pilot):
        app.source.count += 5
        app.table.renew()
        await pilot.pause()
        assert (app.table.following, app.table.current) == (follows, current)
        assert app.lines()[1] == f" row {current}"


@pytest.mark.parametrize(("down", "more"), [(8, 50), (1, 3)], ids=["elsewhere", "at the top, not on the first row"])
async def test_below_the_first_row_all_keep_their_place_on_the_screen(down: int, more: int) -> None:
    async with shown(100) as (app, pilot):
        await pilot.press(*["j"] * down)
        before = app.lines()
        app.source.count += more
        app.table.renew()
        await pilot.pause()
        assert app.lines() == before
        assert app.table.current == 100 - down


async def test_no_other_row_is_selected_instead_of_one_that_is_gone() -> None:
    async with shown(100) as (app, pilot):
        await pilot.press("j", "j")
        assert selected(app) == 98
        app.source.count = 2
        app.table.renew()
        assert selected(app) is None
        await pilot.press("enter")
        assert app.opened == 0
        await pilot.press("k")
        assert selected(app) == 2
        app.source.count = 0
        app.table.renew()
        assert selected(app) is None


async def test_a_row_that_comes_back_is_selected_again() -> None:
    async with shown(100) as (app, pilot):
        await pilot.press("j", "j")
        app.source.count = 2
        app.table.renew()
        app.source.count = 100
        app.table.renew()
        assert app.table.current == 98


async def test_after_a_row_that_is_gone_down_selects_the_one_in_its_place() -> None:
    rows = ListRows[int](lambda row: row)
    rows.set_rows([1, 2, 3, 4])
    app = Stage(4)
    app.table = LiveTable(COLUMNS, rows)
    async with app.run_test(size=(20, 6)) as pilot:
        app.table.focus()
        app.table.renew()
        await pilot.press("j")
        rows.set_rows([1, 3, 4])
        app.table.renew()
        assert app.table.current is None
        await pilot.press("j")
        assert app.table.current == 3


async def test_a_selected_row_stays_though_the_filter_leaves_it_out_until_the_cursor_moves() -> None:
    rows = ListRows[tuple[str, bool]](lambda row: row[0])
    rows.matches = lambda row: row[1]
    rows.set_rows([("a", True), ("b", True), ("c", True)])
    columns = [Column[tuple[str, bool]]("name", "Name", 8, lambda row: row[0], flex=True)]
    table: LiveTable[tuple[str, bool]] = LiveTable(columns, rows)
    app = Stage(3)
    app.table = table  # type: ignore[assignment]
    async with app.run_test(size=(20, 6)) as pilot:
        table.focus()
        table.renew()
        await pilot.press("j")
        rows.set_rows([("a", True), ("b", False), ("c", True)])
        table.renew()
        assert table.current == ("b", False)
        await pilot.press("j")
        rows.arrange()
        table.renew()
        assert (table.current, rows.count) == (("c", True), 2)


async def test_enter_and_a_second_click_open_a_row() -> None:
    async with shown(100) as (app, pilot):
        await pilot.press("enter")
        await pilot.click(app.table, offset=(3, 2))
        assert app.table.cursor == 1
        assert app.opened == 1
        await pilot.click(app.table, offset=(3, 2))
        assert app.opened == 2


@pytest.mark.every_frame
async def test_only_lines_that_changed_are_painted_again() -> None:
    async with shown(100) as (app, _):
        painted: list[int] = []
        app.table.refresh_line = painted.append  # type: ignore[method-assign, assignment]
        app.table.renew()
        assert painted == []


@pytest.mark.every_frame
async def test_selected_text_can_be_copied() -> None:
    async with shown(100) as (app, pilot):
        app.screen.selections = {app.table: Selection(Offset(1, 1), Offset(7, 2))}
        await pilot.pause()
        assert app.screen.get_selected_text() == "row 100\n row 99"


class Listed(Countdown):
    """Rows of a list, by their texts."""

    def __init__(self, *texts: str) -> None:
        super().__init__(len(texts))
        self.texts = texts

    def text(self, row: int) -> str:
        return self.texts[self.count - row]


async def test_a_column_gives_back_what_its_texts_need_no_more_when_others_are_cut() -> None:
    source = Listed("by openai and ollama", "none")
    columns = [
        Column[int]("price", "Price", 4, lambda row: source.text(row) if row == 1 else "list"),
        Column[int]("served", "Served", 4, lambda row: source.text(row) if row == 2 else "demo", flex=True),
    ]
    app = Stage(2)
    app.table = LiveTable(columns, source)
    async with app.run_test(size=(27, 6)) as pilot:
        app.table.renew()
        await pilot.pause()
        assert app.lines()[1:3] == [" list by openai and ollama", " none demo"]
        source.texts = ("ollama", "like gpt-4o-mini")
        app.table.notify_style_update()  # paints them again
        app.table.renew()
        assert app.lines()[1:3] == [" list             ollama", " like gpt-4o-mini demo"]


PAINTED_COLUMNS = [
    Column[tuple[str, int]]("name", "Name", 6, lambda row: row[0], flex=True),
    Column[tuple[str, int]]("size", "Size", 5, lambda row: str(row[1]), right=True, tone=lambda _: "bad"),
]
STYLES = {"bad": Style(color="red"), "cursor": Style(reverse=True), "rest": Style(underline=True)}


def painter(width: int = 14) -> RowPainter[tuple[str, int]]:
    made: RowPainter[tuple[str, int]] = RowPainter(lambda name: STYLES.get(name, Style()))
    made.place(fit_columns(PAINTED_COLUMNS, width - 1), width)
    return made


def test_cells_are_cut_and_padded_to_their_columns() -> None:
    strip = painter().row(1, ("a long name", 42))
    assert strip.text == " a long…    42"
    assert strip.cell_length == 14


def test_titles_stand_over_their_columns_and_show_the_sorting() -> None:
    assert painter().head("size", descending=True).text == " Name    Size▾"


def test_a_tone_colours_its_cell_only() -> None:
    segments = list(painter().row(1, ("a", 42)))
    assert [segment.text.strip() for segment in segments if segment.style == STYLES["bad"]] == ["42"]


def test_the_cursors_line_has_the_cursors_colours() -> None:
    line = painter().row(1, ("a", 42), "cursor")
    assert {segment.style for segment in line} == {STYLES["cursor"]}


def test_a_marked_row_says_so() -> None:
    assert painter().row(1, ("a", 42), is_marked=True).text.startswith("◆")


def test_the_same_row_is_painted_once() -> None:
    made = painter()
    first = made.row(1, ("a", 42))
    assert made.row(1, ("a", int("42"))) is first  # an equal row is the same
    changed = made.row(1, ("a", 43))
    assert changed is not first
    assert made.row(1, ("a", 43)) is changed
    assert made.row(1, ("a", 43), "rest") is not changed


def test_a_row_that_is_not_here_yet_is_an_ellipsis() -> None:
    assert painter().row(7, None).text.strip() == "…"
    assert painter().row(None, None, "").text.strip() == ""


def test_a_selection_is_a_span_of_cells() -> None:
    strip = Strip.blank(4).join([Strip(painter().row(1, ("abcdef", 42)))])
    chosen = select_span(strip, (2, 5), Style(reverse=True))
    assert [segment.text for segment in chosen if segment.style and segment.style.reverse] == ["bcd"]
    assert chosen.text == strip.text
    assert select_span(strip, (2, -1), Style(reverse=True)).text == strip.text
