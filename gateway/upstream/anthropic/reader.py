"""MessageReader: reads Anthropic's messages, the events of a stream or a whole one, as parts of an answer.

Blocks are distinguished by their index, and end when the upstream says so. The text and thinking in a block's start
count; the input of a tool in it counts unless deltas follow. The thinking before each call is remembered. The input of
the vendor's own tools is not passed on.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerFinished,
    AnswerId,
    AnswerMark,
    AnswerPart,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    SealKind,
    ToolCallPart,
    UsageSeen,
)
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import AnswerReader
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.anthropic.messages import JSON_TOOL, TOOLS, answers_by_tool
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.failures import truncation
from gateway.upstream.openai.tool_calls import arguments_text, lenient_index, lenient_text, text_piece

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""The types of blocks that are reasoning."""
_EMPTY = b'""'
_INVALID = msgspec.Raw(b"")
"""The text of a delta that has none, which is not JSON."""
_BLOCK_TYPES = {"text": "text", "thinking": "thinking", "input": "tool_use"}
_DELTA_TYPES = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
"""The types of blocks and deltas by their fields, because some relays leave the types out."""
_KINDS = {"text": BlockKind.TEXT, "tool_use": BlockKind.TOOL_CALL, **dict.fromkeys(THOUGHTS, BlockKind.REASONING)}


class _Block(msgspec.Struct, eq=False):
    index: int
    kind: str = ""
    start_input: bytes = b""
    start_text: bytes = b""
    """The text in its start, until the first delta came."""
    is_answer: bool = False
    """Whether the input of this tool call is the answer itself."""
    has_deltas: bool = False
    thought: dict[str, Any] = {}
    """The fields of a thinking block, as Anthropic wants them back."""


class MessageReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    ends_blocks = True
    tool_rules = TOOLS

    def __init__(self, order: Order, channel: Channel, memory: CallMemory) -> None:
        self._order = order
        self._channel = channel
        self._memory = memory
        self._thoughts: list[dict[str, Any]] = []
        """The thoughts since the last tool call."""
        self._blocks: dict[int, _Block] = {}
        self._newest = 0
        """The index of the block that began last."""
        self._message_id = ""
        self._is_over = False
        """Whether another message began after the end of this one."""

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        if event.data.strip() == b"[DONE]" or self._is_over:  # some relays send it
            return
        fields = rawjson.fields(event.data)
        match rawjson.value(fields["type"]) if "type" in fields else event.name.decode("utf-8", "replace"):
            case "message_start":
                yield from self._begin(_inner(fields, "message"))
            case "content_block_start":
                self._newest = lenient_index(fields.get("index"), 0) or 0
                yield from self._open(self._newest, _inner(fields, "content_block"))
            case "content_block_delta":
                yield from self._add(self._index(fields), _inner(fields, "delta"))
            case "content_block_stop":
                yield from self._close(self._index(fields))
            case "message_delta":
                delta = _inner(fields, "delta")
                yield from _usage(delta, final=True)
                yield from _usage(fields, final=True)
                yield from self._finish(delta)
            case "message":  # comments can come before a whole answer
                yield from self._read_message(fields, blocks_in(fields.get("content", NULL)))
                self.done = True
            case "message_stop":
                yield from _usage(fields, final=True)
                yield from self.end()
                self.default_word = "end_turn"
                self.done = True
            case _ if (failure := failure_in(self._channel, fields, event=event.name)) is not None:
                yield from _usage(fields, final=True)
                self.failure = failure

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        message = rawjson.fields(body)
        self.failure = failure_in(self._channel, message)
        if self.failure is None:
            yield from self._read_message(message, blocks_in(message.get("content", NULL)))

    def _read_message(self, message: Fields, blocks: list[Fields]) -> Iterator[AnswerPart]:
        yield from _usage(message, final=True)
        yield AnswerId(rawjson.text_at(message.get("id")))
        for index, block in enumerate(blocks):
            yield from self._open(index, block)
            yield from self._close(index)
        self.default_word = "end_turn"
        yield from self._finish(message)

    def end(self) -> Iterator[AnswerPart]:
        """See ``AnswerReader``: the ends of all open blocks."""
        for index in list(self._blocks):
            yield from self._close(index)

    def _begin(self, message: Fields) -> Iterator[AnswerPart]:
        """Yields the beginning of a message. A second one after content of the first fails: both would be mixed."""
        if self.done:
            self._is_over = True
            return
        message_id = rawjson.text_at(message.get("id"))
        yield from _usage(message, final=False)
        if self.has_content and self._message_id not in ("", message_id):
            self.failure = truncation(self._channel, "another one began")
        self._message_id = message_id
        yield AnswerId(message_id, began=False)

    def _index(self, fields: Fields) -> int:
        """Returns the index of the block that an event belongs to; without a valid one, the newest block's."""
        index = lenient_index(fields.get("index"))
        return self._newest if index is None else index

    def _open(self, index: int, fields: Fields) -> Iterator[AnswerPart]:
        yield from self._close(index)  # Ollama does not end a text before a thought with the same index
        kind, self.has_content = _type_of(fields, _BLOCK_TYPES), True
        block = self._blocks[index] = _Block(index, kind, arguments_text(fields.get("input")))
        if kind == "tool_use":
            yield from self._open_call(block, fields)
        elif kind in THOUGHTS:
            block.thought = {name: rawjson.value(value) for name, value in fields.items()}
            if piece := text_piece(fields.get("thinking")):
                block.start_text = piece
                yield Piece(BlockKind.REASONING, piece, index)
        elif kind == "text":
            if piece := text_piece(fields.get("text")):
                block.start_text = piece
                yield Piece(BlockKind.TEXT, piece, index)
            for citation in rawjson.list_at(fields.get("citations")):
                yield from _cite(citation, index)
        else:
            source = rawjson.maybe(fields.get("source"))
            media_type, data, url = (rawjson.text_at(source, name) for name in ("media_type", "data", "url"))
            is_image = kind == "image" and (data or url)
            yield Medium(media_type or "image", data, url) if is_image else AnswerMark("block_dropped")

    def _open_call(self, block: _Block, fields: Fields) -> Iterator[AnswerPart]:
        """Yields the beginning of a tool call, and remembers the thoughts before it."""
        call_id, name = lenient_text(fields.get("id")), lenient_text(fields.get("name"))
        if name == JSON_TOOL and answers_by_tool(self._order):
            block.is_answer = True
            return
        if self._thoughts:
            self._memory.remember(self._order.owner, call_id, rawjson.encode(self._thoughts))
            self._thoughts = []
        yield ToolCallPart(block.index, call_id, name)

    def _add(self, index: int, delta: Fields) -> Iterator[AnswerPart]:
        block = self._blocks.get(index)
        if block is None:  # its start did not come
            block = self._blocks[index] = _Block(index)
        start_text, block.start_text = block.start_text, b""
        if start_text and start_text == bytes(delta.get("text", delta.get("thinking", NULL))):  # MiniMax repeats it
            return
        match _type_of(delta, _DELTA_TYPES):
            case "text_delta" if piece := text_piece(delta.get("text", _INVALID)):
                yield Piece(BlockKind.TEXT, piece, index)
            case "thinking_delta" if piece := text_piece(delta.get("thinking", _INVALID)):
                block.thought.setdefault("type", "thinking")
                block.thought["thinking"] = rawjson.text_at(block.thought, "thinking") + rawjson.text(piece)
                yield Piece(BlockKind.REASONING, piece, index)
            case "signature_delta" if piece := text_piece(delta.get("signature", _INVALID)):
                block.thought |= {"type": "thinking", "signature": rawjson.text(piece)}
            case "citations_delta":
                yield from _cite(rawjson.maybe(delta.get("citation")), index)
            case "input_json_delta":
                piece = arguments_text(delta.get("partial_json"))
                if piece not in (b"", _EMPTY):
                    block.has_deltas = True
                    yield from _input(block, piece)
            case "text_delta" | "thinking_delta" | "signature_delta":  # empty
                return
            case _:
                yield AnswerMark("block_dropped")

    def _close(self, index: int) -> Iterator[AnswerPart]:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if block.thought:
            self._thoughts.append(block.thought)
            yield Seal(SealKind.ANTHROPIC, rawjson.encode([block.thought]), block=index)
        if block.kind == "tool_use" and not block.has_deltas:
            yield from _input(block, b'"{}"' if block.start_input in (b"", _EMPTY) else block.start_input)
        yield BlockEnded(_KINDS.get(block.kind, BlockKind.TEXT), index)

    def _finish(self, fields: Fields) -> Iterator[AnswerPart]:
        if explained := rawjson.text_at(fields.get("stop_details"), "explanation"):
            yield Piece(BlockKind.REFUSAL, rawjson.encode(explained))
        if reason := rawjson.text_at(fields.get("stop_reason")):
            stop_sequence = rawjson.value(fields.get("stop_sequence"))
            yield AnswerFinished(reason, stop_sequence=stop_sequence if isinstance(stop_sequence, str) else None)


