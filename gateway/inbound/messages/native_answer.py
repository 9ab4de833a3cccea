"""Reads native answers of Messages while their bytes pass unchanged.

The dialect's own reader reads everything around the content: beginning, usage, end and errors. The output is counted
from the content. Only the model's name is replaced.

Clients read texts, thoughts and the inputs of tools from deltas. In the events of a message that came whole, although a
stream was requested, everything else of a block is in its start, so blocks that the gateway does not know pass too.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerFinished, AnswerId, UsageSeen
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import pieces
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.screen import Screen
from gateway.domain.sse import BOM, SMALL_NUMBER, PieceDecoder, SSEEvent, write_event
from gateway.domain.usage import Usage
from gateway.inbound.messages.render import usage_object
from gateway.inbound.relay import NativeTap
from gateway.upstream.adapter import AnswerReader, WholeAnswer
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.anthropic.reader import blocks_in
from gateway.upstream.openai.tool_calls import arguments_text

_CONTENT = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "signature_delta": "signature",
    "citations_delta": "citation",
}
"""The field with the content, by the kind of delta. It is never searched for secrets, and it is all of the output."""


def _piece_decoder(kind: str) -> PieceDecoder[Any]:
    """Returns the decoder of events with only more text in a delta of this kind, as the vendor writes them."""
    piece = [("piece", str, msgspec.field(name=_CONTENT[kind]))]
    delta = msgspec.defstruct("Delta", piece, tag_field="type", tag=kind, forbid_unknown_fields=True, gc=False)
    fields = [("type", Literal["content_block_delta"]), ("index", SMALL_NUMBER), ("delta", delta)]
    event = msgspec.defstruct("Event", fields, forbid_unknown_fields=True, gc=False)
    return PieceDecoder(("content_block_delta",), event)


_PIECES: Mapping[str, PieceDecoder[Any]] = {
    "text": _piece_decoder("text_delta"),
    "thinking": _piece_decoder("thinking_delta"),
    **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), _piece_decoder("input_json_delta")),
}
"""Decodes the usual pieces of a block, by the type of the block."""
_TEXT_BLOCKS = {"text_delta": "text", "thinking_delta": "thinking"}
_TEXTS = {"text": ("text",), "thinking": ("thinking", "signature")}
"""The fields of a block that come as deltas, by its type. Each delta is called like its field, with ``_delta``."""
_ENDING: Fields = {"stop_reason": rawjson.raw("end_turn"), "stop_sequence": NULL}
"""The ending of a message that reports none."""
_DELTA_FIELDS = (*_ENDING, "stop_details", "container")
"""The fields of a message that its ``message_delta`` has in ``delta``."""


class MessageTap(NativeTap):
    """Reads a native message."""

    def __init__(self, order: Order, channel: Channel, reader: AnswerReader, model: str) -> None:
        """``model`` is the model's public name if the answer has another one, else empty."""
        super().__init__(order, channel)
        self._reader = reader
        self._model = model
        self._open_blocks: set[int] = set()
        """The upstream's indexes of the blocks that have not ended."""
        self._newest = 0
        """The upstream's index of the block that began last."""
        self._start_deltas: dict[int, list[Fields]] = {}
        """The contents in the starts of open blocks, as deltas, as long as no deltas came."""
        self._next_place = 0
        self._types: dict[int, str] = {}
        """The type of each block, by the upstream's index."""
        self._places: dict[int, int] = {}
        """The index of each block for the client, by the upstream's."""
        self._strays: list[tuple[str, Fields]] = []
        """The types of the blocks that deltas of texts belong to, and the deltas. They get these blocks at the end."""
        self._pieces: PieceDecoder[Any] | None = None
        """Decodes the usual pieces of the open block."""
        self._has_start = False
        """Whether the beginning of the message came."""
        self._has_call = False

    @property
    def finish(self) -> str:
        reason = super().finish
        return "tool_calls" if self._has_call and reason == "stop" else reason

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        texts, end = ([], start) if self._pieces is None else self._pieces.read(events, start)
        if texts:
            self.tally.add("".join([event.delta.piece for event in texts]))
        return len(texts), end

    def take(self, event: SSEEvent) -> bytes | None:
        fields = rawjson.fields(event.data)
        kind = rawjson.text_at(fields.get("type"))
        if kind.startswith("content_block_"):
            self.began = True
            return self._take_block_event(kind, event, fields)
        self.take_parts(self._reader.read(event), self._reader)
        if self.failure is not None or (self._has_start and kind == "message_start"):  # on a second one the SDKs fail
            return b""
        if not (kind or event.name or self._has_start or self.began):  # such as a chat's, which no client could read
            raise ValueError("no event of a message")
        if kind == "message_start":
            self._has_start = True
            message = rawjson.maybe_fields(fields.get("message"))
            edited = self._edit_message(message)
            if not self.order.screen.clean(fields) and edited == message:
                return None
            return write_event(b"message_start", rawjson.encode({**fields, "message": edited}))
        is_open = bool(self._strays or self._open_blocks) and self.complete
        if kind == "message_delta" and (is_open or rawjson.is_null(fields.get("usage"))):
            if rawjson.is_null(fields.get("usage")):
                fields["usage"] = rawjson.raw({"output_tokens": self.tally.tokens()})
            added = self._end_blocks() if is_open else b""
            sent = SSEEvent(rawjson.encode(fields), b"message_delta")
            return added + (_clean_event(sent, fields, self.order.screen) or write_event(sent.name, sent.data))
        return _clean_event(event, fields, self.order.screen)

    def _take_block_event(self, kind: str, event: SSEEvent, fields: Fields) -> bytes | None:
        """See ``take``. SDKs fail at a text in the block of a call, as SGLang and claude-code-router send it, and at a
        second block with the index of another, as Ollama sends it. LiteLLM ends the block of a call twice, on which
        Claude Code would run the tool twice. It reads contents only from deltas.
        """
        number = rawjson.whole_number(rawjson.maybe(fields.get("index")))
        index = self._newest if number is None else number
        changes, before = Fields(), b""
        if kind == "content_block_start":
            block = rawjson.maybe_fields(fields.get("content_block"))
            if index in self._open_blocks:
                before = self._end_blocks(index)
            if missing := self._begin_block(index, block):
                changes["content_block"] = rawjson.raw(block | missing)
        elif kind == "content_block_stop":
            self._pieces = None
            if index not in self._open_blocks:
                return b""
            if index in self._start_deltas:
                return self._end_blocks(index)
            self._open_blocks.remove(index)
        else:
            delta, block_type = rawjson.maybe_fields(fields.get("delta")), self._types.get(index, "")
            self._count(delta, event.data)
            before = self._start_delta(index, delta)
            own_type = _TEXT_BLOCKS.get(rawjson.text_at(delta.get("type")), block_type)
            if own_type != block_type and block_type in _PIECES:
                self._strays.append((own_type, delta))
                return before
        if (place := self._places.get(index, index)) != number:
            self._pieces = None  # which would pass with their own index
            changes["index"] = rawjson.raw(place)
        sent = fields | changes
        is_changed = bool(changes or before)
        event = SSEEvent(rawjson.encode(sent), kind.encode()) if is_changed else event
        cleaned = _clean_event(event, sent, self.order.screen)
        return before + (cleaned or write_event(event.name, event.data)) if is_changed else cleaned

    def _begin_block(self, index: int, block: Fields) -> Fields:
        """Note a block that begins. Returns the fields that it lacks."""
        kind = rawjson.text_at(block.get("type"))
        self._newest, self._types[index] = index, kind
        self._open_blocks.add(index)
        self._places[index] = place = max(index, self._next_place)
        self._next_place = place + 1
        self._pieces = _PIECES.get(kind)
        empty = _empty_fields(kind, block)
        lacking = {name: raw for name, raw in empty.items() if rawjson.is_null(block.get(name))}
        if start_deltas := [*_deltas_of(kind, block)]:
            self._start_deltas[index], self._pieces = start_deltas, None
            lacking = empty
        self._reader.has_content = True
        self._count(block)
        return lacking

    def _end_blocks(self, *indexes: int) -> bytes:
        """Returns the ends of these blocks; without any, of all open ones, and blocks with the stray deltas."""
        out: list[bytes] = []  # joined once, because there may be thousands
        for index in indexes or sorted(self._open_blocks):
            place = self._places[index]
            out += (self._start_delta(index, {}), _message_event("content_block_stop", index=place))
            self._open_blocks.remove(index)
        if indexes:
            return b"".join(out)
        for place, (kind, deltas) in enumerate(groupby(self._strays, itemgetter(0)), max(self._next_place, 1)):
            out.append(_message_event("content_block_start", index=place, content_block={"type": kind, kind: ""}))
            out += (_message_event("content_block_delta", index=place, delta=delta) for _, delta in deltas)
            out.append(_message_event("content_block_stop", index=place))
        self._strays.clear()
        return b"".join(out)

    def _start_delta(self, index: int, delta: Fields) -> bytes:
        """Returns the content in a block's start as deltas, without the next delta, because MiniMax sends both."""
        known = self._start_deltas.get(index, [])
        is_input = bool(known) and "partial_json" in known[0]
        if is_input and delta and rawjson.is_nothing(delta.get("partial_json", NULL)):
            return b""
        self._start_deltas.pop(index, None)
        lacking = [each for each in known if each != delta and not (is_input and delta)]
        place = self._places.get(index, index)
        return b"".join([_message_event("content_block_delta", index=place, delta=each) for each in lacking])

    def _count(self, part: Fields, data: bytes = b"") -> None:
        """Count the start of a block or a delta. If its kind is unknown, the whole ``data`` of its event counts."""
        kind = rawjson.text_at(part.get("type"))
        if kind.endswith("tool_use"):
            self.tally.calls += 1
            self._has_call = self._has_call or kind == "tool_use"
        values = [rawjson.maybe(part.get(name)) for name in ("name", "text", "thinking", "partial_json")]
        texts = [value for value in values if isinstance(value, str)]
        self.tally.add("".join(texts) if texts or kind in _CONTENT else data.decode("utf-8", "replace"))

    def _edit_message(self, message: Fields) -> Fields:
        """Returns the message with the model's public name, with an id, and without secrets around its content."""
        screen = self.order.screen
        edited = screen.without_secrets(message, ("content", "id", "model", "usage"))
        if screen.value_has_secret(edited.get("usage", NULL)):
            edited["usage"] = rawjson.raw(screen.without_secrets(rawjson.maybe_fields(edited["usage"]), ()))
        if "id" in message and not self.upstream_id:
            edited["id"] = rawjson.raw(self.order.answer_id)
        if self._model or screen.value_has_secret(edited.get("model", NULL)):
            edited["model"] = rawjson.raw(self._model or self.order.model)
        if message and rawjson.is_null(edited.get("usage", NULL)):  # Anthropic's SDK and Claude Code fail without
            estimate = Usage(input=self.order.input_hint, output=self.tally.tokens())
            edited["usage"] = rawjson.raw(usage_object(self.reported or estimate))
        return edited

    def read_whole(self, body: bytes) -> WholeAnswer:
        """Reads a whole answer. Raises as ``replay``."""
        message = self._read_message(body)
        if self.tally.empty and (self.reported is None or not self.reported.output):
            for block in blocks_in(message.get("content", NULL)):
                self._count(block)
                self.tally.add(bytes(block.get("input", b"")).decode("utf-8", "replace"))
        edited = self._edit_message(message)
        if rawjson.is_text(edited["content"]):
            edited["content"] = rawjson.raw([{"type": "text", "text": edited["content"]}])
        sent = body if edited == message else rawjson.encode(edited)
        return WholeAnswer(body=sent, state=self, render=lambda _: sent)

    def replay(self, body: bytes) -> bytes:
        """See ``NativeTap``."""
        sent = rawjson.fields(self.read_whole(body).body)
        head = {"id": self.order.answer_id, "type": "message", "role": "assistant", "model": self.order.model}
        missing = {name: rawjson.raw(value) for name, value in head.items() if rawjson.is_null(sent.get(name))}
        return b"".join(_message_events(sent | missing))

    def _read_message(self, body: bytes) -> Fields:
        """Returns the fields of a whole answer. Raises AttemptFailed for an error, ValueError for anything else."""
        message = rawjson.fields(body.strip().removeprefix(BOM))
        if (failure := failure_in(self._channel, message)) is not None:
            raise AttemptFailed(failure)
        content = message.get("content", NULL)
        if not (rawjson.is_text(content) or rawjson.is_list(content)):
            raise ValueError("no content")
        id, word = (rawjson.text_at(message.get(name)) for name in ("id", "stop_reason"))
        self._has_call = word == "tool_use"
        self.take_parts((UsageSeen(message), AnswerId(id), AnswerFinished(word or "end_turn")), self._reader)
        if self.failure is not None:
            raise AttemptFailed(self.failure)
        return message

    def cut_short(self) -> bytes:
        end = self._end_blocks()
        if self.complete:
            return end
        self.add(AnswerFinished("max_tokens"))
        delta = {"stop_reason": "max_tokens", "stop_sequence": None}
        return end + _message_event("message_delta", delta=delta, usage={"output_tokens": self.tally.tokens()})

    def terminal_event(self, usage: Usage) -> bytes:
        return _message_event("message_stop")


