"""WhyScreen: what a call of a token for a model would get, and by which rules; nobody is asked, nothing is spent.

It is asked anew every other second, so that rests count down and limits fill up while one looks.
"""

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gateway.domain.diagnosis import Why
from gateway.domain.errors import GatewayError
from tui.clipboard import copy
from tui.reasons import reasons
from tui.safe import safe, safe_lines
from tui.session import Session
from tui.tones import content, lines
from tui.twins import command
from tui.widgets.choice import Choice
from tui.widgets.drawn import Drawn
from tui.widgets.toast import tell

AGAIN_S = 2.0


class WhyScreen(ModalScreen[None]):
    """Token and model can be changed; the answer follows."""

    DEFAULT_CSS = """
    WhyScreen .dialog { height: 96%; }
    WhyScreen .asked { height: 1; }
    WhyScreen .asked Static { width: 10; color: $muted; }
    WhyScreen Drawn { margin: 1 0 0 0; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q,W", "dismiss", "Close"),
        Binding("down,j", "app.focus_next", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("Y", "copy", show=False),
    ]

    def __init__(self, session: Session, token: str, model: str) -> None:
        super().__init__()
        self._session = session
        board = session.board
        self._tokens = _with(token, sorted(one.name for one in board.tokens))
        self._models = _with(model, sorted(one.name for one in board.models))
        self._token, self._model = token or self._tokens[0], model or self._models[0]
        self._found: Why | None = None
        self._trouble = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled("What would a call get, and why", "bold"), classes="title")
            with Horizontal(classes="asked"):
                yield Static("token")
                yield Choice(self._tokens, self._token, id="token")
            with Horizontal(classes="asked"):
                yield Static("model")
                yield Choice(self._models, self._model, id="model")
            yield Drawn()
            keys = (("left right", " another  "), ("tab", " token, model, text  "), ("Y", " command  "))
            parts = [part for key, text in (*keys, ("esc", " closes")) for part in ((key, "key"), (text, "dim"))]
            yield Static(content(*parts), classes="hint")

    def on_mount(self) -> None:
        self.query_one(Drawn).show(self.drawn)
        self.ask()
        self.set_interval(AGAIN_S, self.ask)

    def ask(self) -> None:
        """Ask beside the screen; a newer question takes the place of an older one."""
        self.run_worker(self._ask(), group="why", exclusive=True, exit_on_error=True)

    def drawn(self, width: int, _height: int) -> Content:
        """The answer, the command that gives it, or why there is none."""
        if self._trouble:
            return content((safe_lines(self._trouble), "bad"))
        if self._found is None:
            return content(("asking ...", "dim"))
        told = reasons(self._found, self._session.now(), self._session.glyphs, width)
        return lines(told, content(""), content((f" $ {self.twin()}", "dim")))

    def twin(self) -> str:
        """The command that asks the same."""
        return "tollkeeper " + command("why", safe(self._token), safe(self._model))

    @on(Choice.Changed)
    def turned(self) -> None:
        """Another token or model."""
        self._token, self._model = (self.query_one(f"#{id_}", Choice).value for id_ in ("token", "model"))
        self.ask()

    def action_copy(self) -> None:
        copy(self.app, self.twin())
        tell(self, f"copied:\n{self.twin()}")

    async def _ask(self) -> None:
        try:
            self._found, self._trouble = await self._session.client.why(self._token, self._model), ""
        except GatewayError as error:
            self._trouble = error.message
        self.query_one(Drawn).show(self.drawn)


def _with(name: str, names: Sequence[str]) -> list[str]:
    """The names, and this one if it is not among them: a model that nobody offers can be asked about too."""
    return [*names] if name in names else [name, *names] if name else [*names] or ["none"]
