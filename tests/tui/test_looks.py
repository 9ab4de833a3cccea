"""How the console looks: one picture a state; ``pytest --snapshot-update`` takes them again. Look at what changed."""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.tui.owner import doing, settle
from tests.tui.stage import FakeClient, calls, console
from tui.exit_status import ExitStatus
from tui.saved_state import SavedState

Compare = Callable[..., bool]

pytestmark = pytest.mark.every_frame
SIZES = ((80, 24), (100, 30), (200, 50))
THEMES = ("dark", "light", "plain")
STATES = {"following": (), "sorted": ("s", "s", "S"), "marked": ("m", "m", "M")}
"""Those that are not in the gallery."""


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
    app = console(in_ascii=True, colour=False)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app, "j", "enter"))


def test_nothing_yet(snap_compare: Compare) -> None:
    client = FakeClient([])
    client.now_running = []
    app = console(client)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))


def test_the_server_is_gone(snap_compare: Compare) -> None:
    app = console(FakeClient(calls(30)))

    async def lose(pilot: Pilot[ExitStatus]) -> None:
        await settle(app, pilot)
        app.session.mark_server_gone("it stopped")
        await settle(app, pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=lose)
