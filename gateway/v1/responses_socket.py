"""WebSocket on ``/v1/responses``: a connection over which calls of the Responses API are made one after another.

Each frame from the client is a request, and each event of its answer is a frame. A call runs in the task of its
connection, through the same pipeline as over HTTP: its key is looked up again, it is held, limited and recorded like
any other, and it ends when its client leaves. A second task reads the frames that come meanwhile, which wait.
"""

import asyncio
import logging
from collections import deque
from contextlib import closing, suppress
from functools import cache, partial
from typing import Literal, cast

import msgspec
from aiohttp import WSCloseCode, WSMsgType, hdrs, web

from gateway.core.admission import visible_entry
from gateway.core.auth import new_call_id
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.core.queueing import cancel_when_gone
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
    Unavailable,
)
from gateway.domain.token import Token
from gateway.domain.units import CallId
from gateway.inbound.api import LARGE, HttpRequest, is_large
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
from gateway.v1.call import RequestClient
from gateway.v1.responses import recall_request
from gateway.web import error_responses
from gateway.web.connection import Connection, count_frames
from gateway.web.request import MAX_BODY
from gateway.web.response import Response

_log = logging.getLogger("tollkeeper")

IDLE_S = 600.0
"""Seconds without a request after which a connection is closed. Its responses are forgotten; clients connect again."""
LIFE_S = 3600.0
"""A connection of this age, in seconds, accepts no more requests, as at OpenAI."""
MAX_WAITING = 16
"""The maximum number of requests that wait on a connection: OpenAI allows as many streams."""
MAX_BYTES = 16 << 20
"""The maximum size of the responses that a connection remembers, in bytes."""
VERSION = hdrs.SEC_WEBSOCKET_VERSION
_BETA = "openai-beta"
Socket = web.WebSocketResponse[Literal[False]]


