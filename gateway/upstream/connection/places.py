"""Places: how many connections there may be, which of them rest, and who waits for one, first come, first served.

A place is taken before a connection is made and given back when the connection is gone. What comes free while somebody
waits is handed over at once, so that nobody who comes later can take it; who has left meanwhile hands it on.

All pools together have no more places than there are open files for. When these are used up, a connection that rests in
whatever pool is closed for the one that is needed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from weakref import WeakSet

from gateway.domain.errors import Unavailable
from gateway.upstream.connection.wire import Wire

KEEP_ALIVE_S = 30.0
"""A connection that has rested for longer is not used again."""
LOG_S = 60.0
"""Between two lines in the log that say the same."""

_log = logging.getLogger("tollkeeper")


class Total:
    """The places of all pools together."""

    def __init__(self, most: Callable[[], int] = lambda: 0) -> None:
        """``most`` says how many there may be; 0: any number."""
        self._most = most
        self._open = 0
        self._closing = 0
        """Of these, those that are about to be gone."""
        self._logged = -LOG_S
        self.pools: WeakSet[Places] = WeakSet()

    def take(self) -> bool:
        """Take one more place; False if that of a connection which rested will soon be free.

        Raises Unavailable when all are in use.
        """
        most = self._most()
        if not most or self._open < most:
            self._open += 1
            return True
        if self._open - self._closing >= most:
            if not any(pool.close_one() for pool in self.pools):
                raise self.used_up(f"all {most} connections to upstreams that the system has open files for are in use")
            self._closing += 1
        return False

    def give_back(self) -> None:
        """A place is free again."""
        self._open -= 1
        self._closing = max(0, self._closing - 1)

    def used_up(self, why: str) -> Unavailable:
        """The error of a call that needs a connection and can have none. No channel is at fault."""
        if (now := monotonic()) - self._logged >= LOG_S:
            self._logged = now
            _log.warning("no upstream can be reached: %s", why)
        return Unavailable(f"{why}; try again when other calls have ended", retry_after_s=1)


class Places:
    """The places of one pool."""

    def __init__(self, limit: int, total: Total | None = None) -> None:
        self._free = limit
        self.total = total or Total()
        self.total.pools.add(self)
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
        """Wait for a place, or for a connection that comes free before there is one.

        Raises OSError when closed, Unavailable when all pools together have no place left.
        """
        if self.closed:
            raise _closed()
        while self._free:
            if self.total.take():
                self._free -= 1
                return None
            await asyncio.sleep(0)
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
            self.total.give_back()

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

    def close_one(self) -> bool:
        """Close the connection that has rested for longest; False if none rests."""
        if not self._resting:
            return False
        self._resting.pop(0).abort()
        return True

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
