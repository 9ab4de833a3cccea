"""Tool names: a client's names of tools and tool calls, as another dialect accepts them, and back.

A valid name stays as it is. Another one is spelled with valid letters and ends in a digest of the original, so that two
names never become one, and the same name always becomes the same.
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from gateway.domain.order import Order
from gateway.upstream.translate.request import conversation_of

DIGEST = 8
"""Hex digits at the end of a name that was changed."""
_CHANGED = re.compile(r".*_[0-9a-f]{8}", re.DOTALL)


class Spelling(msgspec.Struct, frozen=True):
    """What a dialect accepts."""

    fit: "re.Pattern[str]"
    """Matches a valid name."""
    odd: "re.Pattern[str]"
    """Matches one character that is not accepted."""
    limit: int
    """Characters."""
    first: str = ""
    """The start of a changed name, if not every character may come first."""

    def sent(self, name: str) -> str:
        """Returns the name as it is sent."""
        if self.fit.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:DIGEST]
        return (self.first + self.odd.sub("_", name))[: self.limit - DIGEST - 1] + "_" + digest


class ToolNames:
    """The client's names for the tools in an answer. Reads the request only if one may be a changed name."""

    def __init__(self, order: Order, spelling: Spelling) -> None:
        self._order = order
        self._spelling = spelling
        self._known: dict[str, str] | None = None

    def back(self, name: str) -> str:
        """Returns the client's name for a sent one; a name that was never sent stays."""
        if not _CHANGED.fullmatch(name):
            return name
        if self._known is None:
            self._known = {self._spelling.sent(own): own for own in _tool_names(self._order)}
        return self._known.get(name, name)


def _tool_names(order: Order) -> Iterable[str]:
    """Returns the names in the request."""
    conversation = conversation_of(order)
    return (*(tool.name for tool in conversation.tools), *conversation.called)
