"""Linger: how a connection is closed while its client may still be sending, so that the answer can be read.

Closing a socket on unread bytes resets the connection, and the reset takes the answer from a client that has not read
it yet. So the rest is taken in and dropped, within bounds of time and size, while our own direction is closed already.
"""

import asyncio
from contextlib import suppress

from aiohttp.web_protocol import RequestHandler

LINGER_S = 30.0
"""The rest of a body may take so long in all."""
QUIET_S = 5.0
"""The client has stopped sending when nothing comes for so long."""
LINGER_BYTES = 256 << 20
"""More than this is not taken in."""


async def linger(connection: RequestHandler) -> None:
    """Drop what still comes until the client closes, stops or goes too far; then close the connection."""
    transport = connection.transport
    if transport is None or transport.is_closing():
        return
    rest = _Rest(connection)
    transport.set_protocol(rest)
    with suppress(OSError, RuntimeError, NotImplementedError):  # the client may be gone in this very moment
        transport.write_eof()
        transport.resume_reading()
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while not rest.over.done():
                before = rest.size
                await asyncio.wait([rest.over], timeout=QUIET_S)
                if rest.size == before:
                    break
    connection.force_close()


class _Rest(asyncio.Protocol):
    """Reads in the connection's place. All else is still the connection's."""

    def __init__(self, connection: RequestHandler) -> None:
        self._connection = connection
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.size = 0

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self.size += len(data)
        if self.size > LINGER_BYTES:
            self._end()

    def eof_received(self) -> None:
        """See asyncio: the client has read its answer, or will send no more."""
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._end()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._connection.resume_writing()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
