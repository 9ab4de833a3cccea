"""Global actions: the actions that every page has, such as theme, help, undo, stop and quit, and what they need."""

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from gateway.client import launch
from gateway.domain.errors import Conflict, GatewayError, Unavailable
from gateway.domain.history import Question
from gateway.domain.human_values import plural
from gateway.domain.units import Millis
from tui import exit_status, saved_state, themes
from tui.actions import PAGES
from tui.console_app import ConsoleApp, available_actions
from tui.glyphs import wants_ascii
from tui.pages import history as changes
from tui.pages.list_page import select_row, set_filter
from tui.session import ConsoleSession
from tui.widgets import choices
from tui.widgets.dialogs import Confirm, notice, toast
from tui.widgets.help import help_dialog


async def choose_theme(app: ConsoleApp) -> None:
    """Let the user choose a theme from a list. The one under the cursor is applied at once."""
    if not app.colour:
        raise Conflict("NO_COLOR is set, so there is only one theme")
    preview = partial(apply_theme, app)
    await app.push_screen_wait(choices.ChooseOne("Theme", theme_options(app.session), app.theme, preview))


THEME_NOTES = {
    "dark": "light text on a dark ground",
    "light": "dark text on a light ground",
    "contrast": "as much contrast as possible",
    themes.PLAIN: "no colours at all",
}


def theme_options(session: ConsoleSession) -> list[tuple[str, str]]:
    """Returns the names and descriptions of the built-in themes, then of the owner's themes."""
    own_themes = ((theme.name, "yours, from console.toml") for theme in session.preferences.themes)
    return [*THEME_NOTES.items(), *own_themes]


def apply_theme(app: ConsoleApp, name: str) -> None:
    """Apply a theme, or the one that replaces it if it is unknown or the terminal has no colours."""
    shown = shown_theme(app.session, name, colour=app.colour)
    app.no_color = shown == themes.PLAIN
    app.theme = shown
    if app.colour and shown == name:  # otherwise the saved name stays, for when the theme is valid again
        app.session.state.theme = name
    app.refresh_css(animate=False)


def shown_theme(session: ConsoleSession, name: str, *, colour: bool) -> str:
    """Returns the name of the theme to use: the first one for an unknown name, the plain one without colours."""
    valid_name = name if name in dict(theme_options(session)) else themes.NAMES[0]
    return valid_name if colour else themes.PLAIN


def help(app: ConsoleApp) -> None:  # noqa: A001 - the verb's name
    """Show the keys of this page."""
    page = app.page
    name = next(info.name for info in PAGES if info.id == page.id)
    app.push_screen(help_dialog(name, available_actions(page, app.session.keymap), page.id.removesuffix("s")))


async def confirm(app: ConsoleApp, question: Question) -> bool:
    """Ask what the server wants to be confirmed before a change."""
    confirmed = await app.push_screen_wait(Confirm(question.text, "\n".join(question.reasons), question.verb))
    return bool(confirmed)


def restart(app: ConsoleApp) -> None:
    """Start the server again, if it is gone."""
    if app.session.link == "gone":
        app.session.link = "starting"
        app.feed.start_requested.set()
    else:
        toast(app, "The server is running.")


async def stop(app: ConsoleApp) -> None:
    """Ask, let running calls finish, stop the server, then quit."""
    leave_key = app.session.key("app.leave")
    if app.session.link != "attached":
        raise notice(f"The server is not running. Press {leave_key} to quit.")
    await app.page.confirm("Stop the server?", await _stop_warning(app.session), "Stop")
    client, status = app.session.client, app.session.board.status
    toast(app, f"Stopping after running calls finish. Press {leave_key} to quit now.")
    try:
        await launch.stop(client.endpoint, wait_s=(status.drain_s if status else 30) + 5)
    except Unavailable:
        app.exit(exit_status.DRAINING)
        return
    app.exit(exit_status.ExitStatus(f"server stopped ('{app.session.restart_command}' starts it again)"))


