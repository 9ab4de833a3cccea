"""Text: makes strings from outside safe for terminals, logs and shells."""

import re
import shlex
import unicodedata
from collections.abc import Mapping

_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""The Unicode categories of characters that move cursors, reorder text or start escape sequences."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
REFERENCE = "env:"
"""The prefix of the name of an environment variable that is used instead of a secret."""

_BARE_KEY = re.compile(r"""(["']?)(?:Bearer\s+)?(.*)\1""", re.IGNORECASE)

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The starts of cells that a spreadsheet reads as a formula, wide forms included."""


def plain(text: str, limit: int = 200) -> str:
    """Returns the text on one line of at most ``limit`` characters, without control, format and private characters.

    A shortened text ends in an ellipsis. Only four combining marks in a row are kept, so they cannot reach other lines.
    """
    text = text[: limit + 1]  # there may be megabytes
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"
    chars: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > 4:
            continue
        chars.append(REPLACEMENT if unicodedata.category(char) in _FORBIDDEN else char)
    if len(text) > limit:
        return "".join(chars[: max(0, limit - 1)]) + "…"
    return "".join(chars)


def spreadsheet_text(text: str) -> str:
    """Returns a harmless text for a cell of CSV, with an apostrophe before what looks like a formula."""
    shown = plain(text, limit=len(text) + 1)
    return f"'{shown}" if shown[:1] in _FORMULA_STARTS else shown


def word(name: str) -> str:
    """Returns a name for a command that is copied into a shell, quoted if needed."""
    return shlex.quote(plain(name, 1_000))


def bare_key(text: str) -> str:
    """Returns a key without the quotes and the word "Bearer" that were copied with it."""
    match = _BARE_KEY.fullmatch(text)
    return match[2] if match is not None else text


def setting_value(value: str, environ: Mapping[str, str]) -> str:
    """Returns a value, or the variable that it refers to, without blanks around it; empty if that is not set."""
    return (environ.get(value.removeprefix(REFERENCE), "") if value.startswith(REFERENCE) else value).strip()


def mask(secret: str) -> str:
    """Returns what may be shown of a secret: a reference as it is, else the last four characters of a long one."""
    if not secret or secret.startswith(REFERENCE):
        return plain(secret)
    return "…" + plain(secret[-4:]) if len(secret) >= 16 else "…"
