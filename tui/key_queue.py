"""KeyQueueApp: handles one key at a time; the next one waits until the focus has moved, if the key moves it.

Textual sends each key to the widget that has the focus when the key arrives. Over a slow line ``/deploy`` arrives as a
whole, and the ``d`` would delete something before the filter has the focus. The same could happen with a name that is
typed while a busy server delays its form.
"""

from collections import deque
from typing import Any, TypeVar

from textual import events
from textual.app import App
from textual.command import CommandPalette
from textual.message import Message
from textual.screen import Screen

Result = TypeVar("Result")

DIALOG_WORKERS = "verbs"
"""The group of workers that may open dialogs."""


class KeyHandled(Message):
    """Posted to the widget that got a key. When it arrives, the widget has handled the key."""


class KeyQueueApp(App[Result]):
    """An app that handles one key at a time."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[events.Key | events.Paste] = deque()
        self._is_busy = False
        self._waits_left = 100
        """How many more times the next key may wait for the action that is running."""
        self._closing_palette: Screen[Any] | None = None
        """The palette where enter was pressed last. It closes only after some messages."""

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._is_busy:
            self._typed.append(event)
        else:
            await self._handle(event)

    def on_key_handled(self, event: KeyHandled) -> None:
        """Handle the next key after the callbacks of this one, which may move the focus."""
        event.stop()
        self.call_later(self._handle_next, 25)  # a quarter of a second

    async def _handle(self, event: events.Key | events.Paste) -> None:
        target = self.focused or self.screen
        is_enter = isinstance(event, events.Key) and event.key == "enter"
        enters_palette = is_enter and isinstance(self.screen, CommandPalette)
        self._closing_palette = self.screen if enters_palette else None
        self._is_busy = True
        if isinstance(event, events.Paste):  # Textual's inputs take only the first line
            event.text = getattr(target, "line_break", " ").join(event.text.strip("\r\n").splitlines())
        await super().on_event(event)
        if not target.post_message(KeyHandled()):  # the widget is being removed
            await self._handle_next(0)

    async def _handle_next(self, checks: int) -> None:
        """Handle the next key. A running action delays it by a second at most, a dialog without focus by ``checks``."""
        is_working = self._is_working()
        self._waits_left = self._waits_left - 1 if is_working else 100
        if is_working and self._waits_left > 0:
            self.set_timer(0.01, lambda: self._handle_next(checks))
        elif self._typed and checks and self._has_no_focus():
            self.set_timer(0.01, lambda: self._handle_next(checks - 1))
        elif self._typed:
            await self._handle(self._typed.popleft())
        else:
            self._is_busy = False

    def _is_working(self) -> bool:
        """Returns whether an action that may open a dialog still waits for the server."""
        is_working = any(worker.group == DIALOG_WORKERS and not worker.is_finished for worker in self.workers)
        return is_working and not any(screen.is_modal for screen in self.screen_stack)

    def _has_no_focus(self) -> bool:
        """Returns whether a dialog has no focus yet, as some never have, or the palette is about to open one."""
        return self.screen is self._closing_palette or (self.screen.is_modal and self.focused is None)
