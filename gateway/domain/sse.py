"""Server-sent events, cut out of bytes that are split anywhere, and parsed.

Events are read in two steps, so that those which need no examination can be passed on in bulk: a ``Framer`` cuts
complete events out of the bytes, ``parse`` reads one of them. Where events pass unchanged, a ``RawFramer`` cuts them,
and a ``PieceDecoder`` reads the usual ones: pieces of the answer in a common form, as many as follow each other. Time
is linear in the bytes, whatever the splits. The rules are those of the WHATWG HTML standard, section 9.2.6.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Generic, TypeVar

import msgspec

EVENT_LIMIT = 16 * 1024 * 1024
"""The most bytes of one event, without its blank line."""

BLANK = b"\n\n"
"""Ends an event once all line ends are line feeds."""

BOM = b"\xef\xbb\xbf"


class SSEEvent(msgspec.Struct, frozen=True):
    """One event: its data, and its ``event`` name or empty.

    Several ``data`` lines are joined by line feeds, or by spaces if they are JSON, as parts of it may be passed on
    unchanged.
    """

    data: bytes
    name: bytes = b""


class EventTooLong(Exception):
    """An event is longer than any upstream has reason to send."""


_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
"""A blank line, and the end of the line before it."""


class RawFramer:
    """Cuts complete events out of bytes that are split anywhere. No byte is changed."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def held(self) -> int:
        """Returns the bytes of an incomplete event."""
        return len(self._rest)

    def feed(self, data: bytes) -> bytes:
        """Returns the complete events, with their blank lines."""
        rest = self._rest
        if not rest and data.endswith(BLANK) and b"\r" not in data:
            return data
        if len(rest) <= 4096 and b"\r" not in data and b"\r" not in rest:  # joining so little costs nothing
            joined = bytes(rest) + data if rest else data
            blank = joined.rfind(BLANK)
            end = blank + 2 if blank >= 0 else 0
            rest[:] = joined[end:]
            return joined[:end]
        search_from, end = max(0, len(rest) - 3), 0
        rest += data
        for match in _END.finditer(rest, search_from):
            if match.end() == len(rest) and rest.endswith(b"\n\r"):
                break  # its line feed follows
            end = match.end()
        events = bytes(rest[:end])
        del rest[:end]
        return events

    def end(self) -> bytes:
        """Returns what is left at the end of the bytes."""
        left = bytes(self._rest)
        self._rest.clear()
        return left


class Framer(RawFramer):
    """Cuts events like ``RawFramer``, with line feeds for all line ends, without a leading byte order mark, and with a
    limit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Returns all complete events, each ended by a blank line; may be empty. Raises EventTooLong."""
        if self._begun and not self._rest and data.endswith(BLANK) and data.find(b"\r") < 0 and len(data) < EVENT_LIMIT:
            return data
        events = self._even(super().feed(data))
        longest = max(map(len, events.split(BLANK))) if len(events) > EVENT_LIMIT else self.held
        if longest > EVENT_LIMIT:
            raise EventTooLong(f"an event is longer than {EVENT_LIMIT >> 20} MiB")
        return events

    def end(self) -> bytes:
        """Returns what is left at the end of the bytes: an event whose blank line never came, or nothing."""
        return self._even(super().end())

    def _even(self, events: bytes) -> bytes:
        if not self._begun and events:
            self._begun = True
            events = events.removeprefix(BOM)
        return events.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in events else events


