"""Events of an answer: what renderers of further APIs are written against, read from chat completions.

Adapters write every answer as a chat completion. Here its chunks, or the whole of it, become typed events, which an
API's ``Renderer`` turns into the bytes of its clients; ``rendering`` puts that around any adapter.

The events of an answer are in this order: ``AnswerBegan``; the blocks, one after another, each of them its pieces and
``BlockEnded``; ``AnswerFinished``. A block is text, a refusal, reasoning, or one tool call. Blocks never overlap: what
comes of one while another is not complete waits (upstreams may interleave parallel tool calls). A tool call begins with
``ToolCallBegan``; reasoning may end with a ``ReasoningSeal``, or be nothing but one.

Pieces of text are JSON strings as they came, quotes included: they are put into the client's JSON as they are, so no
escape changes, lone surrogates neither. ``joined`` makes one JSON string of several.

Long: what the events are, and how they are read from chunks in any order, explain each other.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from gateway.domain.usage import Usage
from gateway.inbound.sealed import Seal, SealKind
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.framing import BLANK


class BlockKind(StrEnum):
    """What a block is."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"


class AnswerBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event."""

    id: str
    """Of the upstream, else the order's."""
    model: str
    """The public name."""
    usage: Usage | None = None
    """What the upstream reported by now; its input counts."""


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the text."""

    piece: bytes
    logprobs: bytes = b""
    """JSON array of the probabilities of its tokens, if they were requested."""


class RefusalPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the refusal."""

    piece: bytes


class ReasoningPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the reasoning."""

    piece: bytes


class ReasoningSeal(msgspec.Struct, frozen=True, gc=False):
    """What the vendor wants back with the reasoning of this block."""

    seal: Seal


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event of a tool call."""

    number: int
    """From 0, among the tool calls."""
    id: str
    name: str
    custom: bool = False
    """Its input is text, and not the JSON of arguments."""


class ArgumentsPiece(msgspec.Struct, frozen=True, gc=False):
    """More of a tool call's arguments, which are JSON in a JSON string."""

    number: int
    piece: bytes


class BlockEnded(msgspec.Struct, frozen=True, gc=False):
    """The block that was open is complete, or as complete as it will be."""

    kind: BlockKind
    number: int = 0
    """Of a tool call."""


class AnswerFinished(msgspec.Struct, frozen=True, gc=False):
    """Why the answer ended: a ``finish_reason`` of chat completions."""

    reason: str
    stop_sequence: str | None = None
    """The one that was hit, where the upstream tells."""


AnswerEvent = (
    AnswerBegan
    | TextPiece
    | RefusalPiece
    | ReasoningPiece
    | ReasoningSeal
    | ToolCallBegan
    | ArgumentsPiece
    | BlockEnded
    | AnswerFinished
)


class Renderer(Protocol):
    """Writes one streamed answer as an API's clients read it."""

    def take(self, event: AnswerEvent) -> bytes:
        """What the client gets for an event, at once; nothing of the end, which is ``tail``."""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """Totals and the terminal event. It is sent once the call is recorded."""


def join_strings(pieces: list[bytes]) -> bytes:
    """One JSON string of several."""
    return pieces[0] if len(pieces) == 1 else b'"' + b"".join([piece[1:-1] for piece in pieces]) + b'"'


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = rawjson.NULL
    input: msgspec.Raw = rawjson.NULL


class _ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    custom: _Function | None = None
    extra_content: msgspec.Raw = rawjson.NULL


class _Message(msgspec.Struct, gc=False):
    """A message, or the delta of one."""

    content: msgspec.Raw = rawjson.NULL
    reasoning_content: msgspec.Raw = rawjson.NULL
    reasoning: msgspec.Raw = rawjson.NULL
    refusal: msgspec.Raw = rawjson.NULL
    tool_calls: list[_ToolCall] | None = None
    thinking_blocks: msgspec.Raw = rawjson.NULL


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    stop_reason: msgspec.Raw = rawjson.NULL
    """vLLM's: the stop sequence that was hit."""
    logprobs: msgspec.Raw = rawjson.NULL


class _Chat(msgspec.Struct, gc=False):
    """A chunk, or a whole answer."""

    id: str = ""
    model: str = ""
    choices: list[_Choice] = []


_CHAT = msgspec.json.Decoder(_Chat)
"""Its raw values have no ``None`` beside them: msgspec would decode nothing but null."""

_NO_OTHERS = (rawjson.NULL,) * 4

_Place = tuple[BlockKind, int]


_TEXT: _Place = (BlockKind.TEXT, 0)


