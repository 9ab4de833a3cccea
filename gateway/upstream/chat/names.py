"""Names: what a client calls its tools and calls, as another dialect accepts it, and back again.

A name that is fit stays as it is. Another one is spelled with fit letters and ends in a digest of the original, so that
two names never become one, and the same name becomes the same whatever else is in the request.
"""

import hashlib
import re
from collections.abc import Iterable

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream.adapter import Order
from gateway.upstream.chat.request import Request, read_request

DIGEST = 8
"""Hex digits at the end of a name that was changed."""
_CHANGED = re.compile(r".*_[0-9a-f]{8}", re.DOTALL)


class Spelling(msgspec.Struct, frozen=True):
    """What a dialect accepts."""

    fit: "re.Pattern[str]"
    """The whole name."""
    odd: "re.Pattern[str]"
    """One character that is not accepted."""
    limit: int
    """Characters."""
    first: str = ""
    """What a changed name begins with, where not every character may come first."""

    def sent(self, name: str) -> str:
        """The name as it is sent."""
        if self.fit.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:DIGEST]
        return (self.first + self.odd.sub("_", name))[: self.limit - DIGEST - 1] + "_" + digest


class Names:
    """The client's names for the tools an answer names. Looks into the request only if one may be a changed one."""

    def __init__(self, order: Order, spelling: Spelling) -> None:
        self._order = order
        self._spelling = spelling
        self._known: dict[str, str] | None = None

    def back(self, name: str) -> str:
        """The client's name for one that was sent; one that was never sent stays as it is."""
        if not _CHANGED.fullmatch(name):
            return name
        if self._known is None:
            self._known = {self._spelling.sent(own): own for own in _tool_names(self._order)}
        return self._known.get(name, name)


def _tool_names(order: Order) -> Iterable[str]:
    """The names in the request; it was read before, so it can be read."""
    try:
        request = read_request(order.fields)
    except BadRequest:
        return ()
    return (*defined(request), *called(request))


def defined(request: Request) -> list[str]:
    """Names of the functions that may be called."""
    tools = [tool.function.name for tool in request.tools or () if tool.function is not None]
    return tools + [function.name for function in request.functions or ()]


def called(request: Request) -> list[str]:
    """Names of the functions that were called in earlier turns, each once."""
    calls = [call.function for message in request.messages for call in message.tool_calls or ()]
    legacy = [message.function_call for message in request.messages]
    return list(dict.fromkeys(function.name for function in (*calls, *legacy) if function is not None))
