"""Streamed answers: server-sent events are cut out of bytes that are split anywhere, or a whole body is gathered.

A whole JSON answer may come where a stream was requested, and an event stream where none was. The first byte tells, not
the content type: it may be wrong.

Events are read in two steps, so that what needs no look can be passed on in bulk: a ``Framer`` cuts complete events out
of the bytes, ``parse`` reads one of them. Where events pass as they came, a ``RawFramer`` cuts them, and a
``PieceDecoder`` reads what most of them are: pieces of the answer, in a usual form, as many as follow each other. Time
is linear in the bytes, whatever the splits. The rules are those of the WHATWG HTML standard, section 9.2.6.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import SEEK_END, BytesIO
from typing import Annotated, Generic, TypeVar

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream.adapter import AttemptFailed, Failure
from gateway.upstream.failures import bad_response

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes of one event, blank line not counted."""

BLANK = b"\n\n"
"""Ends an event once the line ends are made equal."""

_BOM = b"\xef\xbb\xbf"


class SSEEvent(msgspec.Struct, frozen=True):
    """One event: its data and the name of its ``event`` line or empty.

    Several ``data`` lines are joined by line feeds; by blanks if they are JSON, as parts of it may be passed on as is.
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
        """Bytes of an event that is not complete."""
        return len(self._rest)

    def feed(self, data: bytes) -> bytes:
        """The events that are complete by now, with their blank lines."""
        rest = self._rest
        if not rest and data.endswith(BLANK) and b"\r" not in data:
            return data
        if len(rest) <= 4096 and b"\r" not in data and b"\r" not in rest:  # joining so little costs nothing
            whole = bytes(rest) + data if rest else data
            blank = whole.rfind(BLANK)
            end = blank + 2 if blank >= 0 else 0
            rest[:] = whole[end:]
            return whole[:end]
        searched, end = max(0, len(rest) - 3), 0
        rest += data
        for found in _END.finditer(rest, searched):
            if found.end() == len(rest) and rest.endswith(b"\n\r"):
                break  # the line feed that belongs to it follows
            end = found.end()
        done = bytes(rest[:end])
        del rest[:end]
        return done

    def end(self) -> bytes:
        """What is left at the end of the bytes."""
        left = bytes(self._rest)
        self._rest.clear()
        return left


class Framer(RawFramer):
    """The same with line feeds for all line ends, without a leading byte order mark, and with a limit."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """All events that are complete by now, each ended by a blank line; may be empty. Raises EventTooLong."""
        events = self._even(super().feed(data))
        longest = max(map(len, events.split(BLANK))) if len(events) > EVENT_LIMIT else self.held
        if longest > EVENT_LIMIT:
            raise EventTooLong(f"an event is longer than {EVENT_LIMIT >> 20} MiB")
        return events

    def end(self) -> bytes:
        """What is left at the end of the bytes: an event whose blank line never came, or nothing."""
        return self._even(super().end())

    def _even(self, events: bytes) -> bytes:
        if not self._begun and events:
            self._begun = True
            events = events.removeprefix(_BOM)
        return events.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in events else events


def parse(block: bytes) -> SSEEvent | None:
    """One event without its blank line; None if it has no data: comments, or nothing at all."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return SSEEvent(block[6:])
    if block.startswith(b"event: ") and block.count(b"\n") == 1:
        title, found, value = block[7:].partition(b"\ndata: ")
        if found:
            return SSEEvent(value, title)
    data: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif field == b"error":  # llama.cpp's way to report one
            data.append(value.removeprefix(b" "))
            name = field
    return SSEEvent(data[0] if len(data) == 1 else _join_lines(data), name) if data else None


def _join_lines(lines: list[bytes]) -> bytes:
    """Between the tokens of JSON a line feed is a blank; inside a string it is a fault, which stays one."""
    whole = b"\n".join(lines)
    try:
        msgspec.json.decode(whole)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return whole
    return b" ".join(lines)


def has_comment(block: bytes) -> bool:
    """Whether a line of the event is a comment."""
    return block.startswith(b":") or b"\n:" in block


def event_end(events: bytes, start: int, *, returns: bool) -> int:
    """Where the event at ``start`` ends, its blank line included. ``returns``: lines may end in carriage returns."""
    if returns:
        found = _END.search(events, start)
        return found.end() if found else len(events)
    blank = events.find(BLANK, start)
    return blank + 2 if blank >= 0 else len(events)


SMALL_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=9_999_999)]
"""Has too few digits to show a secret."""
WINDOW = 32 << 10
"""Bytes of events that are decoded together. Few, so that little is wasted if one of them is odd."""
PieceEvent = TypeVar("PieceEvent")


