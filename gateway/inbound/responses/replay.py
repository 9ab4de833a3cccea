"""Replay: the items of a whole response as the events of a stream, for an upstream that sent none when it should have.

Clients read texts from their deltas, so each text and each input of a tool comes as one.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import NULL, Fields

Step = tuple[str, dict[str, Any]]
"""The type without ``response.``, and fields."""
_TEXTS = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
    "summary_text": ("reasoning_summary_text", "text"),
}
"""Events and field of a part's text, by the part's type."""
_INPUTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
}
"""The same for a call, by the item's type."""
_PARTS = (("content", "content_part", "content_index"), ("summary", "reasoning_summary_part", "summary_index"))
_EMPTY = msgspec.Raw(b'""')
_NONE = msgspec.Raw(b"[]")


def item_events(number: int, raw: msgspec.Raw) -> Iterator[Step]:
    """Yields the events of one item at this place of the output. Raises ValueError for anything else."""
    item = rawjson.fields(raw)
    place = {"output_index": number}
    inner: dict[str, Any] = {"item_id": item.get("id", _EMPTY), **place}
    kind = str(rawjson.maybe(item.get("type")))
    begun: Fields = {**item, "status": rawjson.raw("in_progress")} if "status" in item else dict(item)
    parts = [
        (event, {**inner, index: i}, rawjson.fields(part))
        for name, event, index in _PARTS
        for i, part in enumerate(_items(item.get(name)))
    ]
    begun |= {name: _NONE for name, _, _ in _PARTS if _items(item.get(name))}
    if kind in _INPUTS:
        begun[_INPUTS[kind][1]] = _EMPTY
    yield "output_item.added", {**place, "item": begun}
    for event, at, part in parts:
        yield from _part_events(event, at, part)
    if kind in _INPUTS:
        name, field = _INPUTS[kind]
        text = item.get(field, _EMPTY)
        yield f"{name}.delta", {**inner, "delta": text}
        yield f"{name}.done", {**inner, field: text} | ({"name": item["name"]} if "name" in item else {})
    yield "output_item.done", {**place, "item": raw}


def _part_events(event: str, place: dict[str, Any], part: Fields) -> Iterator[Step]:
    """Yields the events of a part. Reasoning has events only for its texts, beside those of its summary."""
    name, field = _TEXTS.get(str(rawjson.maybe(part.get("type"))), ("", ""))
    framed = name != "reasoning_text"
    if framed:
        begun = {**part, field: _EMPTY} if name else part
        if "annotations" in part:
            begun["annotations"] = _NONE
        yield f"{event}.added", {**place, "part": begun}
    if name:
        more = {"logprobs": part.get("logprobs", _NONE)} if name == "output_text" else {}
        text = part.get(field, _EMPTY)
        yield f"{name}.delta", {**place, "delta": text, **more}
        for number, annotation in enumerate(_items(part.get("annotations"))):
            yield "output_text.annotation.added", {**place, "annotation_index": number, "annotation": annotation}
        yield f"{name}.done", {**place, field: text, **more}
    if framed:
        yield f"{event}.done", {**place, "part": part}


def _items(raw: msgspec.Raw | None) -> list[msgspec.Raw]:
    """Returns the elements of an array; none for anything else."""
    return rawjson.items(raw or NULL) if bytes(memoryview(raw or NULL)[:1]) == b"[" else []
