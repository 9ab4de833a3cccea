"""Listener: makes our connections, and ends them when the server stops."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from gateway.domain.units import CallId
from gateway.web.broken import MAX_HEADERS, MAX_LINE
from gateway.web.connection import Connection, Request
from gateway.web.crowd import Crowd
from gateway.web.response import Response

KEEP_ALIVE_S = 75.0
"""An idle connection, or one that has not sent a whole head, is closed after this."""

READ_BUFFER = 64 << 10
LINGER_S = 1.0
"""How long an unread body is swallowed before its connection is closed."""
LOOK_S = 0.02
"""Between two looks at connections that are to end."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | Response]]


class Listener(web.Server):
    """Makes our connections. No access log: the call log is one, and writing both costs a fifth of the throughput."""

    def __init__(self, handler: Handler, crowd: Crowd, new_id: Callable[[], CallId]) -> None:
        """``new_id`` gives the id of what is answered without the handler."""
        # It says StreamResponse and asks for no more than Response has.
        super().__init__(handler, handler_cancellation=False)  # type: ignore[arg-type]
        self.crowd = crowd
        self.new_id = new_id

    def connection(self, address: str) -> Connection:
        """One more connection, from this address, which the crowd has let in."""
        return Connection(
            self,
            self.crowd,
            address,
            self.new_id,
            loop=self._loop,
            keepalive_timeout=KEEP_ALIVE_S,
            access_log=None,
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            lingering_time=LINGER_S,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )

    async def emptied(self) -> None:
        """Close every connection, at once where nothing is asked and else behind the answer; wait for the last one.

        Whether one is idle is looked at again and again: nothing is told when a connection becomes it.
        """
        while self._connections:
            for connection in self.connections:
                if isinstance(connection, Connection):
                    connection.leave()
            await asyncio.sleep(LOOK_S)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """Cancel the handlers that still run, give them so long to end, and break off what has not been sent."""
        left = dict(self._connections)
        tasks = [task for connection in left if (task := connection._task_handler) is not None]  # noqa: SLF001 - aiohttp's
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        for transport in left.values():
            transport.abort()

    def _make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        return Request(message, payload, protocol, writer, task, self._loop)
