"""One HTTP/1.1 connection to an upstream: requests out, one at a time, and the bytes that answer them in.

It decides when a connection may be used again: only after an answer that came whole, that did not ask to close, and
that nothing followed. Every other one is closed, so that no answer can reach the wrong call.

The head of nearly every request is like the one before, so its bytes are kept. A large body goes out piece by piece, as
it is taken, with turns for others in between: sent at once, 30 MB hold up the event loop, because the system copies
them, TLS encrypts them, and what is not taken at once is copied again to wait.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import msgspec
import yarl

from gateway.upstream.adapter import Buffer, PreparedRequest
from gateway.upstream.http.dial import DialTarget
from gateway.upstream.http.errors import ConnectionBroken, text_of
from gateway.upstream.http.parser import Parser, WireAnswer

KEPT = 64
"""Sets of headers of one channel that are kept encoded."""


class Target(msgspec.Struct, frozen=True):
    """What a URL means on the wire."""

    line: bytes
    """The rest of the request line, and the Host header."""
    place: DialTarget


class RequestHeads:
    """The request heads of one channel, whose own headers are given."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)
        self._known: dict[tuple[tuple[str, str], ...], bytes] = {}

    def head(self, method: str, target: Target, prepared: PreparedRequest) -> bytes:
        """Raises ValueError for a header that cannot be sent, without showing its value."""
        key = tuple(prepared.headers.items())
        lines = self._known.get(key)
        if lines is None:
            if len(self._known) >= KEPT:
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
    """Of a whole URL."""
    url = yarl.URL(text)
    host, port = url.raw_host or "", url.port or 0
    shown = f"[{host}]" if ":" in host else host
    name = shown if url.is_default_port() else f"{shown}:{port}"
    line = f"{url.raw_path_qs} HTTP/1.1\r\nHost: {name}".encode()
    return Target(line, DialTarget(host, port, tls_context() if url.scheme == "https" else None))


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Certificates and names are checked, TLS 1.2 at least: Python's own defaults."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


AT_ONCE = 256 * 1024
"""Bytes of one piece."""
JOINED = 16 * 1024
"""Bytes of a body that is copied behind its head: one buffer is sent with a fraction of the work for several."""


class Upload:
    """What is left of one request."""

    def __init__(self, transport: asyncio.Transport, request: Sequence[Buffer]) -> None:
        """Begins to send it."""
        self._transport = transport
        self._pieces: deque[Buffer] = deque()
        for part in request:
            whole = memoryview(part)
            self._pieces.extend(whole[start : start + AT_ONCE] for start in range(0, len(whole), AT_ONCE))
        self._full = self._soon = False
        """Whether so much waits that there should be no more of it; whether more goes in the loop's next turn."""
        self._send()

    @property
    def complete(self) -> bool:
        """Whether all of it was given to the connection."""
        return not self._pieces

    def pause(self) -> None:
        """The buffer is full."""
        self._full = True

    def resume(self) -> None:
        """There is room again."""
        self._full = False
        self._send()

    def _send(self) -> None:
        if self._soon or self._full or not self._pieces or self._transport.is_closing():
            return
        self._transport.write(self._pieces.popleft())
        if self._pieces:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._soon = False
        self._send()


READ_SIZE = 64 * 1024
"""Bytes that one read may bring: what waits for a slower reader is never more than a few of them."""


class UpstreamConnection(asyncio.BufferedProtocol):
    """One connection. ``idle`` is called when it may serve again, ``gone`` once when it is lost.

    It reads into a ``buffer`` of ``READ_SIZE`` that it shares with other connections: whatever comes leaves it before
    the loop looks at the next one.
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
        self._upload: Upload | None = None
        """Of the last request, if it was a large one."""
        self.used = False
        """It has served before."""
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        """Whether it is connected."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: Sequence[Buffer], *, together: bool = False) -> WireAnswer:
        """Send a request, head and body. Raises ConnectionBroken if the connection is closed.

        A large one goes as the upstream takes it.

        ``together``: in the loop's next turn, with what others send then. To wake the receiver costs more than to send,
        and it is woken once for all of them.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionBroken("it closed the connection", sent=False)
        answer = self._answer = WireAnswer(self)
        self._parser.begin(answer)
        self._upload = None
        if len(request) > 2 or len(request[1]) > AT_ONCE:
            self._upload = Upload(self._transport, request)
        elif together:
            asyncio.get_running_loop().call_soon(self._send, request)
        else:
            self._send(request)
        return answer

    def go_on(self) -> None:
        """The reader has room again."""
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once; what was not sent is not sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio. Bytes that nobody asked for close the connection."""
        answer = self._answer
        if answer is None:
            self.abort()
            return
        try:
            self._parser.feed(self._buffer[:nbytes])
        except ConnectionBroken as broken:
            self._break(answer, broken)
            return
        answer.wake()
        if answer.complete:
            self._served()
        elif answer.full and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """See asyncio. Close at once: an upstream that has finished will not take what is still to send."""
        self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. A body of unknown length ends with its connection; any other one was cut."""
        self._transport = self._upload = None
        answer, self._answer = self._answer, None
        if answer is not None:
            if exc is None and self._parser.ends():
                answer.finish()
                answer.wake()
            else:
                answer.lose(_loss(answer, exc, spoke=self._parser.spoke))
        self._parser.close()
        self._gone(self)

    def pause_writing(self) -> None:
        """See asyncio."""
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._upload is not None:
            self._upload.resume()

    def _send(self, request: Sequence[Buffer]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(request[1]) <= JOINED:
            self._transport.write(b"".join(request))
        else:
            self._transport.writelines(request)

    def _served(self) -> None:
        """The answer is whole, and nothing came behind it."""
        self._answer = None
        if self._paused:
            self.go_on()
        sent = self._upload is None or self._upload.complete
        self._upload = None
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

    def _break(self, answer: WireAnswer, broken: ConnectionBroken) -> None:
        self._answer = None
        if answer.complete:
            answer.wake()
        else:
            answer.lose(broken)
        self.abort()


def _loss(answer: WireAnswer, exc: Exception | None, *, spoke: bool) -> ConnectionBroken:
    text = "the connection was lost" if answer.status else "it closed the connection without an answer"
    return ConnectionBroken(text if exc is None else text_of(exc), spoke=spoke)
