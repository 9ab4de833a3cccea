"""Footer: the keys of the open page, in the order of the action table, as many as fit. They can be clicked."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.actions import Action, key_text
from tui.text import content

ALWAYS_SHOWN = ("app.help", "app.leave")
"""The actions that are always shown, at the right."""


class Footer(Widget):
    """One line of keys."""

    DEFAULT_CSS = "Footer { height: 1; background: $panel; color: $foreground; }"

    class Clicked(Message):
        """Posted when an action was clicked."""

        def __init__(self, action: Action) -> None:
            self.action = action
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.actions: Sequence[Action] = ()

    def render(self) -> Content:
        shown, last = fit_actions(self.actions, self.size.width), _last(self.actions)
        parts = [part for action in shown for part in _parts(action)]
        ends = [part for action in last for part in _parts(action)]
        return content(*parts, " " * max(0, self.size.width - _width(shown) - _width(last)), *ends)

    def on_click(self, event: events.Click) -> None:
        if (action := action_at(self.actions, event.x, self.size.width)) is not None:
            self.post_message(self.Clicked(action))


def fit_actions(actions: Sequence[Action], width: int) -> list[Action]:
    """Returns the first actions for the footer, as many as fit beside those always shown."""
    shown: list[Action] = []
    last = _last(actions)
    for action in actions:
        if action.shown and action.keys and action not in last and _width([*shown, action, *last]) <= width:
            shown.append(action)
    return shown


def action_at(actions: Sequence[Action], x: int, width: int) -> Action | None:
    """Returns the action at this column."""
    at = 0
    for action in fit_actions(actions, width):
        if at <= x < (at := at + _width([action])):
            return action
    last = _last(actions)
    at = width - _width(last)
    for action in last:
        if at <= x < (at := at + _width([action])):
            return action
    return None


def _last(actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.id in ALWAYS_SHOWN and action.keys]


def _parts(action: Action) -> tuple[tuple[str, str], tuple[str, str]]:
    return (f" {key_text(action)}", "key"), (f" {action.label} ", "")


def _width(actions: Sequence[Action]) -> int:
    return sum(len(key_text(action)) + len(action.label) + 3 for action in actions)
