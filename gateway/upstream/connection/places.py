"""Places: how many connections there may be, which of them rest, and who waits for one, first come, first served.

A place is taken before a connection is made and given back when the connection is gone. What comes free while somebody
waits is handed over at once, so that nobody who comes later can take it; who has left meanwhile hands it on.
"""

import asyncio
from collections import deque
from time import monotonic

from gateway.upstream.connection.wire import Wire

KEEP_ALIVE_S = 30.0
"""A connection that has rested for longer is not used again."""


class Places:
    """The places of one pool."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._open: set[Wire] = set()
        self._resting: list[Wire] = []
        self._waiting: deque[asyncio.Future[Wire | None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self.closed = False

    def rested(self) -> Wire | None:
        """The connection that rested last, if it still lives."""
        oldest = monotonic() - KEEP_ALIVE_S
        while self._resting:
            wire = self._resting.pop()
            if wire.alive and wire.idle_since > oldest:
                return wire
            wire.abort()
        return None

    async def take(self) -> Wire | None:
        """Wait for a place, or for a connection that comes free before there is one. Raises OSError when closed."""
        if self.closed:
            raise _closed()
        if self._free:
            self._free -= 1
            return None
        turn: asyncio.Future[Wire | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            self._leave(turn)
            raise

    def give_back(self) -> None:
        """The place of a connection that did not come about, or is gone."""
        if (turn := self._next()) is not None:
            turn.set_result(None)
        else:
            self._free += 1

    def settle(self, wire: Wire) -> None:
        """A connection was made for a place that had been taken. It may be lost already."""
        if not wire.alive:
            self.give_back()
            return
        self._open.add(wire)
        if self.closed:
            wire.abort()

    def rest(self, wire: Wire) -> None:
        """A connection may serve again."""
        wire.idle_since = monotonic()
        if (turn := self._next()) is not None:
            turn.set_result(wire)
            return
        self._resting.append(wire)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._sweep)

    def gone(self, wire: Wire) -> None:
        """A connection is lost."""
        if wire in self._resting:
            self._resting.remove(wire)
        if wire in self._open:
            self._open.remove(wire)
            self.give_back()

    async def close(self) -> None:
        """Break all connections; who waits for one gets an error."""
        self.closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        while (turn := self._next()) is not None:
            turn.set_exception(_closed())
        for wire in list(self._open):
            wire.abort()
        for _ in range(10):  # connections tell a few turns of the loop later that they are lost, TLS the latest
            if not self._open:
                return
            await asyncio.sleep(0)

    def _next(self) -> asyncio.Future[Wire | None] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None

    def _leave(self, turn: asyncio.Future[Wire | None]) -> None:
        """Whoever waited is cancelled, perhaps in the moment it was given something."""
        if turn.cancelled():
            self._waiting = deque(other for other in self._waiting if other is not turn)
        elif turn.exception() is None:
            wire = turn.result()
            self.give_back() if wire is None else self.rest(wire)

    def _sweep(self) -> None:
        """Close what has rested for too long."""
        loop, oldest = asyncio.get_running_loop(), monotonic() - KEEP_ALIVE_S
        for wire in [wire for wire in self._resting if wire.idle_since <= oldest]:
            wire.abort()
        self._sweeping = loop.call_later(KEEP_ALIVE_S, self._sweep) if self._resting else None


def _closed() -> OSError:
    return OSError(None, "the channel's connections were closed")
