"""Key advice: what the server advises as commands, said as keys and pages, for who reads it in the console.

``'tollkeeper token enable ci'`` becomes ``space on page 2 (Tokens)``. The name in a command is left out: the cursor
chooses it; what a command sets stays: ``e on page 2 (Tokens): --expires 30d``. A command without a key stays as it is.
"""

import re
import shlex

from tui.actions import ACTIONS, PAGES, key_text

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
    "token rotate": ("tokens", "rotate"),
    "price set": ("models", "edit"),
    "price import": ("models", "import"),
}
"""Commands by how they begin: the page, and the verb whose key it is; none: the page shows it."""

_VERBS = {"add": "new", "edit": "edit", "enable": "toggle", "disable": "toggle", "remove": "delete"}
_SHOWN = ("list", "show")
_KEYS = {(action.scope, action.verb): key_text(action) for action in ACTIONS if action.keys}
_SHORTENED = 2
"""Words of a command that say what it does; a name may follow."""


def key_advice(text: str) -> str:
    """The text with keys instead of the commands that have one."""
    return _COMMAND.sub(_replacement, text) if "tollkeeper " in text else text


def _replacement(match: re.Match[str]) -> str:
    command = match[1] or match[2]
    try:
        words = shlex.split(command)
    except ValueError:
        return match[0]
    if words[:1] == ["why"]:
        return f"{_KEYS['list', 'why']} (Why)"
    page, verb = _place(words)
    if not page:
        return match[0]
    number = next((i for i, one in enumerate(PAGES, 1) if one.id == page), 0)
    where = f"page {number} ({PAGES[number - 1].name})" if number else ""
    key = _KEYS.get((page, verb)) or _KEYS.get(("entity", verb)) if verb else ""
    if not where or (verb and not key):
        return match[0]
    options = words[next((i for i, word in enumerate(words) if word.startswith("--")), len(words)) :]
    extra = f": {shlex.join(options)}" if options and verb in ("edit", "new") else ""
    return f"{key} on {where}{extra}" if key else where


def _place(words: list[str]) -> tuple[str, str]:
    """The page and the verb of a command; empty texts if the console has none."""
    line = " ".join(words)
    for begins, place in _PLACES.items():
        if line == begins or line.startswith(f"{begins} "):
            return place
    noun, verb = (*words, "", "")[:_SHORTENED]
    page = _PAGE_OF.get(noun, "")
    if page and verb in _SHOWN:
        return page, ""
    return (page, _VERBS[verb]) if page and verb in _VERBS else ("", "")
