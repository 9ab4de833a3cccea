"""Drawn: a text that scrolls and is a function of its width and height; it is drawn anew when these change."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

Draw = Callable[[int, int], Content]
"""Gives the text for a width and height in cells."""


class Drawn(VerticalScroll):
    """Takes the focus, so that it can be scrolled by keys."""

    DEFAULT_CSS = """
    Drawn { height: 1fr; padding: 0; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    Drawn Static { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("ctrl+f", "page_down", show=False),
        Binding("ctrl+b", "page_up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._draw: Draw = lambda _width, _height: Content("")

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, draw: Draw) -> None:
        """From now on this."""
        self._draw = draw
        self._redraw()

    def on_resize(self, _event: events.Resize) -> None:
        self._redraw()

    def _redraw(self) -> None:
        region = self.scrollable_content_region
        if region.width:
            self.query_one(Static).update(self._draw(region.width, region.height))
