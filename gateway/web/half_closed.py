"""HalfClosedClient: finds out whether a client that sends no more has left."""

import asyncio
import socket
from collections.abc import Callable

CHECK_S = 1.0
"""Seconds between two checks of a client."""


class HalfClosedClient:
    """Closes the connection of a client that sends no more, when it has left or has all its answers.

    Whether the client has left or still reads shows only when something is sent: the system of a client that has left
    answers with a reset. So after a moment something is sent that a client ignores, and then the state of the socket is
    checked, because nothing is read any more that would report the reset. Answers within that moment need no check.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        filler: Callable[[], bytes],
        is_answered: Callable[[], bool],
    ) -> None:
        """``filler`` returns bytes that the client ignores at present. ``is_answered`` tells whether it has all its
        answers.
        """
        self._loop, self._transport, self._filler, self._is_answered = loop, transport, filler, is_answered
        self._since = loop.time()
        self._probed = False
        self._timer = loop.call_later(0.25, self._check)

    def end(self) -> None:
        """Check no more: the connection is closed."""
        self._timer.cancel()

    def _check(self) -> None:
        """Close the connection if it is time to, else check again later."""
        if self._transport.is_closing():
            return
        if self._is_answered():
            self._transport.close()  # behind what is still to be sent
        elif _is_reset(self._transport):
            self._transport.abort()
        else:
            if not self._probed:
                self._probed = True
                self._transport.write(self._filler())
            is_new = self._loop.time() - self._since < CHECK_S
            self._timer = self._loop.call_later(0.05 if is_new else CHECK_S, self._check)


def _is_reset(transport: asyncio.BaseTransport) -> bool:
    sock = transport.get_extra_info("socket")
    try:
        return sock is not None and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    except OSError:
        return True
