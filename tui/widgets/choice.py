"""Choice: one of a few words on one line, changed with left and right, space or the mouse; it reads without colour."""

from collections.abc import Sequence

from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.safe import safe
from tui.tones import content


class Choice(Widget, can_focus=True):
    """Its value is always one of the options."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; }
    Choice:focus { background: $block-cursor-background; color: $block-cursor-foreground; }
    Choice:focus:nocolor { text-style: reverse; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("left,h", "turn(-1)", "Before"),
        Binding("right,l,space", "turn(1)", "Next"),
    ]

    class Changed(Message):
        """Another option was chosen."""

        def __init__(self, choice: "Choice") -> None:
            self.choice = choice
            super().__init__()

    def __init__(self, options: Sequence[str], value: str, id: str) -> None:
        super().__init__(id=id)
        self.options = list(options)
        self.value = value if value in options else self.options[0]

    def render(self) -> Content:
        if len(self.options) == 1:
            return content((safe(self.value), "bold"))
        number = f"{self.options.index(self.value) + 1} of {len(self.options)}"
        hint = "" if self.has_focus else "dim"  # on the cursor's ground, muted words could not be read
        return content((f"< {safe(self.value)} >", "bold"), (f"   {number}; left, right", hint))

    def action_turn(self, by: int) -> None:
        """The next option, or the one before; round at the ends."""
        at = self.options.index(self.value)
        self.value = self.options[(at + by) % len(self.options)]
        self.refresh()
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        self.focus()
        self.action_turn(1)
