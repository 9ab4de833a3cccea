"""Keymap: the keys of the actions: the owner's own, otherwise from the table of actions.

Keys that move the cursor, open a page or open the palette cannot be given to an action, so that every list stays
usable. Unknown names, and keys that would have two meanings on a page, are reported; these actions keep their keys.
"""

import difflib
import string
from collections.abc import Collection, Iterator, Mapping

import msgspec
from textual.keys import Keys

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from tui.actions import ACTIONS, KEY_NAMES, Action, actions_in, key_name, key_text, shown_key

NAMED_KEYS = frozenset(key.value for key in Keys if key.value.isalnum())
ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown"}
RESERVED_KEYS = frozenset(
    [
        *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab", "enter", "colon"),
        *("j", "k", "g", "G", *(f"ctrl+{letter}" for letter in "bcfijmp"), *map(str, range(1, 10))),
    ]
)
"""Keys that no action can have: they move the cursor, open pages or the palette, or stand for other keys."""

EXAMPLES = "a letter, a sign such as !, space, f1 to f12, ctrl+x"

_BY_ID = {action.id: action for action in ACTIONS}


class Keymap:
    """The keys of all actions."""

    def __init__(self, changed: Mapping[str, str] | None = None) -> None:
        """``changed``: the keys that differ from the table, in Textual's names, by the ids of actions."""
        self.changed = dict(changed or {})

    def actions_in(self, *scopes: str) -> Iterator[Action]:
        return map(self.action, actions_in(*scopes))

    def action(self, action: Action) -> Action:
        keys = self.changed.get(action.id)
        return action if keys is None else msgspec.structs.replace(action, keys=keys)

    def key(self, id_: str) -> str:
        """Returns a key as messages name it: ``u``; for an action without one, its entry in the palette: ``: Undo``."""
        action = self.action(_BY_ID[id_])
        return key_text(action) if action.keys else f": {action.label}"

    def bindings(self) -> dict[str, str]:
        """Returns the keymap for Textual, which cannot remove keys: an action without one gets the name of no key."""
        return {id_: keys or f"none:{id_}" for id_, keys in self.changed.items()}


def read_keymap(own_keys: Mapping[str, str], pages: Mapping[str, Collection[Action]]) -> tuple[Keymap, list[str]]:
    """Returns the keymap with the owner's keys, and sentences about wrong ones. ``pages``: the actions of each page."""
    changed, problems = {}, []
    for id_, text in own_keys.items():
        try:
            if id_ in _BY_ID:
                changed[id_] = parse_keys(text)
            else:
                problems.append(f"unknown action '{plain(id_, 60)}'; {_suggestion(id_, _BY_ID)}")
        except BadRequest as error:
            problems.append(f"{id_}: {error.message}")
    while conflict := _conflict(changed, pages):
        id_, sentence = conflict
        del changed[id_]
        problems.append(sentence)
    return Keymap(changed), problems


def parse_keys(text: str) -> str:
    """Returns keys that the owner wrote, separated by blanks or commas, in Textual's names. Raises BadRequest."""
    if text.strip().lower() in ("", "none"):
        return ""
    keys: list[str] = []
    for word in text.split() if text.strip() == "," else text.replace(",", " ").split():
        key = _textual_name(word)
        if key in RESERVED_KEYS:
            raise BadRequest(f"'{plain(word, 20)}' cannot be used: it moves in lists, opens a page or the palette")
        keys.append(key)
    return ",".join(dict.fromkeys(keys))


def _textual_name(word: str) -> str:
    """Returns Textual's name of one key: ``p``, ``/``, ``^x``, ``ctrl+x``, ``f5``, ``space``. Raises BadRequest."""
    if len(word) == 1:
        return _character_key(word)
    *modifiers, last = word.removeprefix("^").split("+")
    modifiers = [*(["ctrl"] if word.startswith("^") else []), *(modifier.lower() for modifier in modifiers)]
    base = ALIASES.get(last.lower(), last.lower())
    if base in NAMED_KEYS or base in KEY_NAMES:
        key = base
    elif len(last) == 1:
        if modifiers == ["shift"]:
            key, modifiers = _character_key(last.upper()), []
        else:
            key = _character_key(last.lower() if modifiers else last)
    else:
        raise BadRequest(f"unknown key '{plain(word, 20)}'; {_suggestion(base, NAMED_KEYS)}")
    if any(modifier not in ("ctrl", "shift", "alt") for modifier in modifiers):
        raise BadRequest(f"unknown key '{plain(word, 20)}'; use {EXAMPLES}")
    return "+".join([*modifiers, key])


def _character_key(sign: str) -> str:
    if not (name := key_name(sign)):
        raise BadRequest(f"unknown key '{plain(sign)}'; use {EXAMPLES}")
    return name


def _conflict(changed: Mapping[str, str], pages: Mapping[str, Collection[Action]]) -> tuple[str, str] | None:
    """Returns the id of an action whose changed key has another meaning on a page, and a sentence about it; or None."""
    for page, actions in pages.items():
        owners: dict[str, list[str]] = {}
        for action in actions:
            for key in filter(None, changed.get(action.id, action.keys).split(",")):
                owners.setdefault(key, []).append(action.id)
        for key, ids in owners.items():
            changed_ids = [id_ for id_ in ids if id_ in changed]
            if len(ids) > 1 and changed_ids:
                id_ = changed_ids[-1]
                other = next(other for other in ids if other != id_)
                free = [sign for sign in string.ascii_letters if sign not in RESERVED_KEYS and sign not in owners]
                return id_, (
                    f"{id_}: '{shown_key(key)}' is already {other} on page {page}; give {other} another key too, "
                    f"or use a free one: {', '.join(free[:6])}"
                )
    return None


def _suggestion(word: str, names: Collection[str]) -> str:
    if similar := difflib.get_close_matches(word, names, n=3, cutoff=0.6):
        return f"did you mean {', '.join(similar)}?"
    scope = word.partition(".")[0]
    if same_scope := [name for name in names if name.startswith(f"{scope}.")][:8]:
        return f"use one of {', '.join(same_scope)}"
    return f"use {EXAMPLES}" if names is NAMED_KEYS else "see docs/reference/keys.md"
