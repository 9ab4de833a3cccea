"""Upload: a large request on its way to an upstream: piece by piece, as it is taken, and others have turns in between.

Sent at once, 30 MB hold up the event loop: the system copies them, TLS encrypts them, and what is not taken at once is
copied again to wait.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from gateway.domain.long_strings import Buffer

AT_ONCE = 256 * 1024
"""Bytes of one piece."""


def is_large(request: Sequence[Buffer]) -> bool:
    """Whether a request, its head and its body, is sent in pieces."""
    return len(request) > 2 or len(request[1]) > AT_ONCE


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
        """There is no room for more."""
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
