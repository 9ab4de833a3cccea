"""Footer: the keys of the open page in one line, as many as fit. They can be clicked."""

from collections.abc import Sequence

from textual.content import Content
from textual.widget import Widget

from tui.actions import Action, key_text
from tui.text import content, link


class Footer(Widget):
    """One line of keys."""

    DEFAULT_CSS = "Footer { height: 1; background: $panel; color: $foreground; }"
    auto_links = False

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.actions: Sequence[Action] = ()

    def render(self) -> Content:
        shown, last = fit_actions(self.actions, self.size.width), _always_shown(self.actions)
        space = " " * max(0, self.size.width - _width(shown) - _width(last))
        return content(*map(_key_link, shown), space, *map(_key_link, last))


def fit_actions(actions: Sequence[Action], width: int) -> list[Action]:
    """Returns the first actions for the footer, as many as fit next to those that are always shown."""
    shown: list[Action] = []
    last = _always_shown(actions)
    for action in actions:
        if action.shown and action.keys and action not in last and _width([*shown, action, *last]) <= width:
            shown.append(action)
    return shown


def _always_shown(actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.id in ("app.help", "app.leave") and action.keys]


def _key_link(action: Action) -> Content:
    text = content((f" {key_text(action)}", "key"), f" {action.label} ")
    return link(text, "app.act" if action.scope == "app" else "app.act_on_page", action.verb)


def _width(actions: Sequence[Action]) -> int:
    return sum(len(key_text(action)) + len(action.label) + 3 for action in actions)
