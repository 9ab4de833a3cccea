"""Take: asks which of some things are wanted; enter is done, esc changes nothing, ``/`` looks for some of them."""

from collections.abc import Collection, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.safe import safe, safe_lines
from tui.tones import content
from tui.widgets.checks import Checks
from tui.widgets.form import BACK

HINT = "gpt !mini: words that must be there, and that must not"


class Take(ModalScreen[Any]):
    """The ids of those wanted, BACK, or None if nothing is to change."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Cancel"),
        Binding("enter", "done", "Done"),
        Binding("pageup,b", "back", "Back", show=False),
        Binding("slash", "look", "Look for", show=False),
    ]

    def __init__(
        self, title: str, about: str, options: Sequence[tuple[str, str]], on: Collection[str], *, back: bool = False
    ) -> None:
        """``options``: ids, and what is said of them; ``on``: ids of those that are wanted at first.

        ``back``: whether there is a step before this one.
        """
        super().__init__()
        self._title = title
        self._about = about
        self._options = options
        self._on = on
        self._back = back

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled(safe(self._title), "bold"), classes="title")
            yield Static(Content(safe_lines(self._about)))
            yield Input(placeholder=HINT, compact=True)
            with VerticalScroll(classes="choices", can_focus=False):
                yield Checks(self._options, self._on)
            keys = [("space", " one  "), ("a", " all or none  "), ("/", " look for  "), ("enter", " done  ")]
            keys += [("b", " back  ")] if self._back else []
            parts = [part for key, text in [*keys, ("esc", " leaves")] for part in ((key, "key"), (text, "dim"))]
            yield Static(content(*parts), classes="hint")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one(Checks).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one(Checks).narrow(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What was looked for stays narrowed; the keys are the list's again."""
        event.input.display = bool(event.value)
        self.query_one(Checks).focus()

    def action_look(self) -> None:
        field = self.query_one(Input)
        field.display = True
        self.set_focus(field)

    def action_leave(self) -> None:
        """Leave the search first, then the dialog."""
        field = self.query_one(Input)
        if field.display:
            field.value = ""
            field.display = False
            self.query_one(Checks).focus()
        else:
            self.dismiss(None)

    def action_back(self) -> None:
        if self._back:
            self.dismiss(BACK)

    def action_done(self) -> None:
        self.dismiss(set(self.query_one(Checks).on))