class BlockSequence:
    """Puts blocks one after another: of a tool call that is not complete nothing else gets past."""

    def __init__(self) -> None:
        self._open: _Place | None = None
        self._arguments: list[bytes] = []
        """Of the open call, as far as nobody has looked for their end yet."""
        self._end = rawjson.ObjectEnd()
        self._ended: set[int] = set()
        """Calls that are complete."""
        self._waiting: list[tuple[_Place, list[AnswerEvent]]] = []

    @property
    def in_text(self) -> bool:
        """Whether more text can follow at once."""
        return self._open == _TEXT and not self._waiting

    def put(self, place: _Place, event: AnswerEvent) -> Iterator[AnswerEvent]:
        """What may be rendered now that this event came."""
        if place == self._open:
            yield self._passed(event)
            if self._waiting and self._complete():
                yield from self._advance()
        elif place[0] is BlockKind.TOOL_CALL and place[1] in self._ended:
            return
        elif self._waiting or not self._complete():
            self._wait(place, event)
        else:
            yield from self.close()
            self._open = place
            yield self._passed(event)

    def close(self) -> Iterator[AnswerEvent]:
        """End the open block, if there is one."""
        if self._open is not None:
            kind, number = self._open
            self._open = None
            self._arguments.clear()
            self._end = rawjson.ObjectEnd()
            if kind is BlockKind.TOOL_CALL:
                self._ended.add(number)
            yield BlockEnded(kind, number)

    def flush(self) -> Iterator[AnswerEvent]:
        """End the open block and all that wait: nothing more will come."""
        yield from self.close()
        for place, events in self._waiting:
            self._open = place
            yield from events
            yield from self.close()
        self._waiting.clear()

    def _passed(self, event: AnswerEvent) -> AnswerEvent:
        if isinstance(event, ArgumentsPiece):
            self._arguments.append(event.piece)
        return event

    def _complete(self) -> bool:
        """Whether the open block may end here: a tool call may if its arguments are a whole object."""
        if self._open is None or self._open[0] is not BlockKind.TOOL_CALL:
            return True
        for piece in self._arguments:
            self._end.add(rawjson.text(piece))
        self._arguments.clear()
        return self._end.reached

    def _wait(self, place: _Place, event: AnswerEvent) -> None:
        calls = place[0] is BlockKind.TOOL_CALL
        for known, events in self._waiting if calls else self._waiting[-1:]:
            if known == place:
                events.append(event)
                return
        self._waiting.append((place, [event]))

    def _advance(self) -> Iterator[AnswerEvent]:
        """Render what waits, up to a call that is not complete."""
        while self._waiting and self._complete():
            yield from self.close()
            self._open, events = self._waiting.pop(0)
            for event in events:
                yield self._passed(event)


