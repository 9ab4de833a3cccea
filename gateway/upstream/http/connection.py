"""UpstreamConnection: one HTTP/1.1 connection to an upstream. Requests go out one at a time, and their answers come in.

A connection may be used again only after a complete answer that did not ask to close and was followed by nothing.
Otherwise it is closed, so that no answer can reach the wrong call.

The heads of most requests are equal, so their bytes are kept. A large body is sent in pieces, with turns of the event
loop between them. Sent at once, 30 MB would block the loop: the system copies them, TLS encrypts them, and what the
socket does not take is copied again into a buffer.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from gateway.upstream.http.dial import Target, error_text
from gateway.upstream.http.parser import ConnectionBroken, Parser, WireAnswer


def header_lines(own: Mapping[str, str], added: tuple[tuple[str, str], ...]) -> bytes:
    """Returns header lines; added ones replace own ones. Raises ValueError for an invalid one, without its value."""
    headers = {**own, **dict(added)}
    for name, value in headers.items():
        line = name + value
        if "\r" in line or "\n" in line or "\0" in line or not line.isascii():
            raise ValueError(f"the header '{name}' of the channel, or its key, has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def request_head(method: str, target: Target, lines: bytes, body: bytes) -> bytes:
    """Returns the head of a request with these lines of headers."""
    length = b"Content-Length: %d\r\n" % len(body) if body or method == "POST" else b""
    return b"%b %b\r\n%b%b\r\n" % (method.encode(), target.line, lines, length)


PIECE_SIZE = 256 * 1024
"""The maximum size of one write of a body, in bytes."""
READ_SIZE = 64 * 1024
"""The maximum size of one read, in bytes."""


class UpstreamConnection(asyncio.BufferedProtocol):
    """One connection. It calls ``on_idle`` when it may serve again, and ``on_lost`` once when it is lost.

    It reads into a ``buffer`` of ``READ_SIZE`` that it shares with other connections, because the bytes are parsed
    before the loop turns to the next one.
    """

    def __init__(
        self,
        on_idle: Callable[["UpstreamConnection"], None],
        on_lost: Callable[["UpstreamConnection"], None],
        buffer: memoryview | None = None,
    ) -> None:
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._buffer = memoryview(bytearray(READ_SIZE)) if buffer is None else buffer
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._reading_paused = False
        self._unsent: memoryview[int] | bytes = b""
        self._writing_paused = False
        """Whether the transport accepts nothing more for now."""
        self._piece_scheduled = False
        """Whether the next piece of a large body is sent in the loop's next turn."""
        self.may_be_stale = False
        """Whether a break means that the upstream closed it while it was idle, and did not get the request."""
        self.idle_since = 0.0
        self.closing_s = 0.25
        """A call fails within this many seconds if the upstream had closed the connection; at least a round trip."""

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, *, soon: bool = False) -> WireAnswer:
        """Send a request. Returns its future answer. Raises ConnectionBroken if the connection is closed.

        ``soon``: send it in the loop's next turn, together with others. Waking the receiver costs more than sending,
        and it is woken once for all of them.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionBroken("it closed the connection", sent=False)
        answer = WireAnswer(self)
        self._parser.begin(answer)
        if soon:
            asyncio.get_running_loop().call_soon(self._write, head, body)
        else:
            self._write(head, body)
        return answer

    def resume_reading(self) -> None:
        """Resume reading: the answer's buffer has room again."""
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, without sending the rest of the request."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Unexpected bytes close the connection."""
        answer, self.may_be_stale = self._parser.answer, False
        if answer is None:
            self.abort()
            return
        try:
            self._parser.feed(self._buffer[:nbytes])
        except ConnectionBroken as broken:
            answer.connection_lost(broken)
            self.abort()
            return
        answer.wake()
        if answer.complete:
            self._finish_exchange()
        elif answer.full and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Close the connection: an upstream that stops sending does not read the rest of a request either."""
        self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """A body of unknown length ends with its connection. A body of known length is incomplete."""
        self._transport, self._unsent = None, b""
        answer = self._parser.answer
        if answer is not None:
            if exc is None and self._parser.ends_at_close():
                answer.finish()
                answer.wake()
            else:
                reason = "the connection was lost" if answer.status else "it closed the connection without an answer"
                text = reason if exc is None else error_text(exc)
                answer.connection_lost(ConnectionBroken(text))
        self._parser.close()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if not self._piece_scheduled:
            self._write_piece()

    def _write(self, head: bytes, body: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(body) <= PIECE_SIZE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_piece()

    def _write_piece(self) -> None:
        """Write the next piece of a large body, unless writing is paused, and schedule the one after it."""
        self._piece_scheduled = False
        if self._writing_paused or not self._unsent or self._transport is None or self._transport.is_closing():
            return
        piece, self._unsent = self._unsent[:PIECE_SIZE], self._unsent[PIECE_SIZE:]
        self._transport.write(piece)
        if self._unsent:
            self._piece_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_piece)

    def _finish_exchange(self) -> None:
        """Offer the connection for other calls, or close it if the upstream asked for that or answered too early."""
        if self._reading_paused:
            self.resume_reading()
        transport, sent_all = self._transport, not self._unsent
        self._unsent = b""
        if self._parser.reusable and sent_all and transport is not None and not transport.get_write_buffer_size():
            self.may_be_stale = True
            self._on_idle(self)
        else:
            self.abort()
