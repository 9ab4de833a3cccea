"""Renders answers of other dialects as chat completions: the chunks of a stream, and whole completions.

They have OpenAI's own fields, and those that clients know from other gateways: ``reasoning_content``, ``images``,
Google's ``extra_content`` with a signature for the next request, and in whole answers Anthropic's ``thinking_blocks``.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    SealKind,
    ToolCallBegan,
)
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, JsonObject
from gateway.domain.usage import Usage, as_object
from gateway.inbound.rendering import Renderer, WholeBlock, WholeRenderer
from gateway.upstream.answer_state import ID_LIMIT

DONE = b"data: [DONE]\n\n"
CHUNK, COMPLETION = msgspec.Raw(b'"chat.completion.chunk"'), msgspec.Raw(b'"chat.completion"')
"""The ``object`` of a chunk, and of a whole completion."""


def identity(answer: Fields, upstream_id: str, order: Order, kind: msgspec.Raw) -> Fields:
    """Returns an answer's id, object, time and requested model. An invalid id or time is replaced by the order's."""
    created = answer.get("created", NULL)
    is_time = bytes(created).isdigit() and bytes(created) != b"0"
    return {
        "id": rawjson.raw(upstream_id if 0 < len(upstream_id) < ID_LIMIT else order.answer_id),
        "object": kind,
        "created": created.copy() if is_time else rawjson.raw(order.created),
        "model": rawjson.raw(order.model),
    }


def _call(event: ToolCallBegan, arguments: msgspec.Raw) -> JsonObject:
    """Returns a tool call without its index."""
    kind, key = ("custom", "input") if event.custom else ("function", "arguments")
    call = {"id": event.id, "type": kind, kind: {"name": event.name, key: arguments}}
    if event.signature:
        call["extra_content"] = {"google": {"thought_signature": event.signature}}
    return call


def _with_function_call(choice: JsonObject, name: str) -> JsonObject:
    """Returns a choice in the legacy spelling, which has one call. Other calls stay in ``tool_calls``."""
    said = dict(choice[name])
    first, *others = said.pop("tool_calls", [{}])
    if "function" in first and not first.get("index"):  # neither a custom tool's call nor another one
        said |= {"function_call": first["function"], **({"tool_calls": others} if others else {})}
        choice = {**choice, name: said}
    return {**choice, "finish_reason": "function_call"} if choice["finish_reason"] == "tool_calls" else choice


_TEXT_FIELDS = {BlockKind.TEXT: "content", BlockKind.REFUSAL: "refusal", BlockKind.REASONING: "reasoning_content"}


def _delta(event: AnswerEvent) -> JsonObject:
    match event:
        case Piece(kind=BlockKind.TOOL_CALL):  # of a function: channels with custom tools send chunks of their own
            return {"tool_calls": [{"index": event.number, "function": {"arguments": msgspec.Raw(event.piece)}}]}
        case Piece():
            return {_TEXT_FIELDS[event.kind]: msgspec.Raw(event.piece)}
        case ToolCallBegan():
            return {"tool_calls": [{"index": event.number, **_call(event, rawjson.EMPTY_TEXT)}]}
        case Medium():
            image = {"type": "image_url", "image_url": {"url": event.link}}
            audio = {"id": "audio_0", "data": event.data, "expires_at": 0, "transcript": ""}
            return {"images": [image]} if event.is_image else {"audio": audio}
        case Citation():
            place = {"start_index": event.start or 0, "end_index": event.end or event.start or 0}
            cited = {"content": event.cited} if event.cited else {}
            inner = {"url": event.url, "title": event.title, **place, **cited}
            return {"annotations": [{"type": "url_citation", "url_citation": inner}]}
    return {}


class ChatRenderer(Renderer):
    """Writes the chunks of a stream."""

    all_choices = renders_audio = True

    def __init__(self, order: Order) -> None:
        self._order = order
        self._begun: set[int] = set()
        """The choices whose first chunk the client has."""
        self._list_sizes: dict[tuple[int, str], int] = {}
        """How many images and annotations each choice has so far, by the choice and the name of the list."""
        self._head: JsonObject = identity({}, "", order, CHUNK)
        self._text_head = b""
        """The bytes of a chunk before a piece of text of the first choice."""

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, AnswerBegan):
            self._head["id"] = event.id
            self._text_head = b"data: %b" % rawjson.encode(self._head)[:-1] + (
                b',"choices":[{"index":0,"delta":{"content":'
            )
            return self._begin(0)
        if isinstance(event, Piece) and event.kind is BlockKind.TEXT and not (event.choice or event.logprobs):
            return b'%b%b},"logprobs":null,"finish_reason":null}]}\n\n' % (self._text_head, event.piece)
        if isinstance(event, BlockEnded | Seal):
            return b""
        out = b"" if event.choice in self._begun else self._begin(event.choice)
        if isinstance(event, AnswerFinished):
            return out + self._chunk(event.choice, {}, finish=event.reason)
        logprobs = None
        if isinstance(event, Piece) and event.logprobs:
            logprobs = {"content": msgspec.Raw(event.logprobs), "refusal": None}
        delta = _delta(event)
        for name in ("images", "annotations"):
            if name in delta:
                place = self._list_sizes.get((event.choice, name), 0)
                self._list_sizes[event.choice, name] = place + 1
                delta[name] = [{"index": place, **delta[name][0]}]  # OpenAI's SDK assembles lists by it
        return out + self._chunk(event.choice, delta, logprobs=logprobs)

    def tail(self, usage: Usage) -> bytes:
        if not self._order.include_usage:
            return DONE
        return b"data: " + rawjson.encode({**self._head, "choices": [], "usage": as_object(usage)}) + b"\n\n" + DONE

    def _begin(self, choice: int) -> bytes:
        self._begun.add(choice)
        return self._chunk(choice, {"role": "assistant", "content": ""})

    def _chunk(
        self, choice: int, delta: JsonObject, *, finish: str | None = None, logprobs: JsonObject | None = None
    ) -> bytes:
        said = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        if self._order.form.has_functions:
            said = _with_function_call(said, "delta")
        return b"data: " + rawjson.encode({**self._head, "choices": [said]}) + b"\n\n"


class WholeChatRenderer(WholeRenderer):
    """Writes a whole completion."""

    all_choices = renders_audio = True

    def tail(self, usage: Usage) -> bytes:
        choices = [self._choice(self.finishes[index]) for index in sorted(self.finishes)]
        head = identity({}, self.id, self._order, COMPLETION)
        head["system_fingerprint"] = NULL  # OpenRouter's SDK needs it
        return rawjson.encode({**head, "choices": choices, "usage": as_object(usage)})

    def _choice(self, finish: AnswerFinished) -> JsonObject:
        blocks = [block for block in self.blocks if block.choice == finish.choice]
        logprobs = self.logprobs(finish.choice)
        choice = {
            "index": finish.choice,
            "message": self._message(finish, blocks),
            "logprobs": None if logprobs is None else {"content": logprobs, "refusal": None},
            "finish_reason": finish.reason,
        }
        return _with_function_call(choice, "message") if self._order.form.has_functions else choice

    def _message(self, finish: AnswerFinished, blocks: list[WholeBlock]) -> JsonObject:
        """Returns the message of a choice. If it has no text, its ``content`` is null if it has calls, else empty."""
        calls = [_call(block.call, block.text) for block in blocks if block.call is not None]
        kinds = (BlockKind.TEXT, BlockKind.REFUSAL, BlockKind.REASONING)
        content, refusal, reasoning = (self.text(kind, choice=finish.choice) for kind in kinds)
        if content is None and not calls:
            content = rawjson.EMPTY_TEXT
        message: JsonObject = {"role": "assistant", "content": content, "refusal": refusal}
        if reasoning is not None:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        for block in blocks:
            events: list[AnswerEvent] = [*block.media, *block.citations]
            for event in events:
                for name, value in _delta(event).items():
                    message[name] = [*message.get(name, ()), *value] if isinstance(value, list) else value
            if block.seal is not None and block.seal.kind is SealKind.ANTHROPIC:
                message.setdefault("thinking_blocks", []).extend(rawjson.value(block.seal.content))
        return message
