"""Server-sent events: cuts them out of bytes that are split anywhere, and parses them.

There are two steps, so that events which need no examination can be passed on in bulk: a ``Framer`` cuts complete
events out of the bytes, and ``parse`` reads one of them. Where events are passed on unchanged, a ``PieceDecoder`` reads
runs of common ones, which are pieces of the answer. The time is linear in the number of bytes, however they are split.
The rules are in the WHATWG HTML standard, section 9.2.6.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Generic, TypeVar

import msgspec

BLANK = b"\n\n"
"""The end of an event, if all lines end with line feeds."""

BOM = b"\xef\xbb\xbf"


class SSEEvent(msgspec.Struct, frozen=True):
    """One event: its data, and its name, which may be empty.

    Several ``data`` lines are joined by line feeds, or by spaces if they are JSON, to pass on its parts as one line.
    """

    data: bytes
    name: bytes = b""


def write_event(name: bytes, data: bytes) -> bytes:
    """Returns the bytes of an event whose data is one line."""
    return b"event: %b\ndata: %b\n\n" % (name, data)


_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
"""Matches a blank line and the end of the line before it."""
_BLANK_LINES = re.compile(rb"(?>\r\n|\n|\r){2,}")


class Framer:
    """Cuts complete events out of bytes that are split anywhere. No byte is changed."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.has_returns = False
        """Whether a carriage return has come."""

    @property
    def held(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """Returns all events that are complete with these bytes, with their blank lines."""
        buffer = self._buffer
        if not buffer and data.endswith(BLANK) and data.find(b"\r") < 0:
            return data
        self.has_returns = self.has_returns or b"\r" in data
        search_from, end = max(0, len(buffer) - 3), 0
        buffer += data
        if self.has_returns:
            for match in _BLANK_LINE.finditer(buffer, search_from):
                if match.end() == len(buffer) and buffer.endswith(b"\n\r"):
                    break  # a line feed may follow
                end = match.end()
        elif (blank := buffer.rfind(BLANK, search_from)) >= 0:
            end = blank + len(BLANK)
        events = bytes(buffer[:end])
        del buffer[:end]
        return events

    def end(self) -> bytes:
        """Returns the incomplete event at the end of the bytes."""
        incomplete = bytes(self._buffer)
        self._buffer.clear()
        return incomplete


def with_line_feeds(events: bytes) -> bytes:
    """Returns events whose lines end with line feeds."""
    return events if events.find(b"\r") < 0 else events.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def parse(block: bytes) -> SSEEvent | None:
    """Returns the event in a block without its blank line; None if it has no data.

    A block that is JSON by itself counts as data: some upstreams send an answer, or the failure of one, like this.
    """
    if block.startswith(b"data: ") and b"\n" not in block:
        return SSEEvent(block[6:])
    if block.startswith(b"event: "):
        title, separator, value = block[7:].partition(b"\ndata: ")
        if separator and b"\n" not in title and b"\n" not in value:
            return SSEEvent(value, title)
    data: list[bytes] = []
    name, lines = b"", block.split(b"\n")
    for line in lines:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif field == b"error":  # llama.cpp reports errors like this
            data.append(value.removeprefix(b" "))
            name = field
    if not data and block.startswith((b"{", b"[")):
        data = lines
    if not data:
        return None
    return SSEEvent(data[0] if len(data) == 1 else _join_lines(data), name)


def _join_lines(lines: list[bytes]) -> bytes:
    """Returns the lines joined by spaces if they are valid JSON, otherwise by line feeds."""
    joined = b"\n".join(lines)
    try:
        msgspec.json.decode(joined)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return joined
    return b" ".join(lines)


def has_comment(block: bytes) -> bool:
    """Returns whether a line of the event is a comment."""
    return block.startswith(b":") or b"\n:" in block


IDLE = frozenset({b"ping", b"keep-alive", b"keepalive", b"heartbeat"})
"""Names and data of events that only keep a connection open."""
_NOTHING = frozenset({b"", b"null", b'""', b"[]"})


def is_idle(event: SSEEvent) -> bool:
    """Returns whether an event that cannot be read only keeps the connection open."""
    data = event.data.removeprefix(b"data:").strip().lower()
    return data in _NOTHING or not IDLE.isdisjoint((data, event.name.lower()))


def event_end(events: bytes, start: int, *, has_returns: bool) -> int:
    """Returns where the event at ``start`` ends, after all its blank lines. ``has_returns``: with carriage returns."""
    if has_returns:
        match = _BLANK_LINES.search(events, start)
        return match.end() if match else len(events)
    end = events.find(b"\n", start)
    while end >= 0 and not events.startswith(b"\n", end + 1):  # a search for two bytes takes ten times as long
        end = events.find(b"\n", end + 1)
    if end < 0:
        return len(events)
    end += 2
    while events.startswith(b"\n", end):  # thousands of blank lines would take long as events
        end += 1
    return end


SMALL_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=9_999_999)]
"""A number with too few digits to contain a secret."""
WINDOW = 28 << 10
"""The bytes of events that are decoded together: few, so that little is wasted if one of them is of another kind. From
30,000 bytes on, Python prepares each search for more than a few bytes, which takes longer than the search."""
PieceEvent = TypeVar("PieceEvent")


