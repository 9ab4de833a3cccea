"""DialogScreen: the base of dialogs and forms. A dialog is styled and laid out only once when it opens.

Textual styles every widget when it is mounted, all of them again when the screen is shown, and again when the screen
gets the classes of the terminal's size. A dialog has those classes before its widgets are mounted, and is not styled
when it is shown, because a change of theme reaches every open screen, also those below another one.

Textual lays out a screen when it is shown, and again at each Resize, which follows every layout. A dialog ignores a
Resize to its current size. This saves a fifth of the time that the largest form takes to open.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from textual import events
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen
from textual.widget import Widget

Result = TypeVar("Result")


def size_classes(app: App[Any]) -> Iterator[str]:
    """Yields the classes that Textual gives a screen of the terminal's size."""
    (width, height), widths, heights = app.size, app.HORIZONTAL_BREAKPOINTS, app.VERTICAL_BREAKPOINTS
    for length, steps in ((width, widths or []), (height, heights or [])):
        yield from [name for min_length, name in sorted(steps) if length >= min_length][-1:]


class DialogScreen(ModalScreen[Result]):
    """The base of dialogs and forms."""

    def __init__(self, *parts: Widget, id: str | None = None) -> None:
        super().__init__(id=id)
        self._parts = parts

    def compose(self) -> ComposeResult:
        yield from self._parts

    def on_compose(self) -> None:
        self.add_class(*size_classes(self.app))

    def on_resize(self, event: events.Resize) -> None:
        is_laid_out = all(screen.outer_size == event.size for screen in self.app.screen_stack)
        if is_laid_out and self.has_class(*size_classes(self.app)):
            event.stop().prevent_default()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = False  # they are current

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close the dialog, and those above it, such as its question. Does nothing if it is closed already.

        A save or other work may end while its dialog asks something, or at the moment when it is left.
        """
        open_screens = self.app.screen_stack
        if self not in open_screens:
            return AwaitComplete()
        for above in reversed(open_screens[open_screens.index(self) + 1 :]):
            above.dismiss(None)
        for node in self.walk_children(with_self=True):
            self.workers.cancel_node(node)  # Textual does so only after it removed the widgets that they draw on
        return super().dismiss(result)
