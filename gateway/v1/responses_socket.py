"""WebSocket on ``/v1/responses``: a connection over which calls of the Responses API are made one after another.

Each frame from the client is a request, and each event of its answer a frame. A call runs in the task of its
connection, through the same pipeline as over HTTP: its key is looked up again, it is held, limited and recorded
alike, and ends when its client leaves. Beside it a second task reads what the client sends meanwhile: it waits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Literal

import msgspec
from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from gateway.core.admission import visible_entry
from gateway.core.auth import new_call_id
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.core.response_memory import ResponseMemory, TokenMemory
from gateway.domain.answer import Buffer
from gateway.domain.errors import (
    BadRequest,
    GatewayError,
    InternalError,
    InvalidToken,
    RateLimited,
    RequestRefused,
    TooLarge,
)
from gateway.domain.kept_response import KeptResponse
from gateway.domain.token import Token
from gateway.domain.units import CallId
from gateway.inbound.api import LARGE, HttpRequest
from gateway.inbound.responses.recall import RecalledRequest, kept_of
from gateway.inbound.responses.socket_turn import (
    SocketTurn,
    TurnEvents,
    error_frame,
    interrupted_id,
    read_turn,
    steering_failed,
    warm_up,
)
from gateway.upstream.adapter import AnswerStream
from gateway.v1.responses import recall_request
from gateway.web import error_responses
from gateway.web.connection import Connection
from gateway.web.request import MAX_BODY
from gateway.web.response import Response

_log = logging.getLogger("tollkeeper")

IDLE_S = 600.0
"""A connection without a request is closed after this. Its conversations are forgotten; clients connect again."""
LIFE_S = 3600.0
"""No connection is older when a request begins, as at OpenAI's own."""
PING_S = 30.0
"""Between two pings of a silent client, which has half of this to answer."""
CLOSE_S = 0.25
"""How long the closing of the client is waited for."""
REMEMBERED_BYTES = 16 << 20
"""Bytes of the responses of a connection that can be gone on from."""
WAITING = 16
"""Requests that may wait on a connection for the one before them: clients have as many streams at OpenAI."""
VERSION = hdrs.SEC_WEBSOCKET_VERSION
_BETA = "openai-beta"

Socket = web.WebSocketResponse[Literal[False]]


