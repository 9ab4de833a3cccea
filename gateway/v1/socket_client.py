"""SocketClient: the client of one call over a WebSocket, which gets each event of its answer as a frame."""

from typing import Literal

from aiohttp import web

from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.domain.answer import Buffer
from gateway.domain.errors import InternalError
from gateway.inbound.responses.socket_turn import TurnEvents
from gateway.v1.call import RequestClient

Socket = web.WebSocketResponse[Literal[False]]


class SocketClient(RequestClient):
    """The client of one request, as the pipeline sees it."""

    may_wait = False

    def __init__(self, socket: Socket, request: web.BaseRequest, origin: CallOrigin, events: TurnEvents) -> None:
        super().__init__(request, origin.id, origin.api)
        self._socket = socket
        self._events = events

    async def begin(self, headers: dict[str, str], *, more: bool = False) -> None:
        """See ``Client``. A WebSocket has no head to send."""
        self.begun = True

    async def write(self, data: Buffer, *, last: bool = False) -> None:
        """Send each event as a frame, a ping for a comment, as the client reads them. Raises ConnectionResetError."""
        frames = self._events.feed(bytes(data))
        if not frames:
            if data:
                await self._socket.ping()
            return
        transport = self._request.transport
        if self.gone or self._socket.closed or transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(frames)  # all at once: sending each by aiohttp costs more than making it
        if self._request.protocol.writing_paused:
            await self._request.writer.drain()

    def answer(self, headers: dict[str, str], parts: tuple[Buffer, ...], *, soon: bool = False) -> None:
        """Raises InternalError: every request is for a stream, so no answer is whole."""
        raise InternalError("a WebSocket was given a whole answer")

    def interrupt(self, response: str, engine: Engine) -> None:
        """End the call if this is its response and it has not ended."""
        if self._events.interrupt(response):
            engine.cancel(self._call_id)
