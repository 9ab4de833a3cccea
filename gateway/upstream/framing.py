"""Streamed answers: server-sent events are cut out of bytes that are split anywhere, or a whole body is gathered.

A whole JSON answer may come where a stream was requested, and an event stream where none was. The first byte tells, not
the content type: it may be wrong.

Events are read in two steps, so that what needs no look can be passed on in bulk: a ``Framer`` cuts complete events out
of the bytes, ``parse`` reads one of them. Time is linear in the bytes, whatever the splits. The rules are those of the
WHATWG HTML standard, section 9.2.6.
"""

from abc import ABC, abstractmethod
from io import SEEK_END, BytesIO

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
    """One event: ``data`` lines joined by line feeds, and the name of its ``event`` line or empty."""

    data: bytes
    name: bytes = b""


class EventTooLong(Exception):
    """An event is longer than any upstream has reason to send."""


class Framer:
    """Cuts complete events out of bytes; all line ends become line feeds; a leading byte order mark is skipped."""

    __slots__ = ("_after_return", "_begun", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_return = False
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """All events that are complete by now, each ended by a blank line; may be empty.

        Raises EventTooLong.
        """
        if not self._begun or self._after_return or b"\r" in data:
            data = self._even(data)
        rest = self._rest
        if rest:
            return self._continue(data)
        blank = data.rfind(BLANK)
        cut = blank + 2 if blank >= 0 else 0
        if cut == len(data) and cut <= EVENT_LIMIT:
            return data
        rest += data[cut:]
        self._check(data[:cut])
        return data[:cut]

    @property
    def held(self) -> int:
        """Bytes of an event that is not complete."""
        return len(self._rest)

    def end(self) -> bytes:
        """What is left at the end of the bytes: an event whose blank line never came, or nothing."""
        left = bytes(self._rest)
        self._rest.clear()
        return left

    def _continue(self, data: bytes) -> bytes:
        """Only the new bytes are searched, and the last old one: a blank line may be split."""
        rest = self._rest
        start = len(rest) - 1
        rest += data
        blank = rest.rfind(BLANK, start)
        if blank < 0:
            self._check(b"")
            return b""
        done = bytes(rest[: blank + 2])
        del rest[: blank + 2]
        self._check(done)
        return done

    def _check(self, done: bytes) -> None:
        longest = len(self._rest)
        if len(done) > EVENT_LIMIT:
            longest = max(longest, *map(len, done.split(BLANK)))
        if longest > EVENT_LIMIT:
            raise EventTooLong(f"an event is longer than {EVENT_LIMIT >> 20} MiB")

    def _even(self, data: bytes) -> bytes:
        """The bytes with line feeds only. A return at the end counts at once; a feed that follows it later does not."""
        if not self._begun:
            data = self._unmarked(data)
        if self._after_return and data:
            self._after_return = False
            data = data.removeprefix(b"\n")
        self._after_return = self._after_return or data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _unmarked(self, data: bytes) -> bytes:
        whole = bytes(self._rest) + data
        self._rest.clear()
        if len(whole) < len(_BOM) and _BOM.startswith(whole):
            self._rest += whole
            return b""
        self._begun = True
        return whole.removeprefix(_BOM)


def parse(block: bytes) -> SSEEvent | None:
    """One event without its blank line; None if it has no data: comments, or nothing at all."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return SSEEvent(block[6:])
    data: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return SSEEvent(b"\n".join(data), name) if data else None


def has_comment(block: bytes) -> bool:
    """Whether a line of the event is a comment."""
    return block.startswith(b":") or b"\n:" in block


BODY_LIMIT = 64 * 1024 * 1024
"""Bytes that are gathered."""

BODY_STARTS = frozenset({b"{", b"[", b"<"})
"""No line of an event stream begins so."""

_LINE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


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
        """All that was gathered. Nothing of it is kept here."""
        gathered, self._bytes = self._bytes, BytesIO()
        return gathered.getvalue()


class FramedStream(ABC):
    """One streamed answer: the part of ``adapter.AnswerStream`` that is the same whatever its events mean."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._framer = Framer()
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
            first = data.lstrip()[:1]
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
        return self._read_events(block) if block else b""

    def end(self) -> bytes:
        """See ``adapter.AnswerStream``."""
        if self.failure or self.finished:
            return b""
        if self._body is None:
            return self._read_rest(self._framer.end())
        self.events += 1
        return self._read_body(self._body)
