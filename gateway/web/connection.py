"""aiohttp's connection, extended: it reports when it is lost, answers broken HTTP in JSON, and is counted.

Whether a handler should stop when its client leaves depends on the call: a stream should, a plain call may finish and
be charged. aiohttp offers only all or nothing, so the handler is informed instead of cancelled. Errors about bytes that
are not a request use our own words: the parser's messages repeat keys.

Connections are limited in total, and for each address of another machine.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any, TypeVar, cast

from aiohttp import web
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import InvalidHeader, InvalidURLError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from gateway.domain.errors import BadRequest, GatewayError, InternalError
from gateway.domain.settings import Settings
from gateway.domain.units import CallId
from gateway.web.error_responses import answer
from gateway.web.response import Response

Result = TypeVar("Result")


@lru_cache(maxsize=256)
def is_own(address: str) -> bool:
    """Returns whether this machine calls; also True for what is not a network address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return True
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


class ConnectionLimits:
    """The open connections. ``most`` returns how many the system has files for (0: any number), ``own`` which addresses
    are not counted individually.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        own: Callable[[str], bool] = is_own,
        most: Callable[[], int] = lambda: 0,
    ) -> None:
        self._settings = settings
        self._own = own
        self._most = most
        self._by_address: dict[str, int] = {}
        self.open = 0
        """How many are open."""

    def enter(self, address: str) -> str:
        """Count one more connection. Returns why it is one too many, if it is."""
        settings, possible = self._settings(), self._most()
        if settings.connections and self.open >= settings.connections:
            return f"more than {settings.connections} connections are open"
        if possible and self.open >= possible:
            return f"more than {possible} connections are open, and the system's limit of open files allows no more"
        if not self._own(address):
            count, most = self._by_address.get(address, 0), settings.address_connections
            if most and count >= most:
                return f"more than {most} connections of this address are open"
            self._by_address[address] = count + 1
        self.open += 1
        return ""

    def leave(self, address: str) -> None:
        """A counted connection was closed."""
        self.open -= 1
        if address in self._by_address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]


MAX_LINE = (8 << 10) + 512
"""Bytes of a header line: 8 KiB and a name."""
MAX_HEADERS = 100

_HEADER = "a header line is malformed"
_LENGTH = "its Content-Length or Transfer-Encoding is malformed, or both are given"

BY_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (LineTooLong, f"a line of its head is longer than {MAX_LINE} bytes"),
    (InvalidHeader, _HEADER),
    (InvalidURLError, "the request target is not a path"),
)
"""The parser's errors whose messages begin with what was sent."""
BY_WORD: tuple[tuple[str, str], ...] = (
    ("HTTPS", "it is TLS, and this port speaks plain HTTP: use http:// in the base URL"),
    ("method", "its first line does not begin with a method"),
    ("status line", "its first line is not 'METHOD /path HTTP/1.1'"),
    ("Duplicate", "a header that can be given once is given twice"),
    ("Too many headers", f"it has more than {MAX_HEADERS} headers"),
    ("'Host'", "it has no Host header"),
    ("chunk", "a chunk of its body is malformed"),
    ("Content-Length", _LENGTH),
    ("Transfer-Encoding", _LENGTH),
    ("header", _HEADER),
)
"""Our words by a word of the parser's reason, which precedes the colon; what was sent follows it."""


def fault(exc: BaseException | None) -> str:
    """Returns what is wrong, for the sender, without anything that was sent."""
    for cls, words in BY_CLASS:
        if isinstance(exc, cls):
            return words
    reason = str(getattr(exc, "message", "")).partition(":")[0]
    return next((words for word, words in BY_WORD if word in reason), "it is not valid HTTP/1.1")


