"""Asciify: the last step before a terminal that has ASCII only: other characters become some of the same width."""

from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

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
    """Lines keep their widths."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(ascii_of(segment.text), segment.style, segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def ascii_of(text: str) -> str:
    """The text in ASCII, cell by cell; what has no likeness is a question mark."""
    return "".join(char if char.isascii() else _of(char) for char in text)


def _of(char: str) -> str:
    return _KNOWN.get(char, "?") if (width := get_character_cell_size(char)) == 1 else "?" * width
