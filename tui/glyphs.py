"""Glyphs: marks that carry meaning, not by colour alone, and the filter that draws them in ASCII.

Everything is drawn in Unicode; where the terminal cannot show it, the filter replaces each character on its way there.
Marks are one cell wide.
"""

import os
from collections.abc import Mapping
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

OK = "✓"
FAILED = "✗"
STOPPED = "■"
RUNNING = "▸"
ON = "●"
OFF = "○"
WARNING = "▲"
HALF = "◐"
MARKED = "◆"
FOLLOW = "▸"
STAY = "▹"
PAUSE = "❚❚"
UP = "↑"
RIGHT = "→"
ASCENDING = "▴"
DESCENDING = "▾"
NOTHING = "·"
DOT = "·"
TIMES = "\N{MULTIPLICATION SIGN}"
ELLIPSIS = "…"
BLOCKS = " ▁▂▃▄▅▆▇█"
"""Blocks from empty to full, in eighths upwards."""
PARTS = " ▏▎▍▌▋▊▉█"
"""Blocks from empty to full, in eighths to the right."""
EMPTY = "░"
FILLS = "█░▓▞▒╬\N{BOX DRAWINGS LIGHT DIAGONAL CROSS}"
"""One fill for each series of a chart without colours; the last one is for all others. Rows of them differ, too: a
row of one and a row of its mirror image look alike."""
SHADES = "·░▒▓█"
"""The shades of a map without colours, from nothing to most."""
LINES = "─╌┈"
"""The names of lines without colours begin with the way the line is drawn."""
SQUARE = "■"
GRID = "▔"
"""The grid line at the upper end of a cell, at a tick of the axis."""
GRID_DOTS = "⠁"
"""The grid line without colours. It must be fainter than the values."""
CHOSEN = "━"
"""The axis below the selected bar."""
UNKNOWN = "┄"
"""The axis where nothing is known."""
TICK = "┬"
LIMIT = "─"
AHEAD = "∙"
"""The line of a forecast."""
WAIT = "▒"
AXIS = "│┤└─"


def wants_ascii(environ: Mapping[str, str], chosen: bool | None) -> bool:  # noqa: FBT001 - the setting, or None
    """Returns whether to draw in ASCII: as chosen here, as requested, or because the locale cannot encode Unicode."""
    if chosen is not None:
        return chosen
    if requested := environ.get("TOLLKEEPER_ASCII"):
        return requested not in ("0", "no", "false")
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return os.name != "nt" and locale in ("C", "POSIX")


_SAME = {
    " ": "▔",
    "-": "─╌┈╍╸\u203e·▹",
    "|": "│┃║▎▏▍▌▕▐┆┊❚",
    "+": "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝┏┓┗┛✓▞",
    "#": "█▇▆▅▉▊▋◆■",
    ":": "░▄▃",
    "=": "━═▓",
    ".": "▁▂•∙┄",
    "%": "▒◐",
    "~": "…",
    ">": "▸▶→\u203a",
    "<": "◂◀←\u2039",
    "^": "↑",
    "v": "▼↓",
    "!": "▲",
    "x": "✗✘\u00d7",
    "*": "●",
    "o": "○◯╬",
    "/": "▴\N{BOX DRAWINGS LIGHT DIAGONAL CROSS}",
    "\\": "▾",
    "'": "\u2019\u2018⠁",
    '"': "\u201c\u201d",
}

_KNOWN = {char: ascii_ for ascii_, chars in _SAME.items() for char in chars}
_KNOWN |= {chr(code): "*" for code in range(0x2802, 0x2900)}  # braille: the lines of charts


class Asciify(LineFilter):
    """Draws lines in ASCII. They keep their widths."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(ascii_of(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_of(text: str) -> str:
    """Returns the text in ASCII, cell by cell; a character without an equivalent becomes a question mark."""
    return "".join(char if char.isascii() else _ascii_char(char) for char in text)


def _ascii_char(char: str) -> str:
    return _KNOWN.get(char, "?") if (width := get_character_cell_size(char)) == 1 else "?" * width
