"""Detail: the pane about the row under the cursor; it is drawn anew when it gets another width."""

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

Draw = Callable[[int], Content]
"""Gives the text for a width in cells."""


class Detail(VerticalScroll, can_focus=False):
    """What it shows is a function of its width."""

    DEFAULT_CSS = "Detail { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }"

    def __init__(self) -> None:
        super().__init__(classes="detail")
        self._draw: Draw = lambda _: Content("")
        self._width = 0

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, draw: Draw) -> None:
        """From now on this."""
        self._draw = draw
        self._redraw()

    def on_resize(self, event: events.Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self._redraw()

    def _redraw(self) -> None:
        self._width = self.scrollable_content_region.width
        if self._width:
            self.query_one(Static).update(self._draw(self._width))