async def _stop_warning(session: ConsoleSession) -> str:
    running = len(session.board.calls.running)
    sentences = ["New calls are rejected from now on."]
    if running:
        sentences.append(f"{running:,} running {plural(running, 'call')} may finish first.")
    try:
        other_consoles = (await session.client.status()).watchers - 1
    except GatewayError:
        other_consoles = 0
    if other_consoles > 0:
        sentences.append(f"{other_consoles:,} other {plural(other_consoles, 'console')} will lose the server.")
    return f"{' '.join(sentences)}\n{session.key('app.leave')} quits the console and keeps the server running."


async def leave(app: ConsoleApp) -> None:
    """Quit as the settings say: the server keeps running, unless it was started here and ``stop_on_leave`` is set."""
    session, stops = app.session, False
    if session.link != "attached":  # the board may still show a server that has stopped
        text = f"console closed; no server is running ('{session.restart_command}' starts one)"
        app.exit(exit_status.ExitStatus(text))
        return
    if session.board.stopping is not None:
        app.exit(exit_status.DRAINING)
        return
    if session.started_here:
        with suppress(GatewayError):
            stops = (await session.client.settings()).stop_on_leave
    if stops:
        await stop(app)
    else:
        detach(app)


def detach(app: ConsoleApp) -> None:
    """Quit, and always keep the server running."""
    app.exit(exit_status.left_status(app.session.address, app.session.program))


def show_quit_keys(app: ConsoleApp) -> None:
    """Show which keys quit. Ctrl+C does that here, instead of quitting."""
    leave, stop = app.session.key("app.leave"), app.session.key("app.stop")
    if app.screen.is_modal:
        toast(app, f"Press esc to close this, then {leave} to quit the console.")
    else:
        toast(app, f"Press {leave} to quit; the server keeps running. Press {stop} to stop the server too.")


async def go_to(app: ConsoleApp, page: str, key: Hashable, verb: str = "") -> None:
    """Open a page with the cursor on a row, and run a verb on it. A filter that hides the row is cleared."""
    await app.action_page(page)
    if app.page.source.index(key) is None and app.page.view.filter:
        set_filter(app.page, "")
    select_row(app.page, key, verb)


def use_symbols(app: ConsoleApp, name: str) -> None:
    """Draw everything in ``ascii`` or ``unicode``; ``auto``: in what the terminal can show."""
    state = app.session.state
    state.ascii = {"ascii": True, "unicode": False}.get(name)
    app.session.ascii = wants_ascii(os.environ, state.ascii)
    for widget in app.query("*"):
        widget.refresh()  # widgets cache what they have drawn
    app.refresh(layout=True)


def save_state(app: ConsoleApp) -> None:
    """Save the state if it has changed. Changes that another console has saved meanwhile stay."""
    state, home = app.session.lasting_state, app.session.config.home
    encoded = msgspec.json.encode(state)
    if encoded != app.stored_state:
        stored = msgspec.json.decode(app.stored_state, type=saved_state.SavedState)
        with suppress(OSError):
            saved_state.save(home, saved_state.merge(state, stored, saved_state.load(home)[0]))
        app.stored_state = encoded


async def fetch_today(app: ConsoleApp, midnight: Millis) -> None:
    """Fetch the sums since local midnight. The board adds the calls that end afterwards."""
    board = app.session.board
    try:
        summary = await app.session.client.summary(since=midnight)
    except GatewayError:
        board.today_nanos = None
        await asyncio.sleep(30)
        board.today_start = Millis(0)  # they are fetched again
        return
    board.today_nanos = summary.total.cost_nanos
    board.today_tokens = summary.total.input_tokens + summary.total.output_tokens
    board.tables_version += 1


VERBS: Mapping[str, Callable[[ConsoleApp], Awaitable[None] | None]] = {
    "theme": choose_theme,
    "help": help,
    "undo": changes.undo_change,
    "redo": lambda app: changes.undo_change(app, redo=True),
    "history": lambda app: app.push_screen(changes.HistoryScreen(app.session)),
    "start": restart,
    "wizard": lambda app: importlib.import_module("tui.wizard").run(app),
    "suspend": lambda app: app.action_suspend_process(),
    "stop": stop,
    "leave": leave,
    "detach": detach,
}
