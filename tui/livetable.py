"""LiveTable: a table of any length that formats only the rows on screen. It follows the newest row, or keeps its place.

Textual's own DataTable repaints everything and walks all rows at each change; this one asks a Source for the rows it
shows. Rules:

- Following means that cursor and view are at the top: new rows come in above. Anywhere else, rows keep their place on
  the screen whatever comes, and ``unseen`` counts what came.
- The cursor stays on its row, by key.
- ``renew`` is called a few times a second at most; it repaints only the lines that changed.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tui.columns import Column, fit
from tui.glyphs import Glyphs
from tui.painter import Look, Painter, selected, text_of
from tui.source import Source

R = TypeVar("R")

HEAD = 1
"""Lines of the header."""


class LiveTable(ScrollView, Generic[R], can_focus=True):
    """Rows of a Source under fixed titles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("table--base", "table--head", "table--sort", "table--cursor", "table--rest", "table--selection"),
        *("table--ok", "table--bad", "table--warn", "table--live", "table--dim"),
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
    LiveTable .table--ok { color: $text-success; }
    LiveTable .table--bad { color: $text-error; }
    LiveTable .table--warn { color: $text-warning; }
    LiveTable .table--live { color: $text-accent; text-style: bold; }
    LiveTable .table--dim { color: $muted; }
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
        """The cursor was moved."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LiveTable.Moved)

    class Opened(Message):
        """A row was asked for."""

    def __init__(self, columns: Sequence[Column[R]], source: Source[R], glyphs: Glyphs, *, id: str = "table") -> None:
        super().__init__(id=id)
        self.columns = columns
        self.source = source
        self.chosen: Collection[str] = ()
        """Ids of the columns to show; empty: the usual ones."""
        self.follows = False
        """Whether it may follow at all: only where the newest row comes first."""
        self.sort = ""
        """Id of the column that the source is sorted by."""
        self.reverse = False
        self.marks: set[Hashable] = set()
        self.cursor = 0
        self.unseen = 0
        """Rows that came while it did not follow."""
        self._painter: Painter[R] = Painter(self._part, glyphs)
        self._key: Hashable = None
        self._count = 0
        self._shown: dict[int, Strip] = {}

    @property
    def following(self) -> bool:
        """Whether new rows will be seen at once."""
        return self.follows and self.cursor == 0 and self.scroll_offset.y == 0

    @property
    def current(self) -> R | None:
        """The row under the cursor."""
        return self.source.row(self.cursor) if self.cursor < self.source.count else None

    @property
    def wide(self) -> int:
        """Cells of a line, beside the scrollbar."""
        return self.scrollable_content_region.width

    def renew(self) -> None:
        """The source changed: keep every row in its place, and repaint what differs."""
        if self.text_selection is not None:
            return  # what is being selected must not move
        count, moved = self.source.count, self._follow_key()
        if (size := Size(self.wide, count + HEAD)) != self.virtual_size:
            self.set_reactive(LiveTable.virtual_size, size)  # the scrollbar is always there: no new layout is needed
            self._scroll_update(size)
        if moved:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, immediate=True)
        self._count = count
        for y in range(self.size.height - HEAD):
            if self._shown.get(y) is not self._line(y):
                self.refresh_line(self.scroll_offset.y + y + HEAD)

    def rearrange(self) -> None:
        """Columns, marks or the sorting changed."""
        self._painter.place(fit(self.columns, self.wide - 1, self.chosen), self.wide)
        self.refresh()

    def go(self, index: int) -> None:
        """Put the cursor on a row and bring it on screen."""
        self.cursor = max(0, min(self.source.count - 1, index))
        self._key = self.source.key(self.cursor) if self.source.count else None
        top, height = self.scroll_offset.y, max(1, self.size.height - HEAD)
        if not top <= self.cursor < top + height:
            y = self.cursor if self.cursor < top else self.cursor - height + 1
            self.scroll_to(y=y, animate=False, immediate=True)
        if self.following:
            self.unseen = 0
        self.refresh()
        self.post_message(self.Moved())

    def action_cursor(self, what: str) -> None:
        """Move, or open the row. A page moves the view along with the cursor."""
        page, last = max(1, self.size.height - HEAD - 1), self.source.count - 1
        to = {"up": self.cursor - 1, "down": self.cursor + 1, "first": 0, "last": last}
        by = {"page up": -page, "page down": page}.get(what, 0)
        if by:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False, immediate=True)
        if by or what in to:
            self.go(to.get(what, self.cursor + by))
        elif self.source.count:
            self.post_message(self.Opened())

    def render_line(self, y: int) -> Strip:
        if self._painter.width != self.wide:
            self.rearrange()
        if y < HEAD:
            return self._painter.head(self.sort, reverse=self.reverse)
        strip = self._shown[y - HEAD] = self._line(y - HEAD)
        if (selection := self.text_selection) is not None and (span := selection.get_span(y)) is not None:
            strip = selected(strip, span, self._part("selection"))
        return strip.apply_offsets(0, y)

    def on_click(self, event: events.Click) -> None:
        index = event.y - HEAD + self.scroll_offset.y
        if event.y < HEAD or index >= self.source.count:
            return
        again = index == self.cursor
        self.go(index)
        if again or event.chain == 2:
            self.action_cursor("open")

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text under a selection; it never reaches beyond the screen."""
        lines = [self._painter.head(self.sort, reverse=self.reverse), *map(self._line, range(self.size.height - HEAD))]
        return selection.extract("\n".join(map(text_of, lines))), "\n"

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.clear()

    def _part(self, name: str) -> Style:
        if name == "base":
            return self.rich_style
        partial = name in ("ok", "bad", "warn", "live", "dim", "selection")
        return self.get_component_rich_style(f"table--{name}", partial=partial)

    def _line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        if index >= self.source.count:
            return self._painter.blank()
        key = self.source.key(index)
        look = Look(index == self.cursor, self.has_focus, key in self.marks)
        row = self.source.row(index)
        return self._painter.missing(look) if row is None else self._painter.row(key, row, look)

    def _follow_key(self) -> int:
        """Put the cursor where its row is now; by how many lines the view must move to stay on the same rows."""
        count, old = self.source.count, self.cursor
        if self.following or not count:
            self.cursor = 0
            self._key = self.source.key(0) if count else None
            self.unseen = 0
            return 0
        index = self.source.index(self._key) if self._key is not None else None
        self.cursor = min(count - 1, old if index is None else index)
        self._key = self.source.key(self.cursor)
        moved = self.cursor - old
        self.unseen += max(0, moved)
        return moved
