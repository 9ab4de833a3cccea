"""Base: the base class of pages: a part of the screen with actions, refreshed from the board a few times a second.

A page's keys are lines of ``tui/actions.py``; they run verbs: functions that take the page. A verb may be a coroutine:
it then runs in the background, may ask (``await page.ask(...)``) and may fail with a GatewayError, which is shown.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib import import_module
from inspect import iscoroutine
from typing import Any, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen

from gateway.domain.errors import GatewayError
from gateway.domain.history import NOTHING_CHANGED
from tui.actions import Action, bindings
from tui.key_queue import DIALOG_WORKERS
from tui.keymap import Keymap
from tui.session import ConsoleSession
from tui.widgets.dialogs import UNCHANGED, Busy, Confirm, toast

AnyPage = Any
"""A page as its actions take it. They are defined before the page's class, which lists them."""

GONE = "What was selected is not here any more. Move the cursor to select a row."
Verb = Callable[[AnyPage], Awaitable[None] | None]


def selection(page: AnyPage, hint: str = "") -> Any:
    """Returns the entity of the selected row as the server last reported it, because a row may be some tenths of a
    second old.

    None, with a toast, if no row is selected. ``hint`` says where to find one; without it the toast says how to create
    one.
    """
    row, noun = page.table.current, page.listing.noun
    if row is None:
        create = f"Press {page.session.key('entity.new')} to create one."
        report_no_selection(page, f"No {noun} selected. {hint or create}")
        return None
    key, views = page.listing.key(row), getattr(page.session.board, page.id)
    return next((view for view in views if getattr(view, page.listing.key_field) == key), row.view)


def report_no_selection(page: AnyPage, text: str) -> None:
    """Say that no row is selected, or that the selected row is gone."""
    toast(page, GONE if page.table.lost else text)


class ConsolePage(Vertical):
    """One page of the console."""

    scopes: ClassVar[tuple[str, ...]] = ()
    """The scopes of its actions, in the order of the footer."""
    verbs: ClassVar[Mapping[str, Verb]] = {}
    """The functions of the actions. An action without an entry here is not offered."""

    def __init_subclass__(cls, *args: Any, **kwargs: Any) -> None:
        """Bind the keys of the actions, beside the bindings that a page has of its own."""
        cls.BINDINGS = [*bindings(*cls.scopes, verbs=frozenset(cls.verbs)), *vars(cls).get("BINDINGS", ())]
        super().__init_subclass__(*args, **kwargs)

    @classmethod
    def actions(cls, keymap: Keymap) -> list[Action]:
        """Returns the actions of the page, with their keys."""
        return [action for scope in cls.scopes for action in keymap.actions_in(scope) if action.verb in cls.verbs]

    def __init__(self, session: ConsoleSession, id: str) -> None:
        super().__init__(id=id)
        self.session = session

    def renew(self) -> None:
        """Update the page from the board and the clock; called only while the page is visible."""

    def report_change(self, text: str, more: str = "") -> None:
        """Show what was changed, how to undo it, and other news."""
        toast(self, f"{text} Press {self.session.key('app.undo')} to undo.{more}", change=True)

    def report_edit(self, saved: object, text: str, more: str = "") -> None:
        """Show what a form changed; nothing if it was closed (None). A form that was saved unchanged has nothing to
        undo.
        """
        if saved is UNCHANGED:
            toast(self, f"{NOTHING_CHANGED.capitalize()}.")
        elif saved is not None:
            self.report_change(text, more)

    def report_error(self, error: GatewayError) -> None:
        """Show why an action failed."""
        toast(self, error.message, bad=True)

    def take_focus(self) -> None:
        """Focus the widget that handles the page's keys, after the page was opened."""
        self.focus()

    def action_act(self, verb: str) -> None:
        """Run one of the page's actions."""
        self.do(self.verbs[verb])

    def do(self, verb: Verb) -> None:
        """Run an action; one that awaits runs in the background."""
        try:
            result = verb(self)
        except GatewayError as error:
            self.report_error(error)
            return
        if iscoroutine(result):
            self.run_worker(self._guarded(result), group=DIALOG_WORKERS, exit_on_error=True)

    async def ask(self, screen: ModalScreen[Any]) -> Any:
        """Show a dialog or form and return its result. Raises Unavailable if a form could not be saved anywhere."""
        if getattr(screen, "needs_server", False):
            _ = self.session.client
        return await self.app.push_screen_wait(screen)

    async def wait(self, title: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Show that work is running. Returns its result, or None if the dialog was closed. Raises the work's
        GatewayError.
        """
        result = await self.ask(Busy(title, work, self.session.now))
        if isinstance(result, GatewayError):
            raise result
        return result

    async def confirm(self, question: str, consequences: str, verb: str) -> bool:
        """Ask for confirmation of an action after which something will not work. Returns whether it was given."""
        return bool(await self.ask(Confirm(question, consequences, verb)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except GatewayError as error:
            self.report_error(error)


def page_class(page: str) -> type[ConsolePage]:
    """Returns the class of the page with this id. Its file is loaded when it is first needed, which halves the start
    time.
    """
    cls: type[ConsolePage] = getattr(import_module(f"tui.pages.{page}"), f"{page.capitalize()}Page")
    return cls


def unmark(page: AnyPage) -> None:
    """Remove all marks of a list, and show all of its rows."""
    page.table.marks.clear()
    page.source.restrict(None)
    page.shows_marked = False
    page.table.rearrange()
    page.renew()
