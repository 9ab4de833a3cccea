"""Text: makes texts safe, gives them tones, and lays them out in labelled lines.

Every text from outside, be it from a client, an upstream or a file, passes through ``safe``, which returns plain text
of known width: Textual would draw the escape sequences in it. It is then drawn as ``Content`` or segments, never
as a bare string, because Textual would read markup in that. A tone is the meaning of a text, and the theme gives it a
style; words and marks carry it too. A ``TextCard`` is the labelled lines of a pane; long lines wrap with an indent.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style

from gateway.domain.text import plain

LIMIT = 300
"""The default length to which texts on the screen are cut, in characters."""

_VARIATIONS = re.compile("[\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]")
"""Variation selectors and skin tones. Terminals disagree about the width of the characters before them."""


def safe(text: str, limit: int = LIMIT) -> str:
    """Returns the text on one line, made harmless, at most ``limit`` characters long."""
    line = plain(text, limit)
    return line if text.isascii() else _VARIATIONS.sub("", line)


def safe_lines(text: str, limit: int = LIMIT, lines: int = 40) -> str:
    """Returns a text of several lines, each made safe; at most ``lines`` of them."""
    rows = text.splitlines()
    ellipsis = ["…"] if len(rows) > lines else []
    return "\n".join([*(safe(row, limit) for row in rows[:lines]), *ellipsis])


TONES = {
    "ok": "$text-success",
    "bad": "$text-error",
    "warn": "$text-warning",
    "live": "bold $text-accent",
    "dim": "$muted",
    "bold": "bold",
    "key": "bold $text-accent",
    "grid": "$chart-grid",
    **{f"chart{number}": f"$chart-{number}" for number in range(1, 8)},
    **{f"heat{number}": f"$heat-{number}" for number in range(1, 6)},
    "": "",
}
"""The styles of tones. ``chart7`` is for all other series; ``heat1`` to ``heat5`` are the shades of a heat map."""

Part = tuple[str, str]
"""A safe text and its tone; ``chart1 on chart2`` is a tone with the colour of another one as its background."""


def content(*parts: Part | str | Content) -> Content:
    """Returns safe texts, joined, in the styles of their tones. Nothing in them is read as markup."""
    styled = ((part[0], style_of(part[1])) if isinstance(part, tuple) else part for part in parts)
    return Content.assemble(*styled)


def link(text: Content, action: str, *params: object) -> Content:
    """Returns the text as a link that runs an action. Without ``auto_links`` of its widget, it looks like text."""
    return text.stylize(Style.from_meta({"@click": (action, params)}))


def key_hints(*pairs: tuple[str, str]) -> Content:
    """Returns a line of keys, each followed by what it does."""
    return content(*(part for key, text in pairs for part in ((key, "key"), (text, "dim"))))


def fit_groups(width: int, *groups: Sequence[Part]) -> list[Part]:
    """Returns the first group of parts, and those after it up to the first that does not fit in ``width`` cells."""
    shown = list(groups[0])
    for group in groups[1:]:
        if sum(cell_len(text) for text, _ in (*shown, *group)) > width:
            break
        shown += group
    return shown


def style_of(tone: str) -> str:
    """Returns the style of a tone."""
    foreground, _, background = tone.partition(" on ")
    return f"{TONES[foreground]} on {TONES[background]}" if background else TONES[foreground]


def lines(*rows: Content) -> Content:
    """Returns the rows, one below the other."""
    return Content("\n").join(rows)


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Returns two blocks of lines side by side; ``width`` is the width of the left one."""
    pairs = zip_longest(left, right, fillvalue=Content(""))
    return [Content.assemble(line, " " * max(0, width - line.cell_length), other) for line, other in pairs]


class TextCard:
    """The lines of a pane, which are added one by one."""

    def __init__(self, width: int, label: int = 9) -> None:
        """``label`` is the width of the labels, with the blanks around them."""
        self.width = width
        self.label_width = label
        self._rows: list[Content] = []

    def row(self, label: str, *parts: Part | str | Content) -> None:
        """Add a line after a label; with an empty label, it belongs to the line above."""
        self._add_wrapped(content((f" {label:<{self.label_width - 2}} ", "dim")), content(*parts), self.label_width)

    def line(self, *parts: Part | str | Content) -> None:
        self._add_wrapped(content(" "), content(*parts), 3)

    def content(self) -> Content:
        return lines(*self._rows)

    def _add_wrapped(self, head: Content, body: Content, indent: int) -> None:
        """Add a line, wrapped if it is too long; the following lines are indented."""
        width = self.width - max(indent, head.cell_length)
        first, *more = body.wrap(max(10, width)) or [Content("")]
        self._rows += [Content.assemble(head, first), *(row.pad_left(indent) for row in more)]


def add_details(card: TextCard, details: Iterable[tuple[str, str]]) -> None:
    """Add a row with the labels and texts of fields, without those that have no text."""
    if shown := "; ".join(f"{label}: {safe(text)}" for label, text in details if text):
        card.row("more", (shown, "dim"))
