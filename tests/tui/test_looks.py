"""How the console looks: one picture a state; ``pytest --snapshot-update`` takes them again. Look at what changed."""

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.stage import FakeClient, calls, console
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.glyphs import ASCII
from tui.saved_state import SavedState

Compare = Callable[..., bool]

pytestmark = pytest.mark.every_frame
SIZES = ((80, 24), (100, 30), (200, 50))
THEMES = ("dark", "light", "plain")
STATES = {
    "following": (),
    "receipt": ("j", "enter"),
    "filter": ("slash", *"st:err", "enter"),
    "sorted": ("s", "s", "S"),
    "marked": ("m", "m", "M"),
    "cancel": ("x",),
    "columns": ("o",),
    "keys": ("question_mark",),
    "jump": ("w", *"1x"),
}


def doing(app: Console, *keys: str) -> Callable[[Pilot[ExitStatus]], Awaitable[None]]:
    async def run(pilot: Pilot[ExitStatus]) -> None:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause()

    return run


async def settled(app: Console, pilot: Pilot[ExitStatus]) -> None:
    for _ in range(4):
        await pilot.pause()
        app.renew()
        app.page.renew()
    await pilot.pause()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_live(snap_compare: Compare, size: tuple[int, int], theme: str) -> None:
    app = console(state=SavedState(theme=theme))
    assert snap_compare(app, terminal_size=size, run_before=doing(app, "j", "j", "j", "j", "enter"))


@pytest.mark.parametrize("state", STATES)
def test_a_state(snap_compare: Compare, state: str) -> None:
    app = console()
    assert snap_compare(app, terminal_size=(100, 30), run_before=doing(app, *STATES[state]))


def test_high_contrast(snap_compare: Compare) -> None:
    app = console(state=SavedState(theme="contrast"))
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))


def test_ascii_without_colour(snap_compare: Compare) -> None:
    app = console(glyphs=ASCII, colour=False)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app, "j", "enter"))


def test_nothing_yet(snap_compare: Compare) -> None:
    client = FakeClient([])
    client.now_running = []
    app = console(client)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))


def test_the_server_is_gone(snap_compare: Compare) -> None:
    app = console(FakeClient(calls(30)))

    async def lose(pilot: Pilot[ExitStatus]) -> None:
        await settled(app, pilot)
        app.session.lose("it stopped")
        await settled(app, pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=lose)
