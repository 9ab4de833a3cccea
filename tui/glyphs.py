"""Glyphs: marks that carry meaning, not by colour alone, in Unicode and ASCII, and the filter for ASCII terminals."""

import os
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Glyphs(msgspec.Struct, kw_only=True):
    """One set of marks. Single marks are one cell wide.

    Each console has its own, which every widget keeps, so switching it takes effect everywhere.
    """

    ascii: bool = False
    ok: str = "✓"
    failed: str = "✗"
    stopped: str = "■"
    running: str = "▸"
    on: str = "●"
    off: str = "○"
    warning: str = "▲"
    half: str = "◐"
    marked: str = "◆"
    follow: str = "▸"
    stay: str = "▹"
    pause: str = "❚❚"
    up: str = "↑"
    down: str = "↓"
    right: str = "→"
    ascending: str = "▲"
    descending: str = "▼"
    nothing: str = "·"
    dot: str = "·"
    times: str = "\N{MULTIPLICATION SIGN}"
    ellipsis: str = "…"
    enter: str = "⏎"
    blocks: str = " ▁▂▃▄▅▆▇█"
    """Blocks from empty to full, in eighths upwards."""
    parts: str = " ▏▎▍▌▋▊▉█"
    """Blocks from empty to full, in eighths to the right."""
    empty: str = "░"
    fills: str = "█░▓▞▒╬\N{BOX DRAWINGS LIGHT DIAGONAL CROSS}"
    """One fill for each series of a chart without colours; the last one is for all others. Rows of them differ, too: a
    row of one and a row of its mirror image look alike."""
    shades: str = "·░▒▓█"
    """The shades of a map without colours, from nothing to most."""
    marks: str = "*+xo"
    """One mark for each line of a chart in ASCII, also in its legend."""
    square: str = "■"
    grid: str = "▔"
    """The grid line at the upper end of a cell, at a tick of the axis."""
    dots: str = "⠁"
    """The grid line without colours. It must be fainter than the values."""
    chosen: str = "━"
    """The axis below the selected bar."""
    unknown: str = "┄"
    """The axis where nothing is known."""
    tick: str = "┬"
    limit: str = "─"
    ahead: str = "∙"
    """The line of a forecast."""
    wait: str = "▒"
    axis: str = "│┤└─"

    def adopt(self, other: "Glyphs") -> None:
        """Replace all marks with those of the other set."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))


UNICODE = Glyphs()

ASCII = Glyphs(
    ascii=True,
    ok="+",
    failed="x",
    stopped="-",
    running=">",
    on="*",
    off="o",
    warning="!",
    half="%",
    marked="#",
    follow=">",
    stay="-",
    pause="||",
    up="^",
    down="v",
    right=">",
    ascending="/",
    descending="\\",
    nothing="-",
    dot="|",
    times="x",
    ellipsis="~",
    enter="enter",
    blocks=" ..::##@@",
    parts=" ...::::#",
    empty="-",
    fills="#:=+%o.",
    shades="-.:+#",
    marks="*x+o",
    square="#",
    grid=" ",
    dots=" ",
    chosen="=",
    unknown=".",
    tick="+",
    limit="-",
    ahead=".",
    wait=":",
    axis="|+`-",
)


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Returns whether to draw with ASCII: if it is requested, or if the locale cannot encode Unicode."""
    if chosen := environ.get("TOLLKEEPER_ASCII"):
        return chosen not in ("0", "no", "false")
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return os.name != "nt" and locale in ("C", "POSIX")


_BOXES = {
    "-": "─━╌╍═▔▁\u203e",
    "|": "│┃║▎▏▕┆┊▌▐",
    "+": "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝┏┓┗┛",
    "#": "█▇▆▅▉▊▋",
    ":": "▒░▓▄▃",
    ".": "▂·•",
    "~": "…",
    ">": "▸▹▶→\u203a",
    "<": "◂◀←\u2039",
    "^": "▲↑",
    "v": "▼↓",
    "x": "✗✘\u00d7",
    "*": "●◆■",
    "o": "○◯",
    "'": "\u2019\u2018",
    '"': "\u201c\u201d",
}

_KNOWN = {char: ascii_ for ascii_, chars in _BOXES.items() for char in chars}


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
