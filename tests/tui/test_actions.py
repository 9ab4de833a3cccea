from collections import Counter

from textual.binding import Binding

from tui.actions import ACTIONS, PAGES, actions_in, bindings, key_text
from tui.keymap import Keymap
from tui.pages.base import page_class


def test_every_action_has_one_name() -> None:
    assert Counter(action.id for action in ACTIONS).most_common(1)[0][1] == 1


def test_no_key_means_two_things_in_one_place() -> None:
    for page in PAGES:
        actions = [*actions_in("app"), *page_class(page.id).actions(Keymap())]
        counted = Counter(key for action in actions for key in action.keys.split(",") if key)
        assert [(page.id, key) for key, count in counted.items() if count > 1] == []


def test_nothing_destructive_is_on_ctrl() -> None:
    on_ctrl = {action.id for action in ACTIONS if "ctrl+" in action.keys}
    assert on_ctrl == {"app.suspend", "app.leave"}


def test_no_key_is_one_that_terminals_eat() -> None:
    found = [key for action in ACTIONS for key in action.keys.split(",")]
    eaten = ("alt+", "ctrl+enter", "ctrl+shift", "ctrl+s")
    assert [key for key in found if key.startswith(eaten) or (key[:1] == "f" and key[1:].isdigit())] == []


def test_every_action_says_what_it_does() -> None:
    assert [action.id for action in ACTIONS if not (action.help and action.label)] == []


def test_bindings_are_made_from_the_table() -> None:
    made = [one for one in bindings("live") if isinstance(one, Binding)]
    assert ("space", "act('pause')", "live.pause") in [(one.key, one.action, one.id) for one in made]


def test_bindings_can_be_limited_to_verbs() -> None:
    made = [one for one in bindings("entity", verbs=frozenset({"new"})) if isinstance(one, Binding)]
    assert [one.id for one in made] == ["entity.new"]


def test_keys_are_written_as_people_know_them() -> None:
    written = {action.id: key_text(action) for action in ACTIONS}
    assert (written["list.filter"], written["app.help"], written["app.suspend"]) == ("/", "?", "^z")
