"""Busy: shows that something is under way, for how long, and lets one leave it; its result is what the work gives."""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gateway.domain.errors import GatewayError
from gateway.domain.units import Millis
from tui.safe import safe
from tui.tones import content

TICK_S = 0.2


class Busy(ModalScreen[Any]):
    """The work's result, the GatewayError that it ended with, or None if it was left."""

    BINDINGS = [Binding("escape,q", "leave", "Leave")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, title: str, work: Callable[[], Awaitable[Any]], now: Callable[[], Millis]) -> None:
        super().__init__()
        self._title = title
        self._work = work
        self._now = now
        self._began = now()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe(self._title), "bold"))
            yield Static(classes="passed")

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(TICK_S, self.draw)
        self.run_worker(self._do(), exit_on_error=True)

    def draw(self) -> None:
        """How long it has been going on."""
        passed = (self._now() - self._began) / 1000
        self.query_one(".passed", Static).update(content((f"{passed:.1f} s", "live"), ("   esc leaves it", "dim")))

    def action_leave(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss(None)

    async def _do(self) -> None:
        try:
            self.dismiss(await self._work())
        except GatewayError as error:
            self.dismiss(error)
