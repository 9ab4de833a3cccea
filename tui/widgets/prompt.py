"""Prompt: asks for one line of text, and checks it while it is typed."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.safe import safe
from tui.tones import content


class Prompt(ModalScreen[str | None]):
    """The text, or None if nothing is wanted. ``check`` says what is wrong with a text, or nothing."""

    BINDINGS = [Binding("escape", "leave", "Cancel")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, question: str, example: str, check: Callable[[str], str]) -> None:
        super().__init__()
        self._question = question
        self._example = example
        self._check = check

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe(self._question), "bold"), classes="title")
            yield Input(placeholder=self._example, compact=True)
            yield Static(content(("enter is done, esc leaves", "dim")), classes="complaint")

    def on_input_changed(self, event: Input.Changed) -> None:
        wrong = self._check(event.value) if event.value else ""
        self.query_one(".complaint", Static).update(content((safe(wrong), "bad")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value and not self._check(event.value):
            self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)
