"""Console: the app, with its header, one page at a time, and its footer.

Events of the server are applied to the board as they arrive; the screen is redrawn from the board at most five times a
second. A page is created when it is first opened. The app ends when its terminal disappears, and restores it when a
signal ends the process.
"""

import asyncio
import gc
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import ClassVar

import msgspec
import rich.console
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor
from textual.widgets import ContentSwitcher
from textual.widgets._toast import ToastRack

from gateway.config import Config
from gateway.domain.budget import Window, window_start
from gateway.domain.errors import GatewayError
from gateway.domain.events import IncidentChanged, Snapshot
from gateway.domain.units import Millis
from tui import global_actions, preferences, saved_state, themes
from tui.actions import PAGE_IDS, PAGES, Action, actions_in, bindings
from tui.console_app import ConsoleApp
from tui.exit_status import ExitStatus, write_report
from tui.feed import STOPPED, ConsoleFeed
from tui.glyphs import Asciify, wants_ascii
from tui.key_queue import DIALOG_WORKERS
from tui.keymap import Keymap
from tui.pages.base import page_class
from tui.session import AttachedServer, ConsoleSession, ServerLauncher
from tui.text import safe
from tui.widgets.dialogs import toast
from tui.widgets.footer import Footer
from tui.widgets.header import Header
from tui.widgets.search_input import open_palette

STYLESHEET = Path(__file__).with_name("console.tcss")
"""An absolute path, so that subclasses and the executable find it; ``build.spec`` includes it."""


class Console(ConsoleApp):
    """The app. Its result is the exit status."""

    CSS_PATH = STYLESHEET
    TITLE = "tollkeeper"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    SUSPENDED_SCREEN_CLASS = "-below"  # it hides the messages of a screen: the one above shows them, too
    COMMANDS = {lambda: importlib.import_module("tui.palette").Palette}  # noqa: RUF012 - never changed
    """The palette's entries. Its file is imported late, because it imports all pages."""
    # Textual declares these two as instance variables.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (90, "-normal"), (130, "-wide")]  # noqa: RUF012 - never changed
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-low"), (18, "-short"), (28, "-tall")]  # noqa: RUF012 - never changed
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("app"),
        *(Binding(str(i), f"page('{page.id}')", page.name, show=False) for i, page in enumerate(PAGES, 1)),
        Binding("ctrl+p,colon", "command_palette", show=False),
    ]

    action_command_palette = open_palette

    def __init__(
        self, session: ConsoleSession, launcher: ServerLauncher, *, note: str = "", colour: bool = True, theme: str = ""
    ) -> None:
        """``note``: a message for the start; ``theme``: the theme to start with instead of the owner's."""
        super().__init__(ansi_color=None if colour else True)
        self.session = session
        self.feed = ConsoleFeed(launcher, self.post_message)
        self.colour = colour
        self.note = note
        self.failure: GatewayError | None = None
        """Why no server could be found or started."""
        self.stored_state = msgspec.json.encode(session.lasting_state)
        for available in (*themes.THEMES, *session.preferences.themes):
            self.register_theme(available)
        self.theme = global_actions.shown_theme(session, theme or session.state.theme, colour=colour)
        self.no_color = self.no_color or self.theme == themes.PLAIN

    def compose(self) -> ComposeResult:
        yield Header(self.session)
        yield ContentSwitcher()
        yield Footer()

    async def on_mount(self) -> None:
        for toasts in self.screen.query(ToastRack):
            self.screen.move_child(toasts, after=self.query_one(Footer))  # the last one is drawn over the others
            toasts.display = False  # Textual does so only after the first frame, and lays it out again
        self.set_keymap(self.session.keymap.bindings())
        page = self.session.state.page
        await self.action_page(page if page in PAGE_IDS else PAGE_IDS[0])
        self.call_after_refresh(_connect, self)
        self.set_interval(0.2, self.renew, name="renew")  # a higher rate costs more and reads no better
        self.set_interval(3.0, lambda: global_actions.save_state(self), name="remember")
        if not self.is_headless:
            watch_terminal(self)
        if self.note:
            toast(self, self.note, bad=True)

    def renew(self) -> None:
        super().renew()
        self._renew_today()

    def _renew_today(self) -> None:
        """Fetch today's sums after a snapshot and at midnight."""
        board, midnight = self.session.board, window_start(Window.DAY, self.session.now())
        if board.status is not None and self.session.link == "attached" and board.today_start != midnight:
            board.today_start = midnight
            fetch = partial(global_actions.fetch_today, self, midnight)
            self.run_worker(fetch, name="today", group="today", exclusive=True)  # type: ignore[arg-type] # too narrow

    def action_act(self, verb: str) -> None:
        self.page.do(lambda _page: global_actions.VERBS[verb](self))

    action_help_quit = key_ctrl_c = global_actions.show_quit_keys
    """Ctrl+C: ``help_quit`` is Textual's name for it; ``key_ctrl_c`` handles it in dialogs, without bindings."""

    def on_console_feed_starting(self) -> None:
        self.session.link = "starting"

    def on_attached_server(self, server: AttachedServer) -> None:
        server.client.confirm = partial(global_actions.confirm, self)
        self.session.attach(server.client)

    def on_console_feed_events_ready(self) -> None:
        events, board = self.feed.take_events(), self.session.board
        for event in events:
            if isinstance(event, IncidentChanged) and event.incident.budget and event.incident.ended is None:
                spent = event.incident
                known = [other for other in board.incidents.newest() if other.id == spent.id and other.ended is None]
                if not known or (spent.refusing and not known[0].refusing):  # its reason changes with each percent
                    toast(self, f"Of the {safe(spent.budget, 80)}, {safe(spent.reason, 80)}.", bad=True)
            board.apply(event)
        self._renew_today()
        is_new = not self.session.state.view("wizard").choices
        if is_new and any(isinstance(event, Snapshot) for event in events):
            importlib.import_module("tui.wizard").offer_once(self)  # its file is rarely needed, so it is loaded late

    def on_console_feed_disconnected(self, event: ConsoleFeed.Disconnected) -> None:
        self.session.mark_server_gone(event.reason)
        if event.fatal is not None:
            self.failure = event.fatal
            self.exit()
        elif event.reason != STOPPED:
            toast(self, event.reason, bad=True)  # the header has room for its beginning only

    def action_go_to(self, page: str, row: str) -> None:
        opening = global_actions.go_to(self, page, row) if row else self.action_page(page)
        self.run_worker(opening, group=DIALOG_WORKERS)

    def action_act_on_page(self, verb: str) -> None:
        self.page.action_act(verb)

    def get_line_filters(self) -> Sequence[LineFilter]:
        colours = [NoColor()] if self.no_color else super().get_line_filters()
        return [*colours, Asciify()] if self.session.ascii else colours


