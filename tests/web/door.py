"""Door: our listener on a free loopback port, in front of a handler of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from gateway.domain.errors import GatewayError
from gateway.domain.settings import Settings
from gateway.domain.units import CallId
from gateway.web import error_responses
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.response import Response
from tests.fakes.client import Client
from tests.fakes.wire import Socket

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | Response]]


@dataclass(frozen=True, slots=True)
class Visitor(Client):
    """Resets the connections it made when the door is closed."""

    peers: list[Socket] = field(default_factory=list)

    async def connect(self, *, window: int = 0) -> Socket:
        peer = await Client.connect(self, window=window)
        self.peers.append(peer)
        return peer


@asynccontextmanager
async def opened(handle: Handle, limits: ConnectionLimits | None = None) -> AsyncIterator[tuple[Visitor, Listener]]:
    """A client that knows the port, and the listener."""
    listener = Listener(_guarded(handle), limits or ConnectionLimits(Settings), new_id)
    acceptor = Acceptor(listening("127.0.0.1", 0), listener)
    visitor = Visitor(acceptor.port)
    async with asyncio.TaskGroup() as group:
        group.create_task(acceptor.run())
        try:
            yield visitor, listener
        finally:
            acceptor.close()
            for peer in visitor.peers:
                peer.reset()
            await listener.shutdown(0.05)


def new_id() -> CallId:
    """Of what is answered without the handler."""
    return CallId("req_of_the_door")


def _guarded(handle: Handle) -> Handle:
    async def guarded(request: web.BaseRequest) -> web.StreamResponse | Response:
        try:
            return await handle(request)
        except GatewayError as error:
            status, headers, body = error_responses.error_answer(error)
            return web.Response(status=status, headers=headers, body=body, content_type="application/json")

    return guarded


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not condition():  # noqa: ASYNC110 - what is waited for belongs to others and has no event
            await asyncio.sleep(0.01)
