"""Key advice: the server's advice, which names commands, with keys and pages instead, for readers in the console.

``'tollkeeper token enable ci'`` becomes ``space on page 2 (Tokens)``, with the keys of the current keymap. The name in
a command is left out, because the cursor selects it. Options are named as in the form: ``e on page 2 (Tokens),
"Expires": 30d``. A command without a key in the console stays as it is.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import zip_longest

from textual.dom import DOMNode

from gateway.domain.fields import ACCOUNT, CHANNEL, GROUP, TOKEN
from gateway.domain.limit_kinds import RateLimits
from gateway.domain.price_kinds import PRICE
from tui.actions import ACTIONS, PAGES
from tui.keymap import Keymap

_COMMAND = re.compile(
    r"'tollkeeper ((?:[^']|'[^']* [^']*'(?= ))+)'|(?<=; |: )tollkeeper ([a-z]+ [a-z]+(?: [^\s;,()]+)*)"
)

_PAGE_OF = {"token": "tokens", "group": "groups", "channel": "channels", "model": "models", "price": "models"}
_PLACES = {
    "account grant": ("account", "grant"),
    "account set --status": ("account", "suspend"),
    "account set": ("account", "edit"),
    "account show": ("account", ""),
    "settings set": ("settings", ""),
    "settings show": ("settings", ""),
    "status": ("doctor", ""),
    "doctor": ("doctor", ""),
    "usage list": ("live", ""),
    "usage show": ("live", ""),
    "channel resume": ("channels", "clear"),
    "channel models": ("channels", "fetch"),
    "channel test": ("channels", "test"),
    "channel key": ("channels", "keys"),
    "discover": ("channels", "discover"),
    "incident list": ("channels", "incidents"),
    "env": ("tokens", "connect"),
    "token rotate": ("tokens", "rotate"),
    "price set": ("models", "edit"),
    "price import": ("models", "import"),
}
"""The page of each command, by its first words, and the verb whose key runs it; without a verb the page shows it."""

_TABLES = {"token": TOKEN, "group": GROUP, "channel": CHANNEL, "account": ACCOUNT, "price": PRICE}
"""The fields of the forms, by the noun of the command."""

_OTHER_LABELS = {
    "channel": {"--key": ("Key", ""), "--dialect": ("Dialect", ""), "--models": ("Models", "")},
    "price": {"--like": ("Same as", "")},
}
"""Inputs of forms that these tables do not have."""

_EVERYWHERE = {
    "why": "list.why",
    "serve": "app.start",
    "stop": "app.stop",
    "undo": "app.undo",
    "redo": "app.redo",
    "history": "app.history",
}
"""Commands whose key is the same on every page. One with options may do more than the key, and stays."""

_PRESETS = "the Preset field of a channel's form"
_VERBS = {"add": "new", "edit": "edit", "enable": "toggle", "disable": "toggle", "remove": "delete"}
_SHOWN = ("list", "show")
_IDS = {action.id: action for action in ACTIONS}


def key_advice(text: str, keymap: Keymap) -> str:
    """Returns the text with keys instead of the commands that have one."""
    return _COMMAND.sub(lambda match: _replacement(match, keymap), text) if "tollkeeper " in text else text


def advice_in(node: DOMNode, text: str) -> str:
    """Returns the text with the keys of the console that a widget is in; in another app, with the usual keys."""
    session = getattr(node.app, "session", None)
    return key_advice(text, Keymap() if session is None else session.keymap)


def _replacement(match: re.Match[str], keymap: Keymap) -> str:
    try:
        words = shlex.split(match[1] or match[2])
    except ValueError:
        return match[0]
    if words[:2] == ["channel", "presets"]:
        return _PRESETS
    if id_ := _key_of_all_pages(words):
        return f"{keymap.key(id_)} ({_IDS[id_].label})"
    page, verb = _place(words)
    number = next((i for i, page_row in enumerate(PAGES, 1) if page_row.id == page), 0)
    if not number:
        return match[0]
    where = f"page {number} ({PAGES[number - 1].name})"
    if not verb:
        return where
    id_ = next(name for name in (f"{page}.{verb}", f"entity.{verb}") if name in _IDS)
    options = words[next((i for i, word in enumerate(words) if word.startswith("--")), len(words)) :]
    entries = _entries(words[0], options) if verb in ("edit", "new") else []
    return ", ".join([f"{keymap.key(id_)} on {where}", *entries])


def _entries(noun: str, options: Sequence[str]) -> list[str]:
    """Returns the fields of the form and their values, instead of options and values."""
    labels = _labels(noun)
    entries = []
    for flag, value in zip_longest(options, options[1:], fillvalue=""):
        if flag.startswith("--"):
            given = "" if value.startswith("--") else value
            label, name = labels.get(flag, ("", ""))
            text = f"{name}={given}" if name else given
            entries.append(f'"{label}": {text}'.rstrip(": ") if label else shlex.join(filter(None, (flag, given))))
    return entries


def _labels(noun: str) -> dict[str, tuple[str, str]]:
    """Returns the labels of a form's inputs by option; if one input stands for many options, also the text that each of
    them is there.
    """
    labels = dict(_OTHER_LABELS.get(noun, {}))
    for field in _TABLES.get(noun, ()):
        for option in field.kind.options(field):
            name = option.name if isinstance(field.kind, RateLimits) else ""
            labels |= dict.fromkeys(option.flags.split("/"), (field.label, name))
    return labels


def _key_of_all_pages(words: Sequence[str]) -> str:
    """Returns the id of the action; empty if no action matches."""
    first = words[0] if words else ""
    return _EVERYWHERE.get(first, "") if first == "why" or len(words) == 1 else ""


def _place(words: list[str]) -> tuple[str, str]:
    """Returns the page and the verb of a command; empty texts if the console has none."""
    line = " ".join(words)
    for begins, place in _PLACES.items():
        if line == begins or line.startswith(f"{begins} "):
            return place
    noun, verb = (*words, "", "")[:2]
    page = _PAGE_OF.get(noun, "")
    if page and verb in _SHOWN:
        return page, ""
    return (page, _VERBS[verb]) if page and verb in _VERBS else ("", "")
