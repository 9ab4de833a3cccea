"""Renders answers for Ollama's clients: JSON objects, one a line in a stream.

The last one (``done: true``) has the totals and is written once the call is recorded. A tool call is written when its
arguments are complete, because they are an object there.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, BlockEnded, BlockKind, Citation, Medium, Piece
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import JsonObject
from gateway.domain.usage import Usage
from gateway.inbound.rendering import WholeBlock, WholeRenderer
from gateway.upstream.adapter import Adapter, WholeAnswer

_MS = 1_000_000
"""Nanoseconds in a millisecond."""


def _content_fields(content: object, more: Mapping[str, object], *, chat: bool) -> JsonObject:
    """Returns the fields of a line with content. Those of a chat are in a ``message``."""
    return {"message": {"role": "assistant", "content": content, **more}} if chat else {"response": content, **more}


class WholeLineRenderer(WholeRenderer):
    """Writes a whole answer to a ``chat`` or a prompt as one line."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._chat = not order.form.has_response
        self._first = 0
        """When the first part of the answer came, by the order's clock; 0 before that."""

    def shows(self, event: Medium | Citation) -> bool:
        return isinstance(event, Medium) and event.is_image and bool(event.data)

    def tail(self, usage: Usage) -> bytes:
        thinking = self.text(BlockKind.REASONING)
        images = [medium.data for block in self.blocks for medium in block.media]
        calls = [call for block in self.blocks for call in _calls(block)]
        more = {"thinking": thinking, **self._images(images), "tool_calls": calls or None}
        return self._last_line(usage, self.text(BlockKind.TEXT, BlockKind.REFUSAL), more)

    def _images(self, images: list[str]) -> JsonObject:
        if not images:
            return {}
        if not self._chat:
            return {"image": images[0], "images": images if len(images) > 1 else None}
        objects = self._order.form.image_objects
        return {"images": [{"value": data} for data in images] if objects else images}

    def _last_line(self, usage: Usage, content: msgspec.Raw | None, more: Mapping[str, object]) -> bytes:
        reason = "length" if 0 in self.finishes and self.finishes[0].reason == "length" else "stop"
        now, began = self._order.clock(), self._order.began
        first = self._first or now
        end = {
            "done": True,
            "done_reason": reason,
            "total_duration": max(1, now - began) * _MS,  # no time is zero, because clients divide by them
            "load_duration": 0,
            "prompt_eval_count": usage.input,
            "prompt_eval_duration": max(1, first - began) * _MS,
            "eval_count": usage.output,
            "eval_duration": max(1, now - first) * _MS,
            "logprobs": self.logprobs(),
        }
        return self._line(content, more, end)

    def _line(self, content: msgspec.Raw | None, more: Mapping[str, object], end: Mapping[str, object]) -> bytes:
        now = self._order.clock()
        self._first = self._first or now
        more, end = ({name: value for name, value in fields.items() if value is not None} for fields in (more, end))
        head = {"model": self._order.model, "created_at": format_time(now)}
        fields = _content_fields(rawjson.EMPTY_TEXT if content is None else content, more, chat=self._chat)
        return rawjson.encode({**head, **fields, **end})


class LineRenderer(WholeLineRenderer):
    """Writes a streamed answer as lines."""

    def take(self, event: AnswerEvent) -> bytes:
        match event:
            case Piece(kind=BlockKind.TEXT | BlockKind.REFUSAL):
                return self._next_line(msgspec.Raw(event.piece), event.logprobs)
            case Piece(kind=BlockKind.REASONING):
                return self._next_line(thinking=msgspec.Raw(event.piece))
            case Medium():
                return self._next_line(**self._images([event.data]))
        super().take(event)
        if isinstance(event, BlockEnded) and event.kind is BlockKind.TOOL_CALL:
            return self._next_line(tool_calls=_calls(self.blocks.pop()))
        return b""

    def tail(self, usage: Usage) -> bytes:
        return self._last_line(usage, None, {}) + b"\n"

    def _next_line(self, content: msgspec.Raw | None = None, logprobs: bytes = b"", **more: object) -> bytes:
        end = {"done": False, "logprobs": msgspec.Raw(logprobs) if logprobs else None}
        return self._line(content, more, end) + b"\n"


def _calls(block: WholeBlock) -> list[JsonObject]:
    """Returns a list of the block's tool call; empty if it has none."""
    if (call := block.call) is None:
        return []
    function = {"index": call.number, "name": call.name, "arguments": block.arguments}
    return [{"id": call.id, "function": function}]


def format_time(ms: int) -> str:
    """Returns a time with nanoseconds, as Ollama writes it; some clients cannot read another form."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


class EmbeddingLines:
    """Writes the embeddings of another adapter as Ollama does. Implements ``adapter.Adapter``."""

    def __init__(self, inner: Adapter, *, one_vector: bool) -> None:
        """``one_vector``: the answer is one vector, and not a list of them."""
        self._inner = inner
        self._one_vector = one_vector
        self.prepare = inner.prepare
        self.failure = inner.failure
        self.stream = inner.stream

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        answer = self._inner.whole(body, order, channel)
        vectors = [item["embedding"] for item in rawjson.objects(rawjson.fields(answer.body)["data"])]

        def write(usage: Usage) -> bytes:
            if self._one_vector:
                return rawjson.encode({"embedding": vectors[0]})
            duration = max(1, order.clock() - order.began) * _MS
            totals = {"total_duration": duration, "load_duration": 0, "prompt_eval_count": usage.input}
            return rawjson.encode({"model": order.model, "embeddings": vectors, **totals})

        return msgspec.structs.replace(answer, render=write)


def load_answer(model: str, now: int, *, chat: bool) -> JsonObject:
    """Returns the answer to a request without a prompt. Clients send one to load a model."""
    head = {"model": model, "created_at": format_time(now)}
    return {**head, **_content_fields("", {}, chat=chat), "done": True, "done_reason": "load"}
