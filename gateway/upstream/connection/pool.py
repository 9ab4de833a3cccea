"""Pool: the connections of one channel. No redirects, no cookies, no proxies from the environment.

Why not a client library: of all that a call costs, aiohttp's client was two thirds. What is needed here is little, and
the rules of what may be reused are better seen than trusted (see ``wire``).
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from functools import lru_cache

import msgspec
import yarl

from gateway.domain.channel import Channel
from gateway.upstream import failures
from gateway.upstream.adapter import AttemptFailed, Prepared
from gateway.upstream.connection.dial import Dialer, Place
from gateway.upstream.connection.errors import connect_failure, exchange_failure
from gateway.upstream.connection.reply import HttpReply
from gateway.upstream.connection.wire import Answer, Broken, Wire

CONNECTIONS = 256
"""Open ones of one channel; what more there is to do waits, within the connect deadline."""
KEEP_ALIVE_S = 30.0
"""A connection that was idle for longer is not used again."""
STALE_S = 1.0
"""A used connection that breaks within this time after a request was broken before: the request is sent again."""


class Pool:
    """The connections of one channel."""

    def __init__(self, channel: Channel, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._headers = dict(headers)
        self._lines: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._dialer = Dialer()
        self._idle: list[Wire] = []
        self._open: set[Wire] = set()
        self._dialing = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self.busy = 0
        """Answers under way."""

    def fits(self, channel: Channel) -> bool:
        """Whether these connections are as the channel wants them."""
        mine = self._channel
        return mine is channel or (
            mine.base_url == channel.base_url
            and mine.key == channel.key
            and mine.headers == channel.headers
            and mine.preset == channel.preset
            and mine.timeouts == channel.timeouts
            and mine.name == channel.name
        )

    async def close(self) -> None:
        """Breaks what is under way."""
        if self._sweep is not None:
            self._sweep.cancel()
        for wire in list(self._open):
            wire.abort()
        await asyncio.sleep(0)  # the connections tell that they are lost

    async def send(self, method: str, prepared: Prepared, head_s: float) -> HttpReply:
        """The answer's head. Raises AttemptFailed."""
        began = asyncio.get_running_loop().time()
        self.busy += 1
        answer: Answer | None = None
        try:
            answer = await self._ask_afresh(method, prepared, head_s, began)
            return HttpReply(self._channel, answer, self._ended, began)
        except BaseException:
            self.busy -= 1
            raise

    def _ended(self) -> None:
        self.busy -= 1

    async def _ask_afresh(self, method: str, prepared: Prepared, head_s: float, began: float) -> Answer:
        """Asks, and once more if the connection had been broken while it was idle."""
        target = _target(prepared.url)
        request = self._head(method, target, prepared), prepared.body
        wire = self._rested() or await self._dial(target)
        stale = wire.used
        try:
            return await self._ask(wire, request, head_s)
        except Broken as exc:
            late = asyncio.get_running_loop().time() - began > STALE_S
            if not stale or late or exc.spoke or exc.malformed:
                raise AttemptFailed(exchange_failure(self._channel, exc)) from exc
        try:
            return await self._ask(await self._dial(target), request, head_s)
        except Broken as exc:
            raise AttemptFailed(exchange_failure(self._channel, exc)) from exc

    async def _ask(self, wire: Wire, request: tuple[bytes, bytes], head_s: float) -> Answer:
        answer = wire.ask(request)
        slow = AttemptFailed(failures.too_slow(self._channel, "response head", head_s, sent=True))
        deadline = asyncio.get_running_loop().call_later(head_s, answer.fail, slow)
        try:
            await answer.head()
        except BaseException:
            answer.abort()
            raise
        finally:
            deadline.cancel()
        return answer

    def _head(self, method: str, target: "_Target", prepared: Prepared) -> bytes:
        key = tuple(prepared.headers.items())
        lines = self._lines.get(key)
        if lines is None:
            if len(self._lines) > 64:
                self._lines.clear()
            lines = self._lines[key] = self._encoded(prepared.headers)
        length = b"Content-Length: %d\r\n" % len(prepared.body) if prepared.body or method == "POST" else b""
        return b"%b %b\r\n%b%b\r\n" % (method.encode(), target.line, lines, length)

    def _encoded(self, headers: Mapping[str, str]) -> bytes:
        """Raises AttemptFailed for a header that cannot be sent, without showing its value."""
        out = []
        for name, value in {**self._headers, **headers}.items():
            line = f"{name}: {value}"
            if "\r" in line or "\n" in line or "\0" in line or not line.isascii():
                text = f"the header '{name}' of the channel, or its key, has characters that cannot be sent"
                raise AttemptFailed(failures.unreachable(self._channel, text, sent=False))
            out.append(line.encode() + b"\r\n")
        return b"".join(out)

    def _rested(self) -> Wire | None:
        """The connection that rested last, if it still lives."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_S
        while self._idle:
            wire = self._idle.pop()
            if wire.alive and wire.idle_since > oldest:
                return wire
            wire.abort()
        return None

    async def _dial(self, target: "_Target") -> Wire:
        """A new connection. Raises AttemptFailed."""
        seconds = self._channel.timeouts.connect
        try:
            async with asyncio.timeout(seconds):
                if (rested := await self._place()) is not None:
                    return rested
                try:
                    wire = await self._dialer.dial(target.place, self._new_wire)
                finally:
                    self._dialing -= 1
        except TimeoutError as exc:
            raise AttemptFailed(connect_failure(self._channel, exc, seconds)) from exc
        except OSError as exc:
            self._wake()
            raise AttemptFailed(connect_failure(self._channel, exc, seconds)) from exc
        self._open.add(wire)
        return wire

    async def _place(self) -> Wire | None:
        """Wait until one more connection may be opened; it counts as being dialed then. Or one that came free."""
        while len(self._open) + self._dialing >= CONNECTIONS:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if (rested := self._rested()) is not None:
                return rested
        self._dialing += 1
        return None

    def _new_wire(self) -> Wire:
        return Wire(self._rest, self._gone)

    def _rest(self, wire: Wire) -> None:
        """An answer came whole: the connection may serve again."""
        wire.idle_since = asyncio.get_running_loop().time()
        self._idle.append(wire)
        self._wake()
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._sweep_idle)

    def _gone(self, wire: Wire) -> None:
        self._open.discard(wire)
        if wire in self._idle:
            self._idle.remove(wire)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _sweep_idle(self) -> None:
        """Close what has rested for too long."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_S
        for wire in [wire for wire in self._idle if wire.idle_since <= oldest]:
            wire.abort()
        self._sweep = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._sweep_idle) if self._idle else None


class _Target(msgspec.Struct, frozen=True):
    """What a URL means on the wire."""

    line: bytes
    """The rest of the request line, and the Host header."""
    place: Place


@lru_cache(maxsize=256)
def _target(text: str) -> _Target:
    url = yarl.URL(text)
    host, port = url.raw_host or "", url.port or 0
    shown = f"[{host}]" if ":" in host else host
    name = shown if url.is_default_port() else f"{shown}:{port}"
    line = f"{url.raw_path_qs} HTTP/1.1\r\nHost: {name}".encode()
    return _Target(line, Place(host, port, tls_context() if url.scheme == "https" else None))


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Certificates and names are checked, TLS 1.2 at least: Python's own defaults."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
