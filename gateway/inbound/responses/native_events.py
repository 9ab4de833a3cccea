"""Events of native responses: which of them are regular, and which of them a stream lacks.

Nearly all of a vendor's events are regular: they have content and nothing else. Consecutive ones are decoded together,
and pass unchanged. An event with another field, or of another kind, is decoded by itself.

Many clients read texts from their pieces, and calls from the ends of items. Some relays send texts only as a whole, or
only the ends of items, or items only in the last event, and some upstreams do not stream. So an item is written as the
events of a stream, with each text and each input of a tool as one piece: those of them that did not come are sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import SMALL_NUMBER, PieceDecoder, event_heads
from gateway.inbound.responses.output import INPUT_EVENTS, PART_LISTS, TEXT_EVENTS, TypedEvent, item_events
from gateway.upstream.openai.responses_reader import ItemPlaces
from gateway.upstream.openai.tool_calls import lenient_index, lenient_text

_NEEDED: Mapping[str, Fields] = {
    "message": {"content": rawjson.EMPTY_LIST},
    "reasoning": {"summary": rawjson.EMPTY_LIST},
    **{kind: {field: rawjson.EMPTY_TEXT} for kind, (_, field) in TEXT_EVENTS.items()},
}
"""The fields without which Codex ignores an item, and the pieces that follow, by the type of the item or part."""

_THOUGHTS = {"content": "reasoning_text", "summary": "summary_text"}
_TEXT_NAMES = (
    *(event for event, _ in (*TEXT_EVENTS.values(), *INPUT_EVENTS.values())),
    *("code_interpreter_call_code", "shell_call_command"),
)
PIECE_KINDS = frozenset(f"response.{name}.delta" for name in _TEXT_NAMES)
TEXT_KINDS = PIECE_KINDS | {f"response.{name}.done" for name in _TEXT_NAMES}
"""The types of events with a piece or the whole of a text of the model in a field of their own."""
_ITEM_PIECES = {
    "message": "response.output_text.delta",
    "reasoning": "response.reasoning_summary_text.delta",
    **{kind: f"response.{event}.delta" for kind, (event, _) in INPUT_EVENTS.items()},
}
"""The type of the events with the usual pieces of an item, by its type."""
PART_KINDS = frozenset(f"response.{event}.{end}" for _, event, _ in PART_LISTS for end in ("added", "done"))
"""The types of events with a part of an item."""
KINDS = (*TEXT_KINDS, *PART_KINDS)
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
TEXT_PIECE, _PART_ADDED = "response.output_text.delta", "response.content_part.added"
_PART_EVENTS = PART_KINDS | {f"response.{name}.{end}" for name, _ in TEXT_EVENTS.values() for end in ("delta", "done")}
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    **{f"response.{state}": ("sequence_number",) for state in ("created", "in_progress", "completed", "incomplete")},
    **dict.fromkeys((*KINDS, _ADDED, _DONE), ("sequence_number", "output_index")),
    **{
        kind: ("sequence_number", "output_index", "summary_index" if "summary" in kind else "content_index")
        for kind in _PART_EVENTS
    },
}
"""The numbers that an event must have, by its type: its own, its item's and its part's."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part with its content, and nothing else."""

    type: Literal["output_text", "reasoning_text", "summary_text"]
    text: str
    annotations: msgspec.Raw = NULL
    logprobs: msgspec.Raw = NULL


