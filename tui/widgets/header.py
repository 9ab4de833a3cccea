"""Header: the two lines above every page: the state of the server and what needs attention, and the pages by number."""

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from gateway.client.cells import cut
from tui import format as fmt, glyphs
from tui.actions import PAGES
from tui.alerts import Alert, alerts
from tui.session import ConsoleSession
from tui.text import Part, content, lines, link, safe

SHORT = {"account": "Acct"}
"""Shorter names, so that all pages fit in 80 columns."""
CUTS = ((4, " "), (4, ""), (3, ""))
"""The number of letters of a name on narrow screens, and the text after it."""
OMISSIONS = ("tokens", "program", "scheme", "today")
"""What the left part leaves out, in this order, until an alert fits: the tokens used today, the program's name,
``http://`` before the address, and today's cost."""


class Header(Widget):
    """The header. A click on a page's name opens the page; a click on an alert opens the page with more about it."""

    auto_links = False

    DEFAULT_CSS = """
    Header { height: 2; background: $panel; color: $foreground; text-wrap: nowrap; text-overflow: ellipsis; }
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
        width, help_hint = self.size.width, f"{self._session.key('app.help')} help "
        hints = (f"^p commands  {help_hint}", help_hint)
        return lines(state_line(self._session, width), tabs_line(self.page, width, hints))


def state_line(session: ConsoleSession, width: int) -> Content:
    """Returns the server, the running calls and today's cost, and at the right the alerts that fit."""
    all_alerts = alerts(session.board, session.now()) if session.link == "attached" else ()
    alert_width = min(40, len(all_alerts[0].text) + 8) if all_alerts else 0
    candidates = [_server_parts(session, width, OMISSIONS[:count]) for count in range(len(OMISSIONS) + 1)]
    server = next((parts for parts in candidates if _length(parts) + alert_width < width), candidates[-1])
    links = _alert_links(all_alerts, width - _length(server) - 1)
    return content(*server, " " * max(1, width - _length(server) - links.cell_length), links)


def _alert_links(alerts: Sequence[Alert], width: int) -> Content:
    """Returns the alerts that fit, the first one cut if needed, and a link with the number of the others."""
    links = Content("")
    for i, alert in enumerate(alerts):
        more = f" +{len(alerts) - i}"
        text = f"{glyphs.FAILED if alert.level == 'bad' else glyphs.WARNING} {alert.text}"
        free = width if i == len(alerts) - 1 else width - len(more) - 1
        if i == 0 and free >= 12:  # fewer cells of an alert say nothing
            text = cut(text, free)
        if cell_len(text) > free:
            count = content((more if len(more) < width else "", "warn"))
            return links + link(count, "app.go_to", alert.page, alert.row)
        text += " " * min(2, free - cell_len(text))
        links += link(content((text, alert.level)), "app.go_to", alert.page, alert.row)
        width -= cell_len(text)
    return links


def tabs_line(page: str, width: int, hints: Sequence[str] = ()) -> Content:
    """Returns the names of the pages, shortened as needed, the open one reversed, and the first hint that fits."""
    numbered = list(enumerate(PAGES, 1))
    candidates = (
        [f" {number} {info.name} " for number, info in numbered],
        [f" {number} {SHORT.get(info.id, info.name)}" for number, info in numbered],
        *([f" {number} {info.name[:letters]}{space}" for number, info in numbered] for letters, space in CUTS),
        [f" {number} {info.name}" if info.id == page else f" {number}" for number, info in numbered],
    )
    names = next((names for names in candidates if sum(map(len, names)) <= width), candidates[-1])
    parts: list[Part | Content] = []
    for info, text in zip(PAGES, names, strict=True):
        name = Content.styled(text, "reverse bold") if info.id == page else Content(text)
        parts.append(link(name, "app.go_to", info.id, ""))
    used = sum(map(len, names))
    hint = next((hint for hint in hints if used + len(hint) < width), "")
    return content(*parts, " " * max(0, width - used - len(hint)), (hint, "dim"))


def _length(parts: Sequence[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)


def _server_parts(session: ConsoleSession, width: int, omitted: Collection[str]) -> list[Part]:
    board = session.board
    parts: list[Part] = [(" tollkeeper  " if "program" not in omitted else " ", "bold")]
    if session.link == "gone":
        reason = cut(safe(session.reason), max(10, width - 50))
        return [*parts, (f"{glyphs.OFF} no server", "bad"), (f"  {session.key('app.start')} starts one  {reason}", "")]
    if board.status is None or session.progress:
        return [*parts, (f"{glyphs.HALF} {session.progress}", "warn")]
    mark, tone = (glyphs.HALF, "warn") if board.stopping else (glyphs.ON, "ok")
    address = safe(board.status.address or "no public address", 60)
    if "scheme" in omitted:
        address = address.removeprefix("http://")
    parts += [(mark, tone), (f" {address}", "")]
    waiting = board.calls.count_waiting().total()
    running = len(board.calls.running) - waiting
    cells = 0 if waiting else 3  # so that the text next to it keeps its place while calls come and go
    parts.append((f"   running {running:<{cells}}", "live" if running else "dim"))
    if waiting:
        parts.append((f" {glyphs.DOT} {waiting} waiting", "warn"))
    if "today" not in omitted and board.today_nanos is not None:
        tokens = f" {glyphs.DOT} {fmt.brief_count(board.today_tokens)} tok" if "tokens" not in omitted else ""
        parts.append((f"   today {fmt.dollar_amount(board.today_nanos)}{tokens}", ""))
    return parts
