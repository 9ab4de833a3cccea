"""Global actions: what works on every page (theme, help, undo, restart, stop, leave), and search by name."""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from gateway.client import launch
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.limits import Window, window_start
from tui import exit_status, saved_state, themes, wizard
from tui.board import Board
from tui.glyphs import ASCII, UNICODE
from tui.text import safe
from tui.widgets.dialogs import Confirm, toast
from tui.widgets.help import Help
from tui.widgets.history import undo_change
from tui.widgets.table import LiveTable

Console = Any
"""The app; it imports this file."""

AppVerb = Callable[[Console], Awaitable[None] | None]


def next_theme(app: Console) -> None:
    """The next theme."""
    if not app.colour:
        toast(app, "NO_COLOR is set, so there is only one theme", bad=True)
        return
    apply_theme(app, themes.next_name(app.theme))
    toast(app, f"Theme: {app.theme}")


def apply_theme(app: Console, name: str) -> None:
    """Apply a theme; without colours everything uses the terminal's default colours."""
    name = name if app.colour and name in themes.NAMES else themes.NAMES[0] if app.colour else themes.PLAIN
    app.no_color = name == themes.PLAIN
    app.theme = name
    app.session.state.theme = name if app.colour else app.session.state.theme
    app.refresh_css(animate=False)


def help(app: Console) -> None:  # noqa: A001 - the verb's name
    """The keys of this page."""
    app.push_screen(Help(app.page.scopes, app.page.verbs, app.page.id.removesuffix("s")))


async def undo(app: Console) -> None:
    """Undo the last change; ask first if it was made elsewhere, or if what it removes was used."""
    await undo_change(app)


async def redo(app: Console) -> None:
    """Redo the change that was undone last."""
    await undo_change(app, redo=True)


def restart(app: Console) -> None:
    """Start the server again."""
    if app.session.link == "gone":
        app.session.link = "starting"
        app.feed.start_server()
    else:
        toast(app, "The server is running.")


def suspend(app: Console) -> None:
    """Back to the shell for a while."""
    app.action_suspend_process()


async def stop(app: Console) -> None:
    """Drain and stop the server, then leave."""
    running = len(app.session.board.calls.running)
    if running:
        calls = "1 call is" if running == 1 else f"{running} calls are"
        breaks = f"{calls} running and may finish first. New calls are rejected from now on."
        if not await app.push_screen_wait(Confirm("Stop the server?", breaks, "Stop")):
            return
    await stop_and_leave(app)


async def stop_and_leave(app: Console) -> None:
    """Ask the server to stop, wait for it, and quit."""
    client = app.session.client
    toast(app, "Stopping after running calls finish. Press q to quit now.")
    try:
        await launch.stop(client.endpoint, wait_s=app.session.config.drain_s + 5)
    except Unavailable:
        app.exit(exit_status.while_draining())
        return
    app.exit(exit_status.after_stopping())


async def leave(app: Console) -> None:
    """Quit as the settings say: the server keeps running, unless it was started here and ``stop_on_leave`` is set."""
    session = app.session
    if session.board.stopping is not None:
        app.exit(exit_status.while_draining())
    elif session.link != "attached":
        app.exit(exit_status.without_server())
    elif session.started_here and await _stops_on_leave(session):
        await stop(app)
    else:
        app.exit(exit_status.after_leaving(session.address))


def detach(app: Console) -> None:
    """Quit and always keep the server running."""
    app.exit(exit_status.after_leaving(app.session.address))


async def _stops_on_leave(session: Any) -> bool:
    try:
        return bool((await session.client.settings()).stop_on_leave)
    except GatewayError:
        return False


async def go_to(app: Console, page: str, key: Hashable) -> None:
    """Open a page with the cursor on one of its rows."""
    await app.action_page(page)
    table, source = app.page.table, app.page.source
    if (index := source.index(key)) is not None:
        table.go(index)


def mouse(app: Console) -> None:
    """Leave the mouse to the terminal, or use it again."""
    state = app.session.state
    state.mouse = not state.mouse
    toast(app, f"From the next start, the mouse is {'used here' if state.mouse else 'left to the terminal'}.")


def ascii_only(app: Console) -> None:
    """Draw with ASCII, or with all of Unicode."""
    state = app.session.state
    state.ascii = not app.session.glyphs.ascii
    app.session.glyphs.adopt(ASCII if state.ascii else UNICODE)
    for table in app.query(LiveTable):
        table.rearrange()
    for widget in app.query("*"):
        widget.refresh()  # what was drawn before is kept by every widget
    app.page.renew()
    app.refresh(layout=True)
    toast(app, "ASCII only." if state.ascii else "All of Unicode.")


def save_state(app: Console) -> None:
    """Save the state if it changed, so that it survives a kill."""
    encoded = msgspec.json.encode(app.session.state)
    if encoded != app.kept:
        with suppress(OSError):
            saved_state.save(app.session.config.home, app.session.state)
        app.kept = encoded


async def fetch_today(app: Console) -> None:
    """Fetch the sums since local midnight; events are added from then on."""
    board, now = app.session.board, app.session.now()
    try:
        summary = await app.session.client.summary(since=window_start(Window.DAY, now))
    except GatewayError:
        return
    board.today = summary.total
    board.tables += 1


VERBS: Mapping[str, AppVerb] = {
    "theme": next_theme,
    "help": help,
    "undo": undo,
    "redo": redo,
    "start": restart,
    "wizard": wizard.run,
    "suspend": suspend,
    "mouse": mouse,
    "ascii": ascii_only,
    "stop": stop,
    "leave": leave,
    "detach": detach,
}


NamedRow = tuple[str, str, str]
"""A name as it is drawn, the page it is on, and its key there."""

FIRST = 3
"""How many are offered before typing."""


class NameSearch(Provider):
    """What the palette offers in addition to actions. Names are ``Content``: a string would be read as markup."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, page, key in named_rows(self._console.session.board):
            score, offsets = matcher.fuzzy_search.match(query, name)
            if score > 0:
                go = partial(go_to, self._console, page, key)
                yield Hit(score, highlight(name, offsets), go, text=name, help=f"on page {page}")

    async def discover(self) -> Hits:
        for name, page, key in list(named_rows(self._console.session.board))[:FIRST]:
            go = partial(go_to, self._console, page, key)
            yield DiscoveryHit(Content(name), go, text=name, help=f"on page {page}")

    @property
    def _console(self) -> Any:
        """The app; it imports this file."""
        return self.app


def highlight(name: str, offsets: Sequence[int]) -> Content:
    """A name with the letters that were matched; Textual's own way would read markup in it."""
    shown = Content(name)
    for offset in offsets:
        shown = shown.stylize("bold underline", offset, offset + 1)
    return shown


def named_rows(board: Board) -> Iterator[NamedRow]:
    """Everything with a name, by page."""
    yield from ((safe(token.name, 80), "tokens", token.id) for token in board.tokens)
    yield from ((safe(channel.name, 80), "channels", channel.id) for channel in board.channels)
    yield from ((safe(group.name, 80), "groups", group.name) for group in board.groups)
    yield from ((safe(model.name, 80), "models", model.name) for model in board.models)
