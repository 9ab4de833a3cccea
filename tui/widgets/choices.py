"""Choices: one of a few words (Picker), checkboxes (CheckList), and dialogs of them. All work without colour."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.listing import Column, row_filter
from tui.screens import DialogScreen
from tui.text import content, fitting, key_hints, lines, safe, safe_lines
from tui.widgets.dialogs import BACK, Confirm, Dialog
from tui.widgets.search_input import SearchInput


class Picker(Widget, can_focus=True):
    """Its value is always one of the options: the next one, or the one whose name is typed."""

    DEFAULT_CSS = """
    Picker { height: 1; width: 1fr; }
    Picker:focus { background: $block-cursor-background; color: $block-cursor-foreground; }
    Picker:focus:nocolor { text-style: reverse; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("left,h", "turn(-1)", "Before"),
        Binding("right,l,space", "turn(1)", "Next"),
    ]

    class Picked(Message):
        """Another option was chosen."""

        def __init__(self, choice: "Picker") -> None:
            self.choice = choice
            super().__init__()

    def __init__(self, options: Sequence[str], value: str, id: str) -> None:
        super().__init__(id=id)
        self.options = list(options)
        self.value = self.initial = value if value in options else self.options[0]
        self._typed = ""
        """The beginning of the name that is being typed."""

    def render(self) -> Content:
        if len(self.options) == 1:
            return content((safe(self.value), "bold"))
        value = f"< {safe(self.value)} >"
        number = f"   {self.options.index(self.value) + 1} of {len(self.options)}"
        tone = "" if self.has_focus else "dim"  # on the cursor's ground, muted words could not be read
        hint = [(number, tone)], [("; left, right, or type", tone)]
        return content(*fitting(self.size.width, [(value, "bold")], *hint))

    def action_turn(self, by: int) -> None:
        """The next or previous option, wrapping around."""
        self._typed = ""
        at = self.options.index(self.value)
        self._pick(self.options[(at + by) % len(self.options)])

    def on_click(self) -> None:
        self.focus()
        self.action_turn(1)

    def on_blur(self) -> None:
        self._typed = ""

    def on_key(self, event: events.Key) -> None:
        """A letter that begins no name, also after those before it, is a key like any other."""
        if not event.is_printable or event.character is None or event.character == " ":
            return
        for typed in (self._typed + event.character, event.character):
            if found := [one for one in self.options if one.casefold().startswith(typed.casefold())]:
                self._typed = typed
                event.stop()
                event.prevent_default()
                self._pick(self.value if self.value in found else found[0])
                return
        self._typed = ""

    def _pick(self, value: str) -> None:
        self.value = value
        self.refresh()
        self.post_message(self.Picked(self))


class CheckList(Widget, can_focus=True):
    """``on`` holds the selected ids."""

    DEFAULT_CSS = "CheckList { height: auto; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }"
    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "end(False)", show=False),
        Binding("end,G", "end(True)", show=False),
        Binding("space", "change", show=False),
        Binding("a", "all", show=False),
    ]

    def __init__(self, options: Sequence[tuple[str, str]], on: Collection[str], id: str | None = None) -> None:
        """``options``: ids and texts."""
        super().__init__(id=id)
        self.options = list(options)
        self.on = set(on)
        self.cursor = 0
        self._all = self.options

    def render(self) -> Content:
        if not self.options:
            return content(("none", "dim"))
        return lines(*(self._line(i, id_, text) for i, (id_, text) in enumerate(self.options)))

    def get_content_height(self, *_: object) -> int:
        return max(1, len(self.options))

    def narrow(self, text: str) -> None:
        """Show only options with these words; hidden ones keep their state."""
        fits = row_filter(text)
        self.options = [option for option in self._all if fits(option[1])]
        self.cursor = 0
        self.refresh(layout=True)

    def action_move(self, by: int) -> None:
        """By some rows, from the last to the first."""
        if self.options:
            self._go((self.cursor + by) % len(self.options))

    def action_page(self, by: int) -> None:
        """By so many rows as are seen. On the first row, page up is the key of the screen around."""
        if by < 0 and self.cursor == 0:
            raise SkipAction
        seen = self.parent.size.height if isinstance(self.parent, Widget) else len(self.options)
        self._go(max(0, min(self.cursor + by * max(1, seen), len(self.options) - 1)))

    def action_end(self, last: bool) -> None:  # noqa: FBT001 - Textual calls it
        """The first or the last row."""
        self._go(max(0, len(self.options) - 1) if last else 0)

    def _go(self, row: int) -> None:
        self.cursor = row
        self.scroll_visible(animate=False)
        if isinstance(self.parent, Widget):
            self.parent.scroll_to_region(Region(0, row, 1, 1), animate=False)
        self.refresh()

    def action_change(self) -> None:
        """On becomes off, off becomes on."""
        if self.options:
            self.on ^= {self.options[self.cursor][0]}
        self.refresh()

    def action_all(self) -> None:
        """Turn all visible ones on, or off if they all are on."""
        ids = {id_ for id_, _ in self.options}
        self.on = self.on - ids if self.on >= ids else self.on | ids
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self.options):
            self.cursor = event.y
            self.action_change()

    def _line(self, index: int, id_: str, text: str) -> Content:
        box = "[x] " if id_ in self.on else "[ ] "
        line = content((box, "live" if id_ in self.on else "dim"), safe(text))
        return line.stylize("reverse") if index == self.cursor else line


