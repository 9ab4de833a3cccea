"""What vendors want back with tool calls, by call: signatures, signed thinking, reasoning.

Vendors want it as proof that the model reasoned its way to a call: Gemini signs each call, Anthropic the thinking
before it, DeepSeek and Moonshot want the reasoning itself. Most clients drop unknown fields, so it is kept here: in
memory only, bounded, oldest first out, and separately for each token, because some servers count their ids. The event
loop remembers and forgets; another thread may recall at any moment, so no step may depend on the one before.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec

from gateway.domain import rawjson
from gateway.domain.json_text import plain_escapes
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN

_CALLS = (b'"tool_calls"', b'"tool_use"', b'"function_call"')
_ID = re.compile(rb'"(?:call_)?id"\s*:\s*("(?:[^"\\]|\\.)*")')


Recall = Callable[[str], bytes]
"""Returns what is kept of a tool call, by its id."""


class CallMemory:
    """What was seen, by the ids of token and call.

    ``key`` distinguishes calls with one id, if an upstream counts its calls in each conversation.
    """

    def __init__(self, entries: int = 8192, size: int = 16 << 20) -> None:
        """``size`` is the most bytes that are kept."""
        self._entries = entries
        self._limit = size
        self._size = 0
        self._kept: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        self._longest: OrderedDict[str, int] = OrderedDict()
        """The bytes of the longest value by call id. What was not held for is not added to a request."""

    def remember(self, owner: str, call_id: str, value: bytes, key: str = "") -> None:
        """Keep a value, unless it is larger than all the room."""
        place = owner, call_id, key
        self._size -= len(self._kept.pop(place, b""))
        if not call_id or not value or len(value) > self._limit:
            return
        self._longest[call_id] = max(len(value), self._longest.pop(call_id, 0))
        self._kept[place] = value
        self._size += len(value)
        while self._size > self._limit or len(self._kept) > self._entries:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)
        while len(self._longest) > 8 * self._entries:
            self._longest.popitem(last=False)

    def recall(self, owner: str, call_id: str, key: str = "") -> bytes:
        """Returns what belongs to the call; empty if unknown."""
        place = owner, call_id, key
        kept = self._kept.get(place, b"")
        with suppress(KeyError):
            self._kept.move_to_end(place)
        return kept if len(kept) <= self._longest.get(call_id, 0) else b""

    def tokens_for(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Returns the most input tokens kept for the tool calls in a request, each as often as it occurs."""
        if not self._kept:
            return 0
        size = sum(self._longest.get(call_id, 0) for call_id in call_ids(fields))
        return -(-size // BOUND_BYTES_PER_TOKEN)


def call_ids(fields: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    """Returns the ids of tool calls in a conversation of any API, each as often as it occurs."""
    messages = plain_escapes(fields.get("messages", b""))
    if any(word in messages for word in _CALLS):
        for match in _ID.finditer(messages):
            call_id = rawjson.maybe(match[1])
            if isinstance(call_id, str):
                yield call_id
