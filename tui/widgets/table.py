"""LiveTable: a table of any length that formats only the rows on screen. It follows the newest row, or keeps its place.

Textual's DataTable repaints everything and walks all rows at each change. This table asks a ``RowSource`` for the rows
that it shows. Rules:

- The table follows while the cursor and the view are at the top: new rows appear there. Otherwise, and while it is
  held, the rows keep their places on the screen. Going to the first row makes it follow again.
- The cursor stays on its row, by the row's key, even if a filter hides the row. If the row is gone, no row is selected
  until the cursor is moved: an action must never get another row than the one that the user saw.
- ``renew`` is called a few times a second at most. It repaints only the lines that changed: the painter keeps the strip
  of a row until one of its texts or its state changes.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache, partial
from typing import ClassVar, Generic, TypeVar

import textual.style
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from gateway.client.cells import cell, cut
from tui import glyphs
from tui.columns import Column, fit_columns
from tui.listing import RowSource
from tui.text import TONES

R = TypeVar("R")

Cells = Sequence[tuple[str, str, str]]
"""What the columns show of a row, as ``Column.cell`` returns it."""

HEAD = 1
"""The number of lines of the header."""


class LiveTable(ScrollView, Generic[R], can_focus=True):
    """The rows of a ``RowSource`` below a line of titles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"table--{part}" for part in ("head", "sort", "cursor", "rest", "selection")
    }
    DEFAULT_CSS = """
    LiveTable { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: scroll; }
    LiveTable .table--head { background: $panel; color: $foreground; text-style: bold; }
    LiveTable .table--sort { background: $panel; color: $text-accent; text-style: bold underline; }
    LiveTable .table--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    LiveTable .table--rest { background: $panel; color: $foreground; }
    LiveTable .table--selection { background: $screen-selection-background; color: $screen-selection-foreground; }
    LiveTable:nocolor .table--head { text-style: bold underline; }
    LiveTable:nocolor .table--cursor { text-style: reverse; }
    LiveTable:nocolor .table--rest { text-style: underline; }
    LiveTable:nocolor .table--selection { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor('up')", show=False),
        Binding("down,j", "cursor('down')", show=False),
        Binding("pageup,ctrl+b", "cursor('page up')", show=False),
        Binding("pagedown,ctrl+f", "cursor('page down')", show=False),
        Binding("home,g", "cursor('first')", show=False),
        Binding("end,G", "cursor('last')", show=False),
        Binding("enter", "cursor('open')", show=False),
    ]

    class Moved(Message):
        """Posted when the cursor was moved."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LiveTable.Moved)

    class Opened(Message):
        """Posted when a row was opened."""

    def __init__(self, columns: Sequence[Column[R]], source: RowSource[R]) -> None:
        super().__init__()
        self.columns = columns
        self.source = source
        self.chosen_ids: Collection[str] = ()
        """The ids of the columns to show; empty for as many as fit."""
        self.follows = False
        """Whether new rows come first, so that the table can follow them."""
        self.held = False
        """Whether the table does not follow even at the top, because the details of a row are open."""
        self.sort = ""
        """The id of the column that the source is sorted by; empty if it is not sorted by a column."""
        self.descending = False
        """Whether the largest value comes first."""
        self.request_sort: Callable[[str], None] = lambda _column: None
        """Called with the id of the column whose title was clicked."""
        self.marks: set[Hashable] = set()
        """The keys of the marked rows."""
        self.cursor = 0
        self.lost = False
        """Whether the row under the cursor is gone, so that no row is selected."""
        self._painter: RowPainter[R] = RowPainter(partial(style_of, self))
        self.cursor_key: Hashable = None
        self._reserved_widths: dict[str, int] = {}
        """The width that each column keeps for its widest text so far, so that columns do not move back and forth."""
        self._shown: dict[int, Strip] = {}
        """The strips on the screen, by line below the titles."""
        self._height = 0
        """The number of rows that fit on the screen."""

    @property
    def following(self) -> bool:
        """Returns whether new rows appear on the screen at once."""
        return self.follows and not self.held and self.cursor == 0 and self.scroll_offset.y == 0

    @property
    def current(self) -> R | None:
        """Returns the row under the cursor; None if it is gone, or not loaded yet."""
        return self.source.row(self.cursor) if self.cursor < self.source.count and not self.lost else None

    @property
    def line_width(self) -> int:
        """Returns the width of a line in cells, without the scrollbar."""
        return self.scrollable_content_region.width

    def renew(self, *, new_filter: bool = False) -> None:
        """Apply changes of the source. ``new_filter`` may hide the row under the cursor: then the first is selected."""
        if self.text_selection is not None:
            return  # selected text must not move
        self.held = self.held and not new_filter
        shift = self._restore_cursor(new_filter=new_filter)
        size = Size(self.line_width, self.source.count + HEAD)
        if size != self.virtual_size:
            self.set_reactive(LiveTable.virtual_size, size)  # the scrollbar is always there: no new layout is needed
            self._scroll_update(size)
        if shift:
            self.scroll_to(y=self.scroll_offset.y + shift, animate=False, immediate=True)
        changed_lines = [y for y in range(self.size.height - HEAD) if self._shown.get(y) is not self._line(y)]
        for y in changed_lines:
            self.refresh_line(self.scroll_offset.y + y + HEAD)
        list_changed = bool(changed_lines) and not self.follows
        cut_widths = self._painter.cut_widths
        is_wider = any(width > self._reserved_widths.get(id_, 0) for id_, width in cut_widths.items())
        if is_wider or (cut_widths and list_changed):
            self.rearrange(self._reserved_widths)

    def rearrange(self, reserved_widths: Mapping[str, int] | None = None) -> None:
        """Place the columns again after a change of columns, marks or sorting, or because texts are cut.

        ``reserved_widths``: the widths that columns keep for earlier texts, so that they do not move back and forth. A
        list that does not follow gives them up if its current texts fit only without them.
        """
        first = self.scroll_offset.y
        last = min(self.source.count, first + max(0, self.size.height - HEAD))
        rows = [row for index in range(first, last) if (row := self.source.row(index)) is not None]
        widths = {column.id: max((cell_len(column.text(row)) for row in rows), default=0) for column in self.columns}
        for column in self.columns:
            if column.id == self.sort:  # its title needs an arrow
                widths[column.id] = max(widths[column.id], len(column.title) + 1)
        earlier_widths = reserved_widths or {}
        self._reserved_widths = {id_: max(width, earlier_widths.get(id_, 0)) for id_, width in widths.items()}
        placed = fit_columns(self.columns, self.line_width - 1, self.chosen_ids, self._reserved_widths)
        if not self.follows and _has_cut_text(placed, widths):
            refit = fit_columns(self.columns, self.line_width - 1, self.chosen_ids, widths)
            if not _has_cut_text(refit, widths):
                self._reserved_widths, placed = widths, refit
        if reserved_widths is None or placed != self._painter.placed:
            self._painter.place(placed, self.line_width)
            self.refresh()

    def go(self, index: int) -> None:
        """Put the cursor on a row, and scroll to it if it is not on the screen."""
        _select(self, max(0, min(self.source.count - 1, index)))
        top, height = self.scroll_offset.y, max(1, self.size.height - HEAD)
        if not top <= self.cursor < top + height:
            target = self.cursor if self.cursor < top else self.cursor - height + 1
            self.scroll_to(y=target, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_cursor(self, command: str) -> None:
        """Move the cursor, or open the row under it. By pages, the view moves along with the cursor."""
        if command == "open":
            if self.source.count and not self.lost:
                self.post_message(self.Opened())
            return
        page = max(1, self.size.height - HEAD - 1)
        targets = {
            "up": self.cursor - 1,
            "down": self.cursor if self.lost else self.cursor + 1,  # a lost row's place has the next row
            "page up": self.cursor - page,
            "page down": self.cursor + page,
            "first": 0,
            "last": self.source.count - 1,
        }
        if command in ("page up", "page down"):
            shift = targets[command] - self.cursor
            self.scroll_to(y=self.scroll_offset.y + shift, animate=False, immediate=True)
        self.held = self.held and command != "first"
        self.go(targets[command])

    def render_line(self, y: int) -> Strip:
        if self._painter.width != self.line_width:
            self.rearrange()
        if y < HEAD:
            return self._painter.head(self.sort, descending=self.descending)
        strip = self._shown[y - HEAD] = self._line(y - HEAD)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = select_span(strip, span, style_of(self, "selection"))
        return strip.apply_offsets(0, y)

    def on_resize(self) -> None:
        """Keep the cursor on the screen if the table gets lower because a pane or a message opens."""
        previous, self._height = self._height, max(1, self.size.height - HEAD)
        line = self.cursor - self.scroll_offset.y
        if self._height <= line < previous:
            self.scroll_to(y=self.cursor - self._height + 1, animate=False, immediate=True)

    def on_click(self, event: events.Click) -> None:
        if event.y < HEAD:
            start = 1
            for column in self._painter.placed:
                if start <= event.x <= start + column.width:
                    self.request_sort(column.id)
                    break
                start += column.width + 1
            return
        index = event.y - HEAD + self.scroll_offset.y
        if index >= self.source.count:
            return
        is_selected = index == self.cursor and not self.lost
        self.go(index)
        if is_selected or event.chain == 2:
            self.action_cursor("open")

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Returns the selected text, which is never more than what is on the screen."""
        lines = [
            self._painter.head(self.sort, descending=self.descending),
            *map(self._line, range(self.size.height - HEAD)),
        ]
        return selection.extract("\n".join(line.text.rstrip() for line in lines)), "\n"

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.clear()

    def _line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        if index >= self.source.count:
            return self._painter.row(None, None, "")
        key, style = self.source.key(index), "base"
        if index == self.cursor and not self.lost:
            style = "cursor" if self.has_focus else "rest"
        return self._painter.row(key, self.source.row(index), style, is_marked=key in self.marks)

    def _restore_cursor(self, *, new_filter: bool) -> int:
        """Put the cursor where its row is now. Returns how many lines the view must move with it."""
        count, previous = self.source.count, self.cursor
        if self.following or not count or self.cursor_key is None:
            _select(self, 0)
            return 0
        index = self.source.index(self.cursor_key)
        if index is None and new_filter:
            _select(self, 0)
        elif index is None:
            self.cursor, self.lost = min(count - 1, previous), True
        else:
            _select(self, index)
        return self.cursor - previous


def _select(table: LiveTable[R], index: int) -> None:
    """Put the cursor on a row, and pin the row, so that the filter does not hide it."""
    table.cursor, table.lost = index, False
    table.cursor_key = table.source.key(index) if index < table.source.count else None
    table.source.pin(table.cursor_key)


def _has_cut_text(placed: Sequence[Column[R]], widths: Mapping[str, int]) -> bool:
    return any(widths[column.id] > column.width for column in placed)


def style_of(table: LiveTable[R], name: str) -> Style:
    """Returns the style of a part of the table, or of a tone."""
    if name in TONES:
        return textual.style.Style.parse(TONES[name]).rich_style
    if name == "base":
        return table.rich_style
    return table.get_component_rich_style(f"table--{name}", partial=name == "selection")


class RowPainter(Generic[R]):
    """Paints lines. ``style`` returns the style of a part of the table (``cursor``, ``head``) or of a tone."""

    def __init__(self, style: Callable[[str], Style]) -> None:
        self._style = cache(style)  # computing one walks the stylesheet
        self._strips: LRUCache[Hashable, tuple[Cells | None, str, bool, Strip]] = LRUCache(512)  # a few screens
        self.placed: Sequence[Column[R]] = ()
        self.cut_widths: dict[str, int] = {}
        """The widths of the widest texts that were cut since the columns were placed, by column."""
        self.width = 0

    def place(self, placed: Sequence[Column[R]], width: int) -> None:
        self.placed, self.width = placed, width
        self.cut_widths.clear()
        self.clear()

    def clear(self) -> None:
        """Forget all strips and styles, because styles or columns have changed."""
        self._strips.clear()
        self._style.cache_clear()

    def head(self, sort: str, *, descending: bool) -> Strip:
        plain, bold = self._style("head"), self._style("sort")
        segments = [Segment(" ", plain)]
        for column in self.placed:
            is_sorted = column.id == sort
            arrow = (glyphs.DESCENDING if descending else glyphs.ASCENDING) if is_sorted else ""
            fits = len(column.title) + len(arrow) <= column.width
            title = column.title if fits else column.short_title or column.title
            title = cut(title, column.width - len(arrow), "") + arrow  # the arrow is never cut
            title = cell(title, column.width, right=column.right, ellipsis="")
            segments += [Segment(title, bold if is_sorted else plain), Segment(" ", plain)]
        return Strip(segments).adjust_cell_length(self.width, plain)

    def row(self, key: Hashable, row: R | None, style: str = "base", *, is_marked: bool = False) -> Strip:
        """Returns the line of a row, which is None if it is not loaded yet; without a style, the line of no row. It is
        the same strip as before if nothing changed.
        """
        cells = None if row is None else [column.cell(row) for column in self.placed]
        cached = self._strips.get(key)
        if cached is not None and cached[:3] == (cells, style, is_marked):
            return cached[3]
        strip = self._paint(cells, style, is_marked=is_marked)
        self._strips.discard(key)  # otherwise the cache keeps the strip that it has
        self._strips[key] = (cells, style, is_marked, strip)
        return strip

    def _paint(self, cells: Cells | None, style: str, *, is_marked: bool) -> Strip:
        if not style:
            return Strip.blank(self.width, self._style("base"))
        if cells is None:
            base = self._style("dim" if style == "base" else "cursor")
            return Strip([Segment(" " + glyphs.ELLIPSIS, base)]).adjust_cell_length(self.width, base)
        base = self._style(style)
        segments = [Segment(glyphs.MARKED if is_marked else " ", base)]
        for column, (whole_text, fitted_text, tone) in zip(self.placed, cells, strict=True):
            width = cell_len(whole_text)
            if width > column.width:
                self.cut_widths[column.id] = max(self.cut_widths.get(column.id, 0), width)
            text = cell(fitted_text, column.width, right=column.right)
            has_tone = tone and style == "base"  # it would be unreadable in the cursor's line
            segments.append(Segment(text + " ", base + self._style(tone) if has_tone else base))
        return Strip(segments).adjust_cell_length(self.width, base)


def select_span(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """Returns the strip with a span of cells in the style of a selection; an end of -1 is the line's end."""
    start, end = span
    width = strip.cell_length
    end = width if end < 0 else min(end, width)
    start = min(start, end)
    parts = [strip.crop(0, start), strip.crop(start, end), strip.crop(end, width)]
    parts[1] = Strip([Segment(s.text, (s.style or Style()) + style) for s in parts[1]], parts[1].cell_length)
    return Strip.join(parts)
