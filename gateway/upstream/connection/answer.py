"""Answer: what comes over a wire for one request: the head, then the body in pieces, and who waits for them."""

import asyncio
from typing import Protocol

from gateway.upstream.connection.broken import Broken

HIGH_WATER = 32 * 1024
"""Bytes that may wait for their reader before the upstream is made to wait."""


class Line(Protocol):
    """The connection an answer comes over."""

    def go_on(self) -> None:
        """There is room for more."""

    def abort(self) -> None:
        """Close it at once."""


class Answer:
    """One answer on its way."""

    __slots__ = ("_dropped", "_error", "_line", "_parts", "_size", "_waiter", "complete", "headers", "status")

    def __init__(self, line: Line) -> None:
        self._line: Line | None = line
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._dropped: asyncio.TimerHandle | None = None
        self.status = 0
        """0: the head is not whole."""
        self.headers: dict[str, str] = {}
        """By lower-case name; repeated ones are joined with a comma (RFC 9110, 5.3)."""
        self.complete = False
        """The whole body has come, though perhaps it has not been read."""

    @property
    def full(self) -> bool:
        """So much waits for its reader that the upstream should wait, too."""
        return self._size > HIGH_WATER

    async def head(self) -> None:
        """Wait for status and headers. Raises Broken, or what ``fail`` was given."""
        while not self.status:
            await self._wait()

    def rest(self) -> bytes:
        """What waits for its reader, without waiting; of a complete answer that is all."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._line is not None:
            self._line.go_on()
        return data

    async def receive(self) -> bytes:
        """The next bytes of the body as they came; none at the end. Raises Broken, or what ``fail`` was given."""
        while not self._parts:
            if self.complete:
                return b""
            await self._wait()
        if not self.full or len(self._parts) == 1:
            return self.rest()
        part = self._parts.pop(0)
        self._size -= len(part)
        if self._line is not None and self._size <= HIGH_WATER:
            self._line.go_on()
        return part

    def fail(self, error: Exception) -> None:
        """Whoever reads gets this; the connection is closed at once."""
        if self._error is None:
            self._error = error
        self.abort()
        self._wake()

    def drop(self, seconds: float) -> None:
        """Nobody reads any more: the connection is kept if the rest comes within so many seconds."""
        if self._line is not None and self._dropped is None:
            self._dropped = asyncio.get_running_loop().call_later(seconds, self.abort)
            self._parts.clear()
            self._size = 0
            self._line.go_on()

    def abort(self) -> None:
        """Nobody reads any more: close the connection unless it has gone its own way already."""
        if self._line is not None:
            self._parts.clear()
            self._size = 0
            self._line.abort()

    def take_head(self, status: int, headers: dict[str, str]) -> None:
        """The wire's: the head is whole."""
        self.status, self.headers = status, headers
        self._wake()

    def take(self, data: bytes) -> None:
        """The wire's: more of the body."""
        if self._dropped is None:
            self._parts.append(data)
            self._size += len(data)
            self._wake()

    def finish(self) -> None:
        """The wire's: the body is whole; the wire goes its own way."""
        self.complete = True
        self._leave()

    def lose(self, error: Exception) -> None:
        """The wire's: it broke."""
        if self._error is None:
            self._error = error
        self._leave()

    def _leave(self) -> None:
        self._line = None
        if self._dropped is not None:
            self._dropped.cancel()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._error is not None:
            # An error leads to the frames that it was raised in, and these to this answer and all that was gathered of
            # it: if the error stayed in either place, nothing of that would be free before the garbage collector looks.
            error, self._error = self._error, Broken("it had failed before")
            try:
                raise error
            finally:
                del error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
