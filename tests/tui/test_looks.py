"""How the console looks in states that the gallery does not have: one picture each.

``pytest --snapshot-update`` takes them again. Look at what changed.
"""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.tui.owner import Owner, doing, settle
from tests.tui.stage import FakeClient, calls, console
from tui.exit_status import ExitStatus
from tui.saved_state import SavedState

Compare = Callable[..., bool]

pytestmark = pytest.mark.every_frame
STATES = {"following": (), "sorted": ("s", "s", "S"), "marked": ("m", "m", "M")}


@pytest.mark.parametrize("state", STATES)
def test_a_state(snap_compare: Compare, state: str) -> None:
    app = console()
    assert snap_compare(app, terminal_size=(100, 30), run_before=doing(app, *STATES[state]))


def test_high_contrast(snap_compare: Compare) -> None:
    app = console(state=SavedState(theme="contrast"))
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))


@pytest.mark.parametrize(("page", "key", "theme"), [("tokens", "n", "contrast"), ("account", "a", "contrast")])
def test_a_dialog(snap_compare: Compare, page: str, key: str, theme: str) -> None:
    app = console(Owner(), state=SavedState(page=page, theme=theme))
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app, key))


@pytest.mark.parametrize("page", ["channels", "usage"])
def test_without_unicode(snap_compare: Compare, page: str) -> None:
    app = console(Owner(), state=SavedState(page=page), in_ascii=True)
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
