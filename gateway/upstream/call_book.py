"""The tool calls of one choice: which of them a piece belongs to, however the upstream identifies them.

Upstreams repeat ids and names, count from 1 or not at all, give every call the same index, send a call again whole, or
change the id in the middle. So:

- A piece without a name never opens a call. It continues the call of its id or index, or the last one; before the first
  call it waits for its name.
- An equal id is the same call, whatever the index, unless both name and index are others. The same call again, whole,
  adds nothing.
- A name at a known index opens another call if its id is another one, or, without ids, if the arguments so far are
  complete or belong to another name. Where calls have ids, another name without one, or with the same, is more of the
  name.

Calls are numbered from 0 without gaps, and each has an id of its own.
"""

import hashlib

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import ToolCallPart, join_strings
from gateway.domain.json_text import ObjectEnd
from gateway.domain.rawjson import NULL

_EMPTY = b'""'
KEPT = 64 << 10
"""How many characters of arguments wait to be examined."""

MOST_CALLS = 512
"""The most calls of one answer: four times as many as any vendor allows."""
TOO_MANY = "too_many_tool_calls"
"""The finish reason of an answer with more."""


class TooManyCalls(ValueError):
    """A message has too many calls to be decoded."""


class Arguments:
    """The arguments of a call so far. It knows whether they are complete, and compares them with another text."""

    __slots__ = ("_digest", "_end", "_last", "_pieces", "_repeats", "_waiting", "size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._waiting = 0
        self._end = ObjectEnd()
        self._digest = hashlib.blake2b(digest_size=16)
        self._last = ""
        """The last piece that was examined."""
        self._repeats = False
        """Whether pieces contain what came before them."""
        self.size = 0
        """Characters."""

    def add(self, text: str) -> None:
        """Add a piece."""
        self._pieces.append(text)
        self.size += len(text)
        self._waiting += len(text)
        if self._waiting > KEPT:
            self._look()

    @property
    def complete(self) -> bool:
        """Returns whether they are a whole JSON object."""
        self._look()
        return self._end.reached

    def same_as(self, text: str) -> bool:
        """Returns whether they are this text."""
        self._look()
        return self.size == len(text) and self._digest.digest() == _digest_of(text)

    def new_in(self, text: str) -> str:
        """Returns what a piece adds: some upstreams send all arguments again in every piece.

        No object within the arguments can begin as they do, except where a value may begin.
        """
        if not text.startswith("{") or not 0 < self.size <= len(text):
            return text
        self._look()
        if not self._repeats and self._last.rstrip().endswith((":", ",", "[")):
            return text
        if self._digest.digest() != _digest_of(text[: self.size]):
            return text
        self._repeats = True
        return text[self.size :]

    def _look(self) -> None:
        for piece in self._pieces:
            self._end.add(piece)
            self._last = piece if piece.strip() else self._last
            self._digest.update(piece.encode("utf-8", "surrogatepass"))
        self._pieces.clear()
        self._waiting = 0


def _digest_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class BookedCall(msgspec.Struct, eq=False):
    """One call that was opened."""

    number: int
    id: str
    """The client's id."""
    name: str
    arguments: Arguments
    given_id: str
    """The upstream's id; empty if it sent none yet."""
    more_name: str = ""
    """What the last piece added to the name."""


class _Waiting(msgspec.Struct, eq=False):
    """Pieces of a call without a name so far."""

    id: str
    index: int | None
    pieces: list[bytes]


class PlacedPart(msgspec.Struct, frozen=True, gc=False):
    """A piece and its call."""

    call: BookedCall
    opened: bool
    piece: bytes
    """What it adds to the arguments, as a JSON string; empty: nothing."""


class CallBook:
    """The calls so far."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        """Missing ids are made from it, so that they differ between answers."""
        self.calls: list[BookedCall] = []
        self.last: BookedCall | None = None
        """The call of the last piece; None if it waits for its name."""
        self._by_index: dict[int, BookedCall] = {}
        self._by_id: dict[str, BookedCall] = {}
        self._waiting: list[_Waiting] = []
        self._size = 0

    @property
    def nameless(self) -> bool:
        """Returns whether a piece came whose call has no name so far."""
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """Returns whether there are more calls than any model makes."""
        return len(self.calls) + len(self._waiting) > MOST_CALLS

    def __bool__(self) -> bool:
        return bool(self.calls)

    def number_at(self, index: int) -> int:
        """Returns the number of the call at an upstream's index; -1 if there is none."""
        call = self._by_index.get(index)
        return -1 if call is None else call.number

    def place(self, part: ToolCallPart) -> PlacedPart | None:
        """Returns where a piece belongs; None if it waits for its name. Raises ValueError."""
        placed = self._place(part)
        self.last = None if placed is None else placed.call
        return placed

    def _place(self, part: ToolCallPart) -> PlacedPart | None:
        said = rawjson.text(part.piece) if part.piece else ""
        call = self._known(part, said)
        if call is None:
            if part.name:
                return self._open(part)
            self._wait(part)
            return None
        if part.id and not call.given_id:
            call.given_id = part.id
            self._by_id.setdefault(part.id, call)
        if part.index is not None:
            self._by_index[part.index] = call
        call.more_name = "" if call.arguments.complete else part.name.removeprefix(call.name)
        call.name += call.more_name
        if not call.arguments.size:
            part = _unwrap(part)
            said = rawjson.text(part.piece) if part.piece else ""
        if not said or (part.name and _is_whole(said) and call.arguments.same_as(said)):
            return PlacedPart(call, opened=False, piece=b"")
        more = said if part.custom else call.arguments.new_in(said)
        call.arguments.add(more)
        piece = part.piece if more == said else rawjson.encode(more) if more else b""
        return PlacedPart(call, opened=False, piece=piece)

    def _known(self, part: ToolCallPart, text: str) -> BookedCall | None:
        """Returns the call that a piece continues; None if it opens one, or waits."""
        by_id = self._by_id.get(part.id) if part.id else None
        if by_id is not None:
            again = part.name and _is_whole(text) and by_id.arguments.complete
            moved = part.index is not None and self._by_index.get(part.index) is not by_id
            other = moved and part.name not in ("", by_id.name)
            return None if other or (again and not by_id.arguments.same_as(text)) else by_id
        at_index = None if part.index is None else self._by_index.get(part.index)
        if not part.name:
            return at_index or self._last(part)
        if at_index is not None and part.id:
            return at_index if not at_index.given_id and at_index.name == part.name else None
        known = at_index if part.index is not None else self.calls[-1] if self.calls and not part.id else None
        return None if known is None or self._is_another(known, part, text) else known

    def _last(self, part: ToolCallPart) -> BookedCall | None:
        """Returns the preceding call, for a piece without a name whose id and index are unknown.

        With an id and without arguments it may begin a call whose name follows.
        """
        begins = part.id and part.piece in (b"", _EMPTY)
        return self.calls[-1] if self.calls and not begins else None

    def _is_another(self, known: BookedCall, part: ToolCallPart, text: str) -> bool:
        """Returns whether a name without an id starts another call."""
        if part.name != known.name:
            return known.arguments.complete or not known.given_id
        if not text:
            return part.index is None and known.arguments.complete
        return _is_whole(text) and known.arguments.complete and not known.arguments.same_as(text)

    def _open(self, part: ToolCallPart) -> PlacedPart:
        waited = self._waited(part)
        part = part if waited.pieces else _unwrap(part)
        given = part.id or waited.id
        number = len(self.calls)
        fresh = given and given not in self._by_id
        call = BookedCall(number, given if fresh else made_id(self._seed, number), part.name, Arguments(), given)
        self.calls.append(call)
        if fresh:
            self._by_id[given] = call
        for index in (part.index, waited.index):
            if index is not None:
                self._by_index[index] = call
        pieces = [piece for piece in (*waited.pieces, part.piece) if piece not in (b"", _EMPTY)]
        for piece in pieces:
            call.arguments.add(rawjson.text(piece))
        return PlacedPart(call, opened=True, piece=join_strings(pieces) if pieces else b"")

    def _waited(self, part: ToolCallPart) -> "_Waiting":
        """Returns what waited for the name of this call."""
        for waiting in self._waiting:
            if waiting.id == part.id or (part.index is not None and waiting.index == part.index) or not part.id:
                self._waiting.remove(waiting)
                return waiting
        return _Waiting(part.id, part.index, [])

    def _wait(self, part: ToolCallPart) -> None:
        key = (part.id, part.index)
        waiting = next(
            (waiting for waiting in self._waiting if (waiting.id, waiting.index) == key or not part.id), None
        )
        if waiting is None:
            waiting = _Waiting(part.id, part.index, [])
            self._waiting.append(waiting)
        self._size += len(part.piece)
        if self._size <= 1 << 20:  # bytes
            waiting.pieces.append(part.piece)


def _unwrap(part: ToolCallPart) -> ToolCallPart:
    """Returns the first piece of a call; arguments that are JSON in a string, and the string in a string, become what
    they are.
    """
    if part.custom or not part.piece.startswith(b'"\\"'):
        return part
    inner = rawjson.maybe(rawjson.text(part.piece).encode("utf-8", "surrogatepass"))
    return msgspec.structs.replace(part, piece=rawjson.encode(inner)) if _is_object(inner) else part


def _is_object(text: object) -> bool:
    return isinstance(text, str) and _is_whole(text)


def _is_whole(text: str) -> bool:
    """Returns whether a text is a JSON object by itself."""
    end = ObjectEnd()
    end.add(text)
    return end.reached


def made_id(seed: str, number: int) -> str:
    """Returns an id for a call without one; it differs between answers, as the seed does."""
    return "call_" + hashlib.sha256(f"{seed}/{number}".encode("utf-8", "replace")).hexdigest()[:24]


def part_of(delta: dict[str, msgspec.Raw], choice: int = 0, position: int | None = None) -> ToolCallPart:
    """Returns the piece in a tool call of chat completions or its delta. Wrong JSON types are corrected.

    ``position`` is the index of a call without one. Raises ValueError if it is not a call.
    """
    kind = kind_of(delta)
    inner = rawjson.fields(delta[kind]) if not rawjson.is_null(delta.get(kind)) else delta
    return ToolCallPart(
        index=index_of(delta.get("index"), position),
        id=label(delta.get("id")),
        name=label(inner.get("name", delta.get("name"))),
        piece=argument_text(
            inner.get("input") if kind == "custom" else inner.get("arguments", inner.get("parameters"))
        ),
        custom=kind == "custom",
        signature=signature_in(delta.get("extra_content")),
        choice=choice,
    )


def kind_of(delta: dict[str, msgspec.Raw]) -> str:
    """Returns whether it calls a ``function`` or a ``custom`` tool. Snowflake sends both fields, one of them empty."""
    function, custom = (delta.get(name, NULL) for name in ("function", "custom"))
    if rawjson.is_null(custom):
        return "function"
    return "custom" if rawjson.is_null(function) or says_something(custom) else "function"


def says_something(call: msgspec.Raw) -> bool:
    """Returns whether an inner object of a call has a name or arguments, or is not an object."""
    inner = rawjson.maybe(call)
    return not isinstance(inner, dict) or any(inner.values())


def index_of(value: msgspec.Raw | None, default: int | None = None) -> int | None:
    """Returns an index, which may be text or a float; the default for anything else."""
    number = rawjson.maybe(value)
    if isinstance(number, str) and number.isascii() and number.isdigit():
        number = int(number[:6])
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if type(number) is int and number >= 0 else default


def calls_of(raw: msgspec.Raw) -> list[rawjson.Fields]:
    """Returns the tool calls in a field of a message; a single one need not be in a list.

    Raises ValueError if it has none, and TooManyCalls.
    """
    if bytes(raw).count(b'"function"') > 2 * MOST_CALLS + 2:  # the field, and the value of the type
        raise TooManyCalls("too many tool calls")
    given = rawjson.items(raw) if bytes(memoryview(raw)[:1]) != b"{" else [raw]
    calls = [rawjson.fields(call) for call in given if not rawjson.is_null(call)]
    if calls == [{}]:
        raise ValueError("no call")
    return calls


def label(value: msgspec.Raw | None) -> str:
    """Returns an id or a name: a number as its digits; empty for anything else but a string."""
    decoded = rawjson.maybe(value)
    return str(decoded) if type(decoded) is int else rawjson.text_at(decoded)


def argument_text(value: msgspec.Raw | None) -> bytes:
    """Returns arguments as a JSON string; JSON itself becomes its text. Empty without arguments."""
    if value is None or rawjson.is_null(value):
        return b""
    data = bytes(value)
    return data if data[:1] == b'"' else rawjson.encode(data.decode("utf-8", "replace"))


def signature_in(extra: msgspec.Raw | None) -> str:
    """Returns Google's signature, as its compatible API has it."""
    return rawjson.text_at(extra, "google", "thought_signature")
