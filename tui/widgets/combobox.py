"""Combobox: a line to type into, with the matching choices listed below it: presets, models, groups, channels.

The list opens when the line gets the focus while it is empty, when something is typed, and by a click. Down and up go
through it, enter takes the highlighted choice, escape closes it. Past its ends, down and up go to another field, unless
a choice was just searched for: then it stays highlighted until it is taken.
"""

from collections.abc import Sequence

import msgspec
from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.listing import row_filter
from tui.text import cell, content, safe
from tui.widgets.choices import Picker
from tui.widgets.dialogs import HintInput

PICKED = 7
"""The most choices that are stepped through; with more, the user types."""

LISTED = 100
"""The most choices in the list; typing narrows it."""


class Suggestion(msgspec.Struct, frozen=True):
    """One choice."""

    text: str
    about: str = ""
    """A text shown beside it, which is searched too."""


def matching(suggestions: Sequence[Suggestion], typed: str) -> list[Suggestion]:
    """Returns the suggestions with all typed words; those that begin with the text come first."""
    fits = row_filter(typed)
    start = typed.strip().casefold()
    fitting = [suggestion for suggestion in suggestions if fits(f"{suggestion.text} {suggestion.about}")]
    return sorted(
        fitting,
        key=lambda suggestion: (
            not suggestion.text.casefold().startswith(start),
            start not in suggestion.text.casefold(),
        ),
    )


class ChoiceList(OptionList, can_focus=False):
    """The matching choices, over the fields below; the line keeps the focus."""

    DEFAULT_CSS = """
    ChoiceList {
        display: none; overlay: screen; constrain: none inside; width: 1fr; height: auto; max-height: 9;
        border: none; padding: 0; background: $panel; color: $foreground; scrollbar-size-vertical: 1;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    ChoiceList > .option-list--option-highlighted {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    """

    def show(self, suggestions: Sequence[Suggestion], *, first: bool) -> None:
        """List these suggestions; ``first``: the first one is highlighted."""
        self.clear_options()
        self.add_options([Option(self._prompt(suggestion)) for suggestion in suggestions[:LISTED]])
        if more := len(suggestions[LISTED:]):
            self.add_option(Option(content((f"{more} more: type to narrow", "dim")), disabled=True))
        self.highlighted = 0 if first and suggestions else None
        self.display = bool(suggestions)

    @staticmethod
    def _prompt(suggestion: Suggestion) -> Content:
        if not suggestion.about:
            return content(safe(suggestion.text))
        name = safe(suggestion.text)
        return content(cell(name, max(22, len(name))), " ", (safe(suggestion.about), "dim"))