def parse(block: bytes) -> SSEEvent | None:
    """Parses one event without its blank line. Returns None if it has no data: only comments, or nothing."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return SSEEvent(block[6:])
    if block.startswith(b"event: "):
        title, separator, value = block[7:].partition(b"\ndata: ")
        if separator and b"\n" not in title and b"\n" not in value:
            return SSEEvent(value, title)
    data: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif field == b"error":  # llama.cpp reports errors like this
            data.append(value.removeprefix(b" "))
            name = field
    return SSEEvent(data[0] if len(data) == 1 else _join_lines(data), name) if data else None


def _join_lines(lines: list[bytes]) -> bytes:
    """Joins lines of JSON. Between tokens a line feed is whitespace; inside a string it is an error, which remains."""
    joined = b"\n".join(lines)
    try:
        msgspec.json.decode(joined)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return joined
    return b" ".join(lines)


def has_comment(block: bytes) -> bool:
    """Returns whether a line of the event is a comment."""
    return block.startswith(b":") or b"\n:" in block


def event_end(events: bytes, start: int, *, returns: bool) -> int:
    """Returns where the event at ``start`` ends, with its blank line. ``returns``: lines may end in carriage
    returns.
    """
    if returns:
        match = _END.search(events, start)
        return match.end() if match else len(events)
    end = events.find(b"\n", start)
    while end >= 0 and not events.startswith(b"\n", end + 1):  # looking for two bytes takes ten times as long
        end = events.find(b"\n", end + 1)
    return end + 2 if end >= 0 else len(events)


SMALL_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=9_999_999)]
"""A number with too few digits to contain a secret."""
WINDOW = 28 << 10
"""Bytes of events that are decoded together: few, so that little is wasted if one of them is unusual. From 30,000 bytes
on Python prepares each search for more than a few bytes, which takes longer than the search."""
PieceEvent = TypeVar("PieceEvent")


class PieceDecoder(Generic[PieceEvent]):
    """Decodes events that are a piece of the answer and nothing else, as many of a kind as follow each other."""

    def __init__(self, kinds: Iterable[str], shape: type[PieceEvent]) -> None:
        """``kinds``: names of events. ``shape``: their data, which must forbid unknown fields."""
        self._heads = frozenset(b"event: %b\ndata: {" % kind.encode() for kind in kinds)
        self._decoder: msgspec.json.Decoder[PieceEvent] = msgspec.json.Decoder(shape)

    def read(self, events: bytes, start: int) -> tuple[list[PieceEvent], int]:
        """Returns the pieces from ``start`` on, and where they end; none if the first event is another one.

        The data of all events is decoded as lines, so that none can reach into the next.
        """
        begin = events.find(b"{", start, start + 128) + 1
        head = events[start:begin]
        if head not in self._heads:
            return [], start
        end = events.find(b"\n", begin)
        stop = end + len(BLANK)
        if begin <= end <= start + WINDOW and not events.startswith(head, stop):  # as most upstreams send them
            events_read = self._read_one(events[begin - 1 : end]) if events.startswith(BLANK, end) else []
            return events_read, stop if events_read else start
        parts = events[begin : start + WINDOW].split(BLANK + head)
        last, blank, _ = parts[-1].partition(BLANK)
        parts[-1:] = [last] if blank else []
        if b"\n" in b"".join(parts):
            parts = _before_others(parts)
        while parts:
            lines = b"\n{".join(parts)
            try:
                events_read = self._decoder.decode_lines(b"{" + lines)
            except (msgspec.DecodeError, UnicodeDecodeError):
                events_read = []
            if len(events_read) == len(parts):
                return events_read, start + len(parts) * len(head) + len(lines) + len(BLANK)
            parts = parts[: len(parts) // 2]
        return [], start

    def _read_one(self, line: bytes) -> list[PieceEvent]:
        """The piece with this data; none if it is another event."""
        try:
            return [self._decoder.decode(line)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []


def _before_others(parts: list[bytes]) -> list[bytes]:
    """Returns the data up to the first event of another kind."""
    for number, part in enumerate(parts):
        if b"\n" in part:
            piece, blank, _ = part.partition(BLANK)
            return [*parts[:number], piece] if blank and b"\n" not in piece else parts[:number]
    return parts


_LINE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")


def is_stream(body: bytes) -> bool:
    """Returns whether a body is an event stream."""
    return body[:64].removeprefix(BOM).lstrip().startswith(_LINE_STARTS)


def stream_in(body: bytes) -> bytes:
    """Returns the events in a body: all of it if it is a stream, one for each line if these are JSON objects; empty for
    anything else.
    """
    if is_stream(body):
        return body
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
    """Returns events with the blank lines that some upstreams leave out between them."""
    return _UNSEPARATED.sub(b"}\n\n", events)
