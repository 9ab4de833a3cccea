"""Text: made safe, given a tone, laid out in labelled lines.

``safe`` is the one border between text from outside and the screen: its result is plain text of known width. Textual
would draw escape sequences and read markup in strings it is given. So every text from a client, an upstream or a file
passes through here, and is then drawn as ``Content`` or segments, never as a bare string that may be read as markup. A
tone is the meaning of a piece of text, as a style of the theme; words and marks carry the meaning, colour repeats it. A
card is the labelled lines of a pane: long lines wrap with an indent, so labels stay readable.
"""

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.style import Style

from gateway.domain.text import plain

LIMIT = 300
"""The most characters of one text on the screen."""

_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors: terminals disagree about the width of the characters before them."""


def safe(text: str, limit: int = LIMIT) -> str:
    """Returns the text on one line, made harmless, at most ``limit`` characters long."""
    if text.isascii():
        return plain(text, limit)
    return _SELECTORS.sub("", plain(text, limit))


def safe_lines(text: str, limit: int = LIMIT, lines: int = 40) -> str:
    """Returns a text of several lines, each made safe."""
    rows = text.splitlines()
    more = ["…"] if len(rows) > lines else []
    return "\n".join([*(safe(row, limit) for row in rows[:lines]), *more])


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Returns a safe text in at most ``width`` cells."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 1)] + ellipsis[:width]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + ellipsis[:width]


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Returns a name in at most ``width`` cells. It is cut in the middle: names often differ at their ends."""
    if cell_len(text) <= width or width < 3:
        return cut(text, width, ellipsis)
    tail = (width - 1) // 2
    end = text[-tail:]
    while cell_len(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - tail) + ellipsis[:1] + end


def cut_pair(name: str, other: str, width: int, ellipsis: str = "…") -> str:
    """Returns ``gpt-4o as claud…-4-5`` in ``width`` cells; two long names get half each: ``clau…-4-5 as
    gemi…flash``.
    """
    room = width - len(" as ")
    first = cut_middle(name, max(1, room // 2, room - cell_len(other)), ellipsis)
    return f"{first} as {cut_middle(other, max(1, room - cell_len(first)), ellipsis)}"


def cell(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """Returns a safe text in exactly ``width`` cells."""
    text = cut(text, width, ellipsis)
    space = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return space + text if right else text + space


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
"""The styles of tones. ``chart1`` to ``chart7`` are series (the last one for all others), ``heat`` is for maps."""

Part = tuple[str, str]
"""A safe text and its tone, or ``tone on tone`` for the background of another tone."""


def content(*parts: Part | str | Content) -> Content:
    """Returns safe texts, joined; tones become styles. Nothing in them is read as markup."""
    styled = ((part[0], style_of(part[1])) if isinstance(part, tuple) else part for part in parts)
    return Content.assemble(*styled)


def link(text: Content, action: str, *params: object) -> Content:
    """Returns the text, so that a click on it runs an action. Its widget has ``auto_links`` off: it looks like text."""
    return text.stylize(Style.from_meta({"@click": (action, params)}))


def key_hints(*pairs: tuple[str, str]) -> Content:
    """Returns keys, each with its effect."""
    return content(*(part for key, text in pairs for part in ((key, "key"), (text, "dim"))))


def fitting(width: int, *groups: Sequence[Part]) -> list[Part]:
    """Returns the parts of all groups up to the first that does not fit in ``width`` cells; the first group is always
    included.
    """
    shown = list(groups[0])
    for group in groups[1:]:
        if sum(cell_len(text) for text, _ in (*shown, *group)) > width:
            break
        shown += group
    return shown


def style_of(tone: str) -> str:
    """Returns the style of a tone."""
    front, on, back = tone.partition(" on ")
    return f"{TONES[front]} on {TONES[back]}" if on else TONES[front]


def lines(*rows: Content) -> Content:
    """Returns the rows below each other."""
    return Content("\n").join(rows)


class TextCard:
    """Lines of a pane, added one by one; ``content`` returns all of them."""

    def __init__(self, width: int, label: int = 9) -> None:  # with the space around it
        self.width = width
        self._label = label
        self._rows: list[Content] = []

    def row(self, label: str, *parts: Part | str | Content) -> None:
        """Add a line with a label in front; an empty label continues the line before."""
        self._hang(content((f" {label:<{self._label - 2}} ", "dim")), content(*parts), self._label)

    def line(self, *parts: Part | str | Content) -> None:
        """Add a line without a label."""
        self._hang(content(" "), content(*parts), 3)

    def content(self) -> Content:
        """Returns all lines."""
        return lines(*self._rows)

    def _hang(self, head: Content, body: Content, indent: int) -> None:
        width = self.width - max(indent, head.cell_length)
        first, *more = body.wrap(max(10, width)) or [Content("")]
        self._rows += [Content.assemble(head, first), *(row.pad_left(indent) for row in more)]


def add_details(card: TextCard, details: Iterable[tuple[str, str]]) -> None:
    """Add one row with all fields that have something to show."""
    if shown := "; ".join(f"{label}: {safe(text)}" for label, text in details if text):
        card.row("more", (shown, "dim"))
