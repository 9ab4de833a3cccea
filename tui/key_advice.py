"""Key advice: replaces the commands in the server's messages by the keys and pages of the console.

``'tollkeeper token enable ci'`` becomes ``space on page 2 (Tokens)``, with the keys of the current keymap. The name in
a command is dropped, because the cursor selects it. Options are named as in the form: ``e on page 2 (Tokens),
"Expires": 30d``. A command that the console has no key for stays as it is.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile, takewhile, zip_longest

from textual.dom import DOMNode

from gateway.domain.fields import FIELDS
from gateway.domain.limit_kinds import RateLimits
from tui.actions import ACTIONS, PAGE_IDS, PAGES
from tui.keymap import Keymap

_COMMAND = re.compile(
    r"""
    'tollkeeper (?P<quoted> (?: \ (?: [^\s']+ | '[^']*' (?: "'"'[^']*' )* ) )+ )'
    | (?<= ;\  | :\  ) tollkeeper\ (?P<bare> [a-z]+\ [a-z]+ (?: \ [^\s;,()]+ )* )
    """,
    re.VERBOSE,
)
"""Matches a command in a message: in quotes, or without them after a semicolon or a colon.

A name with a space or a symbol has quotes of its own: ``'tollkeeper token edit 'my token' --rpm 3'``.
"""

_NOUN_PAGES = {"token": "tokens", "group": "groups", "channel": "channels", "model": "models", "price": "models"}
_ENTITY_VERBS = {"list": "", "show": "", "add": "new", "edit": "edit", "remove": "delete"}
_ENTITY_VERBS |= dict.fromkeys(("enable", "disable"), "toggle")
"""The verbs of commands, with the verbs of the console's actions; empty if the page shows what the command prints."""
_ACTION_BY_ID = {action.id: action for action in ACTIONS}

_ACTION_BY_COMMAND = {
    " ".join(takewhile(str.islower, action.command.partition(" --")[0].split())): action  # without placeholders
    for action in reversed(ACTIONS)  # of several with the same command, the first
    if action.command and action.scope not in ("live", "usage", "entity")
}
_PLACES = {
    "account set --status": ("account", "suspend"),
    **{
        command: (action.scope, action.verb)
        for command, action in _ACTION_BY_COMMAND.items()
        if action.scope in PAGE_IDS
    },
    **dict.fromkeys(("usage list", "usage show"), ("live", "")),
    **dict.fromkeys(("status", "doctor"), ("doctor", "")),
    "account show": ("account", ""),
    "settings show": ("settings", ""),
    **{f"{noun} {verb}": (page, key) for noun, page in _NOUN_PAGES.items() for verb, key in _ENTITY_VERBS.items()},
}
"""The page and verb of commands, by first words; without a verb, the page shows what the command prints."""

_OTHER_LABELS = {
    "channel": {"--key": "Key", "--dialect": "Dialect", "--models": "Models"},
    "price": {"--like": "Same as"},
}
"""The labels of the inputs that are not fields in these tables, by option."""


def key_advice(text: str, keymap: Keymap) -> str:
    """Returns the text with keys instead of those commands that have one."""
    return _COMMAND.sub(lambda match: _replacement(match, keymap), text) if "tollkeeper " in text else text


def advice_in(node: DOMNode, text: str) -> str:
    """Returns the text with the keys of the console that a widget is in; in another app, with the default keys."""
    session = getattr(node.app, "session", None)
    return key_advice(text, Keymap() if session is None else session.keymap)


def _replacement(match: re.Match[str], keymap: Keymap) -> str:
    """Returns the key and page that replace a command, or else the command itself."""
    try:
        words = shlex.split(match["quoted"] or match["bare"])
    except ValueError:
        return match[0]
    if words[:2] == ["channel", "presets"]:
        return "the Preset field of a channel's form"
    first, *others = words or [""]
    action = _ACTION_BY_COMMAND.get(first)
    if action is not None and action.scope in ("app", "list") and (first == "why" or not others):
        return f"{keymap.key(action.id)} ({action.label})"  # with options, the command may do more than the action
    line = f"{' '.join(words)} "
    page, verb = next((place for start, place in _PLACES.items() if line.startswith(f"{start} ")), ("", ""))
    number = next((i for i, info in enumerate(PAGES, 1) if info.id == page), 0)
    if not number:
        return match[0]
    place = f"page {number} ({PAGES[number - 1].name})"
    if not verb:
        return place
    action_id = next(name for name in (f"{page}.{verb}", f"entity.{verb}") if name in _ACTION_BY_ID)
    options = list(dropwhile(lambda word: not word.startswith("--"), words))
    entries = _form_entries(words[0], options) if verb in ("edit", "new") else []
    return ", ".join([f"{keymap.key(action_id)} on {place}", *entries])


def _form_entries(noun: str, options: Sequence[str]) -> list[str]:
    """Returns what to enter in the form instead of these options: ``"Expires": 30d``."""
    starts = {flag: f'"{label}": ' for flag, label in _OTHER_LABELS.get(noun, {}).items()}
    for field in FIELDS.get(noun) or FIELDS.get(f"{noun}s", ()):
        for option in field.kind.options(field):
            prefix = f"{option.name}=" if isinstance(field.kind, RateLimits) else ""  # one input has all limits
            starts |= dict.fromkeys(option.flags.split("/"), f'"{field.label}": {prefix}')
    entries = []
    for flag, following in zip_longest(options, options[1:], fillvalue=""):
        if not flag.startswith("--"):
            continue
        value = "" if following.startswith("--") or following == "-" else following
        if flag in starts:
            entries.append(f"{starts[flag]}{value}".rstrip(": "))
        else:
            entries.append(shlex.join([flag, value] if value else [flag]))
    return entries
