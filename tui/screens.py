"""Screens: the screen of the pages, and the base of dialogs. They are styled and laid out only once when they open.

Textual styles every widget when it is mounted, all of them again when the screen is shown, and again when the screen
gets the classes of the terminal's size. These screens have those classes before their widgets are mounted, and are not
styled when they are shown, because a change of theme reaches every open screen, also those below another one.

Textual lays out a screen when it is shown, and again at each Resize: one comes from the terminal at the start, and one
follows every layout. These screens ignore a Resize to their current size.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Result = TypeVar("Result")
AnyScreen = Screen[Any]

BELOW = "-below"
"""The class that hides the messages of a screen while another screen is above it, which also shows them."""


def size_classes(app: App[Any]) -> Iterator[str]:
    """Yields the classes that Textual gives a screen of the terminal's size."""
    (width, height), widths, heights = app.size, app.HORIZONTAL_BREAKPOINTS, app.VERTICAL_BREAKPOINTS
    for length, steps in ((width, widths or []), (height, heights or [])):
        yield from [name for min_length, name in sorted(steps) if length >= min_length][-1:]


def _ignore_same_size(screen: AnyScreen, event: events.Resize) -> None:
    is_laid_out = all(other.outer_size == event.size for other in screen.app.screen_stack)
    if is_laid_out and screen.has_class(*size_classes(screen.app)):
        event.stop().prevent_default()


def _show_messages(screen: AnyScreen, event: events.ScreenResume) -> None:
    event.refresh_styles = False  # they are current
    screen.query_children("ToastRack").remove_class(BELOW)


def _hide_messages(screen: AnyScreen) -> None:
    screen.query_children("ToastRack").add_class(BELOW)


class PageScreen(Screen[None]):
    """The screen of the pages. It is not drawn before it has a page, so that it is laid out and drawn only once."""

    on_resize = _ignore_same_size
    on_screen_suspend = _hide_messages

    def __init__(self, app: App[Any]) -> None:
        super().__init__(id="_default", classes=" ".join(size_classes(app)))
        self._has_page = False

    def open(self) -> None:
        """Draw the screen: its first page is mounted."""
        self._has_page = True
        self.post_message(events.ScreenResume())

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        _show_messages(self, event)
        if not self._has_page:
            event.prevent_default()


class DialogScreen(ModalScreen[Result]):
    """The base of dialogs and forms."""

    on_resize = _ignore_same_size
    on_screen_resume = _show_messages
    on_screen_suspend = _hide_messages

    def on_compose(self) -> None:
        self.add_class(*size_classes(self.app))

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close the dialog, and those above it, such as its question. Does nothing if it is closed already.

        A save or other work may end while its dialog asks something, or at the moment when it is left.
        """
        open_screens = self.app.screen_stack
        if self not in open_screens:
            return AwaitComplete()
        for above in reversed(open_screens[open_screens.index(self) + 1 :]):
            above.dismiss(None)
        self.workers.cancel_node(self)  # Textual does so only after it removed the widgets that they draw on
        return super().dismiss(result)