class PieceDecoder(Generic[PieceEvent]):
    """Decodes runs of events of one kind that contain a piece of the answer and nothing else."""

    def __init__(self, kinds: Iterable[str], shape: type[PieceEvent]) -> None:
        """``kinds`` are names of events, ``shape`` is the type of their data, which must forbid unknown fields."""
        self._heads = event_heads(frozenset(kinds))
        self._decoder: msgspec.json.Decoder[PieceEvent] = msgspec.json.Decoder(shape)

    def read(self, events: bytes, start: int, heads: frozenset[bytes] | None = None) -> tuple[list[PieceEvent], int]:
        """Returns the pieces from ``start`` on, and where they end; none if the first event is of another kind.

        ``heads``: the ``event_heads`` of some of the kinds, if only these are wanted.
        The data of all events is decoded as lines, so that invalid data cannot extend into the next event.
        """
        begin = events.find(b"{", start, start + 128) + 1
        head = events[start:begin]
        if head not in (self._heads if heads is None else heads):
            return [], start
        end = events.find(b"\n", begin)
        next_start = end + len(BLANK)
        if begin <= end <= start + WINDOW and not events.startswith(head, next_start):  # as most upstreams send them
            if not events.startswith(BLANK, end):
                return [], start
            try:
                return [self._decoder.decode(events[begin - 1 : end])], next_start
            except (msgspec.DecodeError, UnicodeDecodeError):
                return [], start
        parts = _run_data(events[begin : start + WINDOW], head)
        while parts:
            lines = b"\n{".join(parts)
            try:
                pieces = self._decoder.decode_lines(b"{" + lines)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pieces = []
            if len(pieces) == len(parts):
                return pieces, start + len(parts) * len(head) + len(lines) + len(BLANK)
            parts = parts[: len(parts) // 2]  # one of them has another form, perhaps in the second half
        return [], start


@lru_cache(maxsize=64)
def event_heads(kinds: frozenset[str]) -> frozenset[bytes]:
    """Returns how events of these kinds begin."""
    return frozenset(b"event: %b\ndata: {" % kind.encode() for kind in kinds)


def _run_data(window: bytes, head: bytes) -> list[bytes]:
    """Returns the data of the complete events before the first without ``head``, each without the brace that ends it.

    ``window`` begins after the head of the first event.
    """
    parts = window.split(BLANK + head)
    last, blank, _ = parts[-1].partition(BLANK)
    parts[-1:] = [last] if blank else []
    if b"\n" not in b"".join(parts):
        return parts
    number = next(number for number, part in enumerate(parts) if b"\n" in part)
    data, blank, _ = parts[number].partition(BLANK)  # an event of another kind follows, or this has several lines
    return [*parts[:number], data] if blank and b"\n" not in data else parts[:number]


def is_stream(body: bytes) -> bool:
    """Returns whether a body is an event stream."""
    first_line = body[:64].removeprefix(BOM).lstrip()
    return first_line.startswith((b"data:", b"event:", b"id:", b"retry:", b"error:", b":"))


def stream_in(body: bytes) -> bytes:
    """Returns the events in a body: all of a stream, one for each line if it is lines of JSON, else nothing.

    A body of more lines than any answer has is neither: to read them could take minutes.
    """
    if body.count(b"\n") > 600_000:
        return b""
    if is_stream(body):
        return body
    body = body.lstrip()
    line = body[: max(0, body.find(b"\n"))].strip()
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return b""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    lines = body.split(b"\n")
    return b"".join([b"data: %b\n\n" % line.strip() for line in lines if line.strip()]) if any(lines[1:]) else b""


_UNSEPARATED = re.compile(rb"\}\n(?=(?:event:[^\n]*\n)?data: ?(?:\{|\[DONE\]))")


def with_blank_lines(events: bytes) -> bytes:
    """Returns events with blank lines between them, which some upstreams leave out."""
    return _UNSEPARATED.sub(b"}\n\n", events)
