"""Client: the only outgoing connections, a pool a channel. Foreign exceptions become ``AttemptFailed`` here.

A connection is used again only if its answer was read to its end. No redirects, no cookies, no proxies from the
environment. Every wait has a deadline, which its error names.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, Served, Timeouts
from gateway.domain.errors import InternalError
from gateway.domain.units import ChannelId
from gateway.upstream import failures
from gateway.upstream.adapter import AttemptFailed, Failure, Prepared, Reply, Signs
from gateway.upstream.credentials import headers_of
from gateway.upstream.dialects import adapter
from gateway.upstream.listing import read_models
from gateway.upstream.mock import Mock
from gateway.upstream.names import Names
from gateway.upstream.watch import Watch

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.client_proto import ResponseHandler

CONNECTIONS = 256
"""Open ones of one channel; what more there is to do waits, within the connect deadline."""
KEEP_ALIVE_S = 30.0
NAME_KEPT_S = 300
READ_BYTES = 64 * 1024
STREAM_LIMIT = 256 * 1024 * 1024
"""Bytes of one streamed answer, decompressed."""
LIST_LIMIT = 16 * 1024 * 1024
LIST_S = 20.0
"""For everything about a list of models."""
LINGER_S = 0.5
"""How long the rest of an answer that nobody wants may take before its connection is given up."""
STALE_S = 1.0
"""A used connection that breaks within this time after a request was broken before: the request is sent again."""

_JSON = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}


class Upstreams:
    """The pools of all channels. ``environ`` resolves ``env:NAME`` references."""

    def __init__(self, environ: Mapping[str, str] | None = None, mock: Mock | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._mock = mock or Mock()
        self._pools: dict[ChannelId, Pool] = {}
        self._retired: list[Pool] = []

    async def send(self, channel: Channel, prepared: Prepared, *, stream: bool) -> Reply:
        """The answer's head. Raises AttemptFailed."""
        if channel.dialect is Dialect.MOCK:
            return await self._mock.answer(channel, prepared)
        if self._retired:
            await self._bury()
        return await self._pool(channel).send("POST", prepared, channel.timeouts.head)

    async def fetch_models(self, channel: Channel) -> list[Served]:
        """The models the upstream lists now. Raises AttemptFailed."""
        if channel.dialect is Dialect.MOCK:
            return self._mock.models()
        asked = Prepared(url=channel.base_url.rstrip("/") + "/models", headers=_JSON, body=b"")
        reply = await self._pool(channel).send("GET", asked, LIST_S)
        try:
            body = await reply.read(LIST_LIMIT)
        finally:
            reply.abort()
        if reply.status != 200:
            raise AttemptFailed(adapter(channel.dialect).failure(channel, reply.status, reply.headers, body))
        models = read_models(body)
        if models is None:
            raise AttemptFailed(failures.bad_response(channel, "its list of models cannot be read"))
        return models

    async def discover_root(self, base_url: str, key: str = "") -> str:
        """The base URL under which the list of models lies: as given, with ``/v1`` or without.

        Raises AttemptFailed of the URL as given if there is none.
        """
        base = base_url.rstrip("/")
        other = base.removesuffix("/v1") if base.endswith("/v1") else base + "/v1"
        try:
            return await self._try_root(base, key)
        except AttemptFailed as failed:
            if failed.kind in {FailureKind.NETWORK, FailureKind.SLOW, FailureKind.AUTH}:
                raise
            try:
                return await self._try_root(other, key)
            except AttemptFailed:
                raise failed from None

    async def _try_root(self, base_url: str, key: str) -> str:
        channel = Channel(
            id=ChannelId(""),
            name=URL(base_url).host or base_url,
            dialect=Dialect.OPENAI,
            base_url=base_url,
            key=key,
            timeouts=Timeouts(connect=2.0),
        )
        pool = Pool(channel, headers_of(channel, self._environ))
        self._pools[channel.id] = pool
        try:
            await self.fetch_models(channel)
        finally:
            del self._pools[channel.id]
            await pool.close()
        return base_url

    def forget(self, channel_id: ChannelId) -> None:
        """The channel was changed or removed: running calls go on, new ones connect anew."""
        pool = self._pools.pop(channel_id, None)
        if pool is not None:
            self._retired.append(pool)

    async def close(self) -> None:
        """Ends everything, running answers too."""
        for pool in [*self._pools.values(), *self._retired]:
            await pool.close()
        self._pools.clear()
        self._retired.clear()

    def _pool(self, channel: Channel) -> "Pool":
        pool = self._pools.get(channel.id)
        if pool is None or not pool.fits(channel):
            self.forget(channel.id)
            pool = self._pools[channel.id] = Pool(channel, headers_of(channel, self._environ))
        return pool

    async def _bury(self) -> None:
        idle = [pool for pool in self._retired if not pool.busy]
        self._retired = [pool for pool in self._retired if pool.busy]
        for pool in idle:
            await pool.close()