class ChatReader:
    """Reads the chunks of one answer. Of several choices the first counts."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._blocks = BlockSequence()
        self._begun = False
        self._reasoned = 0
        """Blocks of reasoning that have ended with a seal: what follows is another."""

    def read(self, chat: bytes, usage: Usage | None = None) -> Iterator[AnswerEvent]:
        """The events that normalised bytes mean: complete server-sent events without ``[DONE]``."""
        for chunk in _chunks(chat):
            piece = self._next_text(chunk)
            if piece is not None:
                yield piece
            else:
                yield from self._read_chat(chunk, usage)

    def read_whole(self, body: bytes) -> Iterator[AnswerEvent]:
        """The events that a whole answer means."""
        return self._read_chat(_decode(body), None)

    def _read_chat(self, chat: _Chat, usage: Usage | None) -> Iterator[AnswerEvent]:
        if not self._begun:
            self._begun = True
            yield AnswerBegan(chat.id or self._order.answer_id, chat.model or self._order.model, usage)
        for choice in chat.choices:
            if choice.index:
                continue
            message = choice.delta or choice.message
            if message is not None:
                yield from self._read_message(message, _logprobs(choice.logprobs))
            if choice.finish_reason:
                yield from self._blocks.flush()
                yield AnswerFinished(choice.finish_reason, _stop_sequence(choice.stop_reason))

    def _next_text(self, chat: _Chat) -> TextPiece | None:
        """The piece of a chunk that has nothing but more text: most of them."""
        if len(chat.choices) != 1 or not self._blocks.in_text:
            return None
        choice = chat.choices[0]
        message = choice.delta
        if message is None or choice.index or choice.finish_reason or message.tool_calls:
            return None
        others = (message.reasoning_content, message.reasoning, message.refusal, message.thinking_blocks)
        content = _text(message.content)
        if not content or others != _NO_OTHERS:
            return None
        return TextPiece(content, _logprobs(choice.logprobs))

    def _read_message(self, message: _Message, logprobs: bytes) -> Iterator[AnswerEvent]:
        put = self._blocks.put
        reasoning = _text(message.reasoning_content) or _text(message.reasoning)
        if reasoning:
            yield from put((BlockKind.REASONING, self._reasoned), ReasoningPiece(reasoning))
        for block in _thinking_blocks(message.thinking_blocks):
            yield from self._sealed(Seal(SealKind.ANTHROPIC, rawjson.encode([block])))
        if content := _text(message.content):
            yield from put(_TEXT, TextPiece(content, logprobs))
        if refusal := _text(message.refusal):
            yield from put((BlockKind.REFUSAL, 0), RefusalPiece(refusal))
        for position, call in enumerate(message.tool_calls or ()):
            yield from self._read_call(call, position)

    def _read_call(self, call: _ToolCall, position: int) -> Iterator[AnswerEvent]:
        number = position if call.index is None else call.index
        function = call.function or call.custom
        if function is None:
            return
        place = (BlockKind.TOOL_CALL, number)
        if call.id:
            if signature := _thought_signature(call.extra_content):
                yield from self._sealed(Seal(SealKind.GEMINI, rawjson.encode({call.id: signature})))
            began = ToolCallBegan(number, call.id, function.name or "", custom=call.function is None)
            yield from self._blocks.put(place, began)
        if piece := _text(function.arguments) or _text(function.input):
            yield from self._blocks.put(place, ArgumentsPiece(number, piece))

    def _sealed(self, seal: Seal) -> Iterator[AnswerEvent]:
        """The seal of the reasoning before it, or of none; the block ends with it."""
        yield from self._blocks.put((BlockKind.REASONING, self._reasoned), ReasoningSeal(seal))
        self._reasoned += 1


def _chunks(events: bytes) -> list[_Chat]:
    """The chunks of events, decoded together unless one of them is odd."""
    try:
        return _CHAT.decode_lines(events.removeprefix(b"data: ").replace(b"\n\ndata: ", b"\n"))
    except (msgspec.DecodeError, RecursionError):
        return [_decode(part.removeprefix(b"data: ")) for part in events.split(BLANK) if part]


def _decode(data: bytes) -> _Chat:
    try:
        return _CHAT.decode(data)
    except (msgspec.DecodeError, RecursionError):  # a lone surrogate, or a field of another type
        found = rawjson.maybe(data)
    chat = found if isinstance(found, dict) else {}
    choices = [_choice_of(choice) for choice in _objects(chat.get("choices"))]
    return _Chat(_string(chat.get("id")), _string(chat.get("model")), choices)


def _choice_of(choice: dict[str, Any]) -> _Choice:
    message = choice.get("delta") or choice.get("message")
    return _Choice(
        index=choice["index"] if isinstance(choice.get("index"), int) else 0,
        delta=_message_of(message) if isinstance(message, dict) else None,
        finish_reason=_string(choice.get("finish_reason")) or None,
        stop_reason=rawjson.raw(choice.get("stop_reason")),
        logprobs=rawjson.raw(choice.get("logprobs")),
    )


def _message_of(message: dict[str, Any]) -> _Message:
    texts = {name: rawjson.raw(message.get(name)) for name in ("content", "reasoning_content", "reasoning", "refusal")}
    calls = [_call_of(call) for call in _objects(message.get("tool_calls"))]
    return _Message(**texts, tool_calls=calls, thinking_blocks=rawjson.raw(message.get("thinking_blocks")))


def _call_of(call: dict[str, Any]) -> _ToolCall:
    kind = "function" if "function" in call else "custom"
    inner = call.get(kind)
    function = None
    if isinstance(inner, dict):
        arguments = rawjson.raw(inner.get("arguments", inner.get("input")))
        function = _Function(name=_string(inner.get("name")), arguments=arguments)
    return _ToolCall(
        index=call.get("index"),
        id=_string(call.get("id")),
        function=function if kind == "function" else None,
        custom=function if kind == "custom" else None,
        extra_content=rawjson.raw(call.get("extra_content")),
    )


def _objects(found: object) -> list[dict[str, Any]]:
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _string(found: object) -> str:
    return found if isinstance(found, str) else ""


def _thought_signature(extra: msgspec.Raw) -> str:
    """Google's, of a tool call."""
    found = rawjson.maybe(extra)
    google = found.get("google") if isinstance(found, dict) else None
    return _string(google.get("thought_signature")) if isinstance(google, dict) else ""


def _text(raw: msgspec.Raw) -> bytes:
    """A JSON string that is not empty, else nothing."""
    data = bytes(raw)
    return data if data[:1] == b'"' and data != b'""' else b""


def _logprobs(raw: msgspec.Raw) -> bytes:
    """The probabilities of the text's tokens, a JSON array that is not empty; else nothing."""
    if rawjson.is_null(raw):
        return b""
    try:
        content = rawjson.fields(raw).get("content", rawjson.NULL)
        return bytes(content) if rawjson.items(content) else b""
    except ValueError:
        return b""


def _stop_sequence(raw: msgspec.Raw) -> str | None:
    found = rawjson.maybe(raw)
    return found if isinstance(found, str) else None


def _thinking_blocks(raw: msgspec.Raw) -> list[object]:
    found = rawjson.maybe(raw)
    return found if isinstance(found, list) else []
