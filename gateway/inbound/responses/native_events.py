"""Events of native responses: which of them are regular, and the events of an item that came whole.

Nearly all of a vendor's events are regular: they have content and nothing else. Consecutive ones are decoded together,
and pass unchanged. An event with another field, or of another kind, is decoded by itself.

If an upstream did not stream, its items are written as the events of a stream. Clients read texts from their deltas, so
each text and each input of a tool is sent as one delta. If it streamed without being asked, its items are put together.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Literal

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import SMALL_NUMBER, PieceDecoder

TypedEvent = tuple[str, dict[str, Any]]
"""The type without ``response.``, and the fields."""
_TEXT_EVENTS = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
    "summary_text": ("reasoning_summary_text", "text"),
}
"""The name of the events with a part's text, and the part's field with it, by the part's type."""
_INPUT_EVENTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
}
"""The name of the events with a call's input, and the item's field with it, by the item's type."""
_PART_LISTS = (("content", "content_part", "content_index"), ("summary", "reasoning_summary_part", "summary_index"))
"""The fields of items with parts, the name of the parts' events, and the field with a part's number."""

_TEXT_NAMES = (
    *(event for event, _ in (*_TEXT_EVENTS.values(), *_INPUT_EVENTS.values())),
    *("reasoning", "code_interpreter_call_code", "shell_call_command"),
)
PIECE_KINDS = frozenset(f"response.{name}.delta" for name in _TEXT_NAMES)
TEXT_KINDS = PIECE_KINDS | {f"response.{name}.done" for name in _TEXT_NAMES}
"""The types of events with a piece or the whole of a text of the model in a field of their own."""
ITEM_PIECES = {
    "message": "response.output_text.delta",
    "reasoning": "response.reasoning_summary_text.delta",
    **{kind: f"response.{event}.delta" for kind, (event, _) in _INPUT_EVENTS.items()},
}
"""The type of the events with the usual pieces of an item, by its type."""
PART_KINDS = frozenset(f"response.{event}.{end}" for _, event, _ in _PART_LISTS for end in ("added", "done"))
"""The types of events with a part of an item."""
KINDS = (*TEXT_KINDS, *PART_KINDS)


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part with its content, and nothing else."""

    type: Literal["output_text", "refusal", "reasoning_text", "summary_text"]
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
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
    command_index: SMALL_NUMBER = 0
    logprobs: msgspec.Raw = NULL
    obfuscation: str = ""
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    code: msgspec.Raw = NULL
    command: msgspec.Raw = NULL
    part: _Part | None = None


PIECES = PieceDecoder(KINDS, _Piece)


def item_events(number: int, raw: msgspec.Raw) -> Iterator[TypedEvent]:
    """Yields the events of the item at this place of the output. Raises ValueError unless it is an object."""
    item = rawjson.fields(raw)
    output_index = {"output_index": number}
    place: dict[str, Any] = {"item_id": item.get("id", rawjson.EMPTY_TEXT), **output_index}
    event, field = _INPUT_EVENTS.get(rawjson.text_at(item.get("type")), ("", ""))
    empty = {**item, "status": rawjson.raw("in_progress")} if "status" in item else dict(item)
    empty |= {name: rawjson.EMPTY_LIST for name, _, _ in _PART_LISTS if rawjson.maybe_items(item.get(name))}
    if field:
        empty[field] = rawjson.EMPTY_TEXT
    yield "output_item.added", {**output_index, "item": empty}
    for name, part_event, index in _PART_LISTS:
        for i, part in enumerate(rawjson.maybe_items(item.get(name))):
            yield from _part_events(part_event, {**place, index: i}, rawjson.maybe_fields(part))
    if event:
        text = item.get(field, rawjson.EMPTY_TEXT)
        yield f"{event}.delta", {**place, "delta": text}
        yield f"{event}.done", {**place, field: text} | ({"name": item["name"]} if "name" in item else {})
    yield "output_item.done", {**output_index, "item": raw}


def _part_events(event: str, place: dict[str, Any], part: Fields) -> Iterator[TypedEvent]:
    """Yields the events of a part. A part with reasoning has only the events of its text."""
    name, field = _TEXT_EVENTS.get(rawjson.text_at(part.get("type")), ("", ""))
    has_frame = name != "reasoning_text"
    if has_frame:
        empty = {**part, field: rawjson.EMPTY_TEXT} if name else dict(part)
        if "annotations" in part:
            empty["annotations"] = rawjson.EMPTY_LIST
        yield f"{event}.added", {**place, "part": empty}
    if name:
        logprobs = {"logprobs": part.get("logprobs", rawjson.EMPTY_LIST)} if name == "output_text" else {}
        text = part.get(field, rawjson.EMPTY_TEXT)
        yield f"{name}.delta", {**place, "delta": text, **logprobs}
        for number, annotation in enumerate(rawjson.maybe_items(part.get("annotations"))):
            yield "output_text.annotation.added", {**place, "annotation_index": number, "annotation": annotation}
        yield f"{name}.done", {**place, field: text, **logprobs}
    if has_frame:
        yield f"{event}.done", {**place, "part": part}


_PIECE_FIELDS = {f"response.{event}": ("", "", field) for event, field in _INPUT_EVENTS.values()} | {
    f"response.{event}": ("content" if "summary" not in event else "summary", kind, field)
    for kind, (event, field) in _TEXT_EVENTS.items()
}
"""By the name of an item's events: its list of parts, the type of a part, and the field with the text."""
_Pieces = dict[tuple[str, object], str]
"""The texts of an item, by the name of their events and the number of the part."""


