"""How the pages look: one picture a page and size; ``pytest --snapshot-update`` takes them anew."""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.owner import Owner, press, settle
from tests.tui.stage import console
from tui.app import Console
from tui.farewell import Farewell
from tui.glyphs import ASCII
from tui.state import Remembered

Compare = Callable[..., bool]

PAGES = ("tokens", "groups", "channels", "models", "account", "usage", "doctor")
LOOKS = (((80, 24), "dark"), ((100, 30), "light"), ((160, 40), "plain"))
DIALOGS = (
    ("tokens", "n", "contrast"),
    ("tokens", "c", "dark"),
    ("tokens", "d", "light"),
    ("channels", "n", "plain"),
    ("channels", "L", "dark"),
    ("models", "e", "light"),
    ("account", "a", "contrast"),
)


def doing(app: Console, *keys: str) -> Callable[[Pilot[Farewell]], object]:
    async def run(pilot: Pilot[Farewell]) -> None:
        await settle(app, pilot)
        await press(app, pilot, *keys)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause()

    return run


@pytest.mark.parametrize(("size", "theme"), LOOKS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page(snap_compare: Compare, page: str, size: tuple[int, int], theme: str) -> None:
    app = console(Owner(), remembered=Remembered(page=page, theme=theme))
    keys = ["j", "enter"] if page in PAGES[:4] else []
    assert snap_compare(app, terminal_size=size, run_before=doing(app, *keys))


@pytest.mark.parametrize(("page", "key", "theme"), DIALOGS)
def test_a_dialog(snap_compare: Compare, page: str, key: str, theme: str) -> None:
    app = console(Owner(), remembered=Remembered(page=page, theme=theme))
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app, key))


@pytest.mark.parametrize("page", ["channels", "usage"])
def test_without_unicode(snap_compare: Compare, page: str) -> None:
    app = console(Owner(), remembered=Remembered(page=page), glyphs=ASCII)
    assert snap_compare(app, terminal_size=(80, 24), run_before=doing(app))
