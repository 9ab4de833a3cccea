"""Screens: the screen of the pages, and the base of dialogs. They are styled and laid out once when they open.

Textual styles every widget as it is mounted, all of them again when the screen is shown, and again when the screen gets
the classes of the terminal's size. These screens have those classes before their widgets are mounted, and showing them
styles nothing: a change of theme reaches every open screen, also those below another one.

Textual lays out a screen when it is shown, and again at each Resize: the terminal sends one at the start, and one
follows every layout. These screens ignore a Resize to their current size.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from textual import events
from textual.app import App
from textual.screen import ModalScreen, Screen

Result = TypeVar("Result")
AnyScreen = Screen[Any]

BELOW = "-below"
"""The class of a screen's messages while another screen is above it, which shows them too."""


def size_classes(app: App[Any]) -> Iterator[str]:
    """Yields the classes that a screen gets when it is resized to the terminal's size."""
    (width, height), across, down = app.size, app.HORIZONTAL_BREAKPOINTS, app.VERTICAL_BREAKPOINTS
    for length, steps in ((width, across or []), (height, down or [])):
        yield from [name for least, name in sorted(steps) if length >= least][-1:]


def _take_size(screen: AnyScreen) -> None:
    screen.add_class(*size_classes(screen.app))


def _fit_size(screen: AnyScreen, event: events.Resize) -> None:
    """Ignore a Resize if this screen and those below it already have the size."""
    laid_out = all(other.outer_size == event.size for other in screen.app.screen_stack)
    if laid_out and screen.has_class(*size_classes(screen.app)):
        event.stop().prevent_default()


def _show(screen: AnyScreen, event: events.ScreenResume) -> None:
    event.refresh_styles = False
    screen.query_children("ToastRack").remove_class(BELOW)


def _leave(screen: AnyScreen) -> None:
    screen.query_children("ToastRack").add_class(BELOW)


class PageScreen(Screen[None]):
    """The screen of the pages. It is drawn first when a page is on it, so that it is laid out and drawn once."""

    on_resize = _fit_size
    on_screen_suspend = _leave

    def __init__(self, app: App[Any]) -> None:
        super().__init__(id="_default", classes=" ".join(size_classes(app)))
        self._has_page = False

    def open(self) -> None:
        """Show the screen once the first page is mounted."""
        self._has_page = True
        self.post_message(events.ScreenResume())

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        _show(self, event)
        if not self._has_page:
            event.prevent_default()


class DialogScreen(ModalScreen[Result]):
    """The base of dialogs and forms."""

    on_compose = _take_size
    on_resize = _fit_size
    on_screen_resume = _show
    on_screen_suspend = _leave