def _usage(holder: Fields, *, final: bool) -> Iterator[AnswerPart]:
    if not rawjson.is_null(holder.get("usage")):
        yield UsageSeen({"usage": holder["usage"]}, final)


def _input(block: _Block, piece: bytes) -> Iterator[AnswerPart]:
    if block.is_answer:
        yield Piece(BlockKind.TEXT, piece, block.index)
    elif block.kind == "tool_use":
        yield ToolCallPart(block.index, piece=piece)
    elif not block.kind:
        yield AnswerMark("block_dropped")


def _cite(citation: Any, index: int) -> Iterator[AnswerPart]:
    """Yields a source with an address; for another one, a mark for the record."""
    url, source, title, cited = (rawjson.text_at(citation, name) for name in ("url", "source", "title", "cited_text"))
    url = url or (source if source.startswith(("https://", "http://")) else "")
    if url:
        yield Citation(url, title, cited, block=index)
    elif citation:
        yield AnswerMark("citation_dropped")


def _inner(fields: Fields, name: str) -> Fields:
    """Returns the object in a field; an empty one for null and without the field. Raises ValueError for others."""
    return {} if rawjson.is_null(fields.get(name)) else rawjson.fields(fields[name])


def _type_of(fields: Fields, types: Mapping[str, str]) -> str:
    """Returns the type of a block or a delta; if it is missing, the first known field's."""
    named = rawjson.value(fields["type"]) if "type" in fields else None
    if isinstance(named, str) and named:
        return named
    return next((kind for name, kind in types.items() if name in fields), "")


def blocks_in(content: msgspec.Raw) -> list[Fields]:
    """Returns the blocks of a whole answer with types. A block may be just a text. Raises ValueError for others."""
    items = rawjson.items(content) if rawjson.is_list(content) else [content]
    blocks = [{"text": item} if rawjson.is_text(item) else rawjson.fields(item) for item in items]
    return [{**block, "type": rawjson.raw(_type_of(block, _BLOCK_TYPES))} for block in blocks]
