"""The tool calls of a streamed choice, numbered from 0 without gaps, each introduced exactly once.

Clients add up what they get: a repeated id becomes a doubled id, an index that is missing or starts at 1 breaks them.
Upstreams do all of that, so calls are distinguished by index where it can be trusted, else by id, else by name.
"""

import hashlib

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.rawjson import Fields

_INTRODUCTION = ("id", "type")


class _Call(msgspec.Struct):
    """One call that was introduced."""

    number: int
    id: str
    """The upstream's; empty if it gave none yet."""
    named: bool = False


class ToolCalls:
    """The calls of one choice so far."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        """Ids that are missing are made of it, so that they differ from answer to answer."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, deltas: list[Fields], tally: OutputCounter) -> list[Fields]:
        """The deltas as the client gets them; those that say nothing are left out. Raises ValueError."""
        out = [self._one(delta, tally) for delta in deltas]
        return [delta for delta in out if delta is not None]

    def _one(self, delta: Fields, tally: OutputCounter) -> Fields | None:
        kind, inner = _inner(delta)
        name, call_id = _string(inner.get("name")), _string(delta.get("id"))
        call = self._find(delta, call_id, name)
        new = call is None
        if call is None:
            call = self._open(delta, call_id, tally)
        out = {key: value for key, value in delta.items() if key not in {*_INTRODUCTION, kind} or new}
        out["index"] = rawjson.raw(call.number)
        if new:
            out["id"] = rawjson.raw(call.id or made_id(self._seed, call.number))
            out["type"] = rawjson.raw(kind)
        said = spoken(inner, kind, tally, first=not call.named)
        call.named = call.named or bool(name)
        if not new and not said and len(out) == 1:
            return None
        out[kind] = rawjson.raw(said)
        return out

    def _find(self, delta: Fields, call_id: str, name: str) -> _Call | None:
        """The call that a delta continues; None if it opens one."""
        index = _index(delta)
        if index is None:
            if call_id:
                return next((call for call in self._calls if call.id == call_id), None)
            return self._calls[-1] if self._calls and not name else None
        call = self._by_index.get(index)
        if call and call_id:
            call.id = call.id or call_id
            return call if call.id == call_id else None
        return call

    def _open(self, delta: Fields, call_id: str, tally: OutputCounter) -> _Call:
        call = _Call(len(self._calls), call_id)
        self._calls.append(call)
        index = _index(delta)
        if index is not None:
            self._by_index[index] = call
        tally.tool()
        return call


def made_id(seed: str, number: int) -> str:
    """An id for a call that has none, different from answer to answer as the seed is."""
    return "call_" + hashlib.sha256(f"{seed}/{number}".encode("utf-8", "replace")).hexdigest()[:24]


def _inner(delta: Fields) -> tuple[str, Fields]:
    """The kind of a call and what it says."""
    kind = "custom" if "custom" in delta else "function"
    inner = delta.get(kind)
    return kind, {} if inner is None or rawjson.is_null(inner) else rawjson.fields(inner)


def spoken(inner: Fields, kind: str, tally: OutputCounter, *, first: bool) -> Fields:
    """What a call says, counted: the name only the first time, arguments always as a string."""
    key = "input" if kind == "custom" else "arguments"
    out = dict(inner)
    name, said = _string(out.get("name")), out.get(key)
    if first:
        tally.add(name)
    else:
        out.pop("name", None)
    if said is None or rawjson.is_null(said):
        out.pop(key, None)
        if first:
            out[key] = rawjson.raw("")
        return out
    if bytes(said)[:1] != b'"':
        out[key] = rawjson.raw(bytes(said).decode())
    tally.add(rawjson.text(out[key]))
    return out


def _index(delta: Fields) -> int | None:
    index = rawjson.value(delta.get("index"))
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _string(value: msgspec.Raw | None) -> str:
    found = rawjson.value(value)
    return found if isinstance(found, str) else ""
