"""MissingEvents: finds what a native stream leaves out of its items.

Many clients read texts from their pieces, and calls from the ends of items. Some relays send texts only as a whole, or
only the ends of items, or items only in the last event.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import event_heads
from gateway.inbound.responses.native_events import (
    ITEM_PIECES,
    PART_KINDS,
    PIECE_KINDS,
    TypedEvent,
    item_events,
    items_in,
)

_PREFIX = "response."
_TEXTS = ("text", "refusal", "arguments", "input", "code", "command")
"""Fields with a whole text."""


class MissingEvents:
    """What a client lacks of the items of one stream."""

    def __init__(self) -> None:
        self.has_begun_items = False
        """Whether the beginning of an item came."""
        self._regular = frozenset[str]()
        """The types of events that came and can pass: whole texts only after pieces of their kind."""
        self.regular_heads = event_heads(self._regular)
        self._added: set[object] = set()
        """The places of the items whose whole texts the client also gets as pieces; None for one without a place."""
        self._complete: set[object] = set()
        """The places of the calls that began with their input."""
        self._texts: list[dict[str, Any]] = []
        """The events with whole texts that came without an item."""

    def begin_item(self, fields: Fields, item: Fields) -> None:
        """Note an event with the beginning of an item. A call may begin with its whole input."""
        self.has_begun_items = True
        if not all(rawjson.is_nothing(item.get(name, NULL)) for name in ("arguments", "input")):
            self._complete.add(_place(fields))

    def can_pass(self, kind: str, fields: Fields) -> bool:
        """Returns whether an event with a part, or with a piece or the whole of a text, has all that clients need."""
        if kind not in self._regular and (kind in PIECE_KINDS or kind in PART_KINDS):
            self._regular |= PART_KINDS if kind in PART_KINDS else {kind, kind.removesuffix("delta") + "done"}
            self.regular_heads = event_heads(self._regular)
        return kind in self._regular or _place(fields) in self._complete

    def piece_before(self, kind: str, fields: Fields) -> TypedEvent | None:
        """Returns the piece that must precede a whole text; None if the text waits for its item."""
        if not self.has_begun_items:
            self._texts.append(rawjson.value(rawjson.raw(fields)))
            return None
        piece = {name: value for name, value in fields.items() if name not in ("type", *_TEXTS)}
        piece["delta"] = next((fields[name] for name in _TEXTS if name in fields), rawjson.EMPTY_TEXT)
        self._added.add(_place(fields))
        return kind.removeprefix(_PREFIX).removesuffix("done") + "delta", piece

    def events_before_end(self, place: int, item: msgspec.Raw, kind: str = "") -> list[TypedEvent]:
        """Returns the events that must precede the end of an item, which is at this place of the output.

        ``kind`` is its type, with which most items need not be read.
        """
        if ITEM_PIECES.get(kind) in self._regular:
            return []
        events = [*item_events(place, item)][:-1]
        pieces = [event for event in events if not rawjson.is_nothing(event[1].get("delta", NULL))]
        is_added = any(each in places for each in (place, None) for places in (self._added, self._complete))
        if is_added or not self._regular.isdisjoint(_PREFIX + name for name, _ in pieces):
            return []
        if not self.has_begun_items:
            return events
        return pieces if self._regular >= PART_KINDS else events[1:]

    def events_of_items(self, output: msgspec.Raw) -> Iterator[TypedEvent]:
        """Yields the events of items that only the last event has, as LiteLLM writes it: Codex ignores such calls."""
        for place, item in enumerate(rawjson.items(output) if rawjson.maybe_objects(output) else ()):
            begun = [] if self.has_begun_items else [*item_events(place, item)][:1]
            yield from self.events_before_end(place, item) or begun
            yield "output_item.done", {"output_index": place, "item": item}

    def items(self) -> list[dict[str, Any]]:
        """Returns the items of the texts that came without one."""
        return items_in(self._texts)


def _place(fields: Fields) -> int | None:
    return rawjson.whole_number(rawjson.maybe(fields.get("output_index")))
