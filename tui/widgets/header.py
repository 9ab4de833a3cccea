"""Header: the two lines above every page: the state of the server and what needs attention, and the pages by number."""

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from tui import format as fmt
from tui import glyphs
from tui.actions import PAGES
from tui.alerts import Alert, alerts
from tui.board import Board
from tui.session import ConsoleSession
from tui.text import Part, content, cut, lines, link, safe

BRIEFEST = 4
"""The number of steps in which the left part is shortened so that an alert fits."""


class Header(Widget):
    """The header. A click on a page's name opens the page; a click on an alert opens the page with more about it."""

    auto_links = False

    DEFAULT_CSS = """
    Header { height: 2; background: $panel; color: $foreground; }
    Header:nocolor { text-style: none; }
    """

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(id="header")
        self._session = session
        self.page = PAGES[0].id
        self._drawn = Content("")

    def renew(self) -> None:
        """Redraw if anything changed, even if only a style did, which ``==`` would not compare."""
        if not self._content().is_same(self._drawn):
            self.refresh()

    def render(self) -> Content:
        self._drawn = self._content()
        return self._drawn

    def _content(self) -> Content:
        width, helps = self.size.width, f"{self._session.key('app.help')} help "
        hints = (f"^p commands  {helps}", helps)
        return lines(state_line(self._session, width), tabs_line(self.page, width, hints))


def state_line(session: ConsoleSession, width: int) -> Content:
    """Returns the server, the running calls and today's cost, and at the right the alerts that fit."""
    all_alerts = alerts(session.board, session.now()) if session.link == "attached" else ()
    alert_width = min(32, len(all_alerts[0].text) + 8) if all_alerts else 0
    candidates = [_state(session, width, brief) for brief in range(BRIEFEST + 1)]
    left_parts = next(
        (candidate for candidate in candidates if _length(candidate) + alert_width < width), candidates[-1]
    )
    shown = _alert_links(all_alerts, width - _length(left_parts) - 1)
    return content(*left_parts, " " * max(1, width - _length(left_parts) - shown.cell_length), shown)


def _alert_links(alerts: Sequence[Alert], width: int) -> Content:
    """Returns as many alerts as fit in ``width`` cells, and the number of those that do not, which links to the first
    of them.
    """
    shown = Content("")
    for i, alert in enumerate(alerts):
        more = f" +{len(alerts) - i}"
        text = f"{glyphs.FAILED if alert.level == 'bad' else glyphs.WARNING} {alert.text}  "
        is_shown = cell_len(text) <= width - (len(more) if i < len(alerts) - 1 else 0)
        if not is_shown:
            text = more if len(more) < width else ""
        shown += link(content((text, alert.level if is_shown else "warn")), "app.go_to", alert.page, alert.row)
        width -= cell_len(text)
        if not is_shown:
            break
    return shown


def tabs_line(page: str, width: int, hints: Sequence[str] = ()) -> Content:
    """Returns the names of the pages; the open one is reversed. At the right is the first of the hints that fits."""
    parts: list[Part | Content] = []
    names = _names(page, width)
    for info, text in zip(PAGES, names, strict=True):
        name = Content.styled(text, "reverse bold") if info.id == page else Content(text)
        parts.append(link(name, "app.go_to", info.id, ""))
    used = sum(map(len, names))
    hint = next((hint for hint in hints if used + len(hint) < width), "")
    return content(*parts, " " * max(0, width - used - len(hint)), (hint, "dim"))


def _names(page: str, width: int) -> list[str]:
    """Returns the names of the pages, shortened as far as needed. On the narrowest screens only the open page has a
    name.
    """
    numbered = list(enumerate(PAGES, 1))
    steps = (
        [f" {number} {info.name} " for number, info in numbered],
        [f" {number} {SHORT.get(info.id, info.name)}" for number, info in numbered],
        *([f" {number} {info.name[:letters]}{space}" for number, info in numbered] for letters, space in CUTS),
        [f" {number} {info.name}" if info.id == page else f" {number}" for number, info in numbered],
    )
    return next((names for names in steps if sum(map(len, names)) <= width), steps[-1])


CUTS = ((4, " "), (4, ""), (3, ""))
"""The number of letters of a name on narrow screens, and the text after it."""
SHORT = {"account": "Acct"}
"""Shorter names, with which all pages fit in 80 columns."""


def _length(parts: Sequence[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)


def _state(session: ConsoleSession, width: int, brief: int) -> list[Part]:
    """Returns the parts at the left: all if ``brief`` is 0, down to the most important ones if it is BRIEFEST."""
    board = session.board
    parts: list[Part] = [(" tollkeeper  " if brief < 2 else " ", "bold")]
    if session.link == "gone":
        reason = cut(safe(session.reason), max(10, width - 50))
        return [*parts, (f"{glyphs.OFF} no server", "bad"), (f"  {session.key('app.start')} starts one  {reason}", "")]
    if board.status is None or session.progress:
        return [*parts, (f"{glyphs.HALF} {session.progress}", "warn")]
    mark, tone = (glyphs.HALF, "warn") if board.stopping else (glyphs.ON, "ok")
    address = safe(board.status.address or "no public address", 60)
    parts += [(mark, tone), (f" {address.removeprefix('http://') if brief > 2 else address}", "")]
    waiting = board.calls.count_waiting().total()
    running = len(board.calls.running) - waiting
    cells = 0 if waiting else 3  # so that the text beside it keeps its place while calls come and go
    parts.append((f"   running {running:<{cells}}", "live" if running else "dim"))
    if waiting:
        parts.append((f" {glyphs.DOT} {waiting} waiting", "warn"))
    return [*parts, (_today(board, brief), "")] if brief < BRIEFEST else parts


def _today(board: Board, brief: int) -> str:
    if board.today is None:
        return ""
    nanos, tokens = board.today
    used = f" {glyphs.DOT} {fmt.brief_count(tokens)} tok"
    return f"   today {fmt.dollar_amount(nanos)}{used if brief < 1 else ''}"
