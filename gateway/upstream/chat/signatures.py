"""Signatures: what vendors want back with a tool call to believe that the model really reasoned its way to it.

Gemini signs each call, Anthropic the thinking before it; both want to see that again in the next request. Most clients
drop fields they do not know, so it is kept here for them, by the call's id. Memory only, bounded, oldest first out.

The event loop remembers and forgets; another thread may recall at any moment, so no step may depend on the one before.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from gateway.domain.estimate import BOUND_BYTES_PER_TOKEN, plain_escapes
from gateway.domain.long_strings import holds
from gateway.upstream import rawjson

ENTRIES = 4096
BYTES = 16 * 1024 * 1024
"""Of all that is kept."""

_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*")')


class Signatures:
    """What was seen of one kind, by tool call id."""

    def __init__(self, entries: int = ENTRIES, size: int = BYTES) -> None:
        self._entries = entries
        self._limit = size
        self._size = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def remember(self, call_id: str, signature: bytes) -> None:
        """Keep it; what is larger than all the room there is, is not kept."""
        self._forget(call_id)
        if not call_id or not signature or len(signature) > self._limit:
            return
        self._kept[call_id] = signature
        self._size += len(signature)
        while self._size > self._limit or len(self._kept) > self._entries:
            self._size -= len(self._kept.popitem(last=False)[1])

    def recall(self, call_id: str) -> bytes:
        """What belongs to the call; empty if nothing is known."""
        found = self._kept.get(call_id, b"")
        with suppress(KeyError):
            self._kept.move_to_end(call_id)
        return found

    def tokens_for(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Input tokens of what is kept for the tool calls in a request, at most: as often as a call stands in it."""
        if not self._kept:
            return 0
        messages = plain_escapes(fields.get("messages", b""))
        if not holds(messages, b'"tool_calls"'):
            return 0
        ids = (rawjson.maybe(found[1]) for found in _ID.finditer(messages))
        size = sum(len(self._kept.get(call_id, b"")) for call_id in ids)
        return -(-size // BOUND_BYTES_PER_TOKEN)

    def _forget(self, call_id: str) -> None:
        self._size -= len(self._kept.pop(call_id, b""))
