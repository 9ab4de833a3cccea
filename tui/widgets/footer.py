"""Footer: the keys of the open page, in the order of the action table, as many as fit. They can be clicked."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.actions import Action, actions_in, key_text
from tui.text import content

ALWAYS_SHOWN = tuple(action for action in actions_in("app") if action.verb in ("help", "leave"))
"""Always shown, at the right."""


class Footer(Widget):
    """One line of keys."""

    DEFAULT_CSS = "Footer { height: 1; background: $panel; color: $foreground; }"

    class Clicked(Message):
        """An action was clicked."""

        def __init__(self, action: Action) -> None:
            self.action = action
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.actions: Sequence[Action] = ()

    def render(self) -> Content:
        shown = fit_actions(self.actions, self.size.width)
        last = _width(ALWAYS_SHOWN)
        parts = [part for action in shown for part in _parts(action)]
        ends = [part for action in ALWAYS_SHOWN for part in _parts(action)]
        return content(*parts, " " * max(0, self.size.width - _width(shown) - last), *ends)

    def on_click(self, event: events.Click) -> None:
        if (action := action_at(self.actions, event.x, self.size.width)) is not None:
            self.post_message(self.Clicked(action))


def fit_actions(actions: Sequence[Action], width: int) -> list[Action]:
    """The first actions for the footer, as many as fit beside those always shown."""
    shown: list[Action] = []
    for action in actions:
        if (
            action.shown
            and action.keys
            and action not in ALWAYS_SHOWN
            and _width([*shown, action, *ALWAYS_SHOWN]) <= width
        ):
            shown.append(action)
    return shown


def action_at(actions: Sequence[Action], x: int, width: int) -> Action | None:
    """The action at this column."""
    shown = fit_actions(actions, width)
    at = 0
    for action in shown:
        if at <= x < (at := at + _width([action])):
            return action
    at = width - _width(ALWAYS_SHOWN)
    for action in ALWAYS_SHOWN:
        if at <= x < (at := at + _width([action])):
            return action
    return None


def _parts(action: Action) -> tuple[tuple[str, str], tuple[str, str]]:
    return (f" {key_text(action)}", "key"), (f" {action.label} ", "")


def _width(actions: Sequence[Action]) -> int:
    return sum(len(key_text(action)) + len(action.label) + 3 for action in actions)
