"""Combobox: a line to type into, with the matching choices listed below it: presets, models, groups, channels.

The list opens when the line gets the focus while it is empty, when something is typed, and by a click. Down and up go
through it, enter takes the highlighted choice, escape closes it. Past its ends, down and up go to another field, unless
a choice was just searched for: then it stays highlighted until it is taken.
"""

from collections.abc import Sequence

import msgspec
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gateway.client.cells import cell
from tui.listing import row_filter
from tui.text import content, safe
from tui.widgets.dialogs import HintInput

MAX_PICKER_OPTIONS = 7
"""The maximum number of options of a Picker. With more of them, the user types."""

MAX_LISTED = 100
"""The maximum number of choices in a list. Typing narrows it."""


class Suggestion(msgspec.Struct, frozen=True):
    """A choice in the list."""

    text: str
    about: str = ""
    """A text next to it in the list, which is searched too."""


def matching_suggestions(suggestions: Sequence[Suggestion], typed: str) -> list[Suggestion]:
    """Returns the suggestions with all typed words. Those that begin with the text come first, then those with it."""
    matches = row_filter(typed)
    typed = typed.strip().casefold()
    pairs = [(choice.text.casefold(), choice) for choice in suggestions if matches(f"{choice.text} {choice.about}")]
    pairs.sort(key=lambda pair: (not pair[0].startswith(typed), typed not in pair[0]))
    return [choice for _, choice in pairs]


class ChoiceList(OptionList, can_focus=False):
    """The list of matching choices of a line, drawn over what is below the line, which keeps the focus."""

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

    def __init__(self, line: "ChoiceInput") -> None:
        super().__init__()
        self._line = line

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._line.take(event.option_index)
        self._line.focus()

    def show(self, suggestions: Sequence[Suggestion], *, first: bool) -> None:
        options = []
        for suggestion in suggestions[:MAX_LISTED]:
            name, about = safe(suggestion.text), safe(suggestion.about)
            prompt = content(cell(name, max(22, len(name))), " ", (about, "dim")) if about else content(name)
            options.append(Option(prompt))
        self.clear_options()
        self.add_options(options)
        if more := len(suggestions[MAX_LISTED:]):
            self.add_option(Option(content((f"{more} more: type to narrow", "dim")), disabled=True))
        self.highlighted = 0 if first and suggestions else None
        self.display = bool(suggestions)


class ChoiceInput(HintInput):
    """The line, whose list is mounted after it. ``only``: the value is a choice or a URL; ``many``: several names."""

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
    ) -> None:
        super().__init__(value, hint=placeholder, id=id)
        self._suggestions = suggestions
        self._only = only
        self._many = many
        self._chosen_text = value
        """The initial text, or the choice that was taken last. While the line has this text, all choices are listed."""
        self._matches: list[Suggestion] = []
        """The suggestions that are listed, and those beyond the list's end."""
        self._is_search = False
        """Whether they match a typed text, so that they are not all of the suggestions."""
        self.choices = ChoiceList(self)
        self.stays_closed = False
        """Whether the list stays closed when the line gets the focus the next time."""

    def open(self) -> None:
        """Open the list with the matches of the typed text; with all choices if nothing was typed."""
        typed = "" if self.value == self._chosen_text and not self._many else self._word()
        self._matches = matching_suggestions(self._suggestions, typed)
        self._is_search = bool(typed)
        is_url = "://" in typed  # no choice replaces it
        self.choices.show(self._matches, first=self._only and bool(typed) and not is_url)

    def offer(self, suggestions: Sequence[Suggestion]) -> None:
        """Replace the choices. If the value is a choice that is gone, it is cleared."""
        before, self._suggestions = self._suggestions, suggestions
        if self.value in {suggestion.text for suggestion in before} - {suggestion.text for suggestion in suggestions}:
            self.value = ""
        if self.choosing:
            self.open()

    @property
    def choosing(self) -> bool:
        """Returns whether the list is open, so that the user can type more or take a choice."""
        return self.has_focus and bool(self.choices.display)

    def close(self) -> None:
        if self.choices.display:
            self.choices.display = False
            self.post_message(self.Closed())

    def take(self, index: int) -> None:
        """Replace the text, or the name under the cursor, by the choice in this row of the list."""
        before, _, after = self._parts()
        text = self._matches[index].text
        self._chosen_text = f"{before}{text}{after}" if self._many else text
        self.value = self._chosen_text
        self.cursor_position = len(before) + len(text)
        self.close()

    def on_input_changed(self) -> None:
        if self.has_focus and (self.value != self._chosen_text or self.choices.display):
            self.open()

    def on_focus(self) -> None:
        if not self.value and not self.stays_closed:
            self.open()
        self.stays_closed = False

    def on_blur(self) -> None:
        """With ``only``, replace a partly typed text by the highlighted choice."""
        highlighted = self.choices.highlighted
        if self._only and self.choices.display and highlighted is not None:
            self.take(highlighted)
        self.close()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open()

    def action_walk(self, by: int) -> None:
        """Move to the next or previous choice. Past the ends, leave the key to the form."""
        rows = self.choices
        last = min(len(self._matches), MAX_LISTED) - 1
        target = by + (-1 if rows.highlighted is None else rows.highlighted)
        if self._is_search and rows.display and self._matches:
            target = max(0, min(target, last))
        is_complete = self._many and [suggestion.text for suggestion in self._matches] == [self._word()]
        if not rows.display or is_complete or not -1 <= target <= last:
            self.close()
            raise SkipAction
        rows.highlighted = target if target >= 0 else None

    def action_close(self) -> None:
        """Close the list. If it is closed, leave the key to the form."""
        if not self.choices.display:
            raise SkipAction
        self.close()

    async def action_submit(self) -> None:
        """Take the highlighted choice; submit the text if none is highlighted, or if this is the only field."""
        highlighted = self.choices.highlighted
        if self.choices.display and highlighted is not None:
            self.take(highlighted)
            if self._many or len(self.screen.query("HintInput, Picker")) > 1:
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