BOX, SCROLLBAR = 4, 2
"""Cells beside the text of an option."""

HINT = "gpt !mini: words to match, !words to exclude"


class MultiSelect(DialogScreen[Any]):
    """The selected ids, BACK, or None if cancelled."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Cancel"),
        Binding("enter", "done", "Done"),
        Binding("pageup,b", "back", "Back", show=False),
        Binding("slash", "look", "Search", show=False),
    ]

    def __init__(
        self,
        title: str,
        about: str,
        options: Sequence[tuple[str, str]],
        on: Collection[str],
        *,
        first: Collection[str] | None = None,
        back: bool = False,
    ) -> None:
        """``options``: ids and texts; ``on``: ids that are selected when it opens.

        ``first``: those before any change, if it was left with changes; ``back``: whether there is a step before it.
        """
        super().__init__()
        self._title = title
        self._about = about
        self._options = options
        self._first = frozenset(on if first is None else first)
        self.selected = set(on)
        """Also after it was left for the step before."""
        self._back = back

    def compose(self) -> ComposeResult:
        longest = max((cell_len(safe(text)) for _, text in self._options), default=0)
        with Dialog(classes="dialog big", needs=BOX + longest + SCROLLBAR):
            yield Static(Content.styled(safe(self._title), "bold"), classes="title")
            yield Static(Content(safe_lines(self._about)))
            yield SearchInput(placeholder=HINT, compact=True)
            with VerticalScroll(classes="choices", can_focus=False):
                yield CheckList(self._options, self.selected)
            keys = [("space", " toggle  "), ("a", " all or none  "), ("/", " search  "), ("enter", " done  ")]
            keys += [("b", " back  ")] if self._back else []
            yield Static(key_hints(*keys, ("esc", " cancels")), classes="hint")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one(CheckList).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one(CheckList).narrow(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The search stays applied; the list has the focus again."""
        event.input.display = bool(event.value)
        self.query_one(CheckList).focus()

    def action_look(self) -> None:
        field = self.query_one(Input)
        field.display = True
        self.set_focus(field)

    def action_leave(self) -> None:
        """Leave the search first, then the dialog."""
        field = self.query_one(Input)
        if field.display:
            field.value = ""
            field.display = False
            self.query_one(CheckList).focus()
        elif self.query_one(CheckList).on == self._first:
            self.dismiss(None)
        else:
            text = "Your changes to the list are lost."
            question = Confirm("Discard what you selected?", text, "Discard", keep="Keep selecting")
            self.app.push_screen(question, self._decided)

    async def _decided(self, leave: bool | None) -> None:  # noqa: FBT001 - Textual calls it
        if leave:
            self.dismiss(None)

    def action_back(self) -> None:
        if self._back:
            self.selected = self.query_one(CheckList).on
            self.dismiss(BACK)

    def action_done(self) -> None:
        self.dismiss(set(self.query_one(CheckList).on))