async def answer_socket(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> web.StreamResponse | Response:
    """GET /v1/responses: only a WebSocket begins so. Raises GatewayError as long as it has not begun."""
    if request.method != "GET" or request.headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket":
        raise BadRequest("GET is not allowed here; use POST", code="method_not_allowed", details={"allow": "POST"})
    token = engine.pipeline.identify(origin)
    socket: Socket = web.WebSocketResponse(
        timeout=CLOSE_S, heartbeat=PING_S, compress=False, max_msg_size=MAX_BODY, decode_text=False
    )
    if request.version < (1, 1) or not socket.can_prepare(request) or request.headers[VERSION] != "13":
        msg = "a WebSocket begins with HTTP/1.1, 'Connection: Upgrade', version 13 and a key of 16 bytes in base64"
        raise BadRequest(msg, code="websocket_not_supported")
    await socket.prepare(request)
    await SocketSession(engine, request, origin, token, socket).run()
    return socket


class SocketClient:
    """The answering side of one request, as the pipeline sees it."""

    may_wait = False

    def __init__(self, socket: Socket, request: web.BaseRequest, origin: CallOrigin, events: TurnEvents) -> None:
        self._socket = socket
        self._request = request
        self._origin = origin
        self._events = events
        self.gone = False
        self.begun = False
        self.on_gone: Callable[[], None] | None = None

    async def begin(self, headers: dict[str, str], *, more: bool = False) -> None:
        """From here on the answer is events. There is no head to send."""
        if self.gone:
            raise ConnectionResetError("the client is gone")
        self.begun = True

    async def write(self, data: Buffer) -> None:
        """Send each event as a frame, and a ping for a comment. Waits while the client reads slowly.

        Raises ConnectionResetError.
        """
        if frames := self._events.feed(bytes(data)):
            await self._send(frames)
        elif data:
            await self._socket.ping()

    async def finish(self, data: Buffer) -> None:
        """See ``write``. The connection stays."""
        await self.write(data)

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        """The event that ends a broken answer."""
        with suppress(ConnectionError):
            await self.write(before + self._origin.api.broken_end(error, self._origin.id, stream))

    def answer(self, headers: dict[str, str], parts: tuple[Buffer, ...], *, soon: bool = False) -> None:
        """Every request is for a stream, so there are no whole answers."""
        raise InternalError("a WebSocket was given a whole answer")

    def withhold(self, error: GatewayError) -> None:
        """See ``answer``."""

    async def delivered(self) -> None:
        """See ``answer``."""

    def interrupt(self, response: str, engine: Engine) -> None:
        """End the call if this is its response. One that has ended meanwhile has its end."""
        if self._events.interrupt(response):
            engine.cancel(self._origin.id)

    def cut(self) -> None:
        """Close the connection immediately."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def lose(self) -> None:
        """The connection is lost."""
        if self.gone:
            return
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    async def _send(self, frames: bytes) -> None:
        """All frames in one write: aiohttp's way of sending each by itself costs more than making them."""
        transport = self._request.transport
        if self.gone or self._socket.closed or transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        transport.write(frames)
        if self._request.protocol.writing_paused:
            await self._request.writer.drain()


class SocketSession:
    """One connection: the requests that wait on it, the one that runs, and what is remembered."""

    def __init__(
        self, engine: Engine, request: web.BaseRequest, origin: CallOrigin, token: Token, socket: Socket
    ) -> None:
        self._engine = engine
        self._request = request
        self._origin = origin
        self._token = token
        self._socket = socket
        self._headers = request.headers.copy()
        self._headers.popall(_BETA, None)  # it is about the connection
        self._frames: deque[tuple[bytes, Share]] = deque()
        self._wake = asyncio.Event()
        self._client: SocketClient | None = None
        self._gone = False
        self._code: WSCloseCode | None = None
        """Why it is to be closed once no request waits."""
        self._began = engine.clock.mono()
        self._memory = ResponseMemory(lambda: REMEMBERED_BYTES, engine.clock.mono, room=1)
        self._remembered = Share(engine.pressure)

    async def run(self) -> None:
        """Answer requests until one side closes the connection."""
        connection = self._request.protocol
        if isinstance(connection, Connection):
            connection.on_lost, connection.on_leave = self._lose, self._leave
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read())
                while (frame := await self._next()) is not None:
                    data, share = frame
                    with closing(share):
                        await self._answer(data, share)
                await self._socket.close(code=self._code or WSCloseCode.OK)
                reader.cancel()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a connection that speaks HTTP no more
            _log.exception("a WebSocket failed by a bug", exc_info=error)
            await self._socket.close(code=WSCloseCode.INTERNAL_ERROR)
        finally:
            self._lose()
            self._remembered.close()
            if isinstance(connection, Connection):
                connection.on_lost = connection.on_leave = None

    async def _read(self) -> None:
        """Take what the client sends. Pings are answered by the library."""
        while True:
            message = await self._socket.receive()
            match message.type:
                case WSMsgType.TEXT:
                    await self._take(bytes(message.data))
                case WSMsgType.BINARY:
                    msg = "send each request as a text frame"
                    await self._refuse(RequestRefused(msg, code="unsupported_media_type"))
                case _:
                    if self._socket.close_code == WSCloseCode.MESSAGE_TOO_BIG:
                        error = TooLarge(f"the frame is larger than {MAX_BODY >> 20} MiB")
                        self._engine.pipeline.refuse(self._next_visit(), error, self._token)
                    self._lose()
                    return

    async def _take(self, data: bytes) -> None:
        if failed := steering_failed(data):
            with suppress(ConnectionError):
                await self._socket.send_frame(failed, WSMsgType.TEXT)
            return
        if interrupted := interrupted_id(data):
            if self._client is not None:
                self._client.interrupt(interrupted, self._engine)
            return
        share = Share(self._engine.pressure)
        try:
            if len(self._frames) >= WAITING:
                raise RateLimited(f"{WAITING} requests wait on this connection already; read their answers first")
            share.grow(len(data))
        except GatewayError as error:
            await self._refuse(error)
            return
        self._frames.append((data, share))
        self._wake.set()

    async def _refuse(self, error: GatewayError) -> None:
        origin = self._next_visit()
        self._engine.pipeline.refuse(origin, error, self._token)
        with suppress(ConnectionError):
            await self._send_error(error, origin.id)

    async def _next(self) -> tuple[bytes, Share] | None:
        """The next request; None if the connection is to be closed, or is."""
        while not self._gone:
            left = self._began + LIFE_S - self._engine.clock.mono()
            if left <= 0:
                msg = f"this connection is {LIFE_S / 60:.0f} minutes old: open another one"
                await self._refuse(BadRequest(msg, code="websocket_connection_limit_reached"))
                return None
            if self._frames:
                return self._frames.popleft()
            if self._code is not None:
                return None
            self._wake.clear()
            timer = asyncio.get_running_loop().call_later(min(IDLE_S, left), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
            if not self._frames and left > IDLE_S:
                return None
        return None

    async def _answer(self, data: bytes, share: Share) -> None:
        origin, turn = self._next_visit(), None
        pipeline = self._engine.pipeline
        try:
            token = pipeline.identify(origin)
            try:
                self._engine.pressure.check(origin.began)
                turn = await self._engine.worker.run(partial(read_turn, data)) if len(data) > LARGE else read_turn(data)
                recalled = await self._recalled(turn, token)
                share.grow(len(recalled.body) - len(turn.body))
            except GatewayError as error:
                pipeline.refuse(origin, error, token)
                raise
            await (self._run if turn.generate else self._warm)(origin, token, turn, recalled)
        except GatewayError as error:
            if turn is not None:
                self._memory.forget(self._token.id, turn.previous)
            with suppress(ConnectionError):
                await self._send_error(error, origin.id, "" if turn is None else turn.stream_id)
            if isinstance(error, InvalidToken):
                self._code = WSCloseCode.POLICY_VIOLATION
        except ConnectionError:
            self._lose()

    async def _recalled(self, turn: SocketTurn, token: Token) -> RecalledRequest:
        recalled = await recall_request(
            self._engine, turn.body, TokenMemory(token.id, self._memory, self._engine.responses)
        )
        if turn.local and turn.previous and not recalled.previous:
            msg = f"the response {turn.previous[:80]!a} is not kept on this connection; send the whole input"
            raise BadRequest(msg, code="previous_response_not_found", param="previous_response_id")
        return recalled

    async def _run(self, origin: CallOrigin, token: Token, turn: SocketTurn, recalled: RecalledRequest) -> None:
        """One call."""
        events = TurnEvents(turn.stream_id)
        client = self._client = SocketClient(self._socket, self._request, origin, events)
        client.gone = self._gone
        received = HttpRequest(
            body=recalled.body, target=self._request.raw_path, headers=self._headers, repeats=recalled.repeats
        )
        try:
            await self._engine.pipeline.run(origin, token, received, client)
        finally:
            self._client = client.on_gone = None
        self._note(origin, turn, recalled, events)

    async def _warm(self, origin: CallOrigin, token: Token, turn: SocketTurn, recalled: RecalledRequest) -> None:
        """A request that is only to be remembered. It reaches no upstream, and costs nothing."""
        engine = self._engine
        try:
            if engine.pipeline.closed is not None:
                raise engine.pipeline.closed
            request, answer = warm_up(recalled.body, recalled.repeats, origin.id, origin.ts)
            visible_entry(request.model, token, engine.catalog)
        except GatewayError as error:
            engine.pipeline.refuse(origin, error, token)
            raise
        events = TurnEvents(turn.stream_id)
        await SocketClient(self._socket, self._request, origin, events).write(answer)
        self._note(origin, turn, recalled, events)

    def _note(self, origin: CallOrigin, turn: SocketTurn, recalled: RecalledRequest, events: TurnEvents) -> None:
        """Remember the answer. What all connections remember is at most half of the memory for requests, so that there
        is room for these.
        """
        engine, token = self._engine, self._token.id
        if not events.last:
            self._memory.forget(token, turn.previous)
            return
        recalled = msgspec.structs.replace(recalled, body=b"")
        kept: list[KeptResponse | None] = []

        def read() -> KeptResponse | None:
            if not kept:
                kept.append(kept_of(recalled, events.last, origin.id[-24:], events.items))
            return kept[0]

        size = len(recalled.input) + len(events.last) + sum(map(len, events.items))
        self._memory.keep_lazily(token, read, size)
        if recalled.stored and engine.responses.on:
            engine.responses.keep_lazily(token, read, size)
        pressure = engine.pressure
        self._remembered.close()
        if pressure.most and pressure.bodies + self._memory.size > pressure.most // 2:
            self._memory.clear()
        self._remembered.grow(self._memory.size)

    async def _send_error(self, error: GatewayError, call: CallId, stream_id: str = "") -> None:
        status, headers, body = error_responses.answer(error, call, self._origin.api)
        frame = error_frame(status, {**headers, "x-request-id": call}, body, stream_id)
        await self._socket.send_frame(frame, WSMsgType.TEXT)

    def _next_visit(self) -> CallOrigin:
        clock = self._engine.clock
        ts = clock.wall()
        return msgspec.structs.replace(self._origin, id=new_call_id(ts), ts=ts, began=clock.mono())

    def _leave(self) -> None:
        """The gateway is about to stop."""
        self._code = WSCloseCode.GOING_AWAY
        self._wake.set()

    def _lose(self) -> None:
        """The client is gone: what waits for it is dropped, and what runs ends."""
        self._gone = True
        while self._frames:
            self._frames.popleft()[1].close()
        self._wake.set()
        if self._client is not None:
            self._client.lose()
