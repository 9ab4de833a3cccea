"""Client: who waits for an answer, as the pipeline sees it, on an aiohttp connection."""

from collections.abc import Callable

from aiohttp import web

from gateway.domain.errors import GatewayError
from gateway.domain.units import CallId
from gateway.web import errors
from gateway.web.connection import Connection
from gateway.web.hosts import readable_by

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "Server": "tollkeeper",
}
"""``wire.md`` 1.5: nothing on the way may buffer or cache a stream."""


class HttpClient:
    """One request's answering side."""

    def __init__(self, request: web.BaseRequest, call: CallId) -> None:
        self._request = request
        self._call = call
        self.response: web.StreamResponse | None = None
        """The begun answer of a stream."""
        self.gone = False
        self.begun = False
        self.on_gone: Callable[[], None] | None = None
        if isinstance(request.protocol, Connection):
            request.protocol.on_lost = self._lost

    async def begin(self, headers: dict[str, str]) -> None:
        """Send the head of a streamed answer."""
        if self.begun:
            return
        self.begun = True
        origin = self._request.headers.get("Origin")  # it is a listed one, or the request had been refused
        allowed = {} if origin is None else readable_by(origin)
        self.response = web.StreamResponse(headers={"x-request-id": self._call, **headers, **STREAM_HEADERS, **allowed})
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send bytes. Waits while the client reads more slowly than they come."""
        if self.response is None or self.gone:
            raise ConnectionResetError("the client is gone")
        await self.response.write(data)

    async def fail(self, error: GatewayError) -> None:
        """The error event that ends a broken stream."""
        try:
            await self.write(errors.event(error, self._call))
        except ConnectionError:
            self.gone = True

    def cut(self) -> None:
        """Break the connection off."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def leave(self) -> None:
        """The answer is complete: a loss of the connection no longer concerns the call."""
        self.on_gone = None  # it leads back here: a ring would keep the call's body until the garbage collector looks
        if isinstance(self._request.protocol, Connection):
            self._request.protocol.on_lost = None

    def _lost(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()
