"""One call of any inbound API, plain or streamed, and its client as the pipeline sees it: ``HttpClient``.

The path decides which API it is (``v1.endpoints``).
"""

from collections.abc import Awaitable, Callable, Mapping, Sized

import msgspec
from aiohttp import hdrs, web

from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.core.memory import Share
from gateway.domain import rawjson
from gateway.domain.answer import Buffer
from gateway.domain.errors import GatewayError, InternalError
from gateway.domain.token import Token
from gateway.domain.units import CallId
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.json_body import BOM
from gateway.upstream.adapter import AnswerStream
from gateway.web import error_responses
from gateway.web.connection import Connection
from gateway.web.origins import readable_by
from gateway.web.request import check_json, read_body
from gateway.web.response import Response, StreamedResponse

STREAM_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
"""Headers that keep proxies from buffering or caching a stream; ``X-Accel-Buffering`` is nginx's."""


MOST_SEEN = 8 << 20
"""The most bytes of an answer that ``HttpClient.on_end`` gets."""


class HttpClient:
    """The client of one request."""

    def __init__(self, request: web.BaseRequest, call: CallId, api: InboundApi, calls: Sized = ()) -> None:
        """``calls`` are the running calls: the answer of a single one is sent without delay."""
        self._request = request
        self._call = call
        self._api = api
        self._calls = calls
        self.response: Response | None = None
        """The answer; of a stream once it has begun."""
        self.on_end: Callable[[bytes], None] | None = None
        """Gets the whole answer to a plain call, or the last bytes of a stream, before the client does."""
        self.gone = False
        self.begun = False
        self.on_gone: Callable[[], None] | None = None
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.on_lost = self._lost

    @property
    def may_wait(self) -> bool:
        """Returns False if it is alone, or if its connection closes after the answer: that is closed at once."""
        return len(self._calls) > 1 and self._request.keep_alive

    async def begin(self, headers: dict[str, str], *, more: bool = False) -> None:
        """Send the head of a streamed answer, with ``more`` together with the first write."""
        if self.begun:
            return
        self.begun = True
        headers = {**self._headers(headers), "Content-Type": self._api.stream_type, **STREAM_HEADERS}
        response = self.response = StreamedResponse(headers)
        await response.begin(self._request)
        if isinstance(connection := self._request.protocol, Connection):
            connection.sign = self._api.keep_alive
        if not more:
            self._request.writer.send_headers()

    async def write(self, data: Buffer) -> None:
        """Send bytes. Waits while the client reads more slowly than they come."""
        if self.gone or not isinstance(self.response, StreamedResponse):
            raise ConnectionResetError("the client is gone")
        await self.response.write(data)
        if self._request.protocol.writing_paused:
            await self._request.writer.drain()

    async def finish(self, data: Buffer) -> None:
        """Send the last bytes and the end of the response in one write."""
        if self.gone or not isinstance(self.response, StreamedResponse):
            raise ConnectionResetError("the client is gone")
        if self.on_end is not None and len(data) <= MOST_SEEN:
            self.on_end(bytes(data))
        await self.response.write_eof(bytes(data))

    def answer(self, headers: dict[str, str], parts: tuple[bytes | memoryview, ...], *, soon: bool = False) -> None:
        """Send the whole answer to a plain call, now or in the loop's next turn. A client that is gone gets none."""
        if self.on_end is not None and sum(map(len, parts)) <= MOST_SEEN:
            self.on_end(b"".join(parts))
        response = self.response = Response(*parts, headers=self._headers(headers))
        try:
            response.send(self._request, soon=soon)
        except ConnectionError:
            self.gone = True

    async def delivered(self) -> None:
        """Wait until a large answer is sent to the last byte, or the client is gone."""
        try:
            if isinstance(self.response, Response):
                await self.response.deliver(self._request)
        except ConnectionError:
            self.gone = True

    def withhold(self, error: GatewayError) -> None:
        """Send an error instead of the answer that was due in the loop's next turn."""
        if isinstance(self.response, Response):
            status, headers, body = error_responses.answer(error, self._call, self._api)
            self.response.replace(self._request, body, status=status, headers=self._headers(headers))

    async def fail(self, error: GatewayError, before: bytes = b"", stream: AnswerStream | None = None) -> None:
        """Send the error event that ends a broken stream."""
        try:
            await self.write(before + self._api.broken_end(error, self._call, stream))
        except ConnectionError:
            self.gone = True

    def cut(self) -> None:
        """Close the connection immediately."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def leave(self) -> None:
        """The answer is complete: losing the connection does not concern the call any more."""
        self.on_end = None
        self.on_gone = None  # it leads back here: a cycle would keep the call's body until the garbage collector runs
        connection = self._request.protocol
        if isinstance(connection, Connection):
            connection.on_lost, connection.sign = None, b""

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        for name in self._api.id_headers:
            headers[name] = self._call
        origin = self._request.headers.get(hdrs.ORIGIN)  # it is a listed one, or the request had been refused
        return headers if origin is None else {**headers, **readable_by(origin)}

    def _lost(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


def _with_model(body: bytes, model: str) -> bytes:
    """Returns the body with this model; unchanged if it is not a JSON object."""
    try:
        return rawjson.encode({**rawjson.fields(body.removeprefix(BOM)), "model": model})
    except ValueError:
        return body


Recall = Callable[[Token, bytes], Awaitable[tuple[bytes, Mapping[str, msgspec.Raw], Callable[[bytes], None] | None]]]
"""Returns the body to pass on, what the answer repeats (``AnswerForm``), and ``HttpClient.on_end``."""
Shortcut = Callable[[Token, bytes], Response | None]
"""Returns the answer to a body that needs no upstream; None if it needs one. Raises GatewayError."""


async def answer_call(
    engine: Engine,
    request: web.BaseRequest,
    origin: CallOrigin,
    shortcut: Shortcut | None = None,
    recall: Recall | None = None,
) -> Response:
    """Run one call. Raises GatewayError while nothing has been sent."""
    pipeline = engine.pipeline
    token = pipeline.identify(origin)
    share, client = Share(engine.pressure), None
    repeats: Mapping[str, msgspec.Raw] = {}
    on_end = None
    try:
        try:
            check_json(request)
            engine.pressure.check(origin.began)
            body = await read_body(request, share)
            if origin.model:
                body = _with_model(body, origin.model)
            if shortcut is not None and (early := shortcut(token, body)) is not None:
                return early
            if recall is not None:
                size = len(body)
                body, repeats, on_end = await recall(token, body)
                share.grow(len(body) - size)
        except GatewayError as error:
            pipeline.refuse(origin, error, token)
            raise
        client = HttpClient(request, origin.id, origin.api, engine.live.calls)
        client.on_end = on_end
        received = HttpRequest(body=body, target=request.raw_path, headers=request.headers, repeats=repeats)
        await pipeline.run(origin, token, received, client)
    finally:
        share.close()
        if client is not None:
            client.leave()
    response = client.response
    if response is None:
        raise InternalError("the call ended without an answer")
    if isinstance(response, StreamedResponse):
        await response.write_eof()
    return response
