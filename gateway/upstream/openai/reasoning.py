"""Reasoning that an upstream wants back: DeepSeek and Moonshot refuse a tool call that returns without it.

They answer with ``reasoning_content`` and expect it in that assistant message again, as long as the conversation lasts.
Clients drop fields that are not OpenAI's. So the reasoning before tool calls is kept here and put back by the call: in
memory only, bounded, for each token apart, so that nobody gets another's. An id alone does not tell a call, because
Moonshot counts them in each conversation (``functions.read:0``); its name and arguments belong to it.

Where the reasoning is lost, or there was none, the field is sent empty, which both accept. The event loop remembers and
forgets; another thread may recall at any moment, so no step may depend on the one before.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    ReasoningPiece,
    ToolCallBegan,
)
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.domain.rawjson import Fields
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.translate.tool_names import Signatures, call_ids

ENTRIES = 2048
"""Calls of one token."""
SIZE = 4 << 20
"""Bytes that one token may keep."""
TOTAL = 32 << 20
"""Bytes of all. The token that has not called for longest is forgotten first."""
MOST_IDS = 65_536
"""Calls whose reasoning is held for."""

_EMPTY = msgspec.Raw(b'""')
_ASSISTANT = b'"assistant"'


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


_CALLS = msgspec.json.Decoder(list[_Call])


class ReasoningMemory:
    """The reasoning before the tool calls of each token."""

    def __init__(self, entries: int = ENTRIES, size: int = SIZE, total: int = TOTAL) -> None:
        self._entries, self._size, self._total = entries, size, total
        self._owners: OrderedDict[str, Signatures] = OrderedDict()
        self._longest: OrderedDict[str, int] = OrderedDict()
        """Bytes of the longest, by the call's id alone."""

    def remember(self, owner: str, call: "CallKey", reasoning: bytes) -> None:
        """Keep it as the JSON string that it is; without an owner nothing is kept."""
        if not owner:
            return
        kept = self._owners.get(owner)
        if kept is None:
            kept = self._owners[owner] = Signatures(self._entries, self._size)
        self._owners.move_to_end(owner)
        kept.remember(call.digest, reasoning)
        self._longest[call.id] = max(len(reasoning), self._longest.pop(call.id, 0))
        while len(self._longest) > MOST_IDS:
            self._longest.popitem(last=False)
        while len(self._owners) > 1 and sum(one.size for one in self._owners.values()) > self._total:
            self._owners.popitem(last=False)

    def recall(self, owner: str, call: "CallKey") -> bytes:
        """The JSON string; empty if unknown. What is not held for is not put back."""
        kept = self._owners.get(owner)
        found = b"" if kept is None else kept.recall(call.digest)
        return found if len(found) <= self._longest.get(call.id, 0) else b""

    def tokens_for(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """Input tokens of what is kept for the calls in a request, at most: as often as a call is in it."""
        if not self._longest:
            return 0
        size = sum(self._longest.get(call_id, 0) for call_id in call_ids(fields))
        return -(-size // BOUND_BYTES_PER_TOKEN)


def put_back(fields: Fields, owner: str, memory: ReasoningMemory) -> None:
    """Give the assistant messages of a request their reasoning again, if there are tool calls in the conversation."""
    messages = _messages(fields)
    if messages is None or not any(_keys(message) for message in messages):
        return
    for message in filter(_lacks_reasoning, messages):
        known = filter(None, (memory.recall(owner, key) for key in _keys(message)))
        message["reasoning_content"] = msgspec.Raw(next(known, bytes(_EMPTY)))
    fields["messages"] = rawjson.raw(messages)


def _messages(fields: Mapping[str, msgspec.Raw]) -> list[Fields] | None:
    try:
        return rawjson.objects(fields.get("messages", rawjson.NULL))
    except ValueError:  # not a list of objects: the upstream will say so
        return None


def _lacks_reasoning(message: Fields) -> bool:
    given = message.get("reasoning_content", rawjson.NULL)
    lacks = rawjson.is_null(given) or given == _EMPTY
    return lacks and bytes(message.get("role", rawjson.NULL)) == _ASSISTANT


class CallKey(NamedTuple):
    """What a call is known by."""

    id: str
    digest: str
    """Of the id, the name and the arguments, however its client writes JSON."""


def _keys(message: Fields) -> list[CallKey]:
    """What the calls in a message are known by."""
    found = message.get("tool_calls", rawjson.NULL)
    try:
        return [] if rawjson.is_null(found) else [_key(call) for call in _CALLS.decode(found)]
    except (msgspec.DecodeError, RecursionError):
        return []


def _key(call: _Call) -> CallKey:
    function = call.function or _Function()
    text = function.arguments or "{}"
    with suppress(msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        text = msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()
    made = "\0".join((call.id or "", function.name or "", text))
    return CallKey(call.id or "", hashlib.sha256(made.encode("utf-8", "surrogatepass")).hexdigest())


class ReasoningNotes:
    """Gathers the reasoning and the calls of one answer, and remembers them when it ends."""

    def __init__(self, memory: ReasoningMemory, owner: str) -> None:
        self._memory = memory
        self._owner = owner
        self._reasoning: dict[int, list[str]] = {}
        """By choice."""
        self._calls: dict[tuple[int, int], tuple[ToolCallBegan, list[str]]] = {}
        """By choice and number, with the pieces of their arguments."""
        self._size = 0

    def watch(self, event: AnswerEvent) -> None:
        """One more event of the answer."""
        if isinstance(event, ReasoningPiece):
            text = rawjson.text(event.piece)
            self._size += len(text)
            if self._size <= SIZE:
                self._reasoning.setdefault(event.choice, []).append(text)
        elif isinstance(event, ToolCallBegan):
            self._calls[event.choice, event.number] = event, []
        elif isinstance(event, ArgumentsPiece):
            self._calls[event.choice, event.number][1].append(rawjson.text(event.piece))
        elif isinstance(event, AnswerFinished):
            self._keep(event.choice)

    def _keep(self, choice: int) -> None:
        """The end of a choice."""
        reasoning = "".join(self._reasoning.pop(choice, ()))
        if not reasoning or self._size > SIZE:
            return
        text = rawjson.encode(reasoning)
        for place, (began, pieces) in self._calls.items():
            if place[0] == choice:
                call = _Call(id=began.id, function=_Function(began.name, "".join(pieces)))
                self._memory.remember(self._owner, _key(call), text)


class ReasoningReader(ChatReader):
    """A reader whose answers' reasoning is remembered before the client can call again."""

    watches = True

    def __init__(self, order: Order, channel: Channel, memory: ReasoningMemory) -> None:
        super().__init__(order, channel)
        self._notes = ReasoningNotes(memory, order.owner)

    def watch(self, event: AnswerEvent) -> None:
        """See ``AnswerReader``."""
        self._notes.watch(event)
