"""The tool calls of a streamed choice as its client gets them: numbered from 0, each introduced exactly once.

Clients add up what they get: a repeated id becomes a doubled id, an index that is missing or starts at 1 breaks them.
``call_book`` says which call a piece belongs to.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.call_book import Arguments, CallBook, deltas_of, part_of


class CountedArguments:
    """Where a template puts the pieces of arguments that pass unopened."""

    def __init__(self, tally: OutputCounter, arguments: Arguments) -> None:
        self._tally = tally
        self._arguments = arguments

    def add(self, text: str) -> None:
        """More of them."""
        self._tally.add(text)
        self._arguments.add(text)


class ToolCalls:
    """The calls of one choice so far."""

    def __init__(self, seed: str) -> None:
        self.book = CallBook(seed)
        self.last: Arguments | None = None
        """Those of the call of the last piece."""

    def __bool__(self) -> bool:
        return bool(self.book)

    def take(self, deltas: msgspec.Raw, tally: OutputCounter) -> list[Fields]:
        """The deltas as the client gets them; those that say nothing are left out. Raises ValueError."""
        out = [self._one(delta, place, tally) for delta, place in deltas_of(deltas)]
        return [delta for delta in out if delta is not None]

    def _one(self, delta: Fields, place: int | None, tally: OutputCounter) -> Fields | None:
        part = part_of(delta, position=place)
        placed = self.book.place(part)
        if placed is None:
            return None
        kind, key = ("custom", "input") if part.custom else ("function", "arguments")
        call, self.last = placed.call, placed.call.arguments
        out = {name: value for name, value in delta.items() if name not in ("id", "type", kind)}
        if not (placed.opened or placed.piece or out.keys() - {"index"}):
            return None
        out["index"] = rawjson.raw(call.number)
        inner = {} if rawjson.is_null(delta.get(kind)) else rawjson.fields(delta[kind])
        inner.pop("name", None)
        inner.pop(key, None)
        if placed.opened:
            tally.tool()
            tally.add(call.name)
            out |= {"id": rawjson.raw(call.id), "type": rawjson.raw(kind)}
            inner["name"] = rawjson.raw(call.name)
        if placed.piece or placed.opened:
            inner[key] = msgspec.Raw(placed.piece or b'""')
            tally.add(rawjson.text(inner[key]))
        out[kind] = rawjson.raw(inner)
        return out
