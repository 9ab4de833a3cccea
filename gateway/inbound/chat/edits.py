"""Edits chat completions that pass nearly unchanged: each chunk or whole answer is edited as little as needed.

Id, time and model are the same in all chunks. In each choice the role comes once and first, the finish reason once and
last. Tool calls are numbered from 0, and each is introduced exactly once, because clients concatenate what they get.
Everything else passes unchanged.
"""

from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerEvent, AnswerFinished, Citation, Medium
from gateway.domain.json_text import PIECE, pieces
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields, JsonObject
from gateway.domain.sse import BLANK
from gateway.domain.usage import Usage
from gateway.inbound.chat.render import CHUNK, COMPLETION, DONE, identity
from gateway.inbound.rendering import Renderer
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.openai.reader import ParsedChoice
from gateway.upstream.openai.tool_calls import tool_kind
from gateway.upstream.tool_call_tracker import TrackedCall
from gateway.upstream.usage_report import UsageReports

_LISTS = frozenset({"annotations", "images", "reasoning_details", "reasoning_steps", "thinking_blocks"})
"""Lists in deltas that clients put together."""
_TEXTS = (("reasoning_content", "reasoning", "reasoning_text", "thinking"), ("content",), ("refusal",))
"""Texts of a message in the order of a stream. The pieces of one with several names come under all of them at once."""

ReadCalls = Iterator[TrackedCall | None]
"""For each call in a chunk or an answer, what the tracker knew after it was read; None if it has no name yet."""


class ChunkEditor(Renderer):
    """Edits the chunks of one answer, or a whole answer."""

    all_choices = native = True
    chunk_object = CHUNK
    whole_object = COMPLETION
    """The ``object`` of a chunk, and of a whole answer."""
    state: AnswerState

    def __init__(self, order: Order) -> None:
        self._order = order
        self._head: Fields = {}
        """The client's id, object, created and model, fixed by the client's first chunk."""
        self._last: Fields = {}
        """What the upstream sent next to its usage, such as llama.cpp's timings."""
        self._begun: set[int] = set()
        self._ended: dict[int, str] = {}
        """The finish reason that the client has of each choice."""
        self._list_sizes: dict[tuple[int, str], int] = {}
        """How many items each list has so far, by the choice and the name of the list."""
        self.changed = False
        """Whether a chunk changed how later ones are handled."""

    def shows(self, event: Medium | Citation) -> bool:
        """Returns True: media and citations are in the chunks."""
        return True

    def take(self, event: AnswerEvent) -> bytes:
        """Returns a chunk for the end of a choice, unless the upstream's chunks had it. All else is in the chunks.

        Some relays send a reason after each chunk: the last one comes again if there were calls after the first.
        """
        if not isinstance(event, AnswerFinished):
            return b""
        fields = self.last_fields(event.choice, event.reason)
        if self._ended.get(event.choice) == event.reason and not fields.get("delta"):
            return b""
        self._ended[event.choice] = event.reason
        choice = {"index": event.choice, "logprobs": None, **fields}
        return b"data: %b" % rawjson.encode({**self._head, "choices": [choice]}) + BLANK

    def last_fields(self, index: int, reason: str) -> JsonObject:
        """Returns the content and the finish reason of the last chunk of a choice."""
        return {"delta": self._with_empty_arguments(index, {}), "finish_reason": reason}

    def edit(self, choice: ParsedChoice, calls: ReadCalls, *, has_content: bool) -> bool:
        """Edit a choice in place. Returns False if nothing of it is left for the client."""
        index, message, fields = choice.index, choice.message, choice.fields
        reason = self.state.reason(index)
        if (choice.calls or "tool_calls" in message) and edit_calls(choice, calls):
            self.changed = True
        if index in self._ended and not has_content:
            return False
        if not _LISTS.isdisjoint(message):
            self._number_items(index, message)
        message.pop("role", None)
        is_first = index not in self._begun
        if is_first:
            self._begun.add(index)
            self.changed = True
            message.setdefault("content", None)
            message["role"] = "assistant"
        ends_choice = bool(reason) and not (is_first or has_content or index in self._ended)  # else more may follow
        if ends_choice:
            self._ended[index] = reason
            self.changed = True
            message = self._with_empty_arguments(index, message)
        fields["finish_reason"] = reason if ends_choice else None
        fields |= {"index": index, "delta": message}
        fields.pop("usage", None)
        self._order.screen.clean(fields)
        return True

    def _with_empty_arguments(self, index: int, delta: JsonObject) -> JsonObject:
        """Returns the last delta of a choice, with the ``{}`` of its calls that were not continued, each once."""
        empty = [call for call in self.state.tracker(index).calls if call.arguments.empty_object]
        for call in empty:
            call.arguments.add("{}")
        added = [{"index": call.number, "function": {"arguments": "{}"}} for call in empty]
        return {**delta, "tool_calls": [*delta.get("tool_calls", ()), *added]} if added else delta

    def _number_items(self, index: int, message: JsonObject) -> None:
        """Number the items of lists in a delta: OpenAI's SDK puts them together by index, and fails without one."""
        for name in _LISTS & message.keys():
            if b'"index"' in bytes(message[name]):  # as OpenRouter numbers them
                continue
            start = self._list_sizes.get((index, name), 0)
            items = rawjson.list_at(message[name])
            if items and all(isinstance(item, dict) for item in items):
                self._list_sizes[index, name] = start + len(items)
                message[name] = [{"index": place, **item} for place, item in enumerate(items, start)]

    def write_event(self, chunk: JsonObject) -> bytes:
        """Returns a chunk as the client's event, with the head that all chunks have."""
        self._head = self._head or identity(chunk, self.state.upstream_id, self._order, self.chunk_object)
        chunk.update(self._head)
        self._order.screen.clean(chunk)
        return b"".join((b"data: ", rawjson.encode(chunk), BLANK))

    def tail(self, usage: Usage) -> bytes:
        """Returns the usage chunk and ``[DONE]``. The usage is the upstream's own report if it can be passed on."""
        if not self._order.include_usage:
            return DONE
        report = self.state.reports.for_client(usage, self._order.screen)
        return self.write_event({**self._head, **self._last, "choices": [], "usage": report}) + DONE

    def keep_last(self, chunk: Fields) -> None:
        """Keep what a chunk without content has for the usage chunk."""
        self._last = {name: raw.copy() for name, raw in chunk.items() if name not in ("choices", "usage")}

    def edit_whole(self, choice: ParsedChoice, calls: ReadCalls) -> None:
        """Edit a choice of a whole answer in place."""
        message, fields = choice.message, choice.fields
        edit_calls(choice, calls)
        message.setdefault("content", None)
        if not rawjson.maybe(message.get("role")):
            message["role"] = "assistant"
        fields |= {"index": choice.index, "message": message, "finish_reason": self.state.reason(choice.index)}
        self._order.screen.clean(fields)

    def split_choices(self, choices: list[JsonObject]) -> Iterator[JsonObject]:
        """Yields the choices of an edited whole answer as choices of chunks, with long texts in pieces."""
        ends = {choice["index"]: choice for choice in choices}
        for choice in choices:
            for delta in self._deltas_of(choice["index"], choice.pop("message")):
                yield {"index": choice["index"], "delta": delta, "finish_reason": None}
        for choice in ends.values():
            yield {**choice, "delta": {}}

    def _deltas_of(self, index: int, message: JsonObject) -> Iterator[JsonObject]:
        """Yields the deltas of a whole message: its role, its texts, its calls, and all else. Copilot writes a choice
        as several messages, and only the first one has the role.
        """
        del message["role"]
        if index not in self._begun:
            self._begun.add(index)
            yield {"role": "assistant", "content": ""}
        self._number_items(index, message)
        if "reasoning_details" in message and len(memoryview(message.get("reasoning", b""))) <= PIECE:
            # else OpenRouter's clients show the text twice
            yield {name: message.pop(name) for name in (*_TEXTS[0], "reasoning_details") if name in message}
        for names in _TEXTS:
            texts = {name: text for name in names if not rawjson.is_null(text := message.pop(name, None))}
            split = [map(msgspec.Raw, pieces(text)) for text in texts.values()]
            for parts in zip_longest(*split, fillvalue=rawjson.EMPTY_TEXT):
                yield dict(zip(texts, parts, strict=True))
        calls, start = message.pop("tool_calls", ()), self._list_sizes.get((index, "tool_calls"), 0)
        self._list_sizes[index, "tool_calls"] = start + len(calls)
        for number, call in enumerate(calls, start):
            kind = tool_kind(call)
            field = "arguments" if kind == "function" else "input"
            first, *rest = [*map(msgspec.Raw, pieces(call[kind][field]))] or [rawjson.EMPTY_TEXT]
            yield {"tool_calls": [{"index": number, **call, kind: {**call[kind], field: first}}]}
            for piece in rest:
                yield {"tool_calls": [{"index": number, kind: {field: piece}}]}
        if message:
            yield message


