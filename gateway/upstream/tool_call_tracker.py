"""ToolCallTracker: finds the tool call that each piece of a choice belongs to, however the upstream identifies calls.

Upstreams repeat ids and names, count from 1 or not at all, give every call the same index, send a call again whole, or
change the id in the middle. So:

- A piece without a name never opens a call. It continues the call with its id or index, or else the last one. Before
  the first call, it is held until a name comes.
- An equal id means the same call, whatever the index, unless both name and index differ, or a call is complete and
  another index begins with its name alone. The same call again, whole, adds nothing.
- Arguments that begin with a whole ``{}`` are what follows it, or ``{}`` if nothing does.
- A name at a known index opens another call if its id differs, unless its text can only be more of the arguments, or,
  without ids, if the arguments so far are complete or belong to another name. Where calls have ids, a different name
  without an id, or with the same id, is more of the name.

Calls are numbered from 0 without gaps, and each has an id of its own.
"""

import hashlib

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import ToolCallPart, join_strings
from gateway.domain.json_text import ObjectEnd

_EMPTY = b'""'
_EMPTY_OBJECT = b'"{}"'
MAX_CALLS = 512
"""The maximum number of calls in an answer: four times as many as any vendor allows."""
TOO_MANY = "too_many_tool_calls"
"""The finish reason of an answer with more."""


class Arguments:
    """The arguments of a call so far. Their text is not kept, because an upstream may send any amount of it."""

    __slots__ = ("_cumulative", "_digest", "_end", "_last_text", "_read_size", "_unread", "empty_object", "size")

    def __init__(self) -> None:
        self._unread: list[str] = []
        """Pieces that have not been read: most arguments are never examined."""
        self._read_size = 0
        """The number of characters in the pieces that have been read."""
        self._end = ObjectEnd()
        self._digest = hashlib.blake2b(digest_size=16)
        self._last_text = ""
        """The last piece that is not blank."""
        self._cumulative = False
        """Whether a piece repeated everything before it."""
        self.size = 0
        """The number of characters in all pieces."""
        self.empty_object = False
        """Whether they are only ``{}`` so far. It is not counted, because some upstreams send it before the others."""

    def add(self, text: str) -> None:
        self.empty_object = False
        self._unread.append(text)
        self.size += len(text)
        if self.size - self._read_size > 64 << 10:
            self._read()

    @property
    def complete(self) -> bool:
        """Returns whether the arguments are a complete JSON object."""
        self._read()
        return self.empty_object or self._end.reached

    @property
    def is_cut(self) -> bool:
        """Returns whether the arguments are only the beginning of a JSON object."""
        self._read()
        return self._end.depth > 0

    def equals(self, text: str) -> bool:
        if self.empty_object or self.size != len(text):
            return self.empty_object and text == "{}"
        return self.is_start_of(text)

    def is_start_of(self, text: str) -> bool:
        """Returns whether the arguments are the beginning of a text, or all of it."""
        self._read()
        start = text[: self.size].encode("utf-8", "surrogatepass")
        return self._digest.digest() == hashlib.blake2b(start, digest_size=16).digest()

    def without_repeated(self, text: str) -> str:
        """Returns what a piece adds: some upstreams repeat all arguments so far in every piece.

        A piece that begins with these arguments cannot continue them, except where a JSON value may begin.
        """
        if not text.startswith("{") or not 0 < self.size <= len(text):
            return text
        if (self.wants_value and not self._cumulative) or not self.is_start_of(text):
            return text
        self._cumulative = True
        return text[self.size :]

    @property
    def wants_value(self) -> bool:
        """Returns whether a JSON value may follow."""
        self._read()
        return self._last_text.rstrip().endswith((":", ",", "["))

    def _read(self) -> None:
        for piece in self._unread:
            self._end.add(piece)
            self._digest.update(piece.encode("utf-8", "surrogatepass"))
            self._last_text = piece if piece.strip() else self._last_text
        self._unread.clear()
        self._read_size = self.size