class Pool:
    """The connections of one channel."""

    def __init__(self, channel: Channel, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._urls: dict[str, URL] = {}
        self._sending: dict[asyncio.Task[Any], Sending] = {}
        self.busy = 0
        """Answers under way."""
        connector = Connector(self._sending)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=channel.timeouts.connect, ceil_threshold=1e9),
            read_bufsize=READ_BYTES,
            trust_env=False,
        )

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
        await self._session.close()

    async def send(self, method: str, prepared: Prepared, head_s: float) -> "HttpReply":
        """The answer's head. Raises AttemptFailed."""
        began = asyncio.get_running_loop().time()
        sending = Sending(head_s)
        response: aiohttp.ClientResponse | None = None
        self.busy += 1
        try:
            response = await self._ask_afresh(method, prepared, sending, began)
        except _FOREIGN as exc:
            raise AttemptFailed(_failure(self._channel, exc, sending)) from exc
        finally:
            if response is None:
                self.busy -= 1
        return HttpReply(self._channel, response, self._ended, began)

    def _ended(self) -> None:
        self.busy -= 1

    async def _ask_afresh(
        self, method: str, prepared: Prepared, sending: "Sending", began: float
    ) -> aiohttp.ClientResponse:
        """Asks, and once more if the connection had been broken while it was idle."""
        try:
            return await self._ask(method, prepared, sending)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as exc:
            late = asyncio.get_running_loop().time() - began > STALE_S
            if sending.fresh or late or isinstance(exc, aiohttp.ClientConnectorError):
                raise
        return await self._ask(method, prepared, sending)

    async def _ask(self, method: str, prepared: Prepared, sending: "Sending") -> aiohttp.ClientResponse:
        task = asyncio.current_task()
        if task is None:
            raise InternalError("a request is sent outside of any task")
        self._sending[task] = sending
        try:
            async with asyncio.timeout(sending.head_s) as sending.deadline:
                return await self._session.request(
                    method,
                    self._url(prepared.url),
                    data=prepared.body or None,
                    headers=prepared.headers,
                    allow_redirects=False,
                )
        finally:
            del self._sending[task]

    def _url(self, text: str) -> URL:
        url = self._urls.get(text)
        if url is None:
            url = self._urls[text] = URL(text)
        return url


class Sending:
    """How far one request has come."""

    __slots__ = ("deadline", "fresh", "head_s", "sent")

    def __init__(self, head_s: float) -> None:
        self.head_s = head_s
        self.fresh = False
        """It got a new connection."""
        self.sent = True
        """The upstream may have seen some of it."""
        self.deadline: asyncio.Timeout | None = None
        """For the answer's head; it does not run while a connection is made."""


