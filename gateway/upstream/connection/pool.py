"""Pool: the connections of one channel. No redirects, no cookies, no proxies from the environment."""

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.domain.channel import Channel
from gateway.domain.errors import InternalError
from gateway.upstream.adapter import AttemptFailed, Prepared
from gateway.upstream.connection.errors import FOREIGN, failure_of
from gateway.upstream.connection.names import Names
from gateway.upstream.connection.reply import HttpReply

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest

CONNECTIONS = 256
"""Open ones of one channel; what more there is to do waits, within the connect deadline."""
KEEP_ALIVE_S = 30.0
NAME_KEPT_S = 300
READ_BYTES = 64 * 1024
STALE_S = 1.0
"""A used connection that breaks within this time after a request was broken before: the request is sent again."""


class Pool:
    """The connections of one channel."""

    def __init__(self, channel: Channel, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._sending: dict[asyncio.Task[object], Sending] = {}
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
        except FOREIGN as exc:
            raise AttemptFailed(failure_of(self._channel, exc, head_s, sent=sending.sent)) from exc
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
                    prepared.url,
                    data=prepared.body or None,
                    headers=prepared.headers,
                    allow_redirects=False,
                )
        finally:
            del self._sending[task]


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

    def __init__(self, sending: Mapping["asyncio.Task[object]", Sending]) -> None:
        super().__init__(
            limit=CONNECTIONS,
            keepalive_timeout=KEEP_ALIVE_S,
            ttl_dns_cache=NAME_KEPT_S,
            resolver=Resolver(),
        )
        self._who = sending

    async def _create_connection(
        self,
        req: "ClientRequest",
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
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
