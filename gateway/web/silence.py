"""Silence: a client that sends no more has either closed its connection or still reads.

Both look the same until something is sent: only the system of a closed one answers with a reset. So after a moment
something is sent that a client ignores, and then the state of the socket is checked, because nothing is read any more
that would report the reset. Quick answers are sent without this.
"""

import asyncio
import socket
from collections.abc import Callable

LOOK_S = 1.0
"""Seconds between two later checks, when nothing more is sent for them."""


class Silence:
    """Closes the connection when the client has left or gets no more answers."""

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
