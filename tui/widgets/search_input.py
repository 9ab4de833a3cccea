"""Search inputs: fields that never show, store or pass on an API key that is pasted into them.

The key is replaced by its handle before any other code sees it, and a message says whose key it is.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from textual.app import App, ComposeResult
from textual.command import CommandInput, CommandPalette
from textual.dom import DOMNode
from textual.widgets import Input

from gateway.domain.errors import GatewayError
from gateway.domain.key_owners import handles_in, without_keys
from tui.widgets.dialogs import toast


def hide_keys(field: Input, text: str) -> str:
    """Returns the text with handles instead of keys, and shows whose keys they are."""
    hidden = without_keys(text, typed=len(text) <= len(field.value) + 1)
    if hidden != text:
        field.run_worker(_show_owners(field, set(handles_in(hidden)) - set(handles_in(text))), exit_on_error=True)
    return hidden


async def _show_owners(node: DOMNode, handles: Iterable[str]) -> None:
    session = node.app.session  # type: ignore[attr-defined]  # the console
    for handle in handles:
        try:
            owner = await session.client.key_owner(handle)
            toast(node, f"{owner.text(session.now())}.")
        except GatewayError as error:
            toast(node, error.message, bad=True)


class FilterInput(Input):
    """The filter of a list, which is hidden while it is empty and does not have the focus."""

    validate_value = hide_keys

    def __init__(self, hint: str, value: str = "", *, classes: str = "") -> None:
        super().__init__(value, placeholder=hint, classes=classes, compact=True)
        self.display = bool(value)

    def open(self) -> None:
        """Show it and focus it at once, so that it gets the text that is typed next."""
        self.display = True
        self.screen.set_focus(self)

    def close(self) -> bool:
        """Clear and hide it, and focus the list below it. Returns whether it was shown."""
        if shown := bool(self.display):
            self.value = ""
            self.on_input_submitted()
        return shown

    def fill(self, text: str) -> None:
        self.value, self.display = text, bool(text)

    def on_input_submitted(self) -> None:
        """Focus the list below it."""
        self.screen.set_focus(self)  # the focus may have been in the list's details
        self.screen.focus_next()
        self.display = bool(self.value)


class PaletteInput(CommandInput):
    """The field of the palette."""

    validate_value = hide_keys


class SearchPalette(CommandPalette):
    """The palette with a field that hides keys."""

    DEFAULT_CSS = ""

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            yield PaletteInput(placeholder=widget.placeholder) if isinstance(widget, CommandInput) else widget

    def _action_command_list(self, action: str) -> None:
        """Pass an action on to the list, which has no pages while it has no room on the screen."""
        with suppress(KeyError):
            super()._action_command_list(action)


def open_palette(app: App[Any]) -> None:
    """Open the palette, unless it is open."""
    if app.use_command_palette and not CommandPalette.is_open(app):
        app.push_screen(SearchPalette(id="--command-palette"))
