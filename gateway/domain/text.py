"""Text from outside, escaped: the one function between foreign strings and a terminal or a log."""

import shlex
import unicodedata

_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move cursors, reorder text or start escape sequences."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
REFERENCE = "env:"
"""Begins the name of a variable of the environment that is given instead of a secret."""

_BARE = frozenset("@%+:,./-_")
"""Characters, beside letters and digits of every script, that have no meaning for a shell."""


def plain(text: str, limit: int = 200) -> str:
    """Returns the text on one line, with every control, format and private character replaced; at most ``limit``
    characters.

    A cut text ends in an ellipsis. Combining marks are kept, but at most four in a row, so that they cannot reach
    neighbouring lines.
    """
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"
    chars: list[str] = []
    marks = 0
    for char in text[: limit + 1]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > 4:
            continue
        chars.append(REPLACEMENT if unicodedata.category(char) in _FORBIDDEN else char)
    if len(text) > limit:
        return "".join(chars[: max(0, limit - 1)]) + "…"
    return "".join(chars)


def word(name: str) -> str:
    """Returns a name for a command to be copied into a shell: harmless, and quoted if needed."""
    shown = plain(name, 1_000)
    bare = shown and all(char in _BARE or char.isalnum() for char in shown)
    return shown if bare else shlex.quote(shown)


def mask(secret: str) -> str:
    """Returns what may be shown of a secret: a reference as it is, else the last four characters of a long one."""
    if not secret or secret.startswith(REFERENCE):
        return plain(secret)
    return "…" + plain(secret[-4:]) if len(secret) >= 16 else "…"
