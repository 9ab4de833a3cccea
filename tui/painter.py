"""Painter: rows to strips of exact width. Each strip is kept until its row or its look changes."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from tui.columns import Placed
from tui.glyphs import Glyphs
from tui.safe import cell

R = TypeVar("R")

STRIPS = 512
"""Strips kept: some screens."""


class Look(msgspec.Struct, frozen=True):
    """What beside the row itself decides how its line looks."""

    cursor: bool = False
    focus: bool = False
    marked: bool = False


class Painter(Generic[R]):
    """``style`` gives a style by the name of a table's part: ``cursor``, ``head``, or a tone."""

    def __init__(self, style: Callable[[str], Style], glyphs: Glyphs) -> None:
        self._make_style = style
        self._styles: dict[str, Style] = {}
        self._glyphs = glyphs
        self._strips: LRUCache[Hashable, tuple[R, Look, Strip]] = LRUCache(STRIPS)
        self._empty: dict[Look | None, Strip] = {}
        self._placed: Sequence[Placed[R]] = ()
        self.width = 0

    def place(self, placed: Sequence[Placed[R]], width: int) -> None:
        """From now on these columns, in lines of this width."""
        self._placed, self.width = placed, width
        self.clear()

    def clear(self) -> None:
        """Forget what was painted: styles changed."""
        self._strips.clear()
        self._empty.clear()
        self._styles.clear()

    def head(self, sort: str, *, reverse: bool) -> Strip:
        """The line of titles."""
        plain, bold = self._style("head"), self._style("sort")
        segments = [Segment(" ", plain)]
        for place in self._placed:
            column = place.column
            sorted_by = column.id == sort
            mark = (self._glyphs.descending if reverse else self._glyphs.ascending) if sorted_by else ""
            title = cell(column.title + mark, place.width, right=column.right, ellipsis="")
            segments.append(Segment(title, bold if sorted_by else plain))
            segments.append(Segment(" ", plain))
        return Strip(segments).adjust_cell_length(self.width, plain)

    def row(self, key: Hashable, row: R, look: Look) -> Strip:
        """The line of a row; the same strip as before if nothing changed."""
        known = self._strips.get(key)
        if known is not None and known[0] is row and known[1] == look:
            return known[2]
        strip = self._paint(row, look)
        self._strips[key] = (row, look, strip)
        return strip

    def missing(self, look: Look) -> Strip:
        """The line of a row that is not here yet."""
        if look not in self._empty:
            base = self._style("cursor" if look.cursor else "dim")
            strip = Strip([Segment(" " + self._glyphs.ellipsis, base)])
            self._empty[look] = strip.adjust_cell_length(self.width, base)
        return self._empty[look]

    def blank(self) -> Strip:
        """A line without a row."""
        if None not in self._empty:
            self._empty[None] = Strip.blank(self.width, self._style("base"))
        return self._empty[None]

    def _paint(self, row: R, look: Look) -> Strip:
        base = self._style(("cursor" if look.focus else "rest") if look.cursor else "base")
        gutter = self._glyphs.marked if look.marked else " "
        segments = [Segment(gutter, base)]
        for place in self._placed:
            text = cell(place.column.text(row), place.width, right=place.column.right, ellipsis=self._glyphs.ellipsis)
            segments.append(Segment(text + " ", self._toned(place, row, base, look)))
        return Strip(segments).adjust_cell_length(self.width, base)

    def _style(self, name: str) -> Style:
        """Asking for it walks the style sheet; so it is asked for once."""
        if name not in self._styles:
            self._styles[name] = self._make_style(name)
        return self._styles[name]

    def _toned(self, place: Placed[R], row: R, base: Style, look: Look) -> Style:
        """On the cursor's line everything has the cursor's colours, so that it can be read in every theme."""
        tone = place.column.tone(row) if place.column.tone is not None else ""
        return base if look.cursor or not tone else base + self._style(tone)


def selected(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """The strip with a span of cells in the style of a selection; an end of -1 is the line's end."""
    start, end = span
    width = strip.cell_length
    end = width if end < 0 else min(end, width)
    start = min(start, end)
    parts = [strip.crop(0, start), strip.crop(start, end), strip.crop(end, width)]
    parts[1] = Strip([Segment(s.text, (s.style or Style()) + style) for s in parts[1]], parts[1].cell_length)
    return Strip.join(parts)


def text_of(strip: Strip) -> str:
    """What stands on a line."""
    return strip.text.rstrip()
