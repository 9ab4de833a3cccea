"""InputText: the text in a model's ``{"input": "…"}``, while it arrives.

A custom tool is a function elsewhere, so its input comes as JSON. Clients show it as it grows, so it is read piece by
piece: escapes and pairs of surrogates may be split. Any other form is read when it is complete.
"""

import re
from enum import Enum, auto

from gateway.domain import rawjson

_OPENING = '{"input":"'
_OPENED = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PIECE = re.compile(r'(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_LONGEST = 12
"""Characters of a pair of escaped surrogates."""


class _Reading(Enum):
    """Where in the object ``InputText`` is."""

    BEFORE = auto()
    INSIDE = auto()
    BEHIND = auto()
    ODD = auto()
    """It has another form."""


class InputText:
    """The text in ``{"input": "…"}``, from pieces that are split anywhere. Any other form is read at the end."""

    def __init__(self) -> None:
        self._reading = _Reading.BEFORE
        self._rest = ""
        """What is not read yet."""

    def feed(self, piece: str) -> str:
        """Returns the text in one more piece."""
        if self._reading is _Reading.BEHIND:
            return ""
        self._rest += piece
        if self._reading is _Reading.BEFORE:
            start = _OPENED.match(self._rest)
            if start is not None:
                self._reading, self._rest = _Reading.INSIDE, self._rest[start.end() :]
            elif not _OPENING.startswith("".join(self._rest.split())):
                self._reading = _Reading.ODD
        return self._more() if self._reading is _Reading.INSIDE else ""

    def end(self) -> str:
        """Returns the text that only the end completes."""
        rest, self._rest = self._rest, ""
        if self._reading is _Reading.INSIDE and len(rest) > _LONGEST:  # after an invalid escape
            return rest.rstrip().removesuffix("}").rstrip().removesuffix('"')
        if self._reading is not _Reading.ODD:
            return ""
        found = rawjson.maybe(rest.encode("utf-8", "surrogatepass"))
        if isinstance(found, dict):
            texts = [found.get("input"), *found.values()]
            return next((text for text in texts if isinstance(text, str)), rest)
        return found if isinstance(found, str) else rest

    def _more(self) -> str:
        """Read up to the end of the text, or to an incomplete escape."""
        found = _PIECE.match(self._rest)
        end = found.end() if found is not None else 0
        if self._rest[end : end + 1] == '"':
            text, self._rest, self._reading = self._rest[:end], "", _Reading.BEHIND
            return _unescape(text)
        if (high := _HIGH.search(self._rest, 0, end)) is not None:
            end = high.start()
        text, self._rest = self._rest[:end], self._rest[end:]
        return _unescape(text)


def _unescape(text: str) -> str:
    if "\\" not in text and text.isprintable():
        return text
    found = rawjson.maybe(b'"' + text.encode("utf-8", "surrogatepass") + b'"')
    return found if isinstance(found, str) else text