class _Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A regular event, with its content and the other fields that the vendor writes."""

    type: Literal[KINDS]  # type: ignore[valid-type]  # msgspec reads it at run time
    delta: str = ""
    sequence_number: SMALL_NUMBER | None = None
    item_id: str = ""
    output_index: SMALL_NUMBER = 0
    content_index: SMALL_NUMBER = 0
    summary_index: SMALL_NUMBER = 0
    logprobs: msgspec.Raw = NULL
    obfuscation: str = ""
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    part: _Part | None = None


PIECES = PieceDecoder(KINDS, _Piece)


def with_needed(fields: Fields, lists: Iterable[str] = ("content", "summary")) -> Fields:
    """Returns an item or a part with the lists and texts that it must have. Some relays leave out empty ones.

    A call without an id, as with llama.cpp, gets the id of its result. Parts of reasoning get types of their own:
    some upstreams call them texts of the answer.
    """
    kind = rawjson.text_at(fields.get("type"))
    needed = {"id": fields["call_id"]} if kind == "function_call" and "call_id" in fields else _NEEDED.get(kind, {})
    whole = fields | {name: empty for name, empty in needed.items() if rawjson.is_null(fields.get(name))}
    for name in fields.keys() & lists:
        parts = rawjson.maybe_objects(fields[name]) or []
        own = {"type": rawjson.raw(_THOUGHTS[name])} if kind == "reasoning" else {}
        if parts != (whole_parts := [with_needed({**part, **own}, ()) for part in parts]):
            whole[name] = rawjson.raw(whole_parts)
    return whole


_ITEM_TEXTS = frozenset(f"response.{event}.done" for event, _ in (*TEXT_EVENTS.values(), *INPUT_EVENTS.values()))
"""The types of events with a whole text that the end of its item has too."""


class MissingEvents:
    """Finds what a client lacks of the items of one stream: events of the types that did not come."""

    def __init__(self) -> None:
        self._types = frozenset[str]()
        """The types of events that came, and the whole texts that may follow pieces."""
        self.regular_heads = event_heads(self._types)
        self._places = ItemPlaces()
        self._begun: dict[int | None, Fields] = {}
        """The items as they began, by their places; the one that began last also by None."""
        self.has_other_ids: bool | None = None
        """Whether events have other ids than their items began with; None until the first event shows it."""
        self._has_own_numbers = False
        """Whether an event had other numbers or another id, or lacked one. Then each event is decoded by itself."""
        self.first_part: int | None = 0
        """The number of the first part of the newest item with parts; None until that comes."""
        self._ended = set[str]()
        """The call_ids of the calls that ended, and an empty one if any item ended."""
        self._sources: list[Fields] = []
        """The events from which the output is made if the last event has none, or other ids: ends of items, and texts
        that came whole, without pieces before them."""

    def with_first_id(self, kind: str, fields: Fields, item: Fields) -> Fields:
        """Returns an event with the id that its item began with. SDKs fail on Copilot's, which change all the time."""
        id = item.get("id", NULL) if kind == _DONE else fields.get("item_id", NULL)
        if kind == _ADDED or id == NULL:
            return fields
        if lenient_text(id) in self._places.by_id:
            self.has_other_ids = bool(self.has_other_ids)
            return fields
        begun = self._begun.get(lenient_index(fields.get("output_index")), {})
        owner = "message" if kind == TEXT_PIECE else rawjson.text_at(item.get("type", begun.get("type")))
        if "id" not in begun or owner != rawjson.text_at(begun.get("type")):
            return fields
        self.has_other_ids = self._has_own_numbers = True
        self.regular_heads = frozenset()
        if kind == _DONE:
            return {**fields, "item": rawjson.raw({**item, "id": begun["id"]})}
        return {**fields, "item_id": begun["id"]}

    def with_numbers(self, kind: str, fields: Fields, item: Fields, number: int) -> Fields:
        """Returns an event with all its numbers. llama.cpp leaves them out, on which SDKs fail, or ignore the event.

        9router gives all items one place, on which Codex ignores a call. vLLM counts the parts of all items together.
        """
        names = _NUMBERS.get(kind, ())
        numbers = {name: rawjson.raw(0) for name in names if fields.get(name, NULL) == NULL}
        if "sequence_number" in numbers or (self._has_own_numbers and "sequence_number" in fields):
            numbers["sequence_number"] = rawjson.raw(number)
        if "content_index" in names and (self.first_part is None or self._has_own_numbers):
            part = lenient_index(fields.get("content_index")) or 0
            self.first_part = part if self.first_part is None else self.first_part
            numbers["content_index"] = rawjson.raw(part - self.first_part)
        if "output_index" in names and (kind in (_ADDED, _DONE) or numbers or self._has_own_numbers):
            numbers["output_index"] = rawjson.raw(self._places.place_of(kind, fields, item))
        if numbers.items() <= fields.items():
            return fields
        self._has_own_numbers, self.regular_heads = True, frozenset()
        return {**fields, **numbers}

    def with_items(self, response: Fields) -> Fields:
        """Returns the last response with the items of the stream, if it has no items, or items with other ids."""
        output = response.get("output", rawjson.EMPTY_LIST)
        if not (self.has_other_ids or rawjson.is_nothing(output)):
            return response
        items = items_in(rawjson.value(rawjson.raw(fields)) for fields in self._sources)
        has_all = len(items) >= len(rawjson.maybe_objects(output) or ())
        return {**response, "output": rawjson.raw(items)} if items and has_all else response

    def begin_text(self, fields: Fields) -> list[TypedEvent]:
        """Returns the events of its item and its part that must precede a piece of a text, if it is the first.

        LiteLLM and sub2api leave them out after reasoning. SDKs fail on such a piece, or ignore it.
        """
        id = rawjson.text_at(fields.get("item_id"))
        newest = rawjson.text_at(self._begun.get(None, {}).get("type"))
        is_known = newest == "message" or id in self._places.by_id  # some upstreams write no id
        if TEXT_PIECE in self._types or _ADDED not in self._types or (is_known and _PART_ADDED in self._types):
            return []
        self._has_own_numbers, self.regular_heads, self.first_part = True, frozenset(), None
        place = self._places.place_of(TEXT_PIECE if is_known else _ADDED, fields, {})
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item = {"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": [part]}
        item_begins, part_begins, *_ = item_events({"output_index": place}, rawjson.raw(item))
        return [part_begins] if is_known else [item_begins, part_begins]

    def can_pass(self, kind: str, fields: Fields) -> bool:
        """Returns whether a part or a text can pass. A whole text without pieces waits for the end of its item."""
        if kind in PIECE_KINDS and rawjson.is_null(fields.get("delta")):  # sub2api's for reasoning: SDKs fail
            return False
        if kind in self._types:
            return True
        if kind in _ITEM_TEXTS:
            self._sources.append(fields)
            return False
        self._note(*(PART_KINDS if kind in PART_KINDS else (kind, kind.removesuffix("delta") + "done")))
        return True

    def begin_item(self, fields: Fields, item: Fields) -> None:
        """Note the beginning of an item. A call may begin with its whole input."""
        self._begun |= {None: item, lenient_index(fields["output_index"]): item}
        kind = rawjson.text_at(item.get("type"))
        self.first_part = None if kind in ("message", "reasoning") else self.first_part
        self._note(_ADDED)
        event, field = INPUT_EVENTS.get(kind, ("", ""))
        if event and not rawjson.is_nothing(item.get(field, NULL)):
            self._note(f"response.{event}.delta", f"response.{event}.done")

    def end_item(self, fields: Fields, item: Fields) -> list[TypedEvent] | None:
        """Returns the events that must precede the end of an item; None if the end must wait for the last event, which
        may have the input that this end lacks, as OpenRouter writes it.
        """
        self._sources.append(fields)
        kind = rawjson.text_at(item.get("type"))
        has_pieces = _ITEM_PIECES.get(kind) in self._types
        _, field = INPUT_EVENTS.get(kind, ("", ""))
        if field and "call_id" in item and not has_pieces and rawjson.is_nothing(item.get(field)):
            return None
        self._ended |= {"", rawjson.text_at(item.get("call_id"))}
        return [] if has_pieces else [*self._events_of(fields["output_index"], fields["item"])][:-1]

    def events_of_items(self, output: msgspec.Raw) -> Iterator[TypedEvent]:
        """Yields the events of items that only the last event has, as LiteLLM writes it: Codex ignores such calls.

        Some upstreams leave out just the ends of calls. vLLM gives calls other ids there, although all of them ended.
        """
        raw_items = rawjson.items(output) if rawjson.maybe_objects(output) else []
        call_ids = [rawjson.text_at(raw, "call_id") for raw in raw_items]
        lacks_calls = sum(map(bool, call_ids)) > len(self._ended - {""})
        for place, (call_id, raw) in enumerate(zip(call_ids, raw_items, strict=True)):
            if call_id not in self._ended and (lacks_calls or not call_id):
                yield from self._events_of(self._places.by_id.get(rawjson.text_at(raw, "id"), place), raw)

    def _note(self, *types: str) -> None:
        if not self._types.issuperset(types):
            self._types = self._types.union(types)
            self.regular_heads = event_heads(self._types.intersection(() if self._has_own_numbers else KINDS))

    def _events_of(self, place: object, item: msgspec.Raw) -> Iterator[TypedEvent]:
        """Yields the events of an item that did not come. If any of its pieces did, so did all of its content."""
        events = [*item_events({"output_index": place}, item)]
        pieces = PIECE_KINDS.intersection(f"response.{name}" for name, _ in events)
        has_content = not pieces.isdisjoint(self._types)
        for name, fields in events:
            kind = f"response.{name}"
            if kind == _DONE or (kind not in self._types and (kind == _ADDED or not has_content)):
                yield name, fields


def items_in(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the items of a stream, in order. A message without an end, or without a text there, is made of pieces."""
    items = dict[int, dict[str, Any]]()
    messages = dict[int, dict[str, Any]]()
    for event in events:
        kind, place, item = event.get("type"), event.get("output_index"), event.get("item")
        place = place if type(place) is int else len(items)
        if kind in ("response.output_text.delta", "response.output_text.done"):
            part = {"type": "output_text", "text": "", "annotations": []}
            head = {"id": event.get("item_id"), "type": "message", "role": "assistant", "status": "completed"}
            (part,) = messages.setdefault(place, {**head, "content": [part]})["content"]
            part["text"] = max(part["text"] + rawjson.text_at(event, "delta"), rawjson.text_at(event, "text"), key=len)
        elif kind == _DONE and isinstance(item, dict) and (item.get("content") != [] or place not in messages):
            items[place] = item
    return [item for _, item in sorted((messages | items).items())]
