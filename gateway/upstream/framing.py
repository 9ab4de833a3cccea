"""Framing: what all streamed answers have in common: events are read one by one, or a whole body is gathered.

A whole JSON answer may come where a stream was requested, and an event stream where none was. The first byte decides,
not the content type, which may be wrong.

A long JSON string goes out as several, so that no event is very long.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from io import SEEK_END, BytesIO

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.sse import BOM, EVENT_LIMIT, EventTooLong, Framer, RawFramer, stream_in
from gateway.upstream.failures import bad_response

BODY_LIMIT = 64 * 1024 * 1024
"""The most bytes that are gathered."""

BODY_STARTS = frozenset({b"{", b"[", b"<"})
"""No line of an event stream begins with these."""


class WholeBody:
    """Gathers the bytes until their end. It grows in one place, and hands them over without a copy."""

    def __init__(self) -> None:
        self._bytes = BytesIO()

    @property
    def size(self) -> int:
        """Returns the bytes so far."""
        return self._bytes.tell()

    def add(self, data: bytes, channel: Channel) -> None:
        """Add bytes. Raises AttemptFailed if there are too many."""
        if self.size:
            self._bytes.write(data)
        else:  # a body that comes at once is not copied
            self._bytes = BytesIO(data)
            self._bytes.seek(0, SEEK_END)
        if self.size > BODY_LIMIT:
            raise AttemptFailed(bad_response(channel, f"it is longer than {BODY_LIMIT >> 20} MiB"))

    def take(self) -> bytes:
        """Returns everything gathered, on one line because parts of it become events unchanged. Nothing is
        kept here.
        """
        gathered, self._bytes = self._bytes, BytesIO()
        body = gathered.getvalue()
        if b"\n" not in body and b"\r" not in body:
            return body
        try:
            return msgspec.json.format(body.strip().removeprefix(BOM), indent=-1)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return body


class FramedStream(ABC):
    """One streamed answer: the part of ``adapter.AnswerStream`` that does not depend on what its events mean."""

    def __init__(self, channel: Channel, framer: RawFramer | None = None) -> None:
        self._channel = channel
        self._framer = framer or Framer()
        self._body: WholeBody | None = None
        """Set if a whole body comes instead of events."""
        self._recognized = False
        """Whether the first byte has shown if these are events or a body."""
        self.started = False
        self.finished = False
        self.failure: Failure | None = None
        self.events = 0
        self.comments = 0
        self.held = 0

    @abstractmethod
    def _read_events(self, block: bytes) -> bytes:
        """Returns what the client gets for these complete events."""

    @abstractmethod
    def _read_rest(self, rest: bytes) -> bytes:
        """Returns the same at the end of the events; ``rest`` is what followed the last complete one."""

    @abstractmethod
    def _read_body(self, body: bytes) -> bytes:
        """Returns the same for a body that came instead of events."""

    def feed(self, data: bytes) -> bytes:
        if self.failure or self.finished:
            return b""
        if not self._recognized:
            first = data.removeprefix(BOM).lstrip()[:1]
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
        if self.failure or self.finished:
            return b""
        if self._body is None:
            return self._read_rest(self._framer.end())
        body, self.held = self._body.take(), 0
        if events := stream_in(body):
            return self._read_events(events) + self._read_rest(b"")
        self.events += 1
        return self._read_body(body)


PIECE = 32 * 1024
"""The fewest bytes of a text in one event, if others follow."""
_ESCAPES = 12
"""Bytes of JSON's longest escapes: a pair of surrogates."""


def is_long(text: bytes | memoryview) -> bool:
    """Returns whether a JSON string is longer than a piece."""
    return len(text) > PIECE + 2


def pieces(text: bytes | msgspec.Raw) -> Iterator[bytes]:
    """Yields a JSON string as several with the same content."""
    view = memoryview(text)
    start, stop = 1, len(view) - 1
    while start < stop:
        end = min(start + PIECE, stop)
        while end < stop and not _may_cut(view, end):
            end += 1
        yield b'"%b"' % bytes(view[start:end])
        start = end


def _may_cut(view: memoryview, at: int) -> bool:
    """Returns whether no escape can reach beyond this place, and no character."""
    return view[at] & 0xC0 != 0x80 and b"\\" not in bytes(view[at - _ESCAPES : at])
