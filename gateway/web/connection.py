"""Connection: aiohttp's connection, which also reports its loss, answers broken HTTP in JSON, and is counted.

When a client leaves, a stream should stop, but a plain call may finish and be charged. aiohttp can only cancel every
handler, so ours are called back and decide. Errors about malformed requests have our own words, because the parser's
messages repeat what was sent, such as keys.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from aiohttp import web
from aiohttp.http import StreamWriter
from aiohttp.web_protocol import RequestHandler

from gateway.domain.errors import BadRequest, GatewayError, InternalError
from gateway.domain.units import CallId
from gateway.web.error_responses import error_answer
from gateway.web.response import Response

Result = TypeVar("Result")

WRITE_S = 30.0
"""A client that reads nothing for this many seconds is dropped."""
WRITE_CHECK_S = 1.0
"""Seconds between two checks of a slow client."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HALF_CLOSED_CHECK_S = 0.25
"""Seconds between two checks of a client that has stopped sending."""
MAX_LINE = (8 << 10) + 512
"""The maximum length of a header line, in bytes: 8 KiB for the value, and the name."""
MAX_HEADERS = 100

_BAD_HEADER = "a header line is malformed"
_BAD_LENGTH = "its Content-Length or Transfer-Encoding is malformed, or both are given"

_FAULTS: tuple[tuple[str, str], ...] = (
    ("LineTooLong ", f"a line of its head is longer than {MAX_LINE} bytes"),
    ("InvalidHeader ", _BAD_HEADER),
    ("InvalidURLError ", "the request target is not a path"),
    ("HTTPS", "it is TLS, and this port speaks plain HTTP: use http:// in the base URL"),
    ("method", "its first line does not begin with a method"),
    ("status line", "its first line is not 'METHOD /path HTTP/1.1'"),
    ("Duplicate", "a header that can be given once is given twice"),
    ("Too many headers", f"it has more than {MAX_HEADERS} headers"),
    ("'Host'", "it has no Host header"),
    ("chunk", "a chunk of its body is malformed"),
    ("Content-Length", _BAD_LENGTH),
    ("Transfer-Encoding", _BAD_LENGTH),
    ("header", _BAD_HEADER),
)
"""Texts by the class of the parser's error, if its message begins with what was sent, or by a word before the colon."""


def describe_parse_error(exc: BaseException | None) -> str:
    """Returns what is wrong with a request that cannot be parsed, without anything that was sent."""
    reason = f"{type(exc).__name__} {str(getattr(exc, 'message', '')).partition(':')[0]}"
    return next((text for word, text in _FAULTS if word in reason), "it is not valid HTTP/1.1")


