"""Stream: the events of a streamed message of Anthropic's as chunks of chat completions.

Every event has its type in its data; ``message_stop`` is the end. Tool calls are numbered among themselves: the index
of a block counts texts and thoughts, too.
"""

from typing import Any

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import Failure
from gateway.upstream.anthropic.errors import failure_inside
from gateway.upstream.anthropic.response import THOUGHTS, AnswerToolCalls, Report, finish_of
from gateway.upstream.framing import SSEEvent
from gateway.upstream.rawjson import Fields
from gateway.upstream.translate.response import Json, arguments_delta, chunk, delta, tool_call

_EMPTY = b'""'


class _Block:
    """The content block that is open."""

    def __init__(self, kind: str, number: int | None = None) -> None:
        self.kind = kind
        self.number = number
        """Of the tool call; None if its input is the answer itself."""
        self.empty = True
        """No input came yet."""
        self.thought: dict[str, Any] = {}
        """What is to be kept of a thinking block."""


class MessageDecoder:
    """Implements ``chat.decoder.Decoder``. Blocks do not overlap: one ends before the next begins."""

    def __init__(self, channel: Channel, calls: AnswerToolCalls) -> None:
        self._channel = channel
        self._calls = calls
        self._report = Report()
        self._id = ""
        self._block = _Block("")
        self.failure: Failure | None = None
        self.complete = False

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``chat.decoder.Decoder``."""
        return self._report.marks

    def take(self, event: SSEEvent) -> list[Json]:
        """See ``chat.decoder.Decoder``."""
        fields = rawjson.fields(event.data)
        match rawjson.value(fields.get("type")):
            case "message_start":
                return [self._start(_inner(fields, "message"))]
            case "content_block_start":
                return self._open(_inner(fields, "content_block"))
            case "content_block_delta":
                return self._add(_inner(fields, "delta"))
            case "content_block_stop":
                return self._close()
            case "message_delta":
                return [self._finish(fields)]
            case "message_stop":
                self.complete = True
            case "error":
                self.failure = failure_inside(self._channel, event.data)
        return []

    def end(self) -> list[Json]:
        """See ``chat.decoder.Decoder``: nothing waits for the end."""
        return []

    def _start(self, message: Fields) -> Json:
        self._id = _string(message, "id")
        usage = self._report.see(message.get("usage"))
        return chunk(self._id, delta(role="assistant", content=""), usage=usage)

    def _open(self, block: Fields) -> list[Json]:
        kind = _string(block, "type")
        self._block = _Block(kind)
        if kind == "tool_use":
            return self._open_call(block)
        if kind in THOUGHTS:
            self._block.thought = {name: rawjson.value(value) for name, value in block.items()}
        begun = kind == "text" and bytes(block.get("text", _EMPTY)) != _EMPTY
        return self._chunks_of(content=_text(block, "text")) if begun else []

    def _open_call(self, block: Fields) -> list[Json]:
        call_id, number = _string(block, "id"), self._calls.count
        name = self._calls.open(call_id, _string(block, "name"))
        if not name:
            return []
        self._block.number = number
        return self._chunks_of(tool_calls=[tool_call(number, call_id, name, "")])

    def _add(self, delta: Fields) -> list[Json]:
        match _string(delta, "type"):
            case "text_delta":
                return self._chunks_of(content=_text(delta, "text"))
            case "thinking_delta":
                thinking = _text(delta, "thinking")
                self._keep("thinking", thinking)
                return self._chunks_of(reasoning_content=thinking)
            case "signature_delta":
                self._keep("signature", _text(delta, "signature"))
            case "input_json_delta":
                return self._add_input(_text(delta, "partial_json"))
        return []

    def _add_input(self, piece: msgspec.Raw) -> list[Json]:
        if bytes(piece) == _EMPTY:
            return []
        self._block.empty = False
        if self._block.number is None:
            return self._chunks_of(content=piece)
        return self._chunks_of(tool_calls=[arguments_delta(self._block.number, piece)])

    def _close(self) -> list[Json]:
        block, self._block = self._block, _Block("")
        if block.thought:
            self._calls.think(block.thought)
            if self._calls.seals:
                return self._chunks_of(thinking_blocks=[block.thought])
        if block.kind == "tool_use" and block.empty:
            self._block = block
            return self._add_input(msgspec.Raw(b'"{}"'))
        return []

    def _keep(self, name: str, piece: msgspec.Raw) -> None:
        known = self._block.thought.get(name)
        self._block.thought[name] = (known if isinstance(known, str) else "") + rawjson.text(piece)

    def _finish(self, fields: Fields) -> Json:
        usage = self._report.see(fields.get("usage"))
        reason = rawjson.value(_inner(fields, "delta").get("stop_reason"))
        if reason is None:
            return chunk(self._id, usage=usage)
        return chunk(self._id, delta(finish=finish_of(reason, tools=bool(self._calls.count))), usage=usage)

    def _chunks_of(self, **fields: Any) -> list[Json]:
        return [chunk(self._id, delta(**fields))]


def _inner(fields: Fields, name: str) -> Fields:
    """The object in a field. Raises ValueError if there is none."""
    return rawjson.fields(fields.get(name, rawjson.NULL))


def _text(fields: Fields, name: str) -> msgspec.Raw:
    """The text in a field as it came. Raises ValueError if there is none."""
    raw = fields.get(name, rawjson.NULL)
    rawjson.text(raw)
    return raw


def _string(fields: Fields, name: str) -> str:
    found = rawjson.value(fields.get(name))
    return found if isinstance(found, str) else ""