WRITE_S = 30.0
"""Seconds after which a client is dropped that takes nothing of what waits for it."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

LOOK_S = 1.0
"""Seconds between two checks of a client."""


class InPlaceLoop:
    """The event loop as a connection sees it: a request is handled in the connection's own task.

    aiohttp makes a task for each request, which copies the context variables and takes one more turn of the loop. There
    are no such variables here; both tasks are cancelled together in any case.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def create_task(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work itself, when awaited.

        The connection's task keeps the error that cancels it. The first one leads to the frames of the request, these
        to the call and its answer, and the call to the task. So another one is raised: otherwise all of them would stay
        until the garbage collector runs.
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


class Silence:
    """A client that sends no more: closes the connection when it has left or gets no more answers.

    Whether it has left or still reads shows only when something is sent: the system of a closed one answers with a
    reset. So after a moment something is sent that a client ignores, and then the state of the socket is checked,
    because nothing is read any more that would report the reset. Quick answers are sent without this.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        filler: Callable[[], bytes],
        over: Callable[[], bool],
    ) -> None:
        """``filler`` returns what the client ignores at present; ``over`` whether it is owed no answer."""
        self._loop, self._transport, self._filler, self._over = loop, transport, filler, over
        self._since = loop.time()
        self._probed = False
        self._next = loop.call_later(0.25, self._look)  # so long it is believed to be there

    def end(self) -> None:
        """The connection is closed."""
        self._next.cancel()

    def _look(self) -> None:
        if self._transport.is_closing():
            return
        if self._over():
            self._transport.close()  # behind what is still to be sent
        elif _is_reset(self._transport):
            self._transport.abort()
        else:
            if not self._probed:
                self._probed = True
                self._transport.write(self._filler())
            soon = self._loop.time() - self._since < LOOK_S
            self._next = self._loop.call_later(0.05 if soon else LOOK_S, self._look)


def _is_reset(transport: asyncio.BaseTransport) -> bool:
    sock = transport.get_extra_info("socket")
    try:
        return sock is not None and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    except OSError:
        return True


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = (
        *("_address", "_counted", "_limits", "_look", "_new_id", "_silence", "leaving", "on_leave", "on_lost", "sign"),
    )

    leaving: bool
    """Whether it closes after the present answer, which says so."""
    sign: bytes
    """A comment that may be sent between two events of the present stream."""
    _silence: Silence | None
    """Set when the client sends no more."""
    on_lost: Callable[[], None] | None
    """Called once when the connection is lost while a request is handled."""
    on_leave: Callable[[], None] | None
    """Called, perhaps repeatedly, when a connection that became a WebSocket should end. No answer is awaited there."""
    _look: asyncio.TimerHandle | None
    """The next check of a client that reads more slowly than we write."""

    def __init__(
        self, manager: web.Server, limits: ConnectionLimits, address: str, new_id: Callable[[], CallId], **options: Any
    ) -> None:
        """``limits`` has already counted it."""
        super().__init__(manager, **options)
        self._limits = limits
        self._address = address
        self._counted = True
        self._new_id = new_id
        self.leaving = False
        self.sign = b""
        self.on_leave = self.on_lost = self._look = self._silence = None

    @property
    def last(self) -> bool:
        """Whether the present request is the connection's last."""
        return self.leaving or (self._silence is not None and not self._messages)

    @property
    def _idle(self) -> bool:
        waits = self._request_count == 0 or (self._waiter is not None and not self._waiter.done())
        return waits and not self._messages

    @property
    def _incomplete(self) -> bool:
        """Returns whether the present request is incomplete."""
        current = self._current_request
        payloads = [payload for _, payload in self._messages] + ([] if current is None else [current.content])
        return not all(payload.is_eof() for payload in payloads)

    def leave(self) -> None:
        """Close it unless it owes an answer. An answer being sent still arrives."""
        self.leaving = True
        if self.on_leave is not None:
            self.on_leave()
        if self._idle:
            self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        if sys.version_info < (3, 12):  # from there on aiohttp begins its task without a turn of the loop
            self._loop = cast("asyncio.AbstractEventLoop", InPlaceLoop(self._loop))
        if self.transport is not None:
            # bytes that may wait for a client before a write waits too
            self.transport.set_write_buffer_limits(32 << 10)
        _bound_unsent(transport)

    def forget(self) -> None:
        """Stop counting it."""
        if self._counted:
            self._counted = False
            self._limits.leave(self._address)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Notify the handler."""
        self._look_away()
        if self._silence is not None:
            self._silence.end()
            self._silence = None
        self.forget()
        super().connection_lost(exc)
        if self.on_lost is not None:
            callback, self.on_lost = self.on_lost, None
            callback()

    def eof_received(self) -> bool:  # type: ignore[override] # aiohttp's says None, and closes
        """The client sends no more: it has closed, or it still reads. This shows only when something is sent to it.

        Complete requests are answered; incomplete ones are not. The client of a WebSocket announces it before it
        closes.
        """
        if self._idle or self._incomplete or self.on_leave is not None:
            return False
        if self._silence is None and self.transport is not None:
            over = partial(lambda self: self._idle or self._incomplete, self)
            self._silence = Silence(self._loop, self.transport, partial(_filler, self), over)
        return True

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Aiohttp calls this twice after each body. If nothing was paused, nothing is resumed or parsed again."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """Too much waits for the client: check whether it reads at all."""
        super().pause_writing()
        if self.transport is not None:
            self._look_at(self.transport, sys.maxsize, 0.0)

    def resume_writing(self) -> None:
        """The client took most of it."""
        super().resume_writing()
        self._look_away()

    def _look_at(self, transport: asyncio.Transport, before: int, since: float) -> None:
        """Drop a client that took nothing ``since``, when ``before`` bytes waited for it.

        The transport is kept from the beginning: a closed connection forgets it, and may still wait to send.
        """
        now, left = self._loop.time(), transport.get_write_buffer_size()
        if left < before:
            since = now
        if now - since < WRITE_S:
            self._look = self._loop.call_later(LOOK_S, self._look_at, transport, left, since)
        else:
            transport.abort()

    def _look_away(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Broken HTTP gets the same JSON error object as everything else."""
        call = self._new_id()
        error: GatewayError = InternalError(f"the gateway failed because of a bug; the call is {call}")
        if status < 500:
            error = BadRequest(f"the request cannot be read: {fault(exc)}", code="bad_http")
        status, headers, body = answer(error, call)
        response = Response(body, status=status, headers={**headers, "x-request-id": call})
        response.keep_alive = False
        return response  # type: ignore[return-value] # aiohttp asks for no more than it has


class GatewayRequest(web.BaseRequest):
    """aiohttp's request, notified when its connection is to end."""

    _protocol: Connection

    @property
    def keep_alive(self) -> bool:
        """Returns whether the connection stays open after the answer."""
        return not (self._message.should_close or self._protocol.last)


def _filler(connection: Connection) -> bytes:
    """Returns what its client ignores at this point of the answer: an interim answer, or a comment."""
    request = connection._current_request  # noqa: SLF001 - aiohttp's
    if request is None:
        return b""
    writer, sign = request.writer, connection.sign
    if not writer.output_size:
        return CONTINUE if request.version >= (1, 1) else b""
    chunked = isinstance(writer, StreamWriter) and writer.chunked
    return b"%x\r\n%b\r\n" % (len(sign), sign) if sign and chunked else sign


def _bound_unsent(transport: asyncio.BaseTransport) -> None:
    """Let the system, where it can, drop a client that takes nothing of what was sent.

    That covers short answers, and the rest of a long one whose connection is closing: nothing else checks those.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(WRITE_S * 1000))