async def answer_socket(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> web.StreamResponse | Response:
    """Answer GET /v1/responses, which begins a WebSocket. Raises GatewayError before it has begun."""
    if request.method != "GET" or request.headers.get(hdrs.UPGRADE, "").strip().lower() != "websocket":
        raise BadRequest("GET is not allowed here; use POST", code="method_not_allowed", details={"allow": "POST"})
    token = engine.pipeline.identify(origin)
    engine.pressure.check(origin.began)
    # the client has a quarter of a second to close its side, and half of the time between two pings to answer one
    socket: Socket = web.WebSocketResponse(
        timeout=0.25, heartbeat=30.0, compress=False, max_msg_size=MAX_BODY, decode_text=False
    )
    if request.version < (1, 1) or not socket.can_prepare(request) or request.headers[VERSION] != "13":
        msg = "a WebSocket begins with HTTP/1.1, 'Connection: Upgrade', version 13 and a key of 16 bytes in base64"
        raise BadRequest(msg, code="websocket_not_supported")
    await socket.prepare(request)
    await SocketSession(engine, request, origin, token, socket).run()
    return socket


class SocketClient(RequestClient):
    """The client of one request, as the pipeline sees it."""

    may_wait = False

    def __init__(self, socket: Socket, request: web.BaseRequest, origin: CallOrigin, events: TurnEvents) -> None:
        super().__init__(request, origin.id, origin.api)
        self._socket = socket
        self._events = events

    def begin(self, headers: dict[str, str]) -> None:
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


class SocketMemory:
    """Keeps the responses of one connection, and counts their size like request bodies."""

    def __init__(self, engine: Engine, token: Token) -> None:
        self._engine = engine
        self._token_id = token.id
        self._responses = ResponseMemory(lambda: MAX_BYTES, engine.clock.mono, parts=1)
        self._share = BodyShare(engine.pressure)

    async def recall(self, turn: SocketTurn, token: Token) -> RecalledRequest:
        """Returns the request with the remembered responses that it continues. Raises BadRequest."""
        memory = TokenMemory(token.id, self._responses, self._engine.responses)
        recalled = await recall_request(self._engine, turn.body, memory)
        if turn.local and turn.previous and not recalled.previous:
            msg = f"the response {turn.previous[:80]!a} is not kept on this connection; send the whole input"
            raise BadRequest(msg, code="previous_response_not_found", param="previous_response_id")
        return recalled

    def keep(self, origin: CallOrigin, turn: SocketTurn, recalled: RecalledRequest, events: TurnEvents) -> None:
        """Keep an answer. If it did not end as a response, forget the one that it continued.

        If the bodies and this memory would take more than half of the memory for bodies, forget everything.
        """
        if not events.last:
            self.forget(turn.previous)
            return
        recalled = msgspec.structs.replace(recalled, body=b"")
        read = cache(partial(kept_of, recalled, events.last, origin.id[-24:]))
        size = len(recalled.input) + len(events.last)
        self._responses.keep_lazily(self._token_id, read, size)
        if recalled.stored and self._engine.responses.enabled:
            self._engine.responses.keep_lazily(self._token_id, read, size)
        self._share.close()
        pressure = self._engine.pressure
        if pressure.max_body_bytes and pressure.body_bytes + self._responses.size > pressure.max_body_bytes // 2:
            self._responses.clear()
        self._share.grow(self._responses.size)

    def forget(self, response: str) -> None:
        self._responses.forget(self._token_id, response)

    def close(self) -> None:
        self._share.close()


class SocketSession:
    """One connection: the requests that wait on it, the one that runs, and the responses that it remembers."""

    def __init__(
        self, engine: Engine, request: web.BaseRequest, origin: CallOrigin, token: Token, socket: Socket
    ) -> None:
        self._engine = engine
        self._request = request
        self._origin = origin
        self._token = token
        self._socket = socket
        self._headers = request.headers.copy()
        self._headers.popall(_BETA, None)  # it concerns the connection, not its calls
        self._waiting_frames: deque[tuple[bytes, BodyShare]] = deque()
        self._incoming = BodyShare(engine.pressure)
        """The frame that is arriving."""
        self._arrived = 0
        """The bytes since the last frame that was complete."""
        self._wake = asyncio.Event()
        self._client: SocketClient | None = None
        self._gone = False
        self._close_code: WSCloseCode | None = None
        """Set if the connection will be closed once no request waits."""
        self._began = engine.clock.mono()
        self._memory = SocketMemory(engine, token)

    async def run(self) -> None:
        """Answer requests until one side closes the connection."""
        connection = cast("Connection", self._request.protocol)
        connection.on_lost, connection.on_close = self._drop_client, self._close_soon
        count_frames(connection, self._count)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read_frames())
                while (frame := await self._next_frame()) is not None:
                    data, share = frame
                    with closing(share):
                        await self._answer(data, share)
                await self._socket.close(code=self._close_code or WSCloseCode.OK)
                reader.cancel()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a connection that speaks HTTP no more
            _log.exception("a WebSocket failed unexpectedly", exc_info=error)
            await self._socket.close(code=WSCloseCode.INTERNAL_ERROR)
        finally:
            self._drop_client()
            self._incoming.close()
            self._memory.close()
            connection.on_lost = connection.on_close = None

    async def _read_frames(self) -> None:
        """Read what the client sends, until it closes. Pings are answered by aiohttp."""
        while True:
            try:
                message = await self._socket.receive()
            except ConnectionError:  # it was lost while a ping was answered
                self._drop_client()
                return
            if isinstance(message.data, bytes):
                self._incoming.give_back(len(message.data))
                self._arrived = 0
            match message.type:
                case WSMsgType.TEXT:
                    await self._receive(bytes(message.data))
                case WSMsgType.BINARY:
                    msg = "send each request as a text frame"
                    await self._refuse(RequestRefused(msg, code="unsupported_media_type"))
                case _:
                    if self._socket.close_code == WSCloseCode.MESSAGE_TOO_BIG:
                        error = TooLarge(f"the frame is larger than {MAX_BODY >> 20} MiB")
                        self._engine.pipeline.refuse(self._next_origin(), error, self._token)
                    self._drop_client()
                    return
            await asyncio.sleep(0)  # frames that came together must not hold the loop

    def _count(self, size: int) -> None:
        """Count more of the frame that is arriving. Cut the connection if memory is too short for a large one.

        A small one may arrive, and is then refused by a message, so that the call that runs meanwhile goes on.
        """
        self._arrived += size
        try:
            self._incoming.grow(size)
        except Unavailable as error:
            if self._arrived <= LARGE:
                return
            self._engine.pipeline.refuse(self._next_origin(), error, self._token)
            if self._request.transport is not None:
                self._request.transport.abort()

    async def _receive(self, data: bytes) -> None:
        """Queue a request, or interrupt the running one. Other messages about a running response are answered here."""
        if failed := steering_failed(data):
            with suppress(ConnectionError):
                await self._socket.send_frame(failed, WSMsgType.TEXT)
            return
        if interrupted := interrupted_id(data):
            if self._client is not None:
                self._client.interrupt(interrupted, self._engine)
            return
        share = BodyShare(self._engine.pressure)
        try:
            if len(self._waiting_frames) >= MAX_WAITING:
                raise RateLimited(f"{MAX_WAITING} requests wait on this connection already; read their answers first")
            share.grow(len(data))
        except GatewayError as error:
            await self._refuse(error)
            return
        self._waiting_frames.append((data, share))
        self._wake.set()

    async def _refuse(self, error: GatewayError) -> None:
        origin = self._next_origin()
        self._engine.pipeline.refuse(origin, error, self._token)
        with suppress(ConnectionError):
            await self._send_error(error, origin.id)

    async def _next_frame(self) -> tuple[bytes, BodyShare] | None:
        """Returns the next request; None if the connection is closed or will be."""
        while not self._gone:
            remaining_s = self._began + LIFE_S - self._engine.clock.mono()
            if remaining_s <= 0:
                msg = f"this connection is {LIFE_S / 60:.0f} minutes old: open another one"
                await self._refuse(BadRequest(msg, code="websocket_connection_limit_reached"))
                return None
            if self._waiting_frames:
                return self._waiting_frames.popleft()
            if self._close_code is not None:
                return None
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(IDLE_S, remaining_s)):
                    await self._wake.wait()
            if not self._waiting_frames and remaining_s > IDLE_S:
                return None
        return None

    async def _answer(self, data: bytes, share: BodyShare) -> None:
        """Answer one request. Errors are sent to the client."""
        origin, turn = self._next_origin(), None
        pipeline = self._engine.pipeline
        try:
            token = pipeline.identify(origin)
            try:
                self._engine.pressure.check(origin.began)
                turn = await self._engine.worker.run(partial(read_turn, data), large=is_large(data))
                recalled = await self._memory.recall(turn, token)
                share.grow(len(recalled.body) - len(turn.body))
                if not turn.generate:
                    await self._warm_up(origin, token, turn, recalled)
                    return
            except GatewayError as error:
                pipeline.refuse(origin, error, token)
                raise
            await self._run(origin, token, turn, recalled)
        except GatewayError as error:
            if turn is not None:
                self._memory.forget(turn.previous)
            with suppress(ConnectionError):
                await self._send_error(error, origin.id, "" if turn is None else turn.stream_id)
            if isinstance(error, InvalidToken):
                self._close_code = WSCloseCode.POLICY_VIOLATION
        except ConnectionError:
            self._drop_client()

    async def _run(self, origin: CallOrigin, token: Token, turn: SocketTurn, recalled: RecalledRequest) -> None:
        events = TurnEvents(turn.stream_id)
        client = self._client = SocketClient(self._socket, self._request, origin, events)
        client.gone = self._gone
        received = HttpRequest(
            body=recalled.body, target=self._request.raw_path, headers=self._headers, repeats=recalled.repeats
        )
        try:
            with cancel_when_gone(client):
                await self._engine.pipeline.run(origin, token, received, client)
        finally:
            self._client = client.on_gone = None
        self._memory.keep(origin, turn, recalled, events)

    async def _warm_up(self, origin: CallOrigin, token: Token, turn: SocketTurn, recalled: RecalledRequest) -> None:
        """Answer a request that is only to be remembered. It reaches no upstream, and costs nothing."""
        engine = self._engine
        if engine.pipeline.closed is not None:
            raise engine.pipeline.closed
        request, answer = warm_up(recalled.body, recalled.repeats, origin.id, origin.ts)
        visible_entry(request.model, token, engine.catalog)
        events = TurnEvents(turn.stream_id)
        await SocketClient(self._socket, self._request, origin, events).write(answer)
        self._memory.keep(origin, turn, recalled, events)

    async def _send_error(self, error: GatewayError, call: CallId, stream_id: str = "") -> None:
        status, headers, body = error_responses.error_answer(error, call, self._origin.api)
        frame = error_frame(status, {**headers, "x-request-id": call}, body, stream_id)
        await self._socket.send_frame(frame, WSMsgType.TEXT)

    def _next_origin(self) -> CallOrigin:
        clock = self._engine.clock
        ts = clock.wall()
        return msgspec.structs.replace(self._origin, id=new_call_id(ts), ts=ts, began=clock.mono())

    def _close_soon(self) -> None:
        """Close the connection once no request waits: the gateway is about to stop."""
        self._close_code = WSCloseCode.GOING_AWAY
        self._wake.set()

    def _drop_client(self) -> None:
        """Drop the requests that wait, and end the one that runs: the client is gone."""
        self._gone = True
        while self._waiting_frames:
            self._waiting_frames.popleft()[1].close()
        self._wake.set()
        if self._client is not None:
            self._client.note_gone()