class InPlaceLoop:
    """The event loop as a connection sees it: a request is handled in the connection's own task.

    aiohttp makes a task for each request, which copies the context variables and takes one more turn of the loop. This
    program has no context variables, and both tasks are always cancelled together.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def create_task(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work when it is awaited, without a task.

        The connection's task keeps the error that cancels it. That error refers to the frames of the request, these to
        the call and its answer, and the call to the task. So a new error is raised: otherwise all of them would stay in
        memory until the garbage collector runs.
        """
        try:
            return await work
        except asyncio.CancelledError:
            pass
        raise asyncio.CancelledError

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._loop, name)
        setattr(self, name, attribute)
        return attribute


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = ("_new_id", "_release", "_write_check", "closing", "comment", "half_closed", "on_close", "on_lost")

    closing: bool
    """Whether it closes after the current answer, whose head tells the client so."""
    comment: bytes
    """A comment that may be sent between two events of the current stream."""
    half_closed: asyncio.TimerHandle | None
    """The timer of the next check of a client that has stopped sending; None while it may send."""
    on_lost: Callable[[], None] | None
    """Called once when the connection is lost while a request is handled."""
    on_close: Callable[[], None] | None
    """Called, perhaps repeatedly, when a connection that became a WebSocket should end."""
    _write_check: asyncio.TimerHandle | None
    """The timer of the next check of a client that reads more slowly than we write."""

    def __init__(
        self, manager: web.Server, release: Callable[[], None], new_id: Callable[[], CallId], **options: Any
    ) -> None:
        """``release`` makes room for another connection. ``new_id`` returns an id for an answer to broken HTTP."""
        super().__init__(manager, **options)
        self._release: Callable[[], None] | None = release
        self._new_id = new_id
        self.closing = False
        self.comment = b""
        self.on_close = self.on_lost = self._write_check = self.half_closed = None

    @property
    def is_last_answer(self) -> bool:
        """Returns whether the current answer is the last one on this connection."""
        return self.closing or (self.half_closed is not None and not self._messages)

    @property
    def _is_idle(self) -> bool:
        is_waiting = self._request_count == 0 or (self._waiter is not None and not self._waiter.done())
        return is_waiting and not self._messages

    @property
    def answered(self) -> bool:
        """Returns whether the client gets no more answers: no request is left, or one has not arrived completely."""
        current = self._current_request
        payloads = [payload for _, payload in self._messages] + ([] if current is None else [current.content])
        return self._is_idle or not all(payload.is_eof() for payload in payloads)

    def close_when_idle(self) -> None:
        """Close the connection after the current answer, or at once if it is idle."""
        self.closing = True
        if self.on_close is not None:
            self.on_close()
        if self._is_idle:
            self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if sys.version_info < (3, 12):  # since 3.12 aiohttp begins its task without a turn of the loop
            self._loop = cast("asyncio.AbstractEventLoop", InPlaceLoop(self._loop))
        if self.transport is not None:
            # bytes that may wait for a client before a write waits too
            self.transport.set_write_buffer_limits(32 << 10)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # the system drops a client that does not read a short answer, or the rest of a long one on a closing
            # connection: nothing else checks those
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(WRITE_S * 1000))

    def release(self) -> None:
        """Make room for another connection. A second call does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the handler that its client has left; see asyncio."""
        self._end_write_check()
        if self.half_closed is not None:
            self.half_closed.cancel()
            self.half_closed = None
        self.release()
        super().connection_lost(exc)
        if self.on_lost is not None:
            callback, self.on_lost = self.on_lost, None
            callback()

    def eof_received(self) -> bool:  # type: ignore[override] # aiohttp's says None, and closes
        """See asyncio. Returns whether the connection stays open for answers to a client that has stopped sending.

        Complete requests are answered; incomplete ones are not. The client of a WebSocket announces that it closes, so
        one that did not is gone.
        """
        if self.answered or self.on_close is not None:
            return False
        if self.half_closed is None and self.transport is not None:
            check = partial(_check_half_closed, self, self.transport, is_first=True)
            self.half_closed = self._loop.call_later(HALF_CLOSED_CHECK_S, check)
        return True

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Resume reading if it was paused. Aiohttp calls this twice after each body, and would parse again."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """Start to check whether the client still reads, because much waits for it; see asyncio."""
        super().pause_writing()
        if self.transport is not None:
            self._check_write(self.transport, sys.maxsize, 0.0)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_write_check()

    def _check_write(self, transport: asyncio.Transport, before: int, since: float) -> None:
        """Drop the client if it has read nothing ``since`` this time, at which ``before`` bytes waited for it.

        The transport is a parameter because a closed connection forgets it, although bytes may still wait there.
        """
        now, unsent = self._loop.time(), transport.get_write_buffer_size()
        if unsent < before:
            since = now
        if now - since < WRITE_S:
            self._write_check = self._loop.call_later(WRITE_CHECK_S, self._check_write, transport, unsent, since)
        else:
            transport.abort()

    def _end_write_check(self) -> None:
        if self._write_check is not None:
            self._write_check.cancel()
            self._write_check = None

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Returns the answer to broken HTTP, with the same JSON error object as any other error."""
        call = self._new_id()
        error: GatewayError = InternalError(f"the gateway failed because of a bug; the call is {call}")
        if status < 500:
            error = BadRequest(f"the request cannot be read: {describe_parse_error(exc)}", code="bad_http")
        status, headers, body = error_answer(error, call)
        response = Response(body, status=status, headers={**headers, "x-request-id": call})
        response.keep_alive = False
        return response  # type: ignore[return-value] # aiohttp asks for no more than it has


def count_frames(connection: Connection, count: Callable[[int], None]) -> None:
    """Call ``count`` with the size of each coming piece of a WebSocket's frames, before it is read."""
    connection._payload_parser = _CountedFrames(connection._payload_parser, count)  # noqa: SLF001 - aiohttp's


class _CountedFrames:
    """A parser of frames as aiohttp calls it."""

    def __init__(self, parser: Any, count: Callable[[int], None]) -> None:
        self._parser = parser
        self._count = count
        self.feed_eof = parser.feed_eof

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._count(len(data))
        result: tuple[bool, bytes] = self._parser.feed_data(data)
        return result


class GatewayRequest(web.BaseRequest):
    """aiohttp's request, which also knows that its connection closes after the answer."""

    _protocol: Connection

    @property
    def keep_alive(self) -> bool:
        """Returns whether the connection stays open after the answer.

        Not after a body in chunks: aiohttp 3.14.5 adds its last trailer to the headers of the next request.
        """
        message = self._message
        return not (message.should_close or message.chunked or self._protocol.is_last_answer)


def _check_half_closed(connection: Connection, transport: asyncio.Transport, *, is_first: bool = False) -> None:
    """Close the connection of a client that has stopped sending, when it has left or has all its answers.

    Only sending shows whether the client has left: its system then answers with a reset. So at the first check, bytes
    that a client ignores are sent. Then the state of the socket is checked, because without reading nothing else
    reports the reset. Answers before the first check need none.
    """
    if transport.is_closing():
        return
    if connection.answered:
        transport.close()  # after what is still to be sent
    elif _is_reset(transport):
        transport.abort()
    else:
        if is_first:
            transport.write(_filler(connection))
        loop = asyncio.get_running_loop()
        connection.half_closed = loop.call_later(HALF_CLOSED_CHECK_S, _check_half_closed, connection, transport)


def _filler(connection: Connection) -> bytes:
    """Returns bytes that the client ignores at this point of the answer: an interim answer, or a comment."""
    request = connection._current_request  # noqa: SLF001 - aiohttp's
    if request is None:
        return b""
    writer, comment = request.writer, connection.comment
    if not writer.output_size:
        return CONTINUE if request.version >= (1, 1) else b""
    chunked = isinstance(writer, StreamWriter) and writer.chunked
    return b"%x\r\n%b\r\n" % (len(comment), comment) if comment and chunked else comment


def _is_reset(transport: asyncio.BaseTransport) -> bool:
    sock = transport.get_extra_info("socket")
    try:
        return sock is not None and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    except OSError:
        return True
