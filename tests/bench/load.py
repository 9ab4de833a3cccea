"""Load: calls a server as fast or as evenly as requested and measures every call. A job a line in, a result a line out.

It is callbacks on sockets and no more, so that the caller does not cost what it is to measure.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import cast

import msgspec
import uvloop

PATIENCE_S = 120.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    request: str
    """The whole request as it goes over the wire."""
    frame: str = ""
    """What is sent as a WebSocket's frame for each call, once ``request`` has opened it; empty: ``request`` is sent."""
    calls: int
    connections: int = 1
    rate: float = 0.0
    """Calls begun a second; 0: each connection begins the next when one ends."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; durations in microseconds."""

    calls: int
    errors: int
    elapsed_s: float
    p50: float
    p99: float
    first_p50: float
    """To the first byte of the body."""
    first_p99: float
    received: int
    """Bytes."""


def chat_request(port: int, key: str, body: str) -> str:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    )


class Caller(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, request: bytes, done: Callable[["Caller"], None]) -> None:
        self._request = request
        self._done = done
        self._transport: asyncio.Transport
        self.due = self.first = self.ended = 0.0
        self.good = False
        self.received = 0
        self._head = b""
        self._left = 0
        """Bytes of the body to come; -1: it is chunked."""
        self._tail = b""
        self._in_body = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def call(self, due: float) -> None:
        """Begin a call that counts from ``due``."""
        self.due, self.first, self._head, self._in_body = due, 0.0, b"", False
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if not self._in_body:
            self._head += data
            if (end := self._head.find(b"\r\n\r\n")) < 0:
                return
            data = self._begin_body(self._head[:end].lower(), self._head[end + 4 :])
        if data and not self.first:
            self.first = perf_counter()
        if self._left < 0:
            self._tail = (self._tail + data)[-7:]
            if self._tail.endswith(b"\r\n0\r\n\r\n"):
                self._end()
        else:
            self._left -= len(data)
            if not self._left:
                self._end()

    def _begin_body(self, head: bytes, body: bytes) -> bytes:
        self.good = head[9:12] == b"200"
        where = head.find(b"content-length:")
        self._left = int(head[where + 15 :].split(b"\r\n", 1)[0]) if where >= 0 else -1
        self._tail, self._in_body = b"", True
        return body

    def connection_lost(self, exc: Exception | None) -> None:
        if self.due:
            self.good = False
            self._end()

    def _end(self) -> None:
        self.ended = perf_counter()
        self._done(self)


class SocketCaller(Caller):
    """One WebSocket, one call at a time. A call ends with the event that completes a response."""

    def __init__(self, request: bytes, frame: bytes, done: Callable[[Caller], None]) -> None:
        super().__init__(request, done)
        self._frame = b"\x81\xfe" + len(frame).to_bytes(2) + bytes(4) + frame  # masked with zeros
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.write(self._request)

    def call(self, due: float) -> None:
        self.due, self.first = due, 0.0
        if self._in_body:
            self._transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._rest += data
        if not self._in_body:
            if b"\r\n\r\n" not in self._rest:
                return
            self._rest, self._in_body = self._rest.partition(b"\r\n\r\n")[2], True
            self._transport.write(self._frame)
        self.first = self.first or perf_counter()
        start, size = 0, len(self._rest)
        while start + 10 <= size:
            length = self._rest[start + 1]
            width = {126: 2, 127: 8}.get(length, 0)
            begin = start + 2 + width
            end = begin + (int.from_bytes(self._rest[start + 2 : begin]) if width else length)
            if end > size:
                break
            start = end
            if self._rest.startswith((b'{"type":"response.completed"', b'{"type":"error"'), begin):
                self.good = self._rest.startswith(b'{"type":"response', begin)
                self._end()
        self._rest = self._rest[start:]


class Run:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._begun = 0
        self._errors = 0
        self._received = 0
        self._durations: list[float] = []
        self._firsts: list[float] = []
        self._idle: deque[Caller] = deque()
        self._waiting: deque[float] = deque()
        self._over = asyncio.Event()

    async def measure(self) -> Result:
        loop = asyncio.get_running_loop()
        request, frame = self._job.request.encode(), self._job.frame.encode()

        def caller() -> Caller:
            return SocketCaller(request, frame, self._done) if frame else Caller(request, self._done)

        callers = [
            (await loop.create_connection(caller, "127.0.0.1", self._job.port))[1] for _ in range(self._job.connections)
        ]
        start = perf_counter()
        if self._job.rate:
            self._idle.extend(callers)
            for number in range(self._job.calls):
                loop.call_later(number / self._job.rate, self._due)
        else:
            for one in callers:
                self._next(one)
        async with asyncio.timeout(PATIENCE_S):
            await self._over.wait()
        elapsed = perf_counter() - start
        for one in callers:
            one.due = 0.0
            one._transport.close()  # noqa: SLF001 - one file, one machine
        return self._result(elapsed)

    def _due(self) -> None:
        now = perf_counter()
        if self._idle:
            self._idle.popleft().call(now)
        else:
            self._waiting.append(now)

    def _next(self, caller: Caller) -> None:
        if self._begun < self._job.calls:
            self._begun += 1
            caller.call(perf_counter())

    def _done(self, caller: Caller) -> None:
        self._errors += not caller.good
        self._received, caller.received = self._received + caller.received, 0
        self._durations.append(caller.ended - caller.due)
        self._firsts.append((caller.first or caller.ended) - caller.due)
        if len(self._durations) >= self._job.calls:
            self._over.set()
        elif not self._job.rate:
            self._next(caller)
        elif self._waiting:
            caller.call(self._waiting.popleft())
        else:
            self._idle.append(caller)

    def _result(self, elapsed: float) -> Result:
        durations, firsts = sorted(self._durations), sorted(self._firsts)
        return Result(
            calls=len(durations),
            errors=self._errors,
            elapsed_s=elapsed,
            p50=_at(durations, 0.5),
            p99=_at(durations, 0.99),
            first_p50=_at(firsts, 0.5),
            first_p99=_at(firsts, 0.99),
            received=self._received,
        )


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e6


async def main() -> None:
    """One job after the other until the input ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        result = await Run(msgspec.json.decode(line, type=Job)).measure()
        print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