class ChooseColumns(DialogScreen[list[str] | None]):
    """The ids of the columns to show; an empty list for as many as fit; None if cancelled."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave(False)", "Cancel"),
        Binding("enter", "leave(True)", "Done"),
        Binding("r", "usual", "Reset"),
    ]

    def __init__(self, columns: Sequence[Column[Any]], chosen: Collection[str], fitting: Collection[str]) -> None:
        """``chosen``: ids chosen before, empty for as many as fit; these are ``fitting``."""
        super().__init__()
        self._columns = columns
        self._automatic = not chosen
        self._on = set(chosen or fitting)

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog"):
            yield Static(Content.styled("Columns", "bold"), classes="title")
            with VerticalScroll(classes="choices", can_focus=False):
                yield CheckList([(c.id, c.title or c.id) for c in self._columns], self._on)
            yield Static(Content("space toggles, enter saves, r shows as many as fit, esc cancels"), classes="hint")

    def action_leave(self, done: bool) -> None:  # noqa: FBT001 - Textual calls it
        on = self.query_one(CheckList).on
        kept = self._automatic and on == self._on
        self.dismiss([c.id for c in self._columns if c.id in on and not kept] if done else None)

    def action_usual(self) -> None:
        self.dismiss([])


class ChooseOne(DialogScreen[str | None]):
    """The id of the chosen option, or None if cancelled; ``preview`` is called with the one under the cursor."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "dismiss", "Cancel"),
        Binding("enter", "done", "Done"),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
    ]

    def __init__(
        self,
        title: str,
        options: Sequence[tuple[str, str]],
        chosen: str,
        preview: Callable[[str], object] | None = None,
    ) -> None:
        """``options``: ids and what they mean; ``chosen`` is empty if none of them holds now."""
        super().__init__()
        self._title = title
        self._options = options
        self._preview = preview
        self._at = next((i for i, (id_, _) in enumerate(options) if id_ == chosen), 0)
        self._chosen = chosen
        self._typed = ""
        """The beginning of the name that is being typed."""

    def compose(self) -> ComposeResult:
        with Dialog(classes="dialog", needs=max(row.cell_length for row in self._rows()) + SCROLLBAR):
            yield Static(Content.styled(safe(self._title), "bold"), classes="title")
            with VerticalScroll(classes="choices", can_focus=False):
                yield Static(classes="options")
            yield Static(Content("arrows or a letter move, enter chooses, esc cancels"), classes="hint")

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """All options; the one under the cursor is reversed."""
        rows = self._rows()
        rows[self._at] = rows[self._at].stylize("reverse")
        self.query_one(".options", Static).update(lines(*rows))

    def _rows(self) -> list[Content]:
        width = max(len(id_) for id_, _ in self._options) + 2
        rows = []
        for id_, text in self._options:
            mark = ("(x) " if id_ == self._chosen else "( ) ") if self._chosen else ""
            rows.append(content((mark, "dim"), f"{safe(id_):<{width}}", (safe(text), "dim")))
        return rows

    def action_move(self, by: int) -> None:
        self._typed = ""
        self._go((self._at + by) % len(self._options))

    def _go(self, at: int) -> None:
        self._at = at
        if self._preview is not None:
            self._preview(self._options[at][0])
        self.draw()
        self.query_one(".choices").scroll_to_region(Region(0, at, 1, 1), animate=False)

    def on_key(self, event: events.Key) -> None:
        """Letters find the option that begins with them; one that does not go on with those before, the next such."""
        if not event.is_printable or event.character is None:
            return
        letter, names = event.character.casefold(), [id_.casefold() for id_, _ in self._options]
        for typed in (self._typed + letter, letter):
            if begins := [at for at, name in enumerate(names) if name.startswith(typed)]:
                event.stop()
                event.prevent_default()
                first = self._at + (typed == letter)
                self._typed = typed
                self._go(next((at for at in begins if at >= first), begins[0]))
                return

    def on_click(self, event: events.Click) -> None:
        region = self.query_one(".options").region
        if region.contains(event.screen_x, event.screen_y) and event.screen_y - region.y < len(self._options):
            self.dismiss(self._options[event.screen_y - region.y][0])

    def action_done(self) -> None:
        self.dismiss(self._options[self._at][0])
