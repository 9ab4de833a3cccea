"""One HTTP/1.1 connection to an upstream: requests go out, one at a time, and their answers come in.

It decides when a connection may be used again: only after an answer that came whole, did not ask to close, and was
followed by nothing. Every other one is closed, so that no answer can reach the wrong call.

The head of nearly every request equals the one before, so its bytes are kept. A large body goes out piece by piece, as
it is taken, with turns for other work in between: sent at once, 30 MB hold up the event loop, because the system copies
them, TLS encrypts them, and what is not taken at once is copied again to wait.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import cast

import msgspec
import yarl

from gateway.domain.order import PreparedRequest
from gateway.upstream.http.dial import DialTarget, text_of
from gateway.upstream.http.parser import ConnectionBroken, Parser, WireAnswer


class Target(msgspec.Struct, frozen=True):
    """A URL as it is sent."""

    line: bytes
    """The rest of the request line, and the Host header."""
    place: DialTarget


class RequestHeads:
    """The request heads of one channel with these headers of its own."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)
        self._known: dict[tuple[tuple[str, str], ...], bytes] = {}

    def head(self, method: str, target: Target, prepared: PreparedRequest) -> bytes:
        """Returns a head. Raises ValueError for a header that cannot be sent, without showing its value."""
        key = tuple(prepared.headers.items())
        lines = self._known.get(key)
        if lines is None:
            if len(self._known) >= 64:  # sets of headers
                self._known.clear()
            lines = self._known[key] = _lines({**self._headers, **prepared.headers})
        size = len(prepared.body)
        length = b"Content-Length: %d\r\n" % size if size or method == "POST" else b""
        return b"%b %b\r\n%b%b\r\n" % (method.encode(), target.line, lines, length)


def _lines(headers: Mapping[str, str]) -> bytes:
    for name, value in headers.items():
        line = name + value
        if "\r" in line or "\n" in line or "\0" in line or not line.isascii():
            raise ValueError(f"the header '{name}' of the channel, or its key, has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


@lru_cache(maxsize=256)
def target_of(text: str) -> Target:
    """Returns the target of a whole URL."""
    url = yarl.URL(text)
    host, port = url.raw_host or "", url.port or 0
    shown = f"[{host}]" if ":" in host else host
    name = shown if url.is_default_port() else f"{shown}:{port}"
    line = f"{url.raw_path_qs} HTTP/1.1\r\nHost: {name}".encode()
    return Target(line, DialTarget(host, port, tls_context() if url.scheme == "https" else None))


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Returns a context that checks certificates and names and requires TLS 1.2: Python's defaults."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


AT_ONCE = 256 * 1024
"""Bytes of a body that are given to the connection at once."""
READ_SIZE = 64 * 1024
"""The most bytes of one read: no more than a few of them ever wait for a slow reader."""


class UpstreamConnection(asyncio.BufferedProtocol):
    """One connection. ``idle`` is called when it may serve again, ``gone`` once when it is lost.

    It reads into a ``buffer`` of ``READ_SIZE`` that it shares with other connections: the bytes are taken out before
    the loop turns to the next one.
    """

    def __init__(
        self,
        idle: Callable[["UpstreamConnection"], None],
        gone: Callable[["UpstreamConnection"], None],
        buffer: memoryview | None = None,
    ) -> None:
        self._idle = idle
        self._gone = gone
        self._buffer = memoryview(bytearray(READ_SIZE)) if buffer is None else buffer
        self._transport: asyncio.Transport | None = None
        self._parser = Parser()
        self._answer: WireAnswer | None = None
        self._paused = False
        self._unsent: memoryview[int] | bytes = b""
        """What is left of a large body."""
        self._full = self._soon = False
        """Whether too much waits to read more; whether more is sent in the loop's next turn."""
        self.used = False
        """Whether it has served before."""
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        """Returns whether it is connected."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, head: bytes, body: bytes, *, together: bool = False) -> WireAnswer:
        """Send a request, a large one as the upstream takes it. Raises ConnectionBroken if the connection is closed.

        ``together``: in the loop's next turn, with what others send then. Waking the receiver costs more than sending,
        and it is woken once for all of them.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionBroken("it closed the connection", sent=False)
        answer = self._answer = WireAnswer(self)
        self._parser.begin(answer)
        self._unsent = b""
        if len(body) > AT_ONCE:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._send_piece()
        elif together:
            asyncio.get_running_loop().call_soon(self._send, head, body)
        else:
            self._send(head, body)
        return answer

    def resume_reading(self) -> None:
        """The reader has room again."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once, without sending the rest."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio. Unexpected bytes close the connection."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        try:
            self._parser.feed(self._buffer[:nbytes])
        except ConnectionBroken as broken:
            self._answer = None
            answer.connection_lost(broken)
            self.abort()
            return
        answer.wake()
        if answer.complete:
            self._served()
        elif answer.full and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """See asyncio. Close at once: an upstream that has finished will not accept the rest of the request."""
        self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. A body of unknown length ends with its connection; any other one was cut off."""
        self._transport, self._unsent = None, b""
        answer, self._answer = self._answer, None
        if answer is not None:
            if exc is None and self._parser.ends_at_close():
                answer.finish()
                answer.wake()
            else:
                why = "the connection was lost" if answer.status else "it closed the connection without an answer"
                answer.connection_lost(
                    ConnectionBroken(why if exc is None else text_of(exc), answer_started=self._parser.answer_started)
                )
        self._parser.close()
        self._gone(self)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._full = True

    def resume_writing(self) -> None:
        """See asyncio."""
        self._full = False
        if not self._soon:
            self._send_piece()

    def _send(self, head: bytes, body: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(body) <= 16 * 1024:  # sending one buffer takes a fraction of the work for two
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def _send_piece(self) -> None:
        """Send more of a large body, if there is room for it: the next piece now, the one after it in the next turn."""
        self._soon = False
        if self._full or not self._unsent or self._transport is None or self._transport.is_closing():
            return
        piece, self._unsent = self._unsent[:AT_ONCE], self._unsent[AT_ONCE:]
        self._transport.write(piece)
        if self._unsent:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._send_piece)

    def _served(self) -> None:
        """The answer is complete, and nothing followed it."""
        self._answer = None
        if self._paused:
            self.resume_reading()
        sent, self._unsent = not self._unsent, b""
        if (
            self._parser.reusable
            and sent
            and self._transport is not None
            and not self._transport.get_write_buffer_size()
        ):
            self.used = True
            self._idle(self)
        else:  # the upstream wants no more, or answered before it had the whole request
            self.abort()
