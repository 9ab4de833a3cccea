"""Tones: what a piece of text means, as a style of the theme. Meaning stands in words and marks; colour repeats it."""

from textual.content import Content

TONES = {
    "ok": "$text-success",
    "bad": "$text-error",
    "warn": "$text-warning",
    "live": "bold $text-accent",
    "dim": "$muted",
    "bold": "bold",
    "key": "bold $text-accent",
    "": "",
}

Part = tuple[str, str]
"""Safe text and its tone."""


def content(*parts: Part | str | Content) -> Content:
    """Safe texts put together; tones become styles. Nothing in them is read as markup."""
    styled = ((part[0], TONES[part[1]]) if isinstance(part, tuple) else part for part in parts)
    return Content.assemble(*styled)


def lines(*rows: Content) -> Content:
    """Rows under each other."""
    return Content("\n").join(rows)
