"""Dialogs: Confirm before something breaks, Prompt for one line, Busy while work runs, and toasts.

Confirm says what will break; Cancel has the focus. A toast is a short message about what was just done, or why it
failed; a state that lasts belongs into the header.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from gateway.domain.errors import GatewayError
from gateway.domain.units import Millis
from tui.text import content, safe, safe_lines

BACK = object()
"""Result of a step of the wizard: go to the previous step."""


class Confirm(ModalScreen[bool]):
    """True if confirmed."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,n,q", "choose(False)", "Cancel"),
        Binding("y", "choose(True)", "Yes"),
        Binding("left,right,h,l", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, breaks: str, verb: str) -> None:
        """``breaks`` says what will stop working; ``verb`` is the button's label."""
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


class Prompt(ModalScreen[str | None]):
    """The text, or None if cancelled. ``check`` returns what is wrong with a text, or nothing."""

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
            yield Static(content(("enter confirms, esc cancels", "dim")), classes="complaint")

    def on_input_changed(self, event: Input.Changed) -> None:
        wrong = self._check(event.value) if event.value else ""
        self.query_one(".complaint", Static).update(content((safe(wrong), "bad")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value and not self._check(event.value):
            self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


TICK_S = 0.2


class Busy(ModalScreen[Any]):
    """The work's result, the GatewayError that it ended with, or None if it was closed."""

    BINDINGS = [Binding("escape,q", "leave", "Leave")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, title: str, work: Callable[[], Awaitable[Any]], now: Callable[[], Millis]) -> None:
        super().__init__()
        self._title = title
        self._work = work
        self._now = now
        self._began = now()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(safe(self._title), "bold"))
            yield Static(classes="passed")

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(TICK_S, self.draw)
        self.run_worker(self._do(), exit_on_error=True)

    def draw(self) -> None:
        """Show the elapsed time."""
        passed = (self._now() - self._began) / 1000
        self.query_one(".passed", Static).update(content((f"{passed:.1f} s", "live"), ("   esc closes this", "dim")))

    def action_leave(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss(None)

    async def _do(self) -> None:
        try:
            self.dismiss(await self._work())
        except GatewayError as error:
            self.dismiss(error)


SECONDS = 4.0
ERROR_SECONDS = 8.0


def toast(node: DOMNode, text: str, *, bad: bool = False) -> None:
    """Show a message for some seconds; the text may contain anything. One that is still shown starts again."""
    text = safe_lines(text, lines=8)
    for shown in list(node.app._notifications):  # noqa: SLF001 - Textual has no other list of what it shows
        if shown.message == text:
            node.app._unnotify(shown)  # noqa: SLF001 - nor another way to remove one
    node.app.notify(
        text,
        severity="error" if bad else "information",
        timeout=ERROR_SECONDS if bad else SECONDS,
        markup=False,
    )
