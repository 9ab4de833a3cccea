"""Connect: the card that tells how to use a token, as texts to paste, and tries it with a real call.

If the token was just made, its key stands on the card, this once.
"""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gateway.client import connect_card
from gateway.domain.views import TokenView
from tui.apps import guide
from tui.clipboard import copy
from tui.safe import safe, safe_lines
from tui.session import Session
from tui.tones import Part, content, lines
from tui.widgets.toast import tell
from tui.widgets.tried import Tried

PLACEHOLDER_MODEL = "MODEL"
KINDS = ("Shell", "fish", "PowerShell", "Python", "Node", "curl", "Apps")


class Connect(ModalScreen[None]):
    """Left when the owner has seen enough. ``key`` is known only when the token was made or rotated just now."""

    DEFAULT_CSS = """
    Connect .text { height: auto; max-height: 14; background: $panel; padding: 0 1; margin: 1 0 0 0; }
    Connect .kinds { height: 1; margin: 1 0 0 0; }
    Connect .said { height: auto; margin: 1 0 0 0; }
    Connect .keys { height: 1; margin: 1 0 0 0; }
    Connect .inside { height: auto; max-height: 82vh; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Close"),
        Binding("tab,right,l", "turn(1)", show=False, priority=True),
        Binding("shift+tab,left,h", "turn(-1)", show=False, priority=True),
        Binding("m", "model", show=False),
        Binding("y,c", "copy", show=False),
        Binding("k", "copy_key", show=False),
        Binding("t,enter", "try", show=False, priority=True),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
    ]

    def __init__(self, session: Session, token: TokenView, key: str = "", *, first: str = "") -> None:
        """``first``: a model with which a test call is made as soon as the card is open."""
        super().__init__()
        self._session = session
        self._token = token
        self._key = key
        self._at_once = bool(first)
        self._kind = 0
        self._model = first if first in token.sees else token.sees[0] if token.sees else ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            with VerticalScroll(classes="inside", can_focus=False):
                yield Static(Content.styled(f"Connect with {safe(self._token.name)}", "bold"))
                yield Static(self._about_key(), classes="key")
                yield Static(classes="model")
                yield Static(classes="kinds")
                yield Static(classes="text")
                yield Tried(self._session, self._token, self._key)
            yield Static(_keys(known=bool(self._key)), classes="keys")

    def on_mount(self) -> None:
        self.draw_text()
        if self._at_once:
            self.action_try()

    def draw_text(self) -> None:
        """The text of the chosen kind."""
        seen = self._token.sees
        which = f"   {seen.index(self._model) + 1} of {len(seen)}, m is the next" if seen else ""
        told = content(
            ("model  ", "dim"), (safe(self._model) or "none: this token sees no model", "bold"), (which, "dim")
        )
        self.query_one(".model", Static).update(told)
        parts: list[Part | str | Content] = []
        for number, kind in enumerate(KINDS):
            chosen = number == self._kind
            parts += [Content.styled(f" {kind} ", "reverse bold") if chosen else (f" {kind} ", "dim"), " "]
        self.query_one(".kinds", Static).update(content(*parts))
        self.query_one(".text", Static).update(Content(safe_lines(self.text())))

    def text(self) -> str:
        """What stands in the box and is copied."""
        url, model = self._session.address, safe(self._model, 200) or PLACEHOLDER_MODEL
        card = connect_card.card(url, model, self._key)
        texts: dict[str, Callable[[], str]] = {
            "Shell": lambda: card.environment["sh"],
            "fish": lambda: card.environment["fish"],
            "PowerShell": lambda: card.environment["powershell"],
            "Python": lambda: card.python,
            "Node": lambda: card.node,
            "curl": lambda: card.curl,
            "Apps": lambda: guide(url, model),
        }
        return texts[KINDS[self._kind]]()

    def on_click(self, event: object) -> None:
        """The names of the kinds can be clicked."""
        x, y = getattr(event, "screen_x", -1), getattr(event, "screen_y", -1)
        region = self.query_one(".kinds").region
        if region.contains(x, y):
            at = region.x
            for number, kind in enumerate(KINDS):
                at += len(kind) + 3
                if x < at:
                    self._kind = number
                    self.draw_text()
                    return

    def action_turn(self, by: int) -> None:
        self._kind = (self._kind + by) % len(KINDS)
        self.draw_text()

    def action_model(self) -> None:
        """The next model that the token sees."""
        if self._token.sees:
            at = self._token.sees.index(self._model)
            self._model = self._token.sees[(at + 1) % len(self._token.sees)]
            self.draw_text()

    def action_copy(self) -> None:
        copy(self.app, self.text())
        tell(self, f"copied: {KINDS[self._kind]}")

    def action_copy_key(self) -> None:
        if self._key:
            copy(self.app, self._key)
            tell(self, "the key was copied")
        else:
            tell(self, "the key was shown once; R on the page gives the token a new one", bad=True)

    def action_scroll(self, by: int) -> None:
        self.query_one(".inside").scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_try(self) -> None:
        self.query_one(Tried).call(self._model)

    def on_tried_done(self) -> None:
        """The receipt is longer than a small screen; its end tells the cost."""
        self.call_after_refresh(self.query_one(".inside").scroll_end, animate=False)

    def _about_key(self) -> Content:
        if self._key:
            return lines(
                content((safe(self._key), "key")),
                content(
                    ("This is the only time the key is shown; it is stored nowhere. ", "warn"), ("k copies it.", "")
                ),
            )
        return content((f"{safe(self._token.hint)}   the key was shown when it was made; R makes a new one", "dim"))


def _keys(*, known: bool) -> Content:
    parts: list[Part] = [(" t", "key"), (" test call  ", "dim"), ("y", "key"), (" copy text  ", "dim")]
    if known:
        parts += [("k", "key"), (" copy key  ", "dim")]
    parts += [("m", "key"), (" model  ", "dim"), ("tab", "key"), (" kind  ", "dim"), ("esc", "key")]
    return content(*parts, (" close", "dim"))
