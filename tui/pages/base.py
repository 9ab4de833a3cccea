"""ConsolePage: the base class of pages, parts of the screen that are redrawn from the board a few times a second.

The keys of a page are lines of ``tui/actions.py``. They run verbs: functions that take the page. A verb that is a
coroutine runs in the background and may open dialogs (``await page.ask(...)``). It ends if a dialog is left without a
result. A verb's GatewayError is shown.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from inspect import iscoroutine
from typing import Any, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen

from gateway.domain.errors import Conflict, GatewayError
from gateway.domain.history import NOTHING_CHANGED
from gateway.domain.units import HOUR_MS, Millis
from tui.actions import Action, bindings
from tui.key_queue import DIALOG_WORKERS
from tui.keymap import Keymap
from tui.session import ConsoleSession
from tui.widgets.dialogs import UNCHANGED, Busy, Confirm, notice, toast
from tui.widgets.text_block import TextBlock

AnyPage = Any
"""A page, as its verbs take it: they are defined before the class of the page, which lists them."""

GONE = "What was selected is not here any more. Move the cursor to select a row."
Verb = Callable[[AnyPage], Awaitable[None] | None]


def on_selected(action: Callable[[AnyPage, Any], Awaitable[None]]) -> Callable[[AnyPage], Awaitable[None]]:
    """Returns a verb that runs an action on the entity of the selected row."""
    return lambda page: action(page, selection(page))


def selection(page: AnyPage) -> Any:
    """Returns the selected entity of the board, as its row may be older. Raises a notice if no row is selected."""
    row = page.table.current
    if row is None:
        filter_hint = f"Press {page.session.key('list.back')} to clear the filter."
        hint = filter_hint if page.shown_count == 0 else page.creation_hint
        raise no_selection(page, f"No {page.noun} selected. {hint}")
    key = page.key(row)
    views = getattr(page.session.board, page.id, ())
    return next((view for view in views if getattr(view, page.key_field) == key), row)


def no_selection(page: AnyPage, text: str) -> Conflict:
    """Returns the notice that no row is selected, or that the selected row is gone."""
    return notice(GONE if page.table.lost else text)


class ConsolePage(Vertical):
    """One page of the console."""

    scopes: ClassVar[tuple[str, ...]] = ()
    """The scopes of its actions, in the order of the footer."""
    verbs: ClassVar[Mapping[str, Verb]] = {}
    """The functions of its actions, by their names. The page offers no other actions of its scopes."""

    def __init_subclass__(cls, *args: Any, **kwargs: Any) -> None:
        """Bind the keys of the actions; the bindings that a subclass declares itself stay."""
        cls.BINDINGS = [*bindings(*cls.scopes, verbs=frozenset(cls.verbs)), *vars(cls).get("BINDINGS", ())]
        super().__init_subclass__(*args, **kwargs)

    @classmethod
    def actions(cls, keymap: Keymap) -> list[Action]:
        return [action for scope in cls.scopes for action in keymap.actions_in(scope) if action.verb in cls.verbs]

    def __init__(self, session: ConsoleSession) -> None:
        """The page's id is the beginning of its class's name, so that ``page_class`` finds the class."""
        super().__init__(id=type(self).__name__.removesuffix("Page").lower())
        self.session = session
        self.fetched: tuple[object, object] | None = None
        """What was urgent at the last fetch, and the rest; None before the first one, or if it failed."""
        self.fetched_ms = Millis(0)

    def renew(self) -> None:
        """Redraw the page from the board and the clock. It is called only while the page is visible."""

    def on_resize(self) -> None:
        self.renew()  # for the new width, as nothing else may change for a long time

    async def fetch(self) -> None:
        """Fetch what the page shows in addition to the board. Raises GatewayError."""

    def fetch_if_due(self, urgent: object, other: object = None, *, pause_ms: int = 0, urgent_ms: int = 0) -> None:
        """Fetch in the background if something has changed since the last fetch, but not before a pause after it.

        A new quarter of an hour is an urgent change, because a day may begin with it, which changes the sums of days.
        """
        now = self.session.now()
        urgent = (urgent, now // (HOUR_MS // 4))
        pause = pause_ms if self.fetched is None or self.fetched[0] == urgent else urgent_ms
        is_due = (urgent, other) != self.fetched and not 0 <= now - self.fetched_ms < pause
        if is_due and self.session.link == "attached":
            self.fetched, self.fetched_ms = (urgent, other), now
            fetch = partial(_fetch_and_draw, self)
            self.run_worker(fetch, group="fetch", exclusive=True)  # type: ignore[arg-type] # Textual's is too narrow

    def report_change(self, text: str, more: str = "") -> None:
        """Show what was changed and how to undo it, then ``more``."""
        toast(self, f"{text} Press {self.session.key('app.undo')} to undo.{more}", change=True)

    def take_focus(self) -> None:
        """Focus the widget that handles the page's keys, usually its text, after the page was opened."""
        self.query_one(TextBlock).focus()

    def action_act(self, verb: str) -> None:
        self.do(self.verbs[verb])

    def do(self, verb: Verb) -> None:
        """Run a verb: at once, or in the background if it is a coroutine. Show the GatewayError that it raises."""
        with _show_error(self):
            if iscoroutine(result := verb(self)):
                self.run_worker(_finish(self, result), group=DIALOG_WORKERS, exit_on_error=True)

    async def ask(self, screen: ModalScreen[Any]) -> Any:
        """Show a dialog or form. Returns its result. Raises a notice if it was left without one or saved unchanged, and
        Unavailable if it needs a server and none is attached.
        """
        if getattr(screen, "needs_server", False):
            _ = self.session.client  # raises without a server
        result = await self.app.push_screen_wait(screen)
        if result is None or result is UNCHANGED:
            raise notice("" if result is None else f"{NOTHING_CHANGED.capitalize()}.")
        return result

    async def wait(self, title: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Show a dialog while work runs. Returns its result. Raises its GatewayError, and what ``ask`` raises."""
        result = await self.ask(Busy(title, work, self.session.now))
        if isinstance(result, GatewayError):
            raise result
        return result

    async def confirm(self, question: str, consequences: str, verb: str, *, harmless: bool = False) -> None:
        """Ask for confirmation of an action. Raises a notice if it was not given."""
        if not await self.ask(Confirm(question, consequences, verb, harmless=harmless)):
            raise notice()


async def _fetch_and_draw(page: ConsolePage) -> None:
    try:
        await page.fetch()
    except GatewayError:
        page.fetched = None  # fetch again after the pause; the header says if the server is gone
    else:
        page.renew()


async def _finish(page: ConsolePage, work: Awaitable[None]) -> None:
    with _show_error(page):
        await work


@contextmanager
def _show_error(page: ConsolePage) -> Iterator[None]:
    """Catch a GatewayError, and show its message if it has one."""
    try:
        yield
    except GatewayError as error:
        if error.message:
            toast(page, error.message, bad=error.code != "declined")


def page_class(page: str) -> type[ConsolePage]:
    """Returns the class of a page. Loading its file only when it is needed halves the time of the console's start."""
    cls: type[ConsolePage] = getattr(import_module(f"tui.pages.{page}"), f"{page.capitalize()}Page")
    return cls


def unmark(page: AnyPage) -> None:
    """Remove all marks of a list, and show all of its rows."""
    page.table.marks.clear()
    page.source.restrict(None)
    page.shows_marked = False
    page.table.rearrange()
    page.renew()
