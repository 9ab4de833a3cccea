"""The handler of calls of every inbound API, plain or streamed; and ``HttpClient``, the client as the pipeline sees it.

The path decides which API it is (``v1.endpoints``).
"""

from collections.abc import Awaitable, Callable, Sized
from functools import partial
from typing import cast

from aiohttp import hdrs, web

from gateway.core.call import CallOrigin, Client
from gateway.core.engine import Engine
from gateway.core.memory import BodyShare
from gateway.domain import rawjson
from gateway.domain.answer import Buffer
from gateway.domain.errors import GatewayError, InternalError
from gateway.domain.sse import BOM
from gateway.domain.token import Token
from gateway.domain.units import CallId
from gateway.inbound.api import HttpRequest, InboundApi, is_large
from gateway.inbound.json_body import MAX_TOKENS, check_structure
from gateway.upstream.adapter import AnswerStream
from gateway.web import error_responses
from gateway.web.connection import Connection
from gateway.web.origins import cors_headers
from gateway.web.request import read_body
from gateway.web.response import Response, StreamedResponse

STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Headers that keep proxies from buffering or caching a stream; ``X-Accel-Buffering`` is nginx's."""

MAX_OBSERVED = 8 << 20
"""The maximum size of an answer that ``HttpClient.on_answer`` gets, in bytes."""


class RequestClient(Client):
    """What the clients of a call over HTTP and over a WebSocket have in common."""

    def __init__(self, request: web.BaseRequest, call_id: CallId, api: InboundApi) -> None:
        self._request = request
        self._call_id = call_id
        self._api = api
        self.gone = self.begun = False
        self.on_gone: Callable[[], None] | None = None

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        try:
            await self.write(before + self._api.broken_end(error, self._call_id, stream))
        except ConnectionError:
            self.gone = True

    def note_gone(self) -> None:
        """Note that the connection is lost, and tell the call."""
        if not self.gone:
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()


class HttpClient(RequestClient):
    """The client of one request."""

    def __init__(self, request: web.BaseRequest, call_id: CallId, api: InboundApi, running_calls: Sized = ()) -> None:
        """``running_calls`` are the running calls: the answer of a single one is sent without delay."""
        super().__init__(request, call_id, api)
        self._running_calls = running_calls
        self.response: Response | None = None
        """The answer; a stream is set when it begins."""
        self.on_answer: Callable[[bytes], None] | None = None
        """Gets the whole answer to a plain call, or the last bytes of a stream, before the client does."""
        self._connection = cast("Connection", request.protocol)
        self._connection.on_lost = self.note_gone

    @property
    def may_wait(self) -> bool:
        """Returns whether the answer may be sent with others: not if the call runs alone, or its connection closes."""
        return len(self._running_calls) > 1 and self._request.keep_alive

    def begin(self, headers: dict[str, str]) -> None:
        self.begun = True
        headers = {**self._headers(headers), "Content-Type": self._api.stream_type, **STREAM_HEADERS}
        self.response = StreamedResponse(headers, self._request)
        self._connection.comment = self._api.keep_alive

    async def write(self, data: Buffer, *, last: bool = False) -> None:
        """See ``Client``. The last bytes and the end of the response go out in one write."""
        if self.gone or not isinstance(self.response, StreamedResponse):
            raise ConnectionResetError("the client is gone")
        if last:
            if self.on_answer is not None and len(data) <= MAX_OBSERVED:
                self.on_answer(bytes(data))
            await self.response.write_eof(bytes(data))
            return
        self.response.write(data)
        if self._connection.writing_paused:
            await self._request.writer.drain()

    def answer(self, headers: dict[str, str], parts: tuple[bytes | memoryview, ...], *, soon: bool = False) -> None:
        if self.on_answer is not None and sum(map(len, parts)) <= MAX_OBSERVED:
            self.on_answer(b"".join(parts))
        response = self.response = Response(*parts, headers=self._headers(headers))
        try:
            response.send(self._request, soon=soon)
        except ConnectionError:
            self.gone = True

    async def wait_until_sent(self) -> None:
        try:
            if isinstance(self.response, Response):
                await self.response.deliver(self._request)
        except ConnectionError:
            self.gone = True

    def withhold(self, error: GatewayError) -> None:
        if isinstance(self.response, Response):
            status, headers, body = error_responses.error_answer(error, self._call_id, self._api)
            self.response.replace(self._request, body, status=status, headers=self._headers(headers))

    def leave(self) -> None:
        """Stop watching the connection, because the answer is complete."""
        self.on_answer = None
        self.on_gone = None  # it refers to the call: a cycle would keep its body until the garbage collector runs
        self._connection.on_lost, self._connection.comment = None, b""

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        """Returns the headers with the call's id, and those that let a permitted web page read the answer."""
        for name in self._api.id_headers:
            headers[name] = self._call_id
        origin = self._request.headers.get(hdrs.ORIGIN)  # it is permitted, or the request had been refused
        return headers if origin is None else {**headers, **cors_headers(origin)}


def _replace_model(body: bytes, model: str) -> bytes:
    """Returns the body with this model; unchanged if it is not a JSON object. Raises BadRequest."""
    check_structure(body, MAX_TOKENS)
    try:
        return rawjson.encode({**rawjson.fields(body.removeprefix(BOM)), "model": model})
    except ValueError:
        return body


OnAnswer = Callable[[bytes], None] | None
"""See ``HttpClient.on_answer``."""
Complete = Callable[[Token, HttpRequest], Awaitable[tuple[HttpRequest, OnAnswer] | Response]]
"""Returns the request with what is kept of earlier calls, or its answer without an upstream. Raises GatewayError."""


async def answer_call(
    engine: Engine, request: web.BaseRequest, origin: CallOrigin, complete: Complete | None = None
) -> Response:
    """Run one call. Raises GatewayError while nothing has been sent."""
    pipeline = engine.pipeline
    token = pipeline.identify(origin)
    share, client = BodyShare(engine.pressure), None
    try:
        try:
            data = await read_body(request, share, origin.began)
            if origin.model:
                data = await engine.worker.run(partial(_replace_model, data, origin.model), large=is_large(data))
            received = HttpRequest(body=data, target=request.raw_path, headers=request.headers)
            on_answer: OnAnswer = None
            if complete is not None:
                completed = await complete(token, received)
                if isinstance(completed, Response):
                    return completed
                received, on_answer = completed
                share.grow(len(received.body) - len(data))
        except GatewayError as error:
            pipeline.refuse(origin, error, token)
            raise
        client = HttpClient(request, origin.id, origin.api, engine.live.calls)
        client.on_answer = on_answer
        await pipeline.run(origin, token, received, client)
    finally:
        share.close()
        if client is not None:
            client.leave()
    if client.response is None:
        raise InternalError("the call ended without an answer")
    return client.response
