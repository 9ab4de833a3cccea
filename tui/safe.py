"""Safe: the one border between strangers' strings and the screen. What passed it is plain text of known width.

Textual draws escape sequences and reads markup in strings it is given; so every text that came from a client, an
upstream or a file goes through here, and is then drawn as ``Content`` or segments, never as a bare string that may be
read as markup.
"""

import re

from rich.cells import cell_len, set_cell_size

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
    """The same for a text of several lines."""
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


def cell(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """A safe text in exactly so many cells."""
    text = cut(text, width, ellipsis)
    space = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return space + text if right else text + space
