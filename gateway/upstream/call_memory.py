"""CallMemory: keeps what vendors require back with earlier tool calls: signatures, signed thinking, reasoning.

Gemini signs each call, Anthropic signs the thinking before it, and DeepSeek and Moonshot require the reasoning itself.
Most clients drop unknown fields, so these values are kept here: in memory only, up to a limit, and separately for each
token, because the ids of some servers are just numbers. The oldest values are dropped first. The event loop and the
thread for large work add values, one at a time; they may recall one at any moment.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import msgspec

from gateway.domain import rawjson
from gateway.domain.json_text import contains, plain_escapes
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN

_CALL_WORDS = (b'"tool_calls"', b'"tool_use"', b'"function_call"')
_CALL_ID = re.compile(rb'id"(?:(?<="id")|(?<="call_id"))\s*:\s*("(?:[^"\\]|\\.)*")')
"""Matches the id of a call. It begins with a rare text, so that the search is four times as fast."""

THOUGHTS_REFUSED = re.compile(
    r"invalid `(?:signature|data)` in `|thinking\.signature: field required|thinking block must contain thinking"
    r"|must start with a thinking block|first block must be `thinking`"
    r"|assistant message cannot be (?:`thinking`|modified)"
    r"|invalid_encrypted_content|encrypted.content\W.{0,200}?\b(?:not issued|not be (?:verified|decrypted|decoded))"
    r"|was provided without its required",
    re.IGNORECASE,
)
"""Matches refusals of thoughts by Anthropic and OpenAI: they are missing, not signed, another maker's or account's, or
come after something else than before, such as a system prompt with another time."""
Recall = Callable[[str], bytes]
"""Returns what is kept for a tool call, by its id, or empty bytes."""


class CallMemory:
    """The kept values, by the ids of the token (``owner``) and of the call.

    ``key`` distinguishes calls with the same id, for upstreams that number the calls of each conversation.
    """

    def __init__(self, entries: int = 8192, size: int = 16 << 20) -> None:
        """``size``: at most this many bytes are kept."""
        self._entries = entries
        self._limit = size
        self._lock = threading.Lock()
        """Held while a value is added."""
        self._size = 0
        self._values: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        self._longest: OrderedDict[str, int] = OrderedDict()
        """The size in bytes of each call id's longest value. Holds count it, so a longer value is not recalled."""

    def remember(self, owner: str, call_id: str, value: bytes, key: str = "") -> None:
        """Keep a value in place of an earlier one, unless it is larger than the whole memory.

        Nor is it kept if the id of the call is longer than any vendor's, because ids are not counted.
        """
        place = owner, call_id, key
        with self._lock:
            self._size -= len(self._values.pop(place, b""))
            if not 0 < len(call_id) <= 1000 or not 0 < len(value) <= self._limit:
                return
            self._longest[call_id] = max(len(value), self._longest.pop(call_id, 0))
            self._values[place] = value
            self._size += len(value)
            while self._size > self._limit or len(self._values) > self._entries:
                _, dropped = self._values.popitem(last=False)
                self._size -= len(dropped)
            while len(self._longest) > 8 * self._entries:
                self._longest.popitem(last=False)

    def recall(self, owner: str, call_id: str, key: str = "") -> bytes:
        """Returns the value of the call, or empty bytes."""
        place = owner, call_id, key
        value = self._values.get(place, b"")
        with suppress(KeyError):
            self._values.move_to_end(place)
        return value if len(value) <= self._longest.get(call_id, 0) else b""

    def forget(self, owner: str, call_ids: Collection[str]) -> bool:
        """Forget the values of calls. Returns whether there were any."""
        places = [place for place in tuple(self._values) if place[0] == owner and place[1] in call_ids]
        for _, call_id, key in places:
            self.remember(owner, call_id, b"", key)
        return bool(places)

    def tokens_for(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Returns the maximum input tokens that values of a request's tool calls add, counted once for each call."""
        messages = plain_escapes(fields.get("messages", b"")) if self._values else b""
        if not any(contains(messages, word) for word in _CALL_WORDS):
            return 0
        call_ids = (rawjson.maybe(match[1]) for match in _CALL_ID.finditer(messages))
        size = sum(self._longest.get(call_id, 0) for call_id in call_ids if isinstance(call_id, str))
        return -(-size // BOUND_BYTES_PER_TOKEN)
