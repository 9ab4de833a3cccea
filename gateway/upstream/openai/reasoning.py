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

from gateway.domain.channel import Channel
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order, WholeAnswer
from gateway.upstream.framing import BLANK
from gateway.upstream.openai.stream import ChatStream
from gateway.upstream.rawjson import Fields
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
_SIGNS = (b'"reasoning_content"', b'"tool_calls"')


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _ReasonedTurn(msgspec.Struct):
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _ReasonedTurn | None = None
    message: _ReasonedTurn | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []


_ANSWER = msgspec.json.Decoder(_Answer)
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
    with suppress(msgspec.DecodeError, RecursionError):
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
        self._calls: dict[tuple[int, int], _Call] = {}
        """By choice and number."""
        self._size = 0

    def see(self, data: bytes) -> None:
        """A whole answer, or chunks of one."""
        for part in data.split(BLANK):
            if not any(sign in part for sign in _SIGNS):
                continue
            try:
                answer = _ANSWER.decode(part.removeprefix(b"data: "))
            except (msgspec.DecodeError, RecursionError):
                continue
            for choice in answer.choices:
                self._add(choice)

    def _add(self, choice: _Choice) -> None:
        said = choice.message or choice.delta or _ReasonedTurn()
        text = said.reasoning_content or ""
        self._size += len(text)
        if text and self._size <= SIZE:
            self._reasoning.setdefault(choice.index, []).append(text)
        for position, call in enumerate(said.tool_calls or ()):
            self._join((choice.index, position if call.index is None else call.index), call)
        if choice.finish_reason:
            self._keep(choice.index)

    def _join(self, place: tuple[int, int], call: _Call) -> None:
        """One more piece of a call."""
        known = self._calls.setdefault(place, _Call(function=_Function(arguments="")))
        piece, made = call.function or _Function(), known.function or _Function()
        made.name, made.arguments = made.name or piece.name, (made.arguments or "") + (piece.arguments or "")
        known.id, known.function = known.id or call.id, made

    def _keep(self, choice: int) -> None:
        """The end of a choice."""
        reasoning = "".join(self._reasoning.pop(choice, ()))
        if not reasoning or self._size > SIZE:
            return
        text = rawjson.encode(reasoning)
        for place, call in self._calls.items():
            if place[0] == choice:
                self._memory.remember(self._owner, _key(call), text)


class ReasoningStream(ChatStream):
    """A stream whose reasoning is remembered before the client can call again."""

    def __init__(self, order: Order, channel: Channel, memory: ReasoningMemory) -> None:
        super().__init__(order, channel)
        self._notes = ReasoningNotes(memory, order.owner)

    def feed(self, data: bytes) -> bytes:
        """See ``adapter.AnswerStream``."""
        out = super().feed(data)
        self._notes.see(out)
        return out

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        out = super().end()
        self._notes.see(out)
        return out


def remember_reasoning(whole: WholeAnswer, order: Order, memory: ReasoningMemory) -> WholeAnswer:
    """The answer, whose reasoning is remembered."""
    ReasoningNotes(memory, order.owner).see(whole.body)
    return whole
