"""Take: asks which of some things are wanted; enter is done, esc changes nothing."""

from collections.abc import Collection, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.safe import safe, safe_lines
from tui.tones import content
from tui.widgets.checks import Checks


class Take(ModalScreen[set[str] | None]):
    """The ids of those wanted, or None if nothing is to change."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Cancel"),
        Binding("enter", "done", "Done"),
    ]

    def __init__(self, title: str, about: str, options: Sequence[tuple[str, str]], on: Collection[str]) -> None:
        """``options``: ids, and what is said of them; ``on``: ids of those that are wanted at first."""
        super().__init__()
        self._title = title
        self._about = about
        self._options = options
        self._on = on

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled(safe(self._title), "bold"), classes="title")
            yield Static(Content(safe_lines(self._about)))
            with VerticalScroll(classes="choices", can_focus=False):
                yield Checks(self._options, self._on)
            keys = (("space", " changes one  "), ("a", " all or none  "), ("enter", " done  "), ("esc", " leaves it"))
            parts = [part for key, text in keys for part in ((key, "key"), (text, "dim"))]
            yield Static(content(*parts), classes="hint")

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_done(self) -> None:
        self.dismiss(set(self.query_one(Checks).on))
