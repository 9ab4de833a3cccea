import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static
from textual.widgets._toast import Toast, ToastRack

from tests.tui.owner import screen
from tests.tui.stage import FakeClient, calls, console, wait_until
from tests.tui.widgets.stage import press_keys
from tui.app import Console
from tui.screens import DialogScreen
from tui.widgets.dialogs import Confirm, toast


@pytest.fixture
def styled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many widgets of dialogs were styled at once, each time."""
    found: list[int] = []
    keep = Stylesheet.update_nodes

    def count(self: Stylesheet, nodes: Iterable[DOMNode], *, animate: bool = False) -> None:
        every = list(nodes)
        found.append(sum(any(isinstance(a, DialogScreen) for a in node.ancestors_with_self) for node in every))
        keep(self, every, animate=animate)

    monkeypatch.setattr(Stylesheet, "update_nodes", count)
    return found


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[Size]:
    """The sizes for which dialogs were laid out after a Resize."""
    found: list[Size] = []
    keep = Screen._screen_resized  # noqa: SLF001 - there is no public place to look

    def note(self: Screen[Any], size: Size) -> None:
        if self.stack_updates and isinstance(self, DialogScreen):  # it was shown
            found.append(size)
        keep(self, size)

    monkeypatch.setattr(Screen, "_screen_resized", note)
    return found


async def test_a_dialog_is_laid_out_again_only_for_another_size(laid_out: list[Size]) -> None:
    async with console(FakeClient(calls(3))).run_test(size=(140, 40)) as pilot:
        await pilot.app.push_screen(Confirm("Delete laptop?", "Its clients get 401.", "Delete"))
        await pilot.pause()
        assert laid_out == []
        await pilot.resize_terminal(80, 30)
        assert set(laid_out) == {Size(80, 30)}
        assert [screen.size for screen in pilot.app.screen_stack] == [Size(80, 30)] * 2


async def test_a_dialog_styles_each_widget_once_when_it_opens(styled: list[int]) -> None:
    async with console(FakeClient(calls(3))).run_test(size=(140, 40)) as pilot:
        styled.clear()
        await pilot.app.push_screen(Confirm("Delete laptop?", "Its clients get 401.", "Delete"))
        await pilot.pause()
        assert max(styled, default=0) <= 1


@pytest.mark.parametrize(
    ("width", "height", "classes"),
    [(50, 20, {"-tiny", "-short"}), (89, 28, {"-narrow", "-tall"}), (130, 27, {"-wide"})],
)
async def test_a_screen_has_the_classes_of_its_size_from_the_start(width: int, height: int, classes: set[str]) -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(width, height)) as pilot:
        dialog = Confirm("Delete laptop?", "Its clients get 401.", "Delete")
        await app.push_screen(dialog)
        await pilot.pause()
        for screen in (app.screen_stack[0], dialog):
            assert classes <= sizes_of(screen) == as_textual_says(app, Size(width, height))


async def test_a_screen_takes_the_classes_of_a_new_size() -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(140, 40)) as pilot:
        await app.push_screen(Confirm("Delete laptop?", "Its clients get 401.", "Delete"))
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert sizes_of(app.screen) == {"-tiny", "-short"}
        await press_keys(pilot, "escape")
        assert sizes_of(app.screen) == {"-tiny", "-short"}


async def test_a_theme_that_is_chosen_above_a_page_reaches_it() -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(140, 40)) as pilot:
        before = app.page.styles.scrollbar_color
        await app.push_screen(Confirm("Delete laptop?", "Its clients get 401.", "Delete"))
        app.theme = "light"
        await pilot.pause()
        assert app.page.styles.scrollbar_color != before


async def test_a_message_is_shown_on_the_highest_screen_alone() -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        page, dialog = app.screen, Confirm("Delete laptop?", "Its clients get 401.", "Delete")
        toast(app, "Copied")
        await shown(pilot, page)
        await app.push_screen(dialog)
        await shown(pilot, dialog)
        assert not page.query_one(Toast).display
        await press_keys(pilot, "escape")
        assert page.query_one(Toast).display


async def test_the_newest_messages_are_on_a_low_screen_and_an_earlier_error_after_them() -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(80, 16), notifications=True) as pilot:
        toast(app, "an error\nin\nfour\nlines", bad=True)
        await shown(pilot, app.screen)
        toast(app, "Copied:\nsome text\nof\nfour lines")
        await wait_until(pilot, lambda: "some text" in screen(app) and "an error" not in screen(app))
        app.screen.query(Toast).last()._expire()  # noqa: SLF001 - as its timer does
        await wait_until(pilot, lambda: "some text" not in screen(app) and "an error" in screen(app))


async def test_a_message_that_is_longer_than_its_place_shows_its_beginning() -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test(size=(40, 10), notifications=True) as pilot:
        toast(app, "an earlier message")
        await shown(pilot, app.screen)
        rack = app.screen.query_one(ToastRack)
        toast(app, "Disabled channel 'c'. No other channel serves gpt-a, gpt-b, gpt-b-preview, gpt-c, mine, o-mini.")
        await wait_until(pilot, lambda: rack.max_scroll_y and rack.scroll_y >= rack.max_scroll_y)
        await pilot.pause()
        assert "Disabled channel 'c'." in screen(app)


async def shown(pilot: Pilot[Any], on: Screen[Any]) -> None:
    """Until a message is on this screen."""
    await wait_until(pilot, lambda: any(one.display for one in on.query(Toast)))


def sizes_of(screen: Screen[Any]) -> set[str]:
    return {name for name in screen.classes if name in SIZES}


SIZES = {name for _, name in (*Console.HORIZONTAL_BREAKPOINTS, *Console.VERTICAL_BREAKPOINTS)}


def as_textual_says(app: Console, size: Size) -> set[str]:
    """By Textual's own rule, which runs when the terminal is resized."""
    give = app.screen._get_breakpoint_classes  # noqa: SLF001 - the rule that ours must agree with
    return give(size.width, app.HORIZONTAL_BREAKPOINTS) | give(size.height, app.VERTICAL_BREAKPOINTS)


class Slow(DialogScreen[None]):
    """A dialog that draws what a worker of its own or of its list has fetched."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self.owner = owner
        self.fetched = asyncio.Event()

    def compose(self) -> ComposeResult:
        with Vertical(id="list"):
            yield Static(classes="title")

    def on_mount(self) -> None:
        owner = self if self.owner == "dialog" else self.query_one("#list")
        owner.run_worker(self.fetch(), exit_on_error=True)

    async def fetch(self) -> None:
        await self.fetched.wait()
        self.query_one(".title", Static).update("fetched")


@pytest.mark.parametrize("owner", ["dialog", "list"])
async def test_a_dialog_that_is_left_while_it_fetches_does_not_end_the_console(owner: str) -> None:
    app = console(FakeClient(calls(3)))
    async with app.run_test() as pilot:
        await app.push_screen(dialog := Slow(owner))
        await pilot.pause()
        dialog.dismiss(None)
        while dialog.query(".title"):  # noqa: ASYNC110 - the moment between its widgets' removal and its own
            await asyncio.sleep(0)
        dialog.fetched.set()
        await pilot.pause()
        assert app.crash is None
