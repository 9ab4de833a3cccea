"""ConsoleApp: what the parts of the console know of it: its session, the open page, and opening another page."""

from textual.widgets import ContentSwitcher
from textual.worker import WorkerFailed

from tui.actions import Action
from tui.clipboard import copy_text
from tui.exit_status import ExitStatus
from tui.feed import ConsoleFeed
from tui.key_queue import DIALOG_WORKERS, KeyQueueApp
from tui.keymap import Keymap
from tui.pages.base import AnyPage, ConsolePage, page_class
from tui.session import ConsoleSession
from tui.widgets.footer import Footer
from tui.widgets.header import Header


class ConsoleApp(KeyQueueApp[ExitStatus]):
    """The console without its start, the events of its server and its global actions."""

    session: ConsoleSession
    page: AnyPage
    feed: ConsoleFeed
    colour: bool
    """Whether colours are used. False if NO_COLOR is set; then there is only one theme."""
    stored_state: bytes
    """The saved state, encoded, as it was last loaded or saved."""
    crash: Exception | None = None
    """The uncaught exception that ended the console, for its caller."""
    _drawn = (-1, -1)
    """The board's version and the time when header and page were last drawn."""

    async def action_page(self, page: str) -> None:
        """Open a page, and create it if it was never open."""
        switcher = self.query_one(ContentSwitcher)
        if not switcher.query(f"#{page}"):
            new_page: AnyPage = page_class(page)
            await switcher.mount(new_page(self.session))
        switcher.current = self.session.state.page = page
        self.page = switcher.get_child_by_id(page)
        self.query_one(Header).page = page
        footer = self.query_one(Footer)
        footer.actions = available_actions(self.page, self.session.keymap)
        footer.refresh()
        self._drawn = (-1, -1)
        self.page.take_focus()
        self.renew()

    def renew(self) -> None:
        """Draw what changed; ages and countdowns every second, and more often while calls run."""
        session = self.session
        stamp = (session.board.version, session.now() // (200 if session.board.calls.running else 1000))
        if stamp != self._drawn and (headers := self.query(Header)):  # it has none while it closes
            self._drawn = stamp
            headers.first().renew()
            self.page.renew()

    def open_page(self, page: str) -> None:
        """Open a page like ``action_page``, from code that cannot await."""
        self.run_worker(self.action_page(page), group=DIALOG_WORKERS)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy what was selected with the mouse or in an input, as everything else is copied."""
        if text:
            copy_text(self, text, "Copied what is selected.")

    def action_act(self, verb: str) -> None:
        raise NotImplementedError

    def _fatal_error(self) -> None:
        """Store the uncaught exception: Textual calls this, with it in ``_exception``."""
        error = self._exception
        self.crash = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        self._close_messages_no_wait()


def available_actions(page: ConsolePage, keymap: Keymap) -> list[Action]:
    """Returns the actions available on a page with their keys, its own first."""
    return [*page.actions(keymap), *keymap.actions_in("app")]
