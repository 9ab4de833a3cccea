"""TextBlock: a text that scrolls; TextDialog shows one; Detail, the pane of a row; LeadLine, the line above a list."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.screens import DialogScreen
from tui.widgets.dialogs import Dialog

Draw = Callable[[int], Content]
"""Returns the text for a width in cells."""


class TextBlock(VerticalScroll):
    """A text that is drawn again for each width. It can have the focus, so that keys can scroll it."""

    DEFAULT_CSS = """
    TextBlock { height: 1fr; padding: 0; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    TextBlock Static { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [  # in addition to Textual's own
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("ctrl+f", "page_down", show=False),
        Binding("ctrl+b", "page_up", show=False),
    ]

    def __init__(self, *, classes: str = "") -> None:
        self._text = Static()
        super().__init__(self._text, classes=classes)
        self._draw: Draw = lambda _: Content("")
        self._subject: Hashable = None
        self._shown = Content("")

    def show(self, draw: Draw, subject: Hashable = None) -> None:
        """Show this text from now on. It starts at the top if ``subject`` differs from the one before."""
        self._draw = draw
        if subject != self._subject:
            self._subject = subject
            self.scroll_to(y=0, animate=False, immediate=True)
        self.redraw()

    def redraw(self) -> None:
        if width := self.scrollable_content_region.width:
            text = self._draw(width)
            if not text.is_same(self._shown):  # an update lays out the whole screen
                self._shown = text
                self._text.update(text)

    on_resize = redraw


class Detail(TextBlock):
    """The pane with the details of a row."""

    FOCUS_ON_CLICK = False


class LeadLine(Static):
    """The line above a list. An error in the filter may take several lines."""

    _shown = Content("")

    def show(self, text: Content, *, whole: bool = False) -> None:
        """Show a text in one line; ``whole``: in all its lines, once it is unchanged, so that typing moves nothing."""
        if text.is_same(self._shown):
            return
        self._shown = text
        was_whole = self.has_class("whole")
        self.remove_class("whole")
        self.update(text, layout=was_whole)  # one line that follows another needs no new layout, which takes long
        if whole:
            self.set_timer(0.6, partial(self._expand, text))  # until typing has paused

    def _expand(self, text: Content) -> None:
        if self._shown is text:
            self.add_class("whole")
            self.refresh(layout=True)


class TextDialog(DialogScreen[None]):
    """A dialog with a text that scrolls, which is drawn again every second."""

    DEFAULT_CSS = "TextDialog .dialog.big { height: 96%; }"
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q,i,question_mark", "dismiss", "Close"),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, title: str, draw: Draw, hint: Content, *fields: Widget, id: str | None = None) -> None:
        """``fields`` are shown above the text."""
        self._draw = draw
        super().__init__(Dialog(title, *fields, TextBlock(), Static(hint, classes="hint"), classes="big form"), id=id)

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(1.0, self.draw)

    def draw(self) -> None:
        self.query_one(TextBlock).show(self._draw)

    def action_page_down(self) -> None:
        self.query_one(TextBlock).action_page_down()