class PieceDecoder(Generic[PieceEvent]):
    """Decodes events that bring a piece of the answer and nothing else, as many of a kind as follow each other."""

    def __init__(self, kinds: Iterable[str], shape: type[PieceEvent]) -> None:
        """``kinds``: names of events. ``shape``: their data; it has to forbid unknown fields."""
        self._heads = frozenset(b"event: %b\ndata: {" % kind.encode() for kind in kinds)
        self._decoder: msgspec.json.Decoder[PieceEvent] = msgspec.json.Decoder(shape)

    def read(self, events: bytes, start: int) -> tuple[list[PieceEvent], int]:
        """The pieces from ``start`` on, and where they end; none if the first event is another one.

        The data of all events is decoded as lines, so that none can reach into the next.
        """
        begin = events.find(b"{", start, start + 128) + 1
        head = events[start:begin]
        if head not in self._heads:
            return [], start
        parts = events[begin : start + WINDOW].split(BLANK + head)
        last, blank, _ = parts[-1].partition(BLANK)
        parts[-1:] = [last] if blank else []
        if b"\n" in b"".join(parts):
            parts = _before_others(parts)
        while parts:
            lines = b"\n{".join(parts)
            try:
                found = self._decoder.decode_lines(b"{" + lines)
            except (msgspec.DecodeError, UnicodeDecodeError):
                found = []
            if len(found) == len(parts):
                return found, start + len(parts) * len(head) + len(lines) + len(BLANK)
            parts = parts[: len(parts) // 2]
        return [], start


def _before_others(parts: list[bytes]) -> list[bytes]:
    """The data up to the first event of another kind."""
    for number, part in enumerate(parts):
        if b"\n" in part:
            piece, blank, _ = part.partition(BLANK)
            return [*parts[:number], piece] if blank and b"\n" not in piece else parts[:number]
    return parts


BODY_LIMIT = 64 * 1024 * 1024
"""Bytes that are gathered."""

BODY_STARTS = frozenset({b"{", b"[", b"<"})
"""No line of an event stream begins so."""

_LINE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")


def is_stream(body: bytes) -> bool:
    """Whether a body is an event stream."""
    return body[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_LINE_STARTS)


class WholeBody:
    """Gathers the bytes until their end. It grows in one place, and gives what it has away without a copy."""

    def __init__(self) -> None:
        self._bytes = BytesIO()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._bytes.tell()

    def add(self, data: bytes, channel: Channel) -> None:
        """Raises AttemptFailed if it is too long."""
        if self.size:
            self._bytes.write(data)
        else:  # a body that comes at once is not copied
            self._bytes = BytesIO(data)
            self._bytes.seek(0, SEEK_END)
        if self.size > BODY_LIMIT:
            raise AttemptFailed(bad_response(channel, f"it is longer than {BODY_LIMIT >> 20} MiB"))

    def take(self) -> bytes:
        """All that was gathered, on one line: parts of it become events as they are. Nothing of it is kept here."""
        gathered, self._bytes = self._bytes, BytesIO()
        body = gathered.getvalue()
        if b"\n" not in body and b"\r" not in body:
            return body
        try:
            return msgspec.json.format(body.strip().removeprefix(_BOM), indent=-1)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return body


class FramedStream(ABC):
    """One streamed answer: the part of ``adapter.AnswerStream`` that is the same whatever its events mean."""

    def __init__(self, channel: Channel, framer: RawFramer | None = None) -> None:
        self._channel = channel
        self._framer = framer or Framer()
        self._body: WholeBody | None = None
        """If that is what comes instead of events."""
        self._recognized = False
        """The first byte has shown whether these are events or a body."""
        self.started = False
        self.finished = False
        self.failure: Failure | None = None
        self.events = 0
        self.comments = 0
        self.held = 0

    @abstractmethod
    def _read_events(self, block: bytes) -> bytes:
        """What the client gets for these complete events."""

    @abstractmethod
    def _read_rest(self, rest: bytes) -> bytes:
        """The same at the end of the events; ``rest`` is what followed the last complete one."""

    @abstractmethod
    def _read_body(self, body: WholeBody) -> bytes:
        """The same at the end of a body that came instead of events."""

    def feed(self, data: bytes) -> bytes:
        """See ``adapter.AnswerStream``."""
        if self.failure or self.finished:
            return b""
        if not self._recognized:
            first = data.removeprefix(_BOM).lstrip()[:1]
            if first in BODY_STARTS:
                self._body = WholeBody()
            self._recognized = bool(first)
        try:
            if self._body is not None:
                self._body.add(data, self._channel)
                self.held = self._body.size
                return b""
            block = self._framer.feed(data)
            self.held = self._framer.held
        except AttemptFailed as exc:
            self.failure = exc.failure
            return b""
        except EventTooLong as exc:
            self.failure = bad_response(self._channel, str(exc))
            return b""
        if self.held > EVENT_LIMIT:
            self.failure = bad_response(self._channel, f"an event is longer than {EVENT_LIMIT >> 20} MiB")
            return b""
        return self._read_events(block) if block else b""

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        if self.failure or self.finished:
            return b""
        if self._body is None:
            return self._read_rest(self._framer.end())
        self.events += 1
        return self._read_body(self._body)
