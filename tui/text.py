"""Text: made safe, given a tone, laid out in labelled lines.

``safe`` is the one border between foreign strings and the screen: its result is plain text of known width. Textual
would draw escape sequences and read markup in strings it is given; so every text that came from a client, an upstream
or a file goes through here, and is then drawn as ``Content`` or segments, never as a bare string that may be read as
markup. A tone is what a piece of text means, as a style of the theme; words and marks carry the meaning, colour
repeats it. A card is the labelled lines of a pane: long lines wrap under their own beginning, so labels stay
readable.
"""

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from gateway.domain.text import plain

LIMIT = 300
"""Characters of one text on the screen."""

_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors: terminals do not agree on how wide they make what is before them."""


def safe(text: str, limit: int = LIMIT) -> str:
    """The text on one line, harmless, at most so many characters long."""
    if text.isascii():
        return plain(text, limit)
    return _SELECTORS.sub("", plain(text, limit))


def safe_lines(text: str, limit: int = LIMIT, lines: int = 40) -> str:
    """A text of several lines, each made safe."""
    rows = text.splitlines()
    more = ["…"] if len(rows) > lines else []
    return "\n".join([*(safe(row, limit) for row in rows[:lines]), *more])


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """A safe text in at most so many cells."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 1)] + ellipsis[:width]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + ellipsis[:width]


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """A name in at most so many cells. It is cut in the middle: names often differ at their ends."""
    if cell_len(text) <= width or width < 3:
        return cut(text, width, ellipsis)
    tail = (width - 1) // 2
    end = text[-tail:]
    while cell_len(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - tail) + ellipsis[:1] + end


def cut_pair(name: str, other: str, width: int, ellipsis: str = "…") -> str:
    """``gpt-4o as claud…-4-5`` in so many cells; of two long names each gets a half: ``clau…-4-5 as gemi…flash``."""
    room = width - len(" as ")
    first = cut_middle(name, max(1, room // 2, room - cell_len(other)), ellipsis)
    return f"{first} as {cut_middle(other, max(1, room - cell_len(first)), ellipsis)}"


def cell(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """A safe text in exactly so many cells."""
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
"""Styles of tones. ``chart1`` to ``chart7`` are series (the last one for all others), ``heat`` is for maps."""

Part = tuple[str, str]
"""Safe text and its tone, or ``tone on tone`` for one on the background of another."""


def content(*parts: Part | str | Content) -> Content:
    """Safe texts joined; tones become styles. Nothing in them is read as markup."""
    styled = ((part[0], style_of(part[1])) if isinstance(part, tuple) else part for part in parts)
    return Content.assemble(*styled)


def key_hints(*pairs: tuple[str, str]) -> Content:
    """Keys, and what each of them does."""
    return content(*(part for key, text in pairs for part in ((key, "key"), (text, "dim"))))


def fitting(width: int, *groups: Sequence[Part]) -> list[Part]:
    """The parts of all groups up to the first that does not fit in so many cells; the first group is always there."""
    shown = list(groups[0])
    for group in groups[1:]:
        if sum(cell_len(text) for text, _ in (*shown, *group)) > width:
            break
        shown += group
    return shown


def style_of(tone: str) -> str:
    """The style of a tone."""
    front, on, back = tone.partition(" on ")
    return f"{TONES[front]} on {TONES[back]}" if on else TONES[front]


def lines(*rows: Content) -> Content:
    """Rows under each other."""
    return Content("\n").join(rows)


class TextCard:
    """Lines are added one by one; ``content`` gives them all."""

    def __init__(self, width: int, label: int = 9) -> None:  # with the space around it
        self.width = width
        self._label = label
        self._rows: list[Content] = []

    def row(self, label: str, *parts: Part | str | Content) -> None:
        """A line with a label in front; an empty label continues the line before."""
        self._hang(content((f" {label:<{self._label - 2}} ", "dim")), content(*parts), self._label)

    def line(self, *parts: Part | str | Content) -> None:
        """A line without a label."""
        self._hang(content(" "), content(*parts), 3)

    def content(self) -> Content:
        """All lines."""
        return lines(*self._rows)

    def _hang(self, head: Content, body: Content, indent: int) -> None:
        width = self.width - max(indent, head.cell_length)
        first, *more = body.wrap(max(10, width)) or [Content("")]
        self._rows += [Content.assemble(head, first), *(row.pad_left(indent) for row in more)]


def add_details(card: TextCard, details: Iterable[tuple[str, str]]) -> None:
    """One row with all fields that have something to show."""
    if shown := "; ".join(f"{label}: {safe(text)}" for label, text in details if text):
        card.row("more", (shown, "dim"))
