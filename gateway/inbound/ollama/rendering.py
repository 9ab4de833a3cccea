"""Answers as Ollama's clients read them: JSON objects, in a stream one a line.

The last one (``done: true``) has the totals and is written once the call is recorded. A tool call is written when its
arguments are complete: they are an object there, and no text.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    BlockEnded,
    BlockKind,
    Medium,
    ReasoningPiece,
    RefusalPiece,
    TextPiece,
    ToolCallBegan,
    join_strings,
)
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.usage import Usage
from gateway.inbound.rendering import RenderedWhole, Renderer
from gateway.upstream.adapter import (
    Adapter,
    AnswerStream,
    Failure,
    LearnedRefusals,
    Order,
    PreparedRequest,
    WholeAnswer,
)
from gateway.upstream.translate.transcript import object_of

_EMPTY = msgspec.Raw(b'""')
_MS = 1_000_000
"""Nanoseconds."""


class LineShape(msgspec.Struct, frozen=True):
    """Where a path's answers have their parts."""

    message: bool
    """Text and thoughts are in a ``message``; else they are beside the model's name."""

    def parts(self, content: object, more: Mapping[str, object]) -> dict[str, object]:
        """The part of a line that says something."""
        if self.message:
            return {"message": {"role": "assistant", "content": content, **more}}
        return {"response": content, **more}


CHAT_LINES = LineShape(message=True)
GENERATE_LINES = LineShape(message=False)


class _Clock:
    """When an answer's parts came."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._first = 0

    def line(self) -> dict[str, object]:
        """The head of a line that is written now."""
        now = self._order.clock()
        self._first = self._first or now
        moment = datetime.fromtimestamp(now / 1000, UTC)
        return {"model": self._order.model, "created_at": moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"}

    def totals(self, usage: Usage) -> dict[str, object]:
        """What the last line says of time and tokens; no time is zero, for clients divide by them."""
        now, began = self._order.clock(), self._order.began
        first = self._first or now
        return {
            "total_duration": max(1, now - began) * _MS,
            "load_duration": 0,
            "prompt_eval_count": usage.input,
            "prompt_eval_duration": max(1, first - began) * _MS,
            "eval_count": usage.output,
            "eval_duration": max(1, now - first) * _MS,
        }


class _ToolCalls:
    """Tool calls that are coming in."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[ToolCallBegan, list[bytes]]] = {}

    def take(self, event: AnswerEvent) -> dict[str, object] | None:
        """The call that is complete now."""
        if isinstance(event, ToolCallBegan):
            self._calls[event.number] = (event, [])
        elif isinstance(event, ArgumentsPiece):
            self._calls[event.number][1].append(event.piece)
        elif isinstance(event, BlockEnded) and event.kind is BlockKind.TOOL_CALL:
            began, pieces = self._calls.pop(event.number)
            function = {"index": event.number, "name": began.name, "arguments": _arguments(pieces)}
            return {"id": began.id, "function": function}
        return None


def _arguments(pieces: list[bytes]) -> object:
    """The arguments as an object; what is none is kept as a text in one."""
    text = rawjson.text(join_strings(pieces)) if pieces else ""
    found = rawjson.maybe(text.encode("utf-8", "surrogatepass"))
    return found if isinstance(found, dict) else object_of(text) if text.strip() else {}


class LineRenderer(Renderer):
    """A streamed answer as lines."""

    def __init__(self, order: Order, shape: LineShape) -> None:
        self._shape = shape
        self._clock = _Clock(order)
        self._calls = _ToolCalls()
        self._finish = "stop"

    def shows(self, medium: Medium) -> bool:
        """See ``Renderer``."""
        return medium.is_image and bool(medium.data)

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``."""
        if isinstance(event, TextPiece | RefusalPiece):
            return self._line(msgspec.Raw(event.piece), {})
        if isinstance(event, Medium):
            return self._line(_EMPTY, {"images": [event.data]})
        if isinstance(event, ReasoningPiece):
            return self._line(_EMPTY, {"thinking": msgspec.Raw(event.piece)})
        if isinstance(event, AnswerFinished):
            self._finish = event.reason
        elif (call := self._calls.take(event)) is not None:
            return self._line(_EMPTY, {"tool_calls": [call]})
        return b""

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``Renderer``."""
        return self.last(self._finish, usage)

    def last(self, finish: str, usage: Usage) -> bytes:
        """The last line."""
        return (
            rawjson.encode(
                {
                    **self._clock.line(),
                    **self._shape.parts(_EMPTY, {}),
                    "done": True,
                    "done_reason": _reason(finish),
                    **self._clock.totals(usage),
                }
            )
            + b"\n"
        )

    def _line(self, content: msgspec.Raw, more: Mapping[str, object]) -> bytes:
        return rawjson.encode({**self._clock.line(), **self._shape.parts(content, more), "done": False}) + b"\n"


def _reason(finish: str) -> str:
    return "length" if finish == "length" else "stop"


