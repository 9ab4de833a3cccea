"""Tools: the tool calls of a streamed choice, numbered from 0 without gaps, each introduced exactly once.

Clients add up what they get: a repeated id becomes a doubled id, an index that is missing or starts at 1 breaks them.
Upstreams do all of that, so calls are told apart by index where it can be trusted, else by id, else by name.
"""

import hashlib

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.rawjson import Fields
from gateway.upstream.tally import Tally

_INTRODUCTION = ("id", "type")


class _Call(msgspec.Struct):
    """One call that was introduced."""

    number: int
    id: str
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

    def take(self, deltas: list[Fields], tally: Tally) -> list[Fields]:
        """The deltas as the client gets them; those that say nothing are left out. Raises ValueError."""
        out = [self._one(delta, tally) for delta in deltas]
        return [delta for delta in out if delta is not None]

    def _one(self, delta: Fields, tally: Tally) -> Fields | None:
        kind, inner = _inner(delta)
        name, call_id = _string(inner.get("name")), _string(delta.get("id"))
        call = self._find(delta, call_id, name)
        new = call is None
        if call is None:
            call = self._open(delta, call_id, tally)
        out = {key: value for key, value in delta.items() if key not in {*_INTRODUCTION, kind} or new}
        out["index"] = rawjson.raw(call.number)
        if new:
            out["id"] = rawjson.raw(call.id)
            out["type"] = rawjson.raw(kind)
        out[kind] = rawjson.raw(_spoken(call, kind, inner, name, tally))
        if not new and bytes(out[kind]) == b"{}" and len(out) == 2:
            return None
        return out

    def _find(self, delta: Fields, call_id: str, name: str) -> _Call | None:
        """The call that a delta continues; None if it opens one."""
        index = _index(delta)
        if index is None:
            if call_id:
                return next((call for call in self._calls if call.id == call_id), None)
            return self._calls[-1] if self._calls and not name else None
        call = self._by_index.get(index)
        return None if call and call_id and call.id != call_id else call

    def _open(self, delta: Fields, call_id: str, tally: Tally) -> _Call:
        number = len(self._calls)
        made = hashlib.sha256(f"{self._seed}/{number}".encode("utf-8", "replace")).hexdigest()[:24]
        call = _Call(number, call_id or "call_" + made)
        self._calls.append(call)
        index = _index(delta)
        if index is not None:
            self._by_index[index] = call
        tally.tool()
        return call


def _inner(delta: Fields) -> tuple[str, Fields]:
    """The kind of a call and what it says."""
    kind = "custom" if "custom" in delta else "function"
    inner = delta.get(kind)
    return kind, {} if inner is None or rawjson.is_null(inner) else rawjson.fields(inner)


def _spoken(call: _Call, kind: str, inner: Fields, name: str, tally: Tally) -> Fields:
    """Name once, arguments always as a string."""
    key = "input" if kind == "custom" else "arguments"
    first = not call.named
    out = {field: value for field, value in inner.items() if field not in {"name", key}}
    if first and name:
        call.named = True
        out = {"name": rawjson.raw(name), **out}
        tally.add(name)
    said = inner.get(key)
    if said is None or rawjson.is_null(said):
        if first:
            out[key] = rawjson.raw("")
        return out
    out[key] = said if bytes(said)[:1] == b'"' else rawjson.raw(bytes(said).decode())
    tally.add(rawjson.text(out[key]))
    return out


def _index(delta: Fields) -> int | None:
    index = rawjson.value(delta.get("index"))
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _string(value: msgspec.Raw | None) -> str:
    found = rawjson.value(value)
    return found if isinstance(found, str) else ""
