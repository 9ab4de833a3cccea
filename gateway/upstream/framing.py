"""Framing: what all streamed answers have in common: their bytes are split into events, or gathered as a whole body.

A whole JSON answer may come although a stream was requested. The first byte shows it; the content type may be wrong.
A long JSON string is split into several, so that no event is very long.
"""

from abc import abstractmethod
from collections.abc import Iterator
from io import SEEK_END, BytesIO

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.json_text import as_utf8, uncut_length
from gateway.domain.sse import BLANK, BOM, Framer, stream_in, with_line_feeds
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.failures import bad_response

BODY_LIMIT = 64 * 1024 * 1024
"""The maximum size of a whole body, in bytes."""

EVENT_LIMIT = 16 * 1024 * 1024
"""The maximum size of an incomplete event, in bytes."""

LATE_LIMIT = 64 << 10
"""The maximum size of an event after the end of the answer, in bytes."""


def on_one_line(body: bytes) -> bytes:
    """Returns JSON without line breaks, because parts of it become events unchanged; anything else as it is."""
    if b"\n" not in body and b"\r" not in body:
        return body
    try:
        return msgspec.json.format(body.strip().removeprefix(BOM), indent=-1)
    except (ValueError, RecursionError):
        return body


class FramedStream(AnswerStream):
    """One streamed answer: the part that does not depend on the meaning of its events."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._framer = Framer()
        self._body: BytesIO | None = None
        """The body so far, if one comes instead of events."""
        self._recognized = False
        """Whether the first byte came, which shows if these are events or a body."""

    @property
    def final_size(self) -> int | None:
        return self.state.tally.chars if self.state.complete and not self.state.resumed else None

    @abstractmethod
    def _read_events(self, block: bytes) -> bytes:
        """Returns what the client gets for these complete events."""

    @abstractmethod
    def _read_rest(self, rest: bytes) -> bytes:
        """Returns what the client gets at the end of the events; ``rest`` is what followed the last complete one."""

    @abstractmethod
    def _read_body(self, body: bytes) -> bytes:
        """Returns what the client gets for a body that came instead of events."""

    def feed(self, data: bytes) -> bytes:
        if self.failure or self.finished:
            self.held = 0
            self._read_late(data)
            return b""
        if self._body is not None:
            self._body.write(data)
        elif not self._recognized:
            first = data.removeprefix(BOM).lstrip()[:1]
            if first in (b"{", b"[", b"<"):  # as no line of a stream; a body that comes at once is not copied
                self._body = BytesIO(data)
                self._body.seek(0, SEEK_END)
            self._recognized = bool(first)
        if self._body is not None:
            self.held = self._body.tell()
            if self.held > BODY_LIMIT:
                self.failure = bad_response(self._channel, f"it is longer than {BODY_LIMIT >> 20} MiB")
            return b""
        block = self._framer.feed(data)
        self.held = self._framer.held
        if self.held > EVENT_LIMIT:
            self.failure = bad_response(self._channel, f"an event is longer than {EVENT_LIMIT >> 20} MiB")
            return b""
        if self._framer.has_returns or not block.isascii():
            block = self._normalize(block)
        return self._read_events(block) if block else b""

    def end(self) -> bytes:
        if self.failure or self.finished:
            self._read_late(BLANK)
            return b""
        if self._body is None:
            return self._read_rest(self._normalize(self._framer.end()))
        body = on_one_line(as_utf8(self._body.getvalue()))
        self._body, self.held = None, 0
        if events := stream_in(body):
            return self._read_events(events) + self._read_rest(b"")
        self.events += 1
        return self._read_body(body)

    def _read_late(self, data: bytes) -> None:
        """Read what follows the end of the answer, which may be its usage, but nothing large."""
        if self.finished and self._body is None and self._framer.held + len(data) <= LATE_LIMIT:
            self._read_events(self._normalize(self._framer.feed(data)))

    def _normalize(self, events: bytes) -> bytes:
        """Returns events as they are read: UTF-8, with line feeds as line ends, and without a byte order mark."""
        return with_line_feeds(as_utf8(events)).removeprefix(BOM)


PIECE = 32 * 1024
"""A JSON string is split after about this many bytes."""


def pieces(text: bytes | msgspec.Raw) -> Iterator[bytes]:
    """Yields a JSON string as several with the same content."""
    view = memoryview(text)
    start, stop = 1, len(view) - 1
    while start < stop:
        end = min(start + PIECE, stop)
        while end < stop and view[end] & 0xC0 == 0x80:  # no character is split
            end += 1
        piece = bytes(view[start:end])
        if end < stop:
            piece = piece[: uncut_length(piece)]
        yield b'"%b"' % piece
        start += len(piece)
