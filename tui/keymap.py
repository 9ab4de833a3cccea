"""Keymap: which keys the actions have: those of the action table, or the owner's own.

A key that moves the cursor or opens a page or the palette keeps its meaning, so that every list stays usable. Wrong
names and keys that would have two meanings on a page are reported, and these actions keep their usual keys.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from tui.actions import ACTIONS, KEY_NAMES, Action, actions_in, key_name, key_text, shown_key

NAMED = frozenset(
    [
        *("space", "enter", "tab", "escape", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
        *("up", "down", "left", "right", *(f"f{number}" for number in range(1, 13))),
    ]
)
ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown"}
FIXED = frozenset(
    [
        *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab", "enter", "colon"),
        *("j", "k", "g", "G", *(f"ctrl+{letter}" for letter in "bcfijmp"), *map(str, range(1, 10))),
    ]
)
"""Keys that cannot be given to an action: they move, open pages or the palette, or terminals send them for
other keys."""

EXAMPLES = "a letter, a sign such as !, space, f1 to f12, ctrl+x"
NO_KEY = ("", "none")

_BY_ID = {action.id: action for action in ACTIONS}


class Keymap:
    """The keys of all actions."""

    def __init__(self, changed: Mapping[str, str] | None = None) -> None:
        """``changed``: the keys that differ from the table's, in Textual's names, by the ids of actions."""
        self.changed = dict(changed or {})

    def actions_in(self, *scopes: str) -> Iterator[Action]:
        """Returns the actions of some scopes, with their keys."""
        return map(self.action, actions_in(*scopes))

    def action(self, action: Action) -> Action:
        """Returns the action with its keys."""
        keys = self.changed.get(action.id)
        return action if keys is None else msgspec.structs.replace(action, keys=keys)

    def key(self, id_: str) -> str:
        """Returns the key of an action as sentences name it: ``u``; an action without a key is run from the palette:
        ``: Undo``.
        """
        action = self.action(_BY_ID[id_])
        return key_text(action) if action.keys else f": {action.label}"

    def bindings(self) -> dict[str, str]:
        """Returns the bindings that Textual has to change. It cannot remove a key, so an action without one gets a name
        that no key has.
        """
        return {id_: keys or f"none:{id_}" for id_, keys in self.changed.items()}


def read_keymap(wanted: Mapping[str, str], pages: Mapping[str, Collection[Action]]) -> tuple[Keymap, list[str]]:
    """Returns the keymap for the wanted keys, and sentences about those that cannot be given.

    ``pages``: the names of the pages, and all actions that can be run there.
    """
    known = _BY_ID
    changed, problems = {}, []
    for id_, text in wanted.items():
        try:
            if id_ in known:
                changed[id_] = keys_of(text)
            else:
                problems.append(f"unknown action '{plain(id_, 60)}'; {_similar(id_, known)}")
        except BadRequest as error:
            problems.append(f"{id_}: {error.message}")
    while conflict := _conflict(changed, pages):
        id_, sentence = conflict
        del changed[id_]
        problems.append(sentence)
    return Keymap(changed), problems


def keys_of(text: str) -> str:
    """Returns keys, written by hand and separated by blanks or commas, in Textual's names. Raises BadRequest."""
    if text.strip().lower() in NO_KEY:
        return ""
    words = text.split() if text.strip() == "," else text.replace(",", " ").split()
    return ",".join(dict.fromkeys(key_of(word) for word in words))


def key_of(word: str) -> str:
    """Returns Textual's name of one key: ``p``, ``/``, ``^x``, ``ctrl+x``, ``f5``, ``space``. Raises BadRequest."""
    key = _spell(word)
    if key in FIXED:
        raise BadRequest(f"'{plain(word, 20)}' cannot be used: it moves in lists, opens a page or the palette")
    return key


def _spell(word: str) -> str:
    if len(word) == 1:
        return _character(word)
    *modifiers, last = word.removeprefix("^").split("+") if word != "+" else [word]
    modifiers = [*(["ctrl"] if word.startswith("^") else []), *(modifier.lower() for modifier in modifiers)]
    base = ALIASES.get(last.lower(), last.lower())
    if base in NAMED or base in KEY_NAMES:
        key = base
    elif len(last) == 1:
        key = _character(last.upper() if modifiers == ["shift"] else last.lower() if modifiers else last)
        modifiers = [] if modifiers == ["shift"] else modifiers
    else:
        raise BadRequest(f"unknown key '{plain(word, 20)}'; {_similar(base, NAMED)}")
    if any(modifier not in ("ctrl", "shift", "alt") for modifier in modifiers):
        raise BadRequest(f"unknown key '{plain(word, 20)}'; use {EXAMPLES}")
    return "+".join([*modifiers, key])


def _character(sign: str) -> str:
    if not (name := key_name(sign)):
        raise BadRequest(f"unknown key '{plain(sign)}'; use {EXAMPLES}")
    return name


def _conflict(changed: Mapping[str, str], pages: Mapping[str, Collection[Action]]) -> tuple[str, str] | None:
    """Returns the id of an action whose own key has another meaning on the same page, and the sentence about it."""
    for page, actions in pages.items():
        owners: dict[str, list[str]] = {}
        for action in actions:
            for key in filter(None, changed.get(action.id, action.keys).split(",")):
                owners.setdefault(key, []).append(action.id)
        for key, ids in owners.items():
            own = [id_ for id_ in ids if id_ in changed]
            if len(ids) > 1 and own:
                other = next(id_ for id_ in ids if id_ != own[-1])
                free = ", ".join(_free(owners))
                return own[-1], (
                    f"{own[-1]}: '{shown_key(key)}' is already {other} on page {page}; give {other} another key too, "
                    f"or use a free one: {free}"
                )
    return None


def _free(taken: Collection[str], count: int = 6) -> Sequence[str]:
    letters = [letter for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in FIXED]
    return [letter for letter in letters if letter not in taken][:count]


def _similar(word: str, known: Collection[str]) -> str:
    """Returns the most similar names, or an example."""
    names = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    if names:
        return f"did you mean {', '.join(sorted(names, key=names.index))}?"
    scope = word.partition(".")[0]
    same = [id_ for id_ in known if id_.startswith(f"{scope}.")][:8]
    return (
        f"use one of {', '.join(same)}"
        if same
        else f"use {EXAMPLES}"
        if known is NAMED
        else "see docs/reference/keys.md"
    )
