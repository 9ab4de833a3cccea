"""Checks: a list of things, each on or off; it reads without colour. ``space`` changes the one under the cursor."""

from collections.abc import Collection, Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from tui.safe import safe
from tui.tones import content, lines
from tui.words import wanted_by


class Checks(Widget, can_focus=True):
    """``on`` holds the ids of those that are on."""

    DEFAULT_CSS = "Checks { height: auto; width: 1fr; }"
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("space", "change", show=False),
        Binding("a", "all", show=False),
    ]

    def __init__(self, options: Sequence[tuple[str, str]], on: Collection[str], id: str | None = None) -> None:
        """``options``: ids, and what is said of them."""
        super().__init__(id=id)
        self.options = list(options)
        self.on = set(on)
        self.cursor = 0
        self._all = self.options

    def render(self) -> Content:
        if not self.options:
            return content(("none", "dim"))
        return lines(*(self._line(i, id_, text) for i, (id_, text) in enumerate(self.options)))

    def get_content_height(self, *_: object) -> int:
        return max(1, len(self.options))

    def narrow(self, text: str) -> None:
        """Only those with these words; the others stay as they are."""
        fits = wanted_by(text)
        self.options = [option for option in self._all if fits(option[1])]
        self.cursor = 0
        self.refresh(layout=True)

    def action_move(self, by: int) -> None:
        if self.options:
            self.cursor = (self.cursor + by) % len(self.options)
            self.scroll_visible(animate=False)
            if self.parent is not None and isinstance(self.parent, Widget):
                self.parent.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False)
        self.refresh()

    def action_change(self) -> None:
        """On becomes off, off becomes on."""
        if self.options:
            self.on ^= {self.options[self.cursor][0]}
        self.refresh()

    def action_all(self) -> None:
        """All that are shown on; if they are, all of them off."""
        ids = {id_ for id_, _ in self.options}
        self.on = self.on - ids if self.on >= ids else self.on | ids
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self.options):
            self.cursor = event.y
            self.action_change()

    def _line(self, index: int, id_: str, text: str) -> Content:
        box = "[x] " if id_ in self.on else "[ ] "
        line = content((box, "live" if id_ in self.on else "dim"), safe(text))
        return line.stylize("reverse") if index == self.cursor else line
