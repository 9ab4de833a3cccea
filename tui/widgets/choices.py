"""Choices: a field with a few options (Picker), a list of checkboxes (CheckList), and dialogs to choose in a list."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from tui.listing import row_filter
from tui.screens import DialogScreen
from tui.text import content, fit_groups, key_hints, safe, safe_lines
from tui.widgets.dialogs import BACK, Confirm, Dialog
from tui.widgets.search_input import FilterInput


class TypedName:
    """The typed beginning of an option's name. A letter that does not continue a name starts again."""

    text = ""

    def find(self, event: events.Key, names: Sequence[str]) -> list[int]:
        """Returns the indexes of the names that begin with the typed letters. If there are any, the key is used."""
        letter = (event.character or "").casefold() if event.is_printable else ""
        for text in (self.text + letter, letter) if letter else ():
            if indexes := [index for index, name in enumerate(names) if name.casefold().startswith(text)]:
                self.text = text
                event.stop()
                event.prevent_default()
                return indexes
        self.text = ""
        return []


class Picker(Widget, can_focus=True):
    """A field whose value is one of its options. Keys select the next one, or one by its name."""

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
        """Posted when another option was chosen."""

    def __init__(self, options: Sequence[str], value: str, id: str) -> None:
        super().__init__(id=id)
        self.options = list(options)
        self.value = value if value in options else self.options[0]
        self._typed = TypedName()

    def render(self) -> Content:
        if len(self.options) == 1:
            return content((safe(self.value), "bold"))
        value = f"< {safe(self.value)} >"
        position = f"   {self.options.index(self.value) + 1} of {len(self.options)}"
        tone = "" if self.has_focus else "dim"  # muted words would be unreadable on the cursor's background
        hints = [(position, tone)], [("; left, right, or type", tone)]
        return content(*fit_groups(self.size.width, [(value, "bold")], *hints))

    def action_turn(self, by: int) -> None:
        self._typed.text = ""
        at = self.options.index(self.value)
        self._pick(self.options[(at + by) % len(self.options)])

    def on_click(self) -> None:
        self.focus()
        self.action_turn(1)

    def on_blur(self) -> None:
        self._typed.text = ""

    def on_key(self, event: events.Key) -> None:
        """Select the option that begins with the typed letters."""
        if event.character != " " and (indexes := self._typed.find(event, self.options)):
            options = [self.options[index] for index in indexes]
            self._pick(self.value if self.value in options else options[0])

    def _pick(self, value: str) -> None:
        self.value = value
        self.refresh()
        self.post_message(self.Picked())