def actions_by_page() -> dict[str, list[Action]]:
    """Returns all actions that can be run on each page, by its name."""
    return {info.name: [*page_class(info.id).actions(Keymap()), *actions_in("app")] for info in PAGES}


def _connect(app: Console) -> None:
    """Connect to the server after the first frame. From now on garbage is collected, but not what the start created."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    app.run_worker(app.feed.run(), name="feed", exit_on_error=True)


def is_gone(handle: int) -> bool:
    """Returns whether a terminal is gone. If the shell ignores SIGHUP, nothing else tells: reading returns at once."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    try:
        poll.register(handle, 0)
        return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
    except OSError:
        return True


def exit_if_gone() -> None:
    """End the process at once if the terminal is gone: no screen can be restored, and no error shown."""
    with suppress(ValueError, AttributeError):  # without standard input
        if is_gone(sys.stdin.fileno()):
            os._exit(129)  # 128 and SIGHUP


def watch_terminal(app: Console) -> None:
    """Watch the terminal and its signals for as long as the app runs. The event loop must be running."""
    app.set_interval(2.0, exit_if_gone, name="terminal")
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))  # the shell has drawn over the screen
    status = ExitStatus("", 128 + signal.SIGTERM)
    with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit, status)  # it restores the terminal


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Returns whether the terminal has at most 16 colours, too few to keep the colours of a theme apart."""
    console = rich.console.Console(file=StringIO(), force_terminal=True, _environ=environ)
    return console.color_system in (None, "standard")


def run(config: Config, launcher: ServerLauncher | None = None) -> int:
    """Run the console, by default with a launcher for the home. Returns the exit code. Raises GatewayError."""
    state, note = saved_state.load(config.home)
    own_preferences = preferences.load(config.home, actions_by_page)
    note = "\n".join(filter(None, (note, preferences.problems_text(own_preferences.problems))))
    session = ConsoleSession(config, now, state, own_preferences, in_ascii=wants_ascii(os.environ, state.ascii))
    theme = themes.PLAIN if has_few_colours(os.environ) else ""
    launcher = launcher or ServerLauncher(config)
    app = Console(session, launcher, note=note, colour=not os.environ.get("NO_COLOR"), theme=theme)
    gc.disable()  # until the first frame: the start creates no garbage
    status = app.run(mouse=state.mouse) or ExitStatus()
    global_actions.save_state(app)
    if app.failure is not None:
        raise app.failure
    if app.crash is not None:
        status = ExitStatus(write_report(config.home, app.crash), 1)
    if status.sentence:
        sys.stderr.write(f"tollkeeper: {status.sentence}\n")
    return status.code


def now() -> Millis:
    """Returns the time of the wall clock."""
    return Millis(time.time_ns() // 1_000_000)
