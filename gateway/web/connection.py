"""Connection: aiohttp's own, told to say when it is lost and to answer broken HTTP in JSON.

Whether a handler should stop when its client leaves depends on the call: a stream should, a plain call may finish and
be booked. aiohttp offers only all or nothing, so the handler is told instead of cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.domain.errors import BadRequest, Unavailable
from gateway.web.errors import answer
from gateway.web.response import Response

MAX_CONNECTIONS = 2048
"""Below the usual limit of open files, both sides of a call counted."""

KEEP_ALIVE_S = 75.0
"""An idle connection, or one that has not sent a whole head, is closed after this."""

READ_BUFFER = 64 << 10
LINGER_S = 1.0
"""How long an unread body is swallowed before its connection is closed."""
WRITE_S = 30.0
"""A client that takes nothing of what waits for it, from one such look to the next, is left."""

_OVERLOADED = answer(Unavailable(f"more than {MAX_CONNECTIONS} connections are open", retry_after_s=1))[2]
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_OVERLOADED), _OVERLOADED)
)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | Response]]


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = ("_look", "on_lost")

    on_lost: Callable[[], None] | None
    """Called once when the connection is lost while a request is handled."""
    _look: asyncio.TimerHandle | None
    """The next look at a client that reads more slowly than we write."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Turn it away when there are too many."""
        self.on_lost = self._look = None
        crowded = self._manager is not None and len(self._manager.connections) >= MAX_CONNECTIONS
        super().connection_made(transport)
        if crowded and self.transport is not None:
            self.transport.write(_REFUSAL)
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the handler."""
        self._look_away()
        super().connection_lost(exc)
        if self.on_lost is not None:
            told, self.on_lost = self.on_lost, None
            told()

    def pause_writing(self) -> None:
        """More waits for the client than is good: see whether it reads at all."""
        super().pause_writing()
        if self.transport is not None:
            self._look = self._loop.call_later(WRITE_S, self._look_at, self.transport, None)

    def resume_writing(self) -> None:
        """It has taken most of it."""
        super().resume_writing()
        self._look_away()

    def _look_at(self, transport: asyncio.Transport, before: int | None) -> None:
        """The transport is kept from the beginning: a closed connection forgets it, and may still wait to send."""
        left = transport.get_write_buffer_size()
        if before is not None and left >= before:
            transport.abort()
        else:
            self._look = self._loop.call_later(WRITE_S, self._look_at, transport, left)

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
        detail = (message or "").strip().splitlines()
        text = f"this is not a request that can be read: {detail[0][:120]!a}" if detail else "this cannot be read"
        response = web.Response(
            status=400 if status < 500 else status,
            body=answer(BadRequest(text, code="bad_http"))[2],
            content_type="application/json",
            headers={"Server": "tollkeeper"},
        )
        response.force_close()
        return response


class Listener(web.Server):
    """Makes our connections. No access log: the call log is one, and writing both costs a fifth of the throughput."""

    def __init__(self, handler: Handler) -> None:
        # It says StreamResponse and asks for no more than Response has.
        super().__init__(handler, handler_cancellation=False)  # type: ignore[arg-type]

    def __call__(self) -> RequestHandler:
        """One more connection."""
        return Connection(
            self,
            loop=self._loop,
            keepalive_timeout=KEEP_ALIVE_S,
            # None is what the code asks for and its hint forbids.
            access_log=None,  # type: ignore[arg-type]
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            lingering_time=LINGER_S,
        )
