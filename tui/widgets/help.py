"""Help: the keys of the page that is open, and those of every page, from the action table."""

from collections.abc import Collection

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import Action, actions_in, key_text
from tui.text import TextCard, content
from tui.widgets.text_block import Detail

MOVES = (
    ("1 ... 8", "open a page"),
    ("j k", "down, up (or the arrow keys)"),
    ("g G", "first, last row"),
    ("^f ^b", "page down, up"),
    ("enter", "open or close the details"),
    ("^p :", "command palette"),
    ("tab", "next part of the screen"),
)

FILTER = (
    ("claude", "in any field; all words must match"),
    ("!word", 'excludes; "two words" is a phrase'),
    ("tok: grp: ch:", "also model: app: api: id: with * and ?"),
    ("st:", "err, ok, running, an outcome, 4xx, 429, >=400"),
    ("dur: ttft:", ">5s, <=250ms"),
    ("in: out:", ">10k tokens"),
    ("cost:", ">0.01 dollars"),
    ("since: until:", "10m, 2026-11-30"),
)

KEY_WIDTH = 16


class Help(ModalScreen[None]):
    """All keys on one page."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q,question_mark", "dismiss", "Close"),
        Binding("j,down,pagedown,ctrl+f,space", "scroll(1)", show=False),
        Binding("k,up,pageup,ctrl+b", "scroll(-1)", show=False),
    ]

    def __init__(self, scopes: Collection[str], verbs: Collection[str], noun: str) -> None:
        """``noun`` is what the commands call the page's rows."""
        super().__init__()
        self._noun = noun
        here = [a for a in actions_in(*scopes) if a.verb in verbs]
        self._page = [a for a in here if a.scope != "list"]
        self._rows = [a for a in here if a.scope == "list"]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled("Keys", "bold"), classes="title")
            yield Detail()
            yield Static(
                Content("shift (option in some terminals) selects text with the mouse; esc closes"), classes="hint"
            )

    def on_mount(self) -> None:
        self.query_one(Detail).show(lambda width: help_text(self._page, self._rows, width, self._noun))

    def action_scroll(self, by: int) -> None:
        """Down or up, by half a page."""
        pane = self.query_one(Detail)
        pane.scroll_relative(y=by * max(1, pane.size.height // 2), animate=False)


def help_text(page: Collection[Action], rows: Collection[Action], width: int, noun: str = "") -> Content:
    """The whole page of help."""
    card = HelpCard(width, KEY_WIDTH)
    _section(card, "This page", [_row(a, noun) for a in page])
    _section(card, "Lists", [_row(a) for a in rows])
    _section(card, "Moving", MOVES)
    _section(card, "Everywhere", [_row(a) for a in actions_in("app")])
    _section(card, "Filter", FILTER)
    return card.content()


class HelpCard(TextCard):
    """A card with highlighted keys."""

    tone = "key"


def _row(action: Action, noun: str = "") -> tuple[str, Content]:
    command = f"   tollkeeper {action.command.replace('NOUN', noun)}" if action.command else ""
    return key_text(action) or "in ^p", content(f"{action.label}: {action.help}", (command, "dim"))


def _section(card: TextCard, title: str, rows: Collection[tuple[str, str | Content]]) -> None:
    if rows:
        card.line((title, "bold"))
        for key, what in rows:
            card.row(key, what)
        card.line("")
