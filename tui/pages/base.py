"""Base: what every page is: a part of the screen with verbs, renewed from the board a few times a second at most.

A page's keys are lines of ``tui/actions.py``; what they do are verbs: functions that take the page. A verb may be a
coroutine: it then runs beside the screen, may ask (``await page.ask(...)``) and may fail with a GatewayError, which is
shown.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import iscoroutine
from typing import Any, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen

from gateway.domain.errors import GatewayError
from tui.key_queue import DIALOG_WORKERS
from tui.session import ConsoleSession
from tui.widgets.dialogs import Confirm, toast

AnyPage = Any
"""A page, as its actions take it: they stand above the class that lists them, or in a file that it imports."""

Verb = Callable[[AnyPage], Awaitable[None] | None]


class ConsolePage(Vertical):
    """One page of the console."""

    scopes: ClassVar[tuple[str, ...]] = ()
    """Which actions of the table are this page's, the first ones first in the footer."""
    verbs: ClassVar[Mapping[str, Verb]] = {}
    """What they do. An action without a verb here is not offered."""

    def __init__(self, session: ConsoleSession, id: str) -> None:
        super().__init__(id=id)
        self.session = session

    def renew(self) -> None:
        """The board changed, or a moment passed; called only while the page is shown."""

    def take_focus(self) -> None:
        """The page was opened: put the focus where keys are wanted."""
        self.focus()

    def action_act(self, verb: str) -> None:
        """Do one of the page's verbs."""
        self.do(self.verbs[verb])

    def do(self, verb: Verb) -> None:
        """Do a verb, beside the screen if it has to wait."""
        try:
            result = verb(self)
        except GatewayError as error:
            toast(self, error.message, bad=True)
            return
        if iscoroutine(result):
            self.run_worker(self._guarded(result), group=DIALOG_WORKERS, exit_on_error=True)

    async def ask(self, screen: ModalScreen[Any]) -> Any:
        """Show a dialog or form and give what it was left with."""
        return await self.app.push_screen_wait(screen)

    async def sure(self, question: str, breaks: str, verb: str) -> bool:
        """Whether something that breaks things is really wanted."""
        return bool(await self.ask(Confirm(question, breaks, verb)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except GatewayError as error:
            toast(self, error.message, bad=True)
