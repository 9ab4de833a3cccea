"""Glyphs: the marks that carry meaning without colours, and the filter that replaces them by ASCII.

Everything is drawn in Unicode. If the terminal cannot show that, the filter replaces each character on the way there.
Marks are one cell wide.
"""

import os
import sys
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
"""The fills of the series of a chart without colours; the last one is for all others. Two
mirror images would look alike in a row, so one of each pair is left out."""
SHADES = "·░▒▓█"
"""The shades of a heat map without colours, from no calls to the most."""
LINES = "─╌┈"
"""The signs in front of the names of lines without colours: solid, dashed and dotted, as the lines are drawn."""
SQUARE = "■"
GRID = "▔"
"""The grid line of a tick, at the upper end of a cell."""
GRID_DOTS = "⠁"
"""The grid line without colours, which must be fainter than the values."""
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


def wants_ascii(environ: Mapping[str, str], setting: bool | None) -> bool:  # noqa: FBT001 - the setting, or None
    """Returns whether to draw in ASCII: as the setting says, else the environment, else the locale."""
    if setting is not None:
        return setting
    if requested := environ.get("TOLLKEEPER_ASCII"):
        return requested not in ("0", "no", "false")
    characters = environ.get("LC_CTYPE")
    if sys.flags.utf8_mode and characters == "C.UTF-8":
        characters = ""  # Python has set it in place of the locale C
    locale = environ.get("LC_ALL") or characters or environ.get("LANG") or ""
    return os.name != "nt" and locale in ("C", "POSIX")


_REPLACED = {
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
    "c": "¢",
    "!": "▲",
    "x": "✗✘\u00d7",
    "*": "●",
    "o": "○◯╬",
    "/": "▴\N{BOX DRAWINGS LIGHT DIAGONAL CROSS}",
    "\\": "▾",
    "'": "\u2019\u2018⠁",
    '"': "\u201c\u201d",
}
"""The characters that each ASCII character replaces."""

_ASCII_OF = {char: ascii_ for ascii_, chars in _REPLACED.items() for char in chars}
_ASCII_OF |= {chr(code): "*" for code in range(0x2802, 0x2900)}  # braille: the lines of charts


class Asciify(LineFilter):
    """Draws lines in ASCII, at the same widths."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(ascii_of(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_of(text: str) -> str:
    """Returns the text in ASCII, cell by cell; a character without an equivalent becomes question marks."""
    return "".join(
        char if char.isascii() else _ASCII_OF.get(char, "?" * get_character_cell_size(char)) for char in text
    )