def _clean_event(event: SSEEvent, fields: Fields, screen: Screen) -> bytes | None:
    """Returns an event without secrets around its content, or anywhere in an unknown part; else None."""
    if not screen.value_has_secret(msgspec.Raw(event.data)):
        return None
    parts = {
        name: part for name in ("content_block", "delta", "usage") if (part := rawjson.maybe_fields(fields.get(name)))
    }
    cleaned = screen.without_secrets(fields, {"type", *parts})
    for name, part in parts.items():
        content = _CONTENT.get(str(rawjson.maybe(part.get("type"))), "")
        cleaned[name] = rawjson.raw(screen.without_secrets(part, {"type", content}))
    return write_event(event.name or b"message", rawjson.encode(cleaned))


def _message_event(kind: str, **fields: object) -> bytes:
    """Returns an event with the type that is its name."""
    return write_event(kind.encode(), rawjson.encode({"type": kind, **fields}))


def _message_events(message: Fields) -> Iterator[bytes]:
    """Yields the events of a whole message, without the terminal one. Raises ValueError if a block is not one.

    A message without blocks gets an empty one, because clients would call again.
    """
    usage = {**rawjson.maybe_fields(message["usage"]), "output_tokens": 0}  # some clients add up those of both reports
    blank: dict[str, object] = {"content": [], "usage": usage, **dict.fromkeys(_ENDING)}
    yield _message_event("message_start", message={**message, **blank})
    for index, block in enumerate(blocks_in(message["content"]) or [{"type": rawjson.raw("text")}]):
        kind = rawjson.text(block["type"])
        yield _message_event("content_block_start", index=index, content_block=block | _empty_fields(kind, block))
        for delta in _deltas_of(kind, block):
            yield _message_event("content_block_delta", index=index, delta=delta)
        yield _message_event("content_block_stop", index=index)
    ended = {**_ENDING, **{name: message[name] for name in _DELTA_FIELDS if not rawjson.is_null(message.get(name))}}
    reports = {name: message[name] for name in ("usage", "context_management") if name in message}
    yield _message_event("message_delta", delta=ended, **reports)


def _empty_fields(kind: str, block: Fields) -> Fields:
    """Returns the fields that the start of a block has instead of its content, without which SDKs fail."""
    empty = dict.fromkeys(_TEXTS.get(kind, ()), rawjson.EMPTY_TEXT)
    if kind.endswith("tool_use"):
        empty["input"] = rawjson.raw({})
    return empty if rawjson.is_null(block.get("citations")) else {**empty, "citations": rawjson.EMPTY_LIST}


def _deltas_of(kind: str, block: Fields) -> Iterator[Fields]:
    """Yields the content of a block as deltas, with long texts in pieces. Without an input, a call needs none."""
    if kind.endswith("tool_use") and (text := arguments_text(block.get("input"))) != b'"{}"':
        for piece in pieces(text):
            yield {"type": rawjson.raw("input_json_delta"), "partial_json": msgspec.Raw(piece)}
    for name in _TEXTS.get(kind, ()):
        for piece in pieces(block[name]) if rawjson.is_text(block.get(name, NULL)) else ():
            yield {"type": rawjson.raw(f"{name}_delta"), name: msgspec.Raw(piece)}
    for citation in rawjson.maybe_items(block.get("citations")):
        yield {"type": rawjson.raw("citations_delta"), "citation": citation}
