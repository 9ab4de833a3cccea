"""Wire: HTTP/1.1 by hand over one socket, for peers that must be able to break it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import cast

HEAD_END = b"\r\n\r\n"
PATIENCE_S = 90.0
"""How long any single wait of a test may last, in loop time, before it fails."""


class Gone(Exception):
    """The peer closed before what was waited for had come."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a message and its headers, names in lower case, values as text."""

    line: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str, default: str = "") -> str:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def status(self) -> int:
        """Of an answer's first line."""
        return int(self.line.split(" ", 2)[1])


class Socket(asyncio.Protocol):
    """One side of a connection: buffers what comes, tells when the peer is gone, sends with back-pressure."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.gone = asyncio.Event()
        """The peer has closed or reset."""
        self.reset_by_peer = False
        self.gone_at: float | None = None
        """Loop time."""
        self.transport: asyncio.Transport
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._news.set()

    def eof_received(self) -> bool:
        self._leave()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.reset_by_peer = isinstance(exc, ConnectionResetError)
        self._leave()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def write(self, data: bytes) -> None:
        """Hand the bytes to the system at once and wait while the peer does not take them; nothing if it is gone."""
        if not self.transport.is_closing():
            self.transport.write(data)
        await self._writable.wait()

    async def write_slowly(self, data: bytes, size: int = 1) -> None:
        """In pieces that the peer is given time to read one by one."""
        for start in range(0, len(data), size):
            await self.write(data[start : start + size])
            await asyncio.sleep(0)

    async def more(self, patience_s: float = PATIENCE_S) -> None:
        """Wait for further bytes. Raises Gone when none can come."""
        if self.gone.is_set():
            raise Gone
        self._news.clear()
        async with asyncio.timeout(patience_s):
            await self._news.wait()

    async def read_head(self) -> Head:
        """The next message's head. Raises Gone."""
        while (end := self.buffer.find(HEAD_END)) < 0:
            await self.more()
        raw = self.take(end + len(HEAD_END))[:end].decode("latin-1")
        first, *rest = raw.split("\r\n")
        pairs = (line.partition(":") for line in rest)
        return Head(first, tuple((name.strip().lower(), value.strip()) for name, _, value in pairs))

    async def read_body(self, head: Head, *, answer: bool = False) -> bytes:
        """The body that belongs to the head. An answer without a length ends with the connection. Raises Gone."""
        return b"".join([piece async for piece in self.pieces(head, answer=answer)])

    async def pieces(self, head: Head, *, answer: bool = False) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises Gone if the peer left before its end."""
        if head.get("transfer-encoding").lower() == "chunked":
            async for piece in self._chunks():
                yield piece
        elif (length := head.get("content-length")) or not answer:
            rest = int(length or 0)
            while rest:
                piece = await self._some(rest)
                rest -= len(piece)
                yield piece
        else:
            while piece := await self._some_or_end():
                yield piece

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int((await self._line()).split(b";")[0], 16):
            yield await self._exactly(size)
            await self._line()
        while await self._line():
            pass

    async def _line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n")) < 0:
            await self.more()
        return self.take(end + 2)[:end]

    async def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self.more()
        return self.take(size)

    async def _some(self, limit: int) -> bytes:
        while not self.buffer:
            await self.more()
        return self.take(min(limit, len(self.buffer)))

    async def _some_or_end(self) -> bytes:
        try:
            return await self._some(1 << 20)
        except Gone:
            return b""

    def take(self, size: int) -> bytes:
        """Remove that many bytes from what has come, and go on reading if it was paused."""
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def stop_reading(self) -> None:
        """Take nothing more from the system: its buffers fill and the peer's writes block."""
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def go_on_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def close(self) -> None:
        """FIN, after what was written."""
        self.transport.close()

    def half_close(self) -> None:
        """FIN for our direction only."""
        self.transport.write_eof()

    def reset(self) -> None:
        """RST at once."""
        if not self.transport.is_closing():
            self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    @property
    def _raw(self) -> socket.socket:
        return cast("socket.socket", self.transport.get_extra_info("socket"))

    def _leave(self) -> None:
        if not self.gone.is_set():
            self.gone_at = asyncio.get_running_loop().time()
        self.gone.set()
        self._news.set()


def head_bytes(line: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """A message's head, ended."""
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body; of nothing, the end of the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def turns_until(answers: int, word: bytes, peer: Socket) -> int:
    """Wait for so many answers with this word. In how many turns of the event loop more of them had come."""
    seen = set()
    async with asyncio.timeout(PATIENCE_S):
        while (count := peer.buffer.count(word)) < answers:
            seen.add(count)
            await asyncio.sleep(0)
    return len(seen)