def items_in(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the items of a stream, in order. One that has no end, or no content at its end, is made of its pieces.

    Some upstreams give all items the same index, or none.
    """
    items: list[tuple[int, dict[str, Any]]] = []
    begun: dict[int, dict[str, Any]] = {}
    pieces: dict[int, _Pieces] = {}
    ids: dict[int, Any] = {}
    for event in events:
        place, item = event.get("output_index"), event.get("item")
        place = place if type(place) is int else len(items)
        name, _, end = str(event.get("type")).rpartition(".")
        if name == "response.output_item" and isinstance(item, dict):
            if end == "added" or (place in pieces and _is_empty(item)):
                begun[place] = item
            else:
                items.append((place, item))
        elif name in _PIECE_FIELDS:
            ids[place] = event.get("item_id")
            _add_piece(pieces.setdefault(place, {}), name, event)
    unended = pieces.keys() - {place for place, _ in items}
    items += [(place, _item_of(begun.get(place, {"id": ids[place]}), pieces[place])) for place in unended]
    return [item for _, item in sorted(items, key=itemgetter(0))]


def _is_empty(item: Mapping[str, Any]) -> bool:
    contents = [item[name] for name in ("content", "summary", "arguments", "input") if name in item]
    return bool(contents) and not any(contents)


def _add_piece(pieces: _Pieces, name: str, event: Mapping[str, Any]) -> None:
    """Add a delta, or the whole text, which some upstreams send too early."""
    key = name, rawjson.whole_number(event.get("content_index", event.get("summary_index")))
    before, text = pieces.get(key, ""), rawjson.text_at(event, _PIECE_FIELDS[name][2])
    pieces[key] = max(before + rawjson.text_at(event, "delta"), text, key=len)


def _item_of(begun: Mapping[str, Any], pieces: _Pieces) -> dict[str, Any]:
    """Returns an item with these texts; ``begun`` is its beginning, which may be missing."""
    contents: dict[str, Any] = {}
    for (name, _), text in pieces.items():
        parts, kind, field = _PIECE_FIELDS[name]
        if parts:
            annotations: dict[str, Any] = {"annotations": []} if kind == "output_text" else {}
            contents.setdefault(parts, []).append({"type": kind, field: text, **annotations})
        else:
            contents[field] = text
    is_reasoning = all("reasoning" in name for name, _ in pieces)
    default = {"type": "reasoning"} if is_reasoning else {"type": "message", "role": "assistant"}
    return {**default, **begun, "status": "completed", **contents}