class TrackedCall(msgspec.Struct, eq=False):
    """A call that was opened."""

    number: int
    id: str
    """The id that the client gets."""
    name: str
    arguments: Arguments
    upstream_id: str
    """The upstream's id; empty if it has sent none yet."""
    is_new: bool = True
    """Whether the last piece opened it."""
    added_name: str = ""
    """What the last piece added to the name, unless it opened the call."""
    added_arguments: bytes = b""
    """What the last piece added to the arguments, as a JSON string; empty if nothing."""


class ToolCallTracker:
    """The tool calls of one choice so far."""

    def __init__(self, seed: str, *, native: bool, whole: bool) -> None:
        """``native``: clients get the upstream's own pieces of arguments. ``whole``: calls do not come in pieces."""
        self._seed = seed
        """Missing ids are made from it, so that they differ between answers."""
        self._native = native
        self._whole = whole
        self.calls: list[TrackedCall] = []
        self.last: TrackedCall | None = None
        """The call of the last piece; None if its name has not come yet."""
        self._by_index: dict[int, TrackedCall] = {}
        self._by_id: dict[str, TrackedCall] = {}
        self.nameless: dict[tuple[str, int | None], list[bytes]] = {}
        """The pieces of calls whose name has not come yet, by their ids and indexes."""
        self._held_bytes = 0

    @property
    def full(self) -> bool:
        """Returns whether there are more calls than any model makes."""
        return len(self.calls) + len(self.nameless) > MAX_CALLS

    def number_at(self, index: int) -> int:
        """Returns the number of the call at an upstream's index, or -1."""
        call = self._by_index.get(index)
        return -1 if call is None else call.number

    def add(self, part: ToolCallPart) -> TrackedCall | None:
        """Returns the call of a piece, after adding the piece; None if its name has not come yet. Raises ValueError."""
        call = self._find_call(part)
        if call is not None:
            self._continue(call, part)
        elif part.name:
            call = self._open(part)
        else:
            self._hold(part)
        self.last = call
        return call

    def _find_call(self, part: ToolCallPart) -> TrackedCall | None:
        """Returns the call that a piece continues; None if it opens one, or must be held."""
        text = rawjson.text(part.piece) if part.name and part.piece else ""
        by_id = self._by_id.get(part.id) if part.id else None
        if by_id is not None:
            is_whole = part.name and is_object(text) and by_id.arguments.size and by_id.arguments.complete
            is_moved = part.name and part.index is not None and self._by_index.get(part.index) is not by_id
            is_another = is_moved and (part.name != by_id.name or (not text and by_id.arguments.complete))
            return None if is_another or (is_whole and not by_id.arguments.equals(text)) else by_id
        at_index = None if part.index is None else self._by_index.get(part.index)
        newest = self.calls[-1] if self.calls else None
        if not part.name:
            may_begin = part.id and part.piece in (b"", _EMPTY)  # an id and nothing else
            return at_index or (None if may_begin else newest)
        if at_index is not None and part.id:
            goes_on = not at_index.upstream_id or _goes_on(at_index.arguments, text)
            return at_index if goes_on and at_index.name == part.name else None
        call = at_index if part.id or part.index is not None else newest
        return None if call is None or _names_another(call, part, text) else call

    def _continue(self, call: TrackedCall, part: ToolCallPart) -> None:
        """Add a piece to a call, which may get its id or more of its name from it."""
        if part.id and not call.upstream_id:
            call.upstream_id = part.id
            self._by_id.setdefault(part.id, call)
        if part.index is not None:
            self._by_index[part.index] = call
        call.is_new = False
        call.added_name = "" if call.arguments.complete else part.name.removeprefix(call.name)
        call.name += call.added_name
        call.added_arguments = b"" if self._is_empty_object(call, part) else _add_arguments(call.arguments, part)

    def _open(self, part: ToolCallPart) -> TrackedCall:
        """Open a call, with the pieces that were held for it."""
        held_id, held_index = self._nameless_at(part) or ("", None)
        held = self.nameless.pop((held_id, held_index), [])
        part = part if held else _unwrap(part)
        upstream_id, number = part.id or held_id, len(self.calls)
        is_new = bool(upstream_id) and upstream_id not in self._by_id
        call_id = upstream_id if is_new else made_id(self._seed, number)
        call = TrackedCall(number, call_id, part.name, Arguments(), upstream_id)
        self.calls.append(call)
        if is_new:
            self._by_id[upstream_id] = call
        for index in (part.index, held_index):
            if index is not None:
                self._by_index[index] = call
        pieces = [piece for piece in (*held, part.piece) if piece not in (b"", _EMPTY)]
        if len(pieces) == 1 and self._is_empty_object(call, part):
            pieces = []
        for piece in pieces:
            call.arguments.add(rawjson.text(piece))
        call.added_arguments = join_strings(pieces) if pieces else b""
        return call

    def _is_empty_object(self, call: TrackedCall, part: ToolCallPart) -> bool:
        """Returns whether the arguments begin with this piece, and it is a whole ``{}``, which is noted."""
        if call.arguments.size or part.custom or self._whole or part.piece != _EMPTY_OBJECT:
            return False
        if self._native and (part.index is None or not part.name):  # the older function calls have no index
            return False
        call.arguments.empty_object = True
        return True

    def _nameless_at(self, part: ToolCallPart) -> tuple[str, int | None] | None:
        """Returns the id and index of the nameless call that a name completes; None if the name begins a new call."""
        for id, index in self.nameless:
            if id == part.id or (part.index is not None and index == part.index) or not part.id:
                return id, index
        return None

    def _hold(self, part: ToolCallPart) -> None:
        """Hold a piece, which belongs to the first nameless call if it has no id."""
        key = (part.id, part.index) if part.id else next(iter(self.nameless), ("", part.index))
        pieces = self.nameless.setdefault(key, [])
        self._held_bytes += len(part.piece)
        if self._held_bytes <= 1 << 20:
            pieces.append(part.piece)


