"""Key queue: keys typed ahead act in order; each waits until the previous one has taken effect and the focus has moved.

Textual sends a key to the widget with the focus when it arrives. Over a slow line ``/deploy`` arrives at once, and then
the ``d`` would delete.
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
"""The group of the workers that may open dialogs."""


class KeyHandled(Message):
    """Posted after a key. When it arrives, the key has been handled."""


class KeyQueueApp(App[Result]):
    """An app that handles one key at a time."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed: deque[events.Key | events.Paste] = deque()
        self._under_way = False
        self._chosen_in: Screen[Any] | None = None
        """The palette in which enter was just pressed: it closes some messages later."""

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._under_way:
            self._typed.append(event)
        else:
            await self._take(event)

    def on_key_handled(self, event: KeyHandled) -> None:
        """Continue after a key, which may have moved the focus in a callback that is already waiting."""
        event.stop()
        self.call_later(self._next, 25)  # wait for a dialog that is opening

    async def _take(self, event: events.Key | events.Paste) -> None:
        target = self.focused or self.screen
        entered = isinstance(event, events.Key) and event.key == "enter" and isinstance(self.screen, CommandPalette)
        self._chosen_in = self.screen if entered else None
        self._under_way = True
        await super().on_event(event)
        if not target.post_message(KeyHandled()):  # it is being removed
            await self._next(0)

    async def _next(self, patience: int) -> None:
        if not self._typed:
            self._under_way = False
        elif patience and self._is_opening():
            self.set_timer(0.01, lambda: self._next(patience - 1))
        else:
            await self._take(self._typed.popleft())

    def _is_opening(self) -> bool:
        """Returns whether a dialog is opening, has no focus yet, or is about to be opened by the palette."""
        if self.screen is self._chosen_in:
            return True
        if self.screen.is_modal:
            return self.focused is None
        return any(worker.group == DIALOG_WORKERS and not worker.is_finished for worker in self.workers)
