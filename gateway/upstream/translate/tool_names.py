"""What a client calls its tools and tool calls, as another dialect accepts it, and back; and the signatures of calls.

A name that is fit stays as it is. Another one is spelled with fit letters and ends in a digest of the original, so that
two names never become one, and the same name becomes the same whatever else is in the request.

Vendors want a signature back to believe that the model really reasoned its way to a call: Gemini signs each call,
Anthropic the thinking before it, and both want to see that again in the next request. Most clients drop fields they do
not know, so signatures are kept here, by the call's id: in memory only, bounded, oldest first out. The event loop
remembers and forgets; another thread may recall at any moment, so no step may depend on the one before.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from gateway.domain import rawjson
from gateway.domain.json_text import plain_escapes
from gateway.domain.order import Order
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.upstream.translate.request import conversation_of

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


class ToolNames:
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
    """The names in the request."""
    conversation = conversation_of(order)
    return (*(tool.name for tool in conversation.tools), *conversation.called)


ENTRIES = 4096
BYTES = 16 * 1024 * 1024
"""Of all that is kept."""

_CALLS = (b'"tool_calls"', b'"tool_use"', b'"function_call"')
_ID = re.compile(rb'"(?:call_)?id"\s*:\s*("(?:[^"\\]|\\.)*")')


class Signatures:
    """What was seen of one kind, by tool call id. Each token gets only what its own calls have brought.

    ``owner`` is the id of that token: some servers count their ids, so that two tokens may have the same.
    """

    def __init__(self, entries: int = ENTRIES, size: int = BYTES) -> None:
        self._entries = entries
        self._limit = size
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._longest: dict[str, int] = {}
        """Bytes of the longest, by call id alone."""

    @property
    def size(self) -> int:
        """Bytes of all that is kept."""
        return self._size

    def remember(self, call_id: str, signature: bytes, owner: str = "") -> None:
        """Keep it; what is larger than all the room there is, is not kept."""
        key = owner, call_id
        self._size -= len(self._kept.pop(key, b""))
        if not call_id or not signature or len(signature) > self._limit:
            return
        self._longest[call_id] = max(len(signature), self._longest.get(call_id, 0))
        self._kept[key] = signature
        self._size += len(signature)
        while self._size > self._limit or len(self._kept) > self._entries:
            (_, oldest), dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)
            self._longest.pop(oldest, None)

    def recall(self, call_id: str, owner: str = "") -> bytes:
        """What belongs to the call; empty if unknown."""
        key = owner, call_id
        if key not in self._kept:
            return b""
        found = self._kept.get(key, b"")
        with suppress(KeyError):
            self._kept.move_to_end(key)
        return found if len(found) <= self._longest.get(call_id, 0) else b""  # what is not held for is not put back

    def of(self, owner: str) -> "Signatures":
        """The same for one token, whose id goes without saying."""
        return _OwnSignatures(self, owner)

    def tokens_for(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Input tokens of what is kept for the tool calls in a request, at most: as often as a call is in it."""
        if not self._kept:
            return 0
        size = sum(self._longest.get(call_id, 0) for call_id in call_ids(fields))
        return -(-size // BOUND_BYTES_PER_TOKEN)


class _OwnSignatures(Signatures):
    """What one token may see."""

    def __init__(self, all_of_them: Signatures, owner: str) -> None:
        super().__init__()
        self._all = all_of_them
        self._owner = owner

    def remember(self, call_id: str, signature: bytes, owner: str = "") -> None:
        self._all.remember(call_id, signature, owner or self._owner)

    def recall(self, call_id: str, owner: str = "") -> bytes:
        return self._all.recall(call_id, owner or self._owner)


def call_ids(fields: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    """The ids in a conversation that has tool calls, in the words of any API, each as often as it is there."""
    messages = plain_escapes(fields.get("messages", b""))
    if any(word in messages for word in _CALLS):
        for found in _ID.finditer(messages):
            call_id = rawjson.maybe(found[1])
            if isinstance(call_id, str):
                yield call_id