def _goes_on(arguments: Arguments, text: str) -> bool:
    """Returns whether a text can only be more of these arguments, and not the beginning of others."""
    begins = text.startswith("{") and not arguments.wants_value
    return arguments.size > 0 and text != "" and not begins and not arguments.complete


def _names_another(call: TrackedCall, part: ToolCallPart, text: str) -> bool:
    """Returns whether a name without an id opens another call than the one at its place."""
    if part.name != call.name:
        return call.arguments.complete or not call.upstream_id
    if not text:
        return part.index is None and call.arguments.complete
    return is_object(text) and call.arguments.complete and not call.arguments.equals(text)


def _add_arguments(arguments: Arguments, part: ToolCallPart) -> bytes:
    """Add a piece to the arguments. Returns what is new in it, as a JSON string; empty if nothing is."""
    if not arguments.size:
        part = _unwrap(part)
    text = rawjson.text(part.piece) if part.piece else ""
    if not text or (part.name and is_object(text) and arguments.equals(text)):
        return b""
    if part.is_whole:
        new_text = text[arguments.size :] if arguments.size < len(text) and arguments.is_start_of(text) else ""
    else:
        new_text = text if part.custom else arguments.without_repeated(text)
    arguments.add(new_text)
    if new_text == text:
        return part.piece
    return rawjson.encode(new_text) if new_text else b""


def _unwrap(part: ToolCallPart) -> ToolCallPart:
    """Returns a call's first piece. Arguments in two JSON strings are unwrapped once; Groq's ``null`` means none."""
    if part.piece == b'"null"' and not part.custom:
        return msgspec.structs.replace(part, piece=_EMPTY_OBJECT)
    if part.custom or not part.piece.startswith(b'"\\"'):
        return part
    inner = rawjson.maybe(rawjson.text(part.piece).encode("utf-8", "surrogatepass"))
    unwraps = isinstance(inner, str) and is_object(inner)
    return msgspec.structs.replace(part, piece=rawjson.encode(inner)) if unwraps else part


def is_object(text: str) -> bool:
    """Returns whether a text is a JSON object by itself."""
    end = ObjectEnd()
    end.add(text)
    return end.reached


def made_id(seed: str, number: int) -> str:
    """Returns an id for a call without one. Like the seed, it differs between answers."""
    return "call_" + hashlib.sha256(f"{seed}/{number}".encode("utf-8", "replace")).hexdigest()[:24]