class ChoiceInput(HintInput):
    """The line of a combobox. ``only``: the value must be one of the choices; ``many``: it is a list of names."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it and never changes it
        Binding("down", "walk(1)", show=False),
        Binding("up", "walk(-1)", show=False),
        Binding("escape", "close", show=False),
    ]

    class Closed(Message):
        """Posted when its list was closed."""

    def __init__(
        self,
        value: str,
        suggestions: Sequence[Suggestion],
        *,
        only: bool,
        many: bool,
        placeholder: str,
        id: str,
        literal: str = "",
    ) -> None:
        super().__init__(value, hint=placeholder, id=id)
        self._suggestions = suggestions
        self._only = only
        self._many = many
        self._literal = literal
        """A text that contains this is kept unchanged, also with ``only``."""
        self._taken = value
        """The text that was chosen or is unchanged, which is not searched for."""
        self._found: list[Suggestion] = []
        self._searched = False
        """Whether the list shows matches of the typed text."""
        self.choices = ChoiceList()
        self.quiet = False
        """Whether the list stays closed the next time the line gets the focus."""
        self.alone = False
        """Whether it is the only field: enter takes a choice and submits it."""

    def open(self) -> None:
        """List the matches of the typed text; all choices if it is unchanged."""
        typed = "" if self.value == self._taken and not self._many else self._word()
        self._found = matching(self._suggestions, typed)
        self._searched = bool(typed)
        literal = bool(self._literal) and self._literal in typed
        self.choices.show(self._found, first=self._only and bool(typed) and not literal)

    def offer(self, suggestions: Sequence[Suggestion]) -> None:
        """Replace the choices; the value is cleared if it is a choice that is gone."""
        before, self._suggestions = self._suggestions, suggestions
        if self.value in {suggestion.text for suggestion in before} - {suggestion.text for suggestion in suggestions}:
            self.value = ""
        if self.choosing:
            self.open()

    @property
    def choosing(self) -> bool:
        """Returns whether its choices are listed, to type more or to take one."""
        return self.has_focus and bool(self.choices.display)

    def close(self) -> None:
        """Hide the list."""
        if self.choices.display:
            self.choices.display = False
            self.post_message(self.Closed())

    def take(self, index: int) -> None:
        """Take the choice of this row of the list."""
        before, _, behind = self._parts()
        text = self._found[index].text
        self._taken = f"{before}{text}{behind}" if self._many else text
        self.value = self._taken
        self.cursor_position = len(before) + len(text)
        self.close()

    def on_input_changed(self) -> None:
        if self.has_focus and self.value != self._taken:
            self.open()

    def on_focus(self) -> None:
        if not self.value and not self.quiet:
            self.open()
        self.quiet = False

    def on_blur(self) -> None:
        """Turn a partly typed text into the highlighted choice."""
        highlighted = self.choices.highlighted
        if self._only and self.choices.display and highlighted is not None:
            self.take(highlighted)
        self.close()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open()

    def action_walk(self, by: int) -> None:
        """Move to the next or previous choice; past the ends, leave the key to the form."""
        rows, at = self.choices, self.choices.highlighted
        to = by - 1 if at is None and by > 0 else (-1 if at is None else at + by)
        if self._searched and rows.display and self._found:
            to = max(0, min(to, len(self._found) - 1, LISTED - 1))
        typed = self._many and [suggestion.text for suggestion in self._found] == [self._word()]  # no choice is left
        if not rows.display or typed or to < -1 or to >= min(len(self._found), LISTED) or (at is None and to < 0):
            self.close()
            raise SkipAction
        rows.highlighted = to if to >= 0 else None

    def action_close(self) -> None:
        """Close the list; the form handles the key if it is closed."""
        if not self.choices.display:
            raise SkipAction
        self.close()

    async def action_submit(self) -> None:
        """Take the highlighted choice, even if it is already typed; submit without one."""
        highlighted = self.choices.highlighted
        if self.choices.display and highlighted is not None:
            self.take(highlighted)
            if not self.alone:
                return
        self.close()
        await super().action_submit()

    def _parts(self) -> tuple[str, str, str]:
        """Returns the text before the name under the cursor, that name, and the text after it."""
        if not self._many:
            return "", self.value, ""
        at = self.cursor_position
        start = self.value.rfind(",", 0, at) + 1
        start += len(self.value[start:at]) - len(self.value[start:at].lstrip())
        end = self.value.find(",", at)
        end = len(self.value) if end < 0 else end
        return self.value[:start], self.value[start:end], self.value[end:]

    def _word(self) -> str:
        return self._parts()[1].strip()


class Combobox(Vertical):
    """The line with its list."""

    DEFAULT_CSS = "Combobox { height: 1; width: 1fr; }"

    def __init__(self, line: ChoiceInput) -> None:
        super().__init__()
        self._line = line

    def compose(self) -> ComposeResult:
        yield self._line
        yield self._line.choices

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the clicked choice."""
        event.stop()
        self._line.take(event.option_index)
        self._line.focus()


def choice(options: Sequence[str], value: str, id: str) -> Picker | Combobox:
    """Returns a Picker for a few options, a Combobox for many."""
    if len(options) <= PICKED:
        return Picker(options, value, id=id)
    every = [Suggestion(option) for option in options]
    return Combobox(ChoiceInput(value, every, only=True, many=False, placeholder="type to search", id=id))