def whole_line(order: Order, shape: LineShape, events: list[AnswerEvent]) -> Callable[[Usage], bytes]:
    """What writes a whole answer."""
    clock, calls = _Clock(order), _ToolCalls()
    head = clock.line()
    texts = [event.piece for event in events if isinstance(event, TextPiece | RefusalPiece)]
    thoughts = [event.piece for event in events if isinstance(event, ReasoningPiece)]
    made = [call for event in events if (call := calls.take(event)) is not None]
    images = [event.data for event in events if isinstance(event, Medium)]
    more: dict[str, object] = {"thinking": msgspec.Raw(join_strings(thoughts))} if thoughts else {}
    if images:
        more["images"] = images
    if made:
        more["tool_calls"] = made
    finish = next((event.reason for event in events if isinstance(event, AnswerFinished)), "stop")
    content = msgspec.Raw(join_strings(texts)) if texts else _EMPTY

    def write(usage: Usage) -> bytes:
        parts = shape.parts(content, more)
        return rawjson.encode({**head, **parts, "done": True, "done_reason": _reason(finish), **clock.totals(usage)})

    return write


class _WrappedAdapter:
    """An adapter whose answers are written in another form: all but its answers."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner

    def prepare(self, order: Order, channel: Channel, served: ServedModel, learned: LearnedRefusals) -> PreparedRequest:
        """See ``adapter.Adapter``."""
        return self._inner.prepare(order, channel, served, learned)

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        """See ``adapter.Adapter``."""
        return self._inner.recalled(fields)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """See ``adapter.Adapter``."""
        return self._inner.failure(channel, status, headers, body)


class CompletionLines(_WrappedAdapter):
    """Native completions as lines."""

    def __init__(self, inner: Adapter, shape: LineShape) -> None:
        super().__init__(inner)
        self._shape = shape

    def stream(self, order: Order, channel: Channel) -> "CompletionLineStream":
        """See ``adapter.Adapter``."""
        return CompletionLineStream(self._inner.stream(order, channel), LineRenderer(order, self._shape))

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        found = self._inner.whole(body, order, channel)
        events: list[AnswerEvent] = [TextPiece(piece) for piece in _texts(found.body)]
        return _render(found, whole_line(order, self._shape, [*events, AnswerFinished(found.finish)]))


class CompletionLineStream:
    """A stream of completions as lines. Implements ``adapter.AnswerStream``."""

    def __init__(self, inner: AnswerStream, lines: LineRenderer) -> None:
        self._inner = inner
        self._lines = lines
        self.tally = inner.tally
        self.started = self.finished = False
        self.failure: Failure | None = None
        self.events = self.comments = self.held = 0

    @property
    def reported(self) -> Usage | None:
        """See ``adapter.AnswerStream``."""
        return self._inner.reported

    @property
    def finish(self) -> str:
        """See ``adapter.AnswerStream``."""
        return self._inner.finish

    @property
    def upstream_id(self) -> str:
        """See ``adapter.AnswerStream``."""
        return self._inner.upstream_id

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``adapter.AnswerStream``."""
        return self._inner.marks

    def feed(self, data: bytes) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._follow(self._inner.feed(data))

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._follow(self._inner.end())

    def cut_short(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._follow(self._inner.cut_short())

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``adapter.AnswerStream``."""
        return self._lines.last(self._inner.finish, usage)

    def _follow(self, chunks: bytes) -> bytes:
        inner = self._inner
        self.started, self.finished, self.failure = inner.started, inner.finished, inner.failure
        self.events, self.comments, self.held = inner.events, inner.comments, inner.held
        parts = (part.removeprefix(b"data: ") for part in chunks.replace(b"\r\n", b"\n").split(b"\n\n") if part)
        return b"".join(self._lines.take(TextPiece(piece)) for part in parts for piece in _texts(part))


def _texts(answer: bytes) -> list[bytes]:
    """The text of the first choice of an answer or a chunk of completions, if there is any."""
    choices = rawjson.objects(rawjson.fields(answer).get("choices", rawjson.NULL))
    text = bytes(choices[0].get("text", rawjson.NULL)) if choices else b""
    return [text] if text[:1] == b'"' and text != b'""' else []


class EmbeddingLines(_WrappedAdapter):
    """Embeddings as Ollama answers them, several or a single one."""

    def __init__(self, inner: Adapter, *, single: bool) -> None:
        super().__init__(inner)
        self._single = single

    def stream(self, order: Order, channel: Channel) -> AnswerStream:
        """See ``adapter.Adapter``: embeddings are never streamed."""
        return self._inner.stream(order, channel)

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        """See ``adapter.Adapter``."""
        found = self._inner.whole(body, order, channel)
        data = rawjson.objects(rawjson.fields(found.body)["data"])
        vectors = [one["embedding"] for one in data]

        def write(usage: Usage) -> bytes:
            if self._single:
                return rawjson.encode({"embedding": vectors[0]})
            spent = max(1, order.clock() - order.began) * _MS
            totals = {"total_duration": spent, "load_duration": 0, "prompt_eval_count": usage.input}
            return rawjson.encode({"model": order.model, "embeddings": vectors, **totals})

        return _render(found, write)


def _render(found: WholeAnswer, write: Callable[[Usage], bytes]) -> WholeAnswer:
    return RenderedWhole(
        body=found.body,
        reported=found.reported,
        finish=found.finish,
        upstream_id=found.upstream_id,
        tally=found.tally,
        marks=found.marks,
        render=write,
    )


def load_answer(model: str, now: int, shape: LineShape) -> dict[str, Any]:
    """The answer to a request without a prompt, by which clients have a model loaded."""
    moment = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
    return {"model": model, "created_at": moment, **shape.parts("", {}), "done": True, "done_reason": "load"}
