"""Dialogs: Confirm asks before something breaks, Busy waits for work, and toasts report results.

Confirm says what will stop working; Cancel has the focus, unless nothing will. A toast is a short message about the
result of an action; a lasting state belongs in the header.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.notifications import Notification
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets._toast import ToastRack

from gateway.client.cells import cut
from gateway.domain.errors import Conflict, GatewayError
from gateway.domain.units import Millis
from tui import key_advice
from tui.screens import DialogScreen
from tui.text import content, safe, safe_lines

BACK = object()
"""The result of a step of the wizard that returns to the previous step."""
UNCHANGED = object()
"""The result of a form that was saved unchanged."""


WIDTH, BIG_WIDTH = 68, 96
"""The widths of dialogs in cells, as in the stylesheet."""


class Dialog(Vertical):
    """The frame of a dialog. On low screens one part scrolls, and what is above and below it stays on the screen."""

    def __init__(self, title: str, *parts: Widget, classes: str = "", content_width: int = 0) -> None:
        """``content_width``: the width of its longest line that must not wrap, if the screen is wide enough for it."""
        heading = Static(Content.styled(safe(title), "bold"), classes="title")
        scrolling = (i for i, part in enumerate(parts) if isinstance(part, VerticalScroll | OptionList))
        at = next(scrolling, 0)
        head = Vertical(heading, *parts[:at], classes="head")
        foot = Vertical(*parts[at + 1 :], classes="foot")
        super().__init__(head, parts[at], foot, classes=f"dialog {classes}")
        width = content_width + 6  # with the frame and the space at both sides
        if width > (BIG_WIDTH if self.has_class("big") else WIDTH):
            self.styles.width = width


class HintInput(Input):
    """An input whose placeholder ends with an ellipsis if it does not fit."""

    def __init__(
        self, value: str, *, hint: str, id: str | None = None, password: bool = False, line_break: str = " "
    ) -> None:
        super().__init__(value, placeholder=hint, password=password, compact=True, id=id)
        self.hint = hint
        self.line_break = line_break

    def on_resize(self) -> None:
        self.placeholder = cut(self.hint, max(1, self.size.width - 1))

    @property
    def hides_hint(self) -> bool:
        """Returns whether the hint is cut while the user needs it: the field is empty and has the focus."""
        return self.has_focus and not self.value and self.placeholder != self.hint


class Confirm(DialogScreen[bool]):
    """A question. Its result is True if confirmed."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,n,q", "choose(False)", "Cancel"),
        Binding("y", "choose(True)", "Yes"),
        Binding("left,right,h,l", "app.focus_next", show=False),
    ]

    def __init__(
        self, question: str, consequences: str, verb: str, *, keep: str = "Cancel", harmless: bool = False
    ) -> None:
        """``verb``, ``keep``: the labels of buttons; ``harmless``: nothing stops working, so the verb has the focus."""
        cancel = Button(keep, id="cancel", compact=True)
        do = Button(Content(safe(verb)), id="do", variant="default" if harmless else "error", compact=True)
        self._first = do if harmless else cancel
        """The button that has the focus first."""
        text = VerticalScroll(Static(Content(safe_lines(consequences))), classes="inside", can_focus=False)
        super().__init__(Dialog(question, text, Horizontal(cancel, do, classes="buttons")))

    def on_mount(self) -> None:
        self._first.focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "do")

    def action_choose(self, confirmed: bool) -> None:  # noqa: FBT001 - Textual calls it
        self.dismiss(confirmed)


class Busy(DialogScreen[Any]):
    """A dialog while work runs. Its result is the work's, its GatewayError, or None if it was closed first."""

    BINDINGS = [Binding("escape,q", "leave", "Leave")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, title: str, work: Callable[[], Awaitable[Any]], now: Callable[[], Millis]) -> None:
        super().__init__(Dialog(title, Static(classes="passed")))
        self._work = work
        self._now = now
        self._began = now()

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(0.2, self.draw)
        self.run_worker(self._do(), exit_on_error=True)

    def draw(self) -> None:
        passed = (self._now() - self._began) / 1000
        self.query_one(".passed", Static).update(content((f"{passed:.1f} s", "live"), ("   esc closes this", "dim")))

    def action_leave(self) -> None:
        self.dismiss(None)

    async def _do(self) -> None:
        try:
            self.dismiss(await self._work())
        except GatewayError as error:
            self.dismiss(error)


class ChangeText(str):
    """The text of a toast about a change of the configuration."""

    __slots__ = ()


def toast(node: DOMNode, text: str, *, bad: bool = False, change: bool = False) -> None:
    """Show a message, with keys instead of commands. The same message is not shown twice. ``bad``: it is an error.

    ``change``: it replaces the message about the previous change, because undo is for the last one only.
    """
    max_lines = max(2, min(8, node.app.size.height // 4))  # on a low screen the page keeps most lines
    text = safe_lines(key_advice.advice_in(node, text), lines=max_lines)
    for shown in list(node.app._notifications):  # noqa: SLF001 - Textual has no other list of what it shows
        if shown.message == text or (change and isinstance(shown.message, ChangeText)):
            _remove_toast(node.app, shown)
    node.app.notify(
        ChangeText(text) if change else text,
        severity="error" if bad else "information",
        timeout=8.0 if bad else 4.0,
        markup=False,
    )


def notice(text: str = "") -> Conflict:
    """Returns the error that ends a verb and shows this text as a message, not as a failure; empty to show nothing."""
    return Conflict(text, code="declined")


def _remove_toast(app: App[Any], message: Notification) -> None:
    """Remove a message from the screen; Textual alone would leave its lines blank."""
    app._unnotify(message)  # noqa: SLF001 - Textual has no public way to remove one
    for toast_holder in app.screen.query(f"#{ToastRack._toast_id(message)}"):  # noqa: SLF001 - nor to find its widget
        toast_holder.remove()
