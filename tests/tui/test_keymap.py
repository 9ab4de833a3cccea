"""Keys of the owner's own: which can be given, and the errors about those that cannot."""

import pytest

from gateway.domain.errors import BadRequest
from tests.tui.owner import press, screen, see, shown
from tui.actions import ACTIONS, key_text
from tui.app import actions_by_page
from tui.keymap import Keymap, parse_keys, read_keymap
from tui.preferences import Preferences


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("p", "p"),
        ("P", "P"),
        ("shift+p", "P"),
        ("/", "slash"),
        ("slash", "slash"),
        (",", "comma"),
        ("^x", "ctrl+x"),
        ("Ctrl+X", "ctrl+x"),
        ("f5, p", "f5,p"),
        ("p f5", "p,f5"),
        ("Esc", "escape"),
        ("shift+f5", "shift+f5"),
        ("alt+h", "alt+h"),
        ("none", ""),
        ("", ""),
    ],
)
def test_keys_are_written_as_people_do(text: str, keys: str) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["spcae", "cmd+x", "hello", "ctrl+", "ctl+x", "\x01"])
def test_an_unknown_key_names_what_is_possible(text: str) -> None:
    with pytest.raises(BadRequest, match=r"unknown key .*(did you mean|use a letter)"):
        parse_keys(text)


@pytest.mark.parametrize("text", ["j", "G", "1", "enter", "ctrl+p", ":", "^c", "tab", "ctrl+i"])
def test_keys_that_move_or_open_pages_keep_their_meaning(text: str) -> None:
    with pytest.raises(BadRequest, match="cannot be used: it moves in lists, opens a page or the palette"):
        parse_keys(text)


def read(**wanted: str) -> tuple[Keymap, list[str]]:
    return read_keymap({name.replace("__", "."): keys for name, keys in wanted.items()}, actions_by_page())


def test_an_action_gets_its_key() -> None:
    keymap, problems = read(live__pause="p", app__help="f1")
    shown = {action.id: key_text(action) for action in keymap.actions_in("live", "app")}
    assert (shown["live.pause"], shown["app.help"], problems) == ("p", "f1", [])


def test_an_unknown_action_names_the_right_ones() -> None:
    keymap, problems = read(live__puase="p", live__zzz="q")
    assert keymap.changed == {}
    assert problems[0].startswith("unknown action 'live.puase'; did you mean live.pause")
    assert "live.pause" in problems[1]


def test_a_key_that_is_taken_names_who_has_it_and_free_ones() -> None:
    keymap, (problem,) = read(live__pause="e")
    assert keymap.changed == {}
    assert problem.startswith("live.pause: 'e' is already live.errors on page Live; give live.errors another key too")
    assert "or use a free one: a, b, d" in problem


def test_two_actions_can_exchange_their_keys() -> None:
    keymap, problems = read(live__pause="e", live__errors="space")
    assert (keymap.changed, problems) == ({"live.pause": "e", "live.errors": "space"}, [])


def test_the_same_key_may_mean_something_else_on_another_page() -> None:
    assert read(live__pause="R")[1] == []


def test_a_key_for_every_page_must_be_free_on_all() -> None:
    assert "already tokens.rotate on page Tokens" in read(app__theme="R")[1][0]


@pytest.mark.parametrize("keys", ["f2", "none"])
async def test_the_new_key_acts_and_the_old_one_does_not(keys: str) -> None:
    own = Preferences(keymap=Keymap({"live.pause": parse_keys(keys), "app.help": "f1"}))
    async with shown("live", preferences=own) as (app, pilot, _):
        await see(app, pilot, "following", "space")
        assert "f1 Help" in screen(app).splitlines()[-1]
        assert "? Help" not in screen(app)
        if keys != "none":
            await press(app, pilot, keys)
            assert "following" not in screen(app)
            await see(app, pilot, "f2      Pause", "f1")


def test_all_usual_keys_could_be_written_in_the_file() -> None:
    """The example file lists them."""
    for action in ACTIONS:
        for key in filter(None, action.keys.split(",")):
            if key not in ("enter", "escape"):
                assert parse_keys(key) == key
