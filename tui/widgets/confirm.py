"""Confirm: asks before something breaks. It says what will; Cancel has the focus; ``y`` or the other button does it."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from tui.safe import safe, safe_lines


class Confirm(ModalScreen[bool]):
    """True if it is to be done."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,n,q", "choose(False)", "Cancel"),
        Binding("y", "choose(True)", "Yes"),
        Binding("left,right,h,l", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, breaks: str, verb: str) -> None:
        """``breaks`` says what will stop working; ``verb`` stands on the button."""
        super().__init__()
        self._question = question
        self._breaks = breaks
        self._verb = verb

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe(self._question), "bold"), classes="title")
            yield Static(Content(safe_lines(self._breaks)))
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(Content(safe(self._verb)), id="do", variant="error", compact=True)

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "do")

    def action_choose(self, done: bool) -> None:  # noqa: FBT001 - Textual calls it
        self.dismiss(done)
