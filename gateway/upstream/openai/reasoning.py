"""Reasoning that an upstream wants back: DeepSeek and Moonshot refuse tool calls that come back without it.

They answer with ``reasoning_content`` and expect it in that assistant message again, for the whole conversation.
Clients drop fields that are not OpenAI's. So ``call_memory`` keeps the reasoning before each tool call, and the call
gets it back here. An id alone does not identify a call, because Moonshot numbers them in each conversation
(``functions.read:0``), so the call's name and arguments are part of the key. Without any reasoning, the field is sent
empty, which both accept.
"""

import hashlib
from contextlib import suppress

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, BlockKind, Piece, ToolCallBegan
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.openai.reader import ChatReader
from gateway.upstream.openai.request import OPENAI_TOOLS

MAX_CHARS = 4 << 20
"""At most this many characters of an answer's reasoning are kept."""

_NOTHING = (rawjson.NULL, rawjson.EMPTY_TEXT)


def restore_reasoning(fields: Fields, owner: str, memory: CallMemory) -> None:
    """Put the reasoning back into a request's assistant messages, if the conversation has tool calls."""
    messages = rawjson.maybe_objects(fields.get("messages")) or []  # without messages, the upstream will say so
    if not any(map(_keys, messages)):
        return
    bytes_left = 16 << 20  # messages may repeat one call many times
    for message in messages:
        is_answer = bytes(message.get("role", rawjson.NULL)) == b'"assistant"'
        if not is_answer or message.get("reasoning_content", rawjson.NULL) not in _NOTHING:
            continue
        reasoning = next(filter(None, (memory.recall(owner, *key) for key in _keys(message))), b"")
        if len(reasoning) > bytes_left:
            reasoning = b""
        bytes_left -= len(reasoning)
        message["reasoning_content"] = msgspec.Raw(reasoning or bytes(rawjson.EMPTY_TEXT))
    fields["messages"] = rawjson.raw(messages)


def _keys(message: Fields) -> list[tuple[str, str]]:
    calls = [call for call in rawjson.list_at(message.get("tool_calls")) if isinstance(call, dict)]
    paths = (("id",), ("function", "name"), ("function", "arguments"))
    return [_key(*(rawjson.text_at(call, *path) for path in paths)) for call in calls]


def _key(call_id: str, name: str, arguments: str) -> tuple[str, str]:
    """Returns the id of a call, and a digest of its id, name and arguments. How the JSON is written does not matter."""
    text = arguments or "{}"
    with suppress(msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        text = msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()
    identity = f"{call_id}\0{OPENAI_TOOLS.valid_name(name)}\0{text}"
    return call_id, hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


class ReasoningReader(ChatReader):
    """Reads an answer, and remembers the reasoning before its tool calls."""

    watches = True

    def __init__(self, order: Order, channel: Channel, memory: CallMemory) -> None:
        super().__init__(order, channel)
        self._memory = memory
        self._reasoning: dict[int, list[str]] = {}
        """The pieces of reasoning by choice."""
        self._calls: dict[tuple[int, int], tuple[ToolCallBegan, list[str]]] = {}
        """The calls by choice and number, with the pieces of their arguments."""
        self._size = 0
        """The number of characters of reasoning."""

    def watch(self, event: AnswerEvent) -> None:
        if isinstance(event, Piece) and event.kind is BlockKind.REASONING:
            text = rawjson.text(event.piece)
            self._size += len(text)
            if self._size <= MAX_CHARS:
                self._reasoning.setdefault(event.choice, []).append(text)
        elif isinstance(event, ToolCallBegan):
            self._calls[event.choice, event.number] = event, []
        elif isinstance(event, Piece) and event.kind is BlockKind.TOOL_CALL:
            self._calls[event.choice, event.number][1].append(rawjson.text(event.piece))
        elif isinstance(event, AnswerFinished):
            self._remember(event.choice)

    def _remember(self, choice: int) -> None:
        """Remember the reasoning of a choice that has ended, once for each of its calls, if the order has an owner."""
        reasoning = "".join(self._reasoning.pop(choice, ()))
        if not reasoning or self._size > MAX_CHARS or not self._order.owner:
            return
        text = rawjson.encode(reasoning)
        for (call_choice, _), (began, pieces) in self._calls.items():
            if call_choice == choice:
                call_id, key = _key(began.id, began.name, "".join(pieces))
                self._memory.remember(self._order.owner, call_id, text, key)
