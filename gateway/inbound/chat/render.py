"""Answers of other dialects as clients of chat completions read them: the chunks of a stream, and whole completions.

Beside OpenAI's own fields there are the ones that clients know from other gateways: ``reasoning_content``, ``images``,
Google's ``extra_content`` with a signature for the next request, and in whole answers Anthropic's ``thinking_blocks``.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    BlockEnded,
    Citation,
    Medium,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    SealKind,
    TextPiece,
    ToolCallBegan,
    join_strings,
)
from gateway.domain.channel import Channel
from gateway.domain.usage import Usage
from gateway.inbound.rendering import Renderer
from gateway.upstream.adapter import Order, as_object
from gateway.upstream.openai.stream import DONE

_EMPTY = b'""'
Json = dict[str, Any]


def _head(order: Order, id: str, kind: str) -> Json:
    return {"id": id, "object": kind, "created": order.created, "model": order.model}


def _call(event: ToolCallBegan, arguments: bytes) -> Json:
    """A tool call without its index."""
    kind, key = ("custom", "input") if event.custom else ("function", "arguments")
    call = {"id": event.id, "type": kind, kind: {"name": event.name, key: msgspec.Raw(arguments)}}
    if event.signature:
        call["extra_content"] = {"google": {"thought_signature": event.signature}}
    return call


def _image(event: Medium) -> Json:
    return {"type": "image_url", "image_url": {"url": event.link}}


def _audio(event: Medium) -> Json:
    return {"id": "audio_0", "data": event.data, "expires_at": 0, "transcript": ""}


def _annotation(event: Citation) -> Json:
    place = {"start_index": event.start or 0, "end_index": event.end or event.start or 0}
    inner: Json = {"url": event.url, "title": event.title, **place}
    if event.cited:
        inner["content"] = event.cited
    return {"type": "url_citation", "url_citation": inner}


_TEXTS = {TextPiece: "content", RefusalPiece: "refusal", ReasoningPiece: "reasoning_content"}
"""Fields of a message that hold text."""


def _delta(event: AnswerEvent) -> Json:
    """What an event adds to the message."""
    match event:
        case TextPiece() | RefusalPiece() | ReasoningPiece():
            return {_TEXTS[type(event)]: msgspec.Raw(event.piece)}
        case ToolCallBegan():
            return {"tool_calls": [{"index": event.number, **_call(event, _EMPTY)}]}
        case ArgumentsPiece():
            return {"tool_calls": [{"index": event.number, "function": {"arguments": msgspec.Raw(event.piece)}}]}
        case Medium():
            return {"images": [_image(event)]} if event.is_image else {"audio": _audio(event)}
        case Citation():
            return {"annotations": [_annotation(event)]}
    return {}


class ChatRenderer(Renderer):
    """A stream as chunks."""

    all_choices = True

    def __init__(self, order: Order) -> None:
        self._order = order
        self._begun: set[int] = set()
        """Choices that the client knows."""
        self._listed: dict[tuple[int, str], int] = {}
        """How many images and annotations each choice has so far."""
        self._head = _head(order, order.answer_id, "chat.completion.chunk")
        self._text_head = b""
        """What is before a piece of text of the first choice."""

    def shows(self, medium: Medium) -> bool:
        """See ``Renderer``."""
        return medium.is_image or (medium.type.startswith("audio") and bool(medium.data))

    def take(self, event: AnswerEvent) -> bytes:
        """See ``Renderer``."""
        if isinstance(event, AnswerBegan):
            self._head["id"] = event.id
            self._text_head = b"data: %b" % rawjson.encode(self._head)[:-1] + (
                b',"choices":[{"index":0,"delta":{"content":'
            )
            return self._begin(0)
        if isinstance(event, TextPiece) and not (event.choice or event.logprobs):
            return b'%b%b},"logprobs":null,"finish_reason":null}]}\n\n' % (self._text_head, event.piece)
        if isinstance(event, BlockEnded | ReasoningSeal):
            return b""
        out = b"" if event.choice in self._begun else self._begin(event.choice)
        if isinstance(event, AnswerFinished):
            return out + self._chunk(event.choice, {}, finish=event.reason)
        logprobs = None
        if isinstance(event, TextPiece) and event.logprobs:
            logprobs = {"content": msgspec.Raw(event.logprobs), "refusal": None}
        delta = _delta(event)
        for name in ("images", "annotations"):
            if name in delta:
                delta[name] = [{"index": self._next_place(event.choice, name), **delta[name][0]}]
        return out + self._chunk(event.choice, delta, logprobs=logprobs)

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """See ``Renderer``."""
        if not self._order.include_usage:
            return DONE
        return b"data: " + rawjson.encode({**self._head, "choices": [], "usage": as_object(usage)}) + b"\n\n" + DONE

    def _next_place(self, choice: int, name: str) -> int:
        """Where the next item of a list is: OpenAI's SDK puts lists together by the index, and fails without one."""
        place = self._listed.get((choice, name), 0)
        self._listed[choice, name] = place + 1
        return place

    def _begin(self, choice: int) -> bytes:
        self._begun.add(choice)
        return self._chunk(choice, {"role": "assistant", "content": ""})

    def _chunk(self, choice: int, delta: Json, *, finish: str | None = None, logprobs: Json | None = None) -> bytes:
        choices = [{"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish}]
        return b"data: " + rawjson.encode({**self._head, "choices": choices}) + b"\n\n"


class _Message:
    """One choice of a whole answer."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[bytes]] = {"content": [], "refusal": [], "reasoning_content": []}
        self._calls: list[tuple[ToolCallBegan, list[bytes]]] = []
        self._more: dict[str, Any] = {}
        self._logprobs: list[bytes] = []
        self.finish = "stop"

    def take(self, event: AnswerEvent) -> None:
        """One more event."""
        match event:
            case TextPiece() | RefusalPiece() | ReasoningPiece():
                self._pieces[_TEXTS[type(event)]].append(event.piece)
                if isinstance(event, TextPiece) and event.logprobs:
                    self._logprobs.append(event.logprobs[1:-1])
            case ToolCallBegan():
                self._calls.append((event, []))
            case ArgumentsPiece():
                self._calls[event.number][1].append(event.piece)
            case Medium() | Citation():
                for name, value in _delta(event).items():
                    self._more[name] = [*self._more.get(name, ()), *value] if isinstance(value, list) else value
            case ReasoningSeal() if event.seal.kind is SealKind.ANTHROPIC:
                self._more.setdefault("thinking_blocks", []).extend(rawjson.value(event.seal.content))
            case AnswerFinished():
                self.finish = event.reason

    def choice(self, index: int) -> Json:
        """The choice. Without text, ``content`` is null if there are calls, else empty."""
        content, refusal, reasoning = self._pieces.values()
        message: Json = {
            "role": "assistant",
            "content": msgspec.Raw(join_strings(content)) if content else None if self._calls else "",
            "refusal": msgspec.Raw(join_strings(refusal)) if refusal else None,
        }
        if reasoning:
            message["reasoning_content"] = msgspec.Raw(join_strings(reasoning))
        if self._calls:
            message["tool_calls"] = [_call(began, join_strings(pieces)) for began, pieces in self._calls]
        logprobs = {"content": msgspec.Raw(b"[%b]" % b",".join(self._logprobs)), "refusal": None}
        return {
            "index": index,
            "message": message | self._more,
            "logprobs": logprobs if self._logprobs else None,
            "finish_reason": self.finish,
        }


def render_completion(order: Order, _: Channel, events: list[AnswerEvent]) -> Callable[[Usage], bytes]:
    """What writes a whole answer once its usage is known."""
    messages: dict[int, _Message] = {}
    id = order.answer_id
    for event in events:
        if isinstance(event, AnswerBegan):
            id = event.id
        else:
            messages.setdefault(event.choice, _Message()).take(event)
    choices = [messages[index].choice(index) for index in sorted(messages)]
    head = _head(order, id, "chat.completion")

    def write(usage: Usage) -> bytes:
        return rawjson.encode({**head, "choices": choices, "usage": as_object(usage)})

    return write