def edit_calls(choice: ParsedChoice, calls: ReadCalls) -> bool:
    """Write the tool calls as clients rely on them, without empty ones. Returns whether one of them is new."""
    pairs = list(zip(choice.calls, calls, strict=False))
    edited = [each for raw, call in pairs if (each := _edited_call(raw, call, whole=choice.whole)) is not None]
    if choice.message.pop("tool_calls", rawjson.NULL) != rawjson.NULL and edited:  # else it is an older function call
        choice.message["tool_calls"] = edited
    return any(call is not None and call.is_new for _, call in pairs)


def _edited_call(raw: Fields, call: TrackedCall | None, *, whole: bool) -> JsonObject | None:
    """Returns what the client gets of a tool call or its delta; None if it gets nothing."""
    if call is None or (whole and not call.is_new):
        return None
    own_fields = ("index", "id", "type", "function", "custom")
    extra_fields = {name: value for name, value in raw.items() if name not in own_fields}
    if not (call.is_new or call.added_name or call.added_arguments or extra_fields):
        return None
    kind = tool_kind(raw)
    text_field = "arguments" if kind == "function" else "input"
    inner: JsonObject = {} if rawjson.is_null(raw.get(kind)) else rawjson.fields(raw[kind])
    inner.pop("name", None)
    inner.pop(text_field, None)
    edited: JsonObject = extra_fields if whole else {"index": call.number, **extra_fields}
    if call.is_new:
        edited |= {"id": call.id, "type": kind}
        inner["name"] = call.name
    elif call.added_name:  # clients concatenate the pieces of a name
        inner["name"] = call.added_name
    if "name" in inner or call.added_arguments:
        inner[text_field] = msgspec.Raw(call.added_arguments or b'""')
    edited[kind] = inner
    return edited


def edit_head(answer: JsonObject, reports: UsageReports, usage: Usage | None, head: Fields, order: Order) -> None:
    """Edit what a whole answer has next to its choices. ``usage`` is what was reported, ``head`` its ``identity``."""
    if usage is None:
        answer.pop("usage", None)
    else:
        answer["usage"] = reports.for_client(usage, order.screen)
    answer.update(head)
    order.screen.clean(answer)