class Connector(aiohttp.TCPConnector):
    """Tells each request whether it got a new connection."""

    def __init__(self, sending: Mapping["asyncio.Task[Any]", Sending]) -> None:
        super().__init__(
            limit=CONNECTIONS,
            keepalive_timeout=KEEP_ALIVE_S,
            ttl_dns_cache=NAME_KEPT_S,
            resolver=Resolver(),
        )
        self._who = sending

    async def _create_connection(
        self, req: "ClientRequest", traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> "ResponseHandler":
        task = asyncio.current_task()
        sending = self._who.get(task) if task else None
        if sending is None or sending.deadline is None:
            return await super()._create_connection(req, traces, timeout)
        sending.fresh, sending.sent = True, False
        sending.deadline.reschedule(None)
        protocol = await super()._create_connection(req, traces, timeout)
        sending.sent = True
        sending.deadline.reschedule(asyncio.get_running_loop().time() + sending.head_s)
        return protocol


class Resolver(AbstractResolver):
    """One channel's look-ups."""

    def __init__(self) -> None:
        self._names = Names()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._names.look_up(host, port, family)
        return [
            ResolveResult(hostname=host, host=address, port=number, family=kind, proto=proto, flags=_NUMERIC)
            for kind, proto, address, number in found
        ]

    async def close(self) -> None:
        """Nothing to end: the threads end by themselves."""


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class HttpReply:
    """An answer whose head has come. Implements ``adapter.Reply``."""

    __slots__ = ("_began", "_late", "_on_end", "_response", "_timer", "channel", "content_type", "headers", "status")

    def __init__(
        self, channel: Channel, response: aiohttp.ClientResponse, on_end: Callable[[], None], began: float
    ) -> None:
        self.channel = channel
        self._response = response
        self._on_end: Callable[[], None] | None = on_end
        self._began = began
        self._late: tuple[str, float] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    async def read(self, limit: int) -> bytes:
        """See ``adapter.Reply``."""
        content = self._response.content
        parts: list[bytes] = []
        size = 0
        if not content.is_eof():
            seconds = self.channel.timeouts.total
            self.arm(self._began + seconds, self.expire, "total", seconds)
        while size <= limit:
            data = await self.receive()
            if not data:
                self.release()
                return b"".join(parts)
            parts.append(data)
            size += len(data)
        self.abort()
        raise AttemptFailed(failures.bad_response(self.channel, f"it is longer than {limit} bytes"))

    def chunks(self, signs: Signs | None = None) -> AsyncIterator[bytes]:
        """See ``adapter.Reply``."""
        return Incoming(self, signs, self._began)

    async def receive(self) -> bytes:
        """The next bytes; none at the end. Raises AttemptFailed."""
        try:
            return await self._response.content.readany()
        except _FOREIGN as exc:
            self.abort()
            if self._late:
                raise AttemptFailed(failures.too_slow(self.channel, *self._late, sent=True)) from exc
            raise AttemptFailed(failures.bad_response(self.channel, f"it broke off: {_text(exc)}")) from exc

    def arm(self, at: float, callback: Callable[..., None], *args: object) -> None:
        """Replaces the timer; it ends with the reply."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, callback, *args)

    def expire(self, deadline: str, seconds: float) -> None:
        """A deadline passed: who waits for bytes gets an error that names it."""
        self._late = (deadline, seconds)
        self.abort()

    def release(self) -> None:
        """See ``adapter.Reply``."""
        content = self._response.content
        self._end()
        if not content.is_eof():
            rest = asyncio.get_running_loop().call_later(LINGER_S, self._response.close)
            content.on_eof(rest.cancel)

    def abort(self) -> None:
        """See ``adapter.Reply``."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._on_end is not None:
            self._on_end()
            self._on_end = None


class Reads:
    """Signs of life of a body nobody understands: every read is one."""

    def __init__(self) -> None:
        self.events = 0
        self.comments = 0


class Incoming:
    """The bytes of a stream as they come, within the deadlines of ``watch``. An iterator, so that it needs no end."""

    __slots__ = ("_reads", "_reply", "_signs", "_size", "_waiting", "_watch")

    def __init__(self, reply: HttpReply, signs: Signs | None, began: float) -> None:
        self._reply = reply
        self._reads = Reads()
        self._signs = signs or self._reads
        self._watch = Watch(self._signs, reply.channel.timeouts, began)
        self._size = 0
        self._waiting = False
        reply.arm(self._watch.due().at, self._check)

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> bytes:
        """A connection that breaks in the middle of the events ends them: what they were tells what that means."""
        self._watch.look(asyncio.get_running_loop().time())
        self._waiting = True
        try:
            data = await self._reply.receive()
        except AttemptFailed as failed:
            if self._signs.events and failed.kind is not FailureKind.SLOW:
                raise StopAsyncIteration from failed
            raise
        finally:
            self._waiting = False
        if not data:
            raise StopAsyncIteration
        self._reads.events += 1
        self._size += len(data)
        if self._size > STREAM_LIMIT:
            self._reply.abort()
            raise AttemptFailed(
                failures.bad_response(self._reply.channel, f"it is longer than {STREAM_LIMIT >> 20} MiB")
            )
        return data

    def _check(self) -> None:
        """The timer's: a deadline has passed, or was put off meanwhile. Time the client takes is not counted."""
        now = asyncio.get_running_loop().time()
        self._watch.look(now)
        due = self._watch.due()
        if not self._waiting:
            self._reply.arm(now + due.seconds, self._check)
        elif now < due.at:
            self._reply.arm(due.at, self._check)
        else:
            self._reply.expire(due.name, due.seconds)


_FOREIGN = (aiohttp.ClientError, OSError, ValueError)
"""What aiohttp raises: its own family, timeouts and broken sockets, and headers that cannot be sent."""


def _failure(channel: Channel, exc: Exception, sending: Sending) -> Failure:
    """What an exception before the head means."""
    if isinstance(exc, aiohttp.ConnectionTimeoutError):
        slow = failures.too_slow(channel, "connect", channel.timeouts.connect, sent=False)
        return msgspec.structs.replace(slow, kind=FailureKind.NETWORK)
    if isinstance(exc, TimeoutError):
        return failures.too_slow(channel, "response head", sending.head_s, sent=True)
    if isinstance(exc, aiohttp.ClientResponseError):
        return failures.bad_response(channel, f"no valid HTTP: {_text(exc)}")
    return failures.unreachable(channel, _text(exc), sent=sending.sent)


def _text(exc: Exception) -> str:
    """What went wrong in a few words, without addresses where there are better ones."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {exc.certificate_error}"
    if isinstance(exc, aiohttp.ClientConnectorDNSError):
        return f"the name '{exc.host}' cannot be resolved: {exc.os_error.strerror or exc.os_error}"
    if isinstance(exc, aiohttp.ClientConnectorError):
        return f"{exc.host}:{exc.port}: {exc.os_error.strerror or exc.os_error}"
    if isinstance(exc, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    if isinstance(exc, aiohttp.ClientResponseError):
        return exc.message
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    return str(exc) or type(exc).__name__
