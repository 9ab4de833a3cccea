"""Help: the keys of the page that is open, and those of every page, made from the table of actions."""

from collections.abc import Collection

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import Action, key_text, of
from tui.tones import content, lines

MOVES = (
    ("1 ... 8", "open a page"),
    ("j k", "down and up, also with the arrows"),
    ("g G", "first and last"),
    ("^f ^b", "a page down or up"),
    ("enter", "open or close the details"),
    ("^p :", "everything by name"),
    ("tab", "to the next part of the screen"),
)

FILTER = (
    ("claude", "in any field; several words must all be there"),
    ("!word", 'not this; "two words" keeps them together'),
    ("tok: grp: ch:", "also model: app: id: with * and ?"),
    ("st:", "err, ok, running, an outcome, 4xx, 429, >=400"),
    ("dur: ttft:", ">5s, <=250ms"),
    ("in: out:", ">10k tokens"),
    ("cost:", ">0.01 dollars"),
    ("since: until:", "10m, 2026-11-30"),
)

KEY_WIDTH = 14


class Help(ModalScreen[None]):
    """All keys on one page."""

    BINDINGS = [Binding("escape,q,question_mark", "dismiss", "Close")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, scopes: Collection[str], verbs: Collection[str]) -> None:
        super().__init__()
        here = [a for a in of(*scopes) if a.verb in verbs]
        self._text = text([a for a in here if a.scope != "list"], [a for a in here if a.scope == "list"])

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog big"):
            yield Static(Content.styled("Keys", "bold"), classes="title")
            with VerticalScroll():
                yield Static(self._text)
            yield Static(
                content(("hold shift (in some terminals option) to select text with the mouse; esc closes", "dim"))
            )


def text(page: Collection[Action], rows: Collection[Action]) -> Content:
    """The whole page of help."""
    parts = [_section("This page", [_row(a) for a in page])] if page else []
    if rows:
        parts.append(_section("Lists", [_row(a) for a in rows]))
    parts.append(_section("Moving", MOVES))
    parts.append(_section("Everywhere", [_row(a) for a in of("app")]))
    parts.append(_section("Filter", FILTER))
    return lines(*parts)


def _row(action: Action) -> tuple[str, str]:
    twin = f"   [tollkeeper {action.twin}]" if action.twin else ""
    return key_text(action) or "in ^p", f"{action.label.lower()}: {action.help}{twin}"


def _section(title: str, rows: Collection[tuple[str, str]]) -> Content:
    head = content((title, "bold"))
    return lines(head, *(content((f"  {key:<{KEY_WIDTH}}", "key"), what) for key, what in rows), content(""))
