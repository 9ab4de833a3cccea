"""Story: the incidents of all channels, the newest first; it goes on while one reads."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.session import Session
from tui.timeline import timeline
from tui.tones import content
from tui.widgets.drawn import Drawn

TICK_S = 1.0


class Story(ModalScreen[None]):
    """Left when it has been read."""

    DEFAULT_CSS = "Story .dialog { height: 96%; }"
    BINDINGS = [Binding("escape,q,i", "dismiss", "Close")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled("Incidents, the newest first", "bold"), classes="title")
            yield Drawn()
            keys = (("z", " on the page clears a rest  "), ("j k", " scroll  "), ("esc", " closes"))
            parts = [part for key, text in keys for part in ((key, "key"), (text, "dim"))]
            yield Static(content(*parts), classes="hint")

    def on_mount(self) -> None:
        self.query_one(Drawn).focus()
        self.draw()
        self.set_interval(TICK_S, self.draw)

    def draw(self) -> None:
        """Rests count down."""
        self.query_one(Drawn).show(self.drawn)

    def drawn(self, width: int, _height: int) -> Content:
        """The lines, or that there are none."""
        session = self._session
        found = session.board.incidents.newest()
        if not found:
            return content(("None among the calls that are known here: every channel answered.", "ok"))
        return timeline(found, session.now(), session.glyphs, width)