class CheckList(OptionList, inherit_bindings=False):
    """A list of checkboxes. ``checked`` holds the ids of the checked ones."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("up,k", "cursor_up", show=False),
        Binding("down,j", "cursor_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("space", "select", show=False),
        Binding("a", "all", show=False),
    ]

    def __init__(self, options: Sequence[tuple[str, str]], checked: Collection[str]) -> None:
        """``options``: ids and texts."""
        super().__init__(classes="choices", compact=True)
        self.checked = set(checked)
        self._all_options = options  # Textual's list keeps the visible ones in ``_options``
        self.narrow("")

    def narrow(self, text: str) -> None:
        """Show only the options that match a search. The others stay checked or unchecked."""
        matches = row_filter(text)
        self.shown = [option for option in self._all_options if matches(option[1])]
        self.set_options(self._line(id_, label) for id_, label in self.shown)
        self.highlighted = 0 if self.shown else None

    def action_page_up(self) -> None:
        """Move up a page. On the first row, leave the key to the surrounding screen."""
        if not self.highlighted:
            raise SkipAction
        super().action_page_up()  # type: ignore[no-untyped-call] # Textual's method has no types

    def action_all(self) -> None:
        ids = {id_ for id_, _ in self.shown}
        self._set_checked(self.checked - ids if self.checked >= ids else self.checked | ids)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._set_checked(self.checked ^ {self.shown[event.option_index][0]})

    def _set_checked(self, checked: set[str]) -> None:
        changed, self.checked = self.checked ^ checked, checked
        for index, (id_, text) in enumerate(self.shown):
            if id_ in changed:
                self.replace_option_prompt_at_index(index, self._line(id_, text))

    def _line(self, id_: str, text: str) -> Content:
        return content(("[x] ", "live") if id_ in self.checked else ("[ ] ", "dim"), safe(text))


class MultiSelect(DialogScreen[Any]):
    """A dialog with checkboxes. Its result is the checked ids, BACK, or None if it was cancelled."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Cancel"),
        Binding("enter", "done", "Done"),
        Binding("pageup,b", "back", "Back", show=False),
        Binding("slash", "search", "Search", show=False),
        Binding("r", "reset", "Reset", show=False),
    ]

    def __init__(
        self,
        title: str,
        about: str,
        options: Sequence[tuple[str, str]],
        checked: Collection[str],
        *,
        back: bool = False,
        resets: bool = False,
    ) -> None:
        """``back``: ``b`` goes back. ``resets``: ``r`` unchecks all, and changes are discarded without a question."""
        self._original = frozenset(checked)
        self._back = back
        self._resets = resets
        self.choices = CheckList(options, checked)
        intro = Static(Content(safe_lines(about)), classes="intro")
        search = FilterInput("gpt !mini: words to match, !words to exclude")
        keys = [("space", " toggle  "), ("a", " all or none  "), ("/", " search  "), ("enter", " done  ")]
        keys += [("r", " reset  ")] if resets else []
        keys += [("b", " back  ")] if back else []
        hint = Static(key_hints(*keys, ("esc", " cancels")), classes="hint")
        width = max((cell_len(safe(text)) for _, text in options), default=0) + len("[x] ") + 2  # and the scrollbar
        super().__init__(Dialog(title, intro, search, self.choices, hint, classes="big", content_width=width))

    def on_mount(self) -> None:
        self.choices.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.choices.narrow(event.value)

    def action_search(self) -> None:
        self.query_one(FilterInput).open()

    def action_leave(self) -> None:
        if self.query_one(FilterInput).close():
            return
        if self._resets or self.choices.checked == self._original:
            self.dismiss(None)
        else:
            text = "Your changes to the list will be lost."
            question = Confirm("Discard what you selected?", text, "Discard", keep="Keep selecting")
            self.app.push_screen(question, self._leave_if_confirmed)

    async def _leave_if_confirmed(self, leave: bool | None) -> None:  # noqa: FBT001 - Textual calls it
        if leave:
            self.dismiss(None)

    def action_back(self) -> None:
        if self._back:
            self.dismiss(BACK)

    def action_done(self) -> None:
        self.dismiss(self.choices.checked)

    def action_reset(self) -> None:
        if self._resets:
            self.dismiss(set())


class ChooseOne(DialogScreen[str | None]):
    """A dialog with options. Its result is the chosen id or None. ``preview`` gets each id under the cursor, and the
    previous one if the dialog is left.
    """

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("escape,q", "leave", "Cancel"),
        Binding("k", "app.simulate_key('up')", show=False),
        Binding("j", "app.simulate_key('down')", show=False),
    ]

    def __init__(
        self,
        title: str,
        options: Sequence[tuple[str, str]],
        chosen: str,
        preview: Callable[[str], object] | None = None,
    ) -> None:
        """``options``: ids and their meanings; ``chosen``: the current id, or an empty string."""
        self._ids = [id_ for id_, _ in options]
        self._preview = preview
        self._chosen = chosen
        self._typed = TypedName()
        name_width = max(map(len, self._ids)) + 2
        rows = []
        for id_, text in options:
            mark = ("(x) " if id_ == chosen else "( ) ") if chosen else ""
            rows.append(content((mark, "dim"), f"{safe(id_):<{name_width}}", (safe(text), "dim")))
        self._list = OptionList(*rows, classes="choices", compact=True)
        hint = Static(Content("arrows or a letter move, enter chooses, esc cancels"), classes="hint")
        width = max(row.cell_length for row in rows) + 2  # and the scrollbar
        super().__init__(Dialog(title, self._list, hint, content_width=width))

    def on_mount(self) -> None:
        self._list.highlighted = self._ids.index(self._chosen) if self._chosen in self._ids else 0
        self._list.focus()

    def on_key(self, event: events.Key) -> None:
        """Move to the option that begins with the typed letters; with a first letter, to the next such option."""
        if indexes := self._typed.find(event, self._ids):
            first = (self._list.highlighted or 0) + (len(self._typed.text) == 1)
            self._list.highlighted = next((index for index in indexes if index >= first), indexes[0])

    def action_leave(self) -> None:
        if self._preview is not None:
            self._preview(self._chosen)
        self.dismiss(None)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._preview is not None:
            self._preview(self._ids[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._ids[event.option_index])
