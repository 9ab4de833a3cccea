"""Every page and dialog in three sizes and three modes: a file each, of the text and its colours.

``pytest --snapshot-update`` writes them again; a difference is shown line by line. Look at what changed: a picture of
any screen comes with ``ctrl+p`` Screenshot.
"""

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from gateway.domain.channel import ServedModel
from gateway.domain.views import Offer
from tests.tui.owner import Owner, press, settle, until
from tests.tui.stage import console
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.saved_state import SavedState

pytestmark = pytest.mark.every_frame
SIZES = ((80, 24), (100, 30), (200, 50))
MODES = ("dark", "light", "plain")
SCENES: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("1", "live", ("j", "j", "enter")),
    ("1", "filter", ("slash", "=st:err")),
    ("1", "columns", ("o",)),
    ("1", "jump", ("w",)),
    ("1", "export", ("E",)),
    ("1", "cancel", ("x",)),
    ("1", "help", ("question_mark",)),
    ("2", "tokens", ("j", "enter")),
    ("2", "new token", ("n",)),
    ("2", "edit token", ("e",)),
    ("2", "rotate token", ("R",)),
    ("2", "delete token", ("d",)),
    ("2", "connect", ("c",)),
    ("2", "why", ("W",)),
    ("3", "groups", ("j", "enter")),
    ("3", "new group", ("n",)),
    ("3", "edit group", ("e",)),
    ("3", "delete group", ("d",)),
    ("4", "channels", ("j", "enter")),
    ("4", "new channel", ("n",)),
    ("4", "edit channel", ("e",)),
    ("4", "duplicate channel", ("D", "enter")),
    ("4", "delete channel", ("d",)),
    ("4", "test channel", ("t",)),
    ("4", "its models", ("g", "L")),
    ("4", "its models, looked for", ("g", "L", "slash", "=opus")),
    ("4", "its keys", ("A",)),
    ("4", "found here", ("a",)),
    ("4", "incidents", ("i",)),
    ("5", "models", ("j", "enter")),
    ("5", "price", ("e",)),
    ("5", "list prices", ("P",)),
    ("5", "free", ("0",)),
    ("5", "no price", ("d",)),
    ("6", "account", ()),
    ("6", "add money", ("a",)),
    ("6", "budgets", ("e",)),
    ("6", "suspend", ("space",)),
    ("7", "usage", ()),
    ("8", "doctor", ()),
)


class Gallery(SingleFileSnapshotExtension):
    """Plain text, so that a difference can be read."""

    _file_extension = "txt"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_page_and_dialog(snapshot: SnapshotAssertion, size: tuple[int, int], mode: str) -> None:
    app = console(owner(), state=SavedState(theme=mode))
    walk = Walk(app)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        await walk.pages(pilot)
        await walk.first_steps(pilot)
    assert walk.text() == snapshot(extension_class=Gallery)


def owner() -> Owner:
    """The usual one, with something to be found on its machine."""
    made = Owner()
    served = [ServedModel(name="qwen3:8b")]
    url = "http://127.0.0.1:11434/v1"
    made.offered = [Offer(name="ollama", dialect="openai", preset="ollama", base_url=url, key="", models=served)]
    return made


class Walk:
    """Through all scenes, one after the other; each is written down as it stands."""

    def __init__(self, app: Console) -> None:
        self._app = app
        self._said: list[str] = []
        self._looks: dict[str, str] = {}
        """A letter for each look there is."""

    async def pages(self, pilot: Pilot[ExitStatus]) -> None:
        """A dialog is left before the next scene, and so are panes and filters."""
        for page, name, keys in SCENES:
            await press(self._app, pilot, page, *keys)
            await self.write(pilot, name)
            while self._app.screen.is_modal:
                await press(self._app, pilot, "escape")
            if name == "filter" or keys == ("j", "enter"):
                await press(self._app, pilot, "escape")
            self._app.clear_notifications()

    async def first_steps(self, pilot: Pilot[ExitStatus]) -> None:
        """The wizard to its end, by way of the demo."""
        self._app.action_act("wizard")
        for number in range(1, 5):
            await until(self._app, pilot, f"First steps, {number} of 4")
            await settle(self._app, pilot)
            await self.write(pilot, f"first steps, {number} of 4")
            await press(self._app, pilot, "enter")

    async def write(self, pilot: Pilot[ExitStatus], name: str) -> None:
        """The text, and under it where it is not in the usual colours."""
        for field in self._app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause()
        strips = self._app.screen._compositor.render_strips()  # noqa: SLF001 - Textual gives it nowhere else
        self._said += [f"\n=== {name}", *("".join(part.text for part in strip).rstrip() for strip in strips)]
        self._said += [f"{number:>2}: {look}" for number, strip in enumerate(strips) if (look := self._look(strip))]

    def text(self) -> str:
        """All of it, and what the letters mean."""
        looks = sorted(f"{letter} = {look}" for look, letter in self._looks.items())
        return "\n".join([*self._said, "\n=== looks", *looks, ""])

    def _look(self, strip: Strip) -> str:
        """``8a12b`` are eight cells of look ``a`` and twelve of ``b``; the same looks on end are one."""
        runs: list[tuple[str, int]] = []
        for part in strip:
            letter, width = self._letter(part.style), cell_len(part.text)
            if runs and runs[-1][0] == letter:
                width += runs.pop()[1]
            runs.append((letter, width))
        return " ".join(f"{width}{letter}" for letter, width in runs)

    def _letter(self, style: Style | None) -> str:
        count = len(self._looks)
        return self._looks.setdefault(str(style), ascii_letters[count % 52] * (1 + count // 52))
