"""Dialogs: Confirm before something breaks, Prompt for one line, Busy while work runs, and toasts.

Confirm says what will break; Cancel has the focus. A toast is a short message about what was just done, or why it
failed; a state that lasts belongs into the header.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.layouts.vertical import VerticalLayout
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from gateway.domain.errors import GatewayError
from gateway.domain.units import Millis
from tui import key_advice
from tui.screens import DialogScreen
from tui.text import content, safe, safe_lines

BACK = object()
"""Result of a step of the wizard: go to the previous step."""


SHRINKING = (("fields", 5), ("choices", 5), ("inside", 5), ("command", 0), ("intro", 0), ("live", 1))
SHRINKING_MORE = (("fields", 1), ("choices", 1), ("inside", 1), ("live", 0))
"""Parts of a dialog, by class, that get fewer lines where the screen is too low for all, and their least."""


class DialogLayout(VerticalLayout):
    """Vertical. Where the screen is too low, the parts that scroll shrink, then blank lines go, then what explains.

    Titles and buttons always stay on the screen.
    """

    name = "dialog"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:  # noqa: FBT001, FBT002 - Textual's
        placed = list(super().arrange(parent, children, size, greedy))
        bottoms = [0, *(one.region.bottom for one in placed)]
        gaps = [one.region.y - bottom for one, bottom in zip(placed, bottoms, strict=False)]
        heights = [one.region.height for one in placed]
        over = sum(gaps) + sum(heights) - size.height
        if size.height <= 0 or over <= 0:
            return placed
        over = _shrink(placed, heights, SHRINKING[:3], over)
        for i, gap in enumerate(gaps):
            gaps[i] -= min(gap, over)
            over -= gap - gaps[i]
        _shrink(placed, heights, SHRINKING_MORE, _shrink(placed, heights, SHRINKING[3:], over))
        y = 0
        for i, one in enumerate(placed):
            placed[i] = one._replace(region=Region(one.region.x, y + gaps[i], one.region.width, heights[i]))
            y += gaps[i] + heights[i]
        return placed


def _shrink(placed: Sequence[WidgetPlacement], heights: list[int], parts: Sequence[tuple[str, int]], over: int) -> int:
    """Take lines from these parts; how many are still too many."""
    for name, least in parts:
        for i, one in enumerate(placed):
            if one.widget.has_class(name):
                lines = min(over, max(0, heights[i] - least))
                heights[i] -= lines
                over -= lines
    return over


class Dialog(Vertical):
    """The frame of a dialog; its title and its buttons are on the screen however low that is."""

    DEFAULT_CSS = "Dialog { height: auto; }"

    def __init__(self, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._dialog_layout = DialogLayout()

    @property
    def layout(self) -> Layout:
        return self._dialog_layout


class Confirm(DialogScreen[bool]):
    """True if confirmed."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,n,q", "choose(False)", "Cancel"),
        Binding("y", "choose(True)", "Yes"),
        Binding("left,right,h,l", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, breaks: str, verb: str, *, keep: str = "Cancel") -> None:
        """``breaks`` says what will stop working; ``verb`` and ``keep`` are the labels of the buttons."""
        super().__init__()
        self._question = question
        self._breaks = breaks
        self._verb = verb
        self._keep = keep

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog"):
            yield Static(Content.styled(safe(self._question), "bold"), classes="title")
            with VerticalScroll(classes="inside", can_focus=False):
                yield Static(Content(safe_lines(self._breaks)))
            with Horizontal(classes="buttons"):
                yield Button(self._keep, id="cancel", compact=True)
                yield Button(Content(safe(self._verb)), id="do", variant="error", compact=True)

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "do")

    def action_choose(self, done: bool) -> None:  # noqa: FBT001 - Textual calls it
        self.dismiss(done)


class Prompt(DialogScreen[str | None]):
    """The text, or None if cancelled. ``check`` returns what is wrong with a text, or nothing."""

    BINDINGS = [Binding("escape", "leave", "Cancel")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, question: str, example: str, check: Callable[[str], str]) -> None:
        super().__init__()
        self._question = question
        self._example = example
        self._check = check

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog"):
            yield Static(Content.styled(safe(self._question), "bold"), classes="title")
            yield Input(placeholder=self._example, compact=True)
            yield Static(content(("enter confirms, esc cancels", "dim")), classes="complaint")

    def on_input_changed(self, event: Input.Changed) -> None:
        wrong = key_advice.advice_in(self, self._check(event.value)) if event.value else ""
        self.query_one(".complaint", Static).update(content((safe(wrong), "bad")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value and not self._check(event.value):
            self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


TICK_S = 0.2


class Busy(DialogScreen[Any]):
    """The work's result, the GatewayError that it ended with, or None if it was closed."""

    BINDINGS = [Binding("escape,q", "leave", "Leave")]  # noqa: RUF012 - Textual reads it and never changes it

    def __init__(self, title: str, work: Callable[[], Awaitable[Any]], now: Callable[[], Millis]) -> None:
        super().__init__()
        self._title = title
        self._work = work
        self._now = now
        self._began = now()

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog"):
            yield Static(Content.styled(safe(self._title), "bold"))
            yield Static(classes="passed")

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(TICK_S, self.draw)
        self.run_worker(self._do(), exit_on_error=True)

    def draw(self) -> None:
        """Show the elapsed time."""
        passed = (self._now() - self._began) / 1000
        self.query_one(".passed", Static).update(content((f"{passed:.1f} s", "live"), ("   esc closes this", "dim")))

    def action_leave(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss(None)

    async def _do(self) -> None:
        try:
            self.dismiss(await self._work())
        except GatewayError as error:
            self.dismiss(error)


MESSAGE_LINES = 8
"""Most lines of a message; fewer on a low screen, which it leaves to the page."""

SECONDS = 4.0
ERROR_SECONDS = 8.0


def toast(node: DOMNode, text: str, *, bad: bool = False) -> None:
    """Show a message for some seconds; the text may contain anything. One that is still shown starts again.

    Commands that it advises become keys.
    """
    text = safe_lines(key_advice.advice_in(node, text), lines=max(2, min(MESSAGE_LINES, node.app.size.height // 4)))
    for shown in list(node.app._notifications):  # noqa: SLF001 - Textual has no other list of what it shows
        if shown.message == text:
            node.app._unnotify(shown)  # noqa: SLF001 - nor another way to remove one
    node.app.notify(
        text,
        severity="error" if bad else "information",
        timeout=ERROR_SECONDS if bad else SECONDS,
        markup=False,
    )
