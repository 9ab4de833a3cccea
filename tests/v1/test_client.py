"""The answering side of one request, as the pipeline sees it."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from aiohttp import web

from gateway.core.call import Call
from gateway.domain.errors import Unavailable
from gateway.domain.units import CallId
from gateway.inbound.chat.api import CHAT
from gateway.v1.call import HttpClient
from gateway.web.response import Response
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.web.door import opened

Act = Callable[[HttpClient], Awaitable[None]]


async def acted(act: Act, line: str = "GET / HTTP/1.1", **headers: str) -> Answer:
    """What a client gets that is answered like this."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse | Response:
        client = HttpClient(request, CallId("req_1"), CHAT)
        await act(client)
        client.leave()
        assert client.response is not None
        await client.response.write_eof()
        return client.response

    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "x", **headers}.items())
    async with opened(handle) as (visitor, _):
        return await visitor.raw(f"{line}\r\n{lines}\r\n".encode())


async def test_a_stream_has_its_head_and_its_bytes() -> None:
    async def act(client: HttpClient) -> None:
        client.begin({"x-gateway-channel": "up"})
        await client.write(b"data: 1\n\n")
        await client.write(b"data: 2\n\n")

    answer = await acted(act)
    assert (answer.status, answer.body) == (200, b"data: 1\n\ndata: 2\n\n")
    for name, value in {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "x-request-id": "req_1",
        "x-gateway-channel": "up",
        "transfer-encoding": "chunked",
    }.items():
        assert answer.head.all(name) == [value]
    assert answer.head.all("content-encoding") == answer.head.all("access-control-allow-origin") == []


class Writes:
    """A transport that notes what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.made: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.made.append(bytes(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def _watched(client: HttpClient) -> list[bytes]:
    connection = client._request.protocol  # noqa: SLF001 - what it writes to cannot be reached otherwise
    assert connection.transport is not None
    writes = Writes(connection.transport)
    connection.transport = cast("asyncio.Transport", writes)
    return writes.made


async def test_the_head_goes_out_with_the_first_bytes_and_the_end_with_the_last() -> None:
    made: list[bytes] = []

    async def act(client: HttpClient) -> None:
        made.append(b"")
        writes = _watched(client)
        client.begin({})
        assert writes == []
        await client.write(b"data: 1\n\n")
        await client.write(b"data: 2\n\n", last=True)
        made[:] = writes

    assert (await acted(act)).body == b"data: 1\n\ndata: 2\n\n"
    first, last = made
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n")
    assert last == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


async def test_a_head_that_nothing_follows_yet_goes_out_at_once() -> None:
    async def act(client: HttpClient) -> None:
        writes = _watched(client)
        client.begin({})
        await client.write(b"")
        (head,) = writes
        assert head.endswith(b"\r\n\r\n")
        await client.write(b"")  # a keep-alive of an API without comments
        assert b"".join(writes) == head  # an empty chunk would end the answer

    assert (await acted(act)).status == 200


async def test_the_last_bytes_are_for_nobody_once_the_client_is_gone() -> None:
    async def act(client: HttpClient) -> None:
        client.begin({})
        client.gone = True
        with pytest.raises(ConnectionResetError):
            await client.write(b"data: 2\n\n", last=True)

    assert (await acted(act)).body == b""


async def test_a_whole_answer_is_sent_at_once_and_once() -> None:
    async def act(client: HttpClient) -> None:
        client.answer({"x-gateway-channel": "up"}, (b"{}",))

    answer = await acted(act)
    assert (answer.status, answer.body) == (200, b"{}")
    for name, value in {"x-request-id": "req_1", "x-gateway-channel": "up", "content-length": "2"}.items():
        assert answer.head.all(name) == [value]


@pytest.mark.parametrize(
    ("calls", "version", "wish", "may_wait"),
    [
        (2, "1.1", "", True),
        (2, "1.0", "keep-alive", True),
        (1, "1.1", "", False),
        (2, "1.1", "close", False),
        (2, "1.0", "", False),
    ],
)
async def test_a_client_that_is_not_alone_waits_a_turn(calls: int, version: str, wish: str, may_wait: bool) -> None:
    async def handle(request: web.BaseRequest) -> Response:
        return Response(str(HttpClient(request, CallId("req_1"), CHAT, range(calls)).may_wait).encode())

    async with opened(handle) as (visitor, _):
        connection = f"connection: {wish}\r\n" if wish else ""
        answer = await visitor.raw(f"GET / HTTP/{version}\r\nhost: x\r\n{connection}\r\n".encode())
        assert answer.body == str(may_wait).encode()


async def test_a_whole_answer_without_a_reader_is_not_an_error() -> None:
    gone = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse | Response:
        client = HttpClient(request, CallId("req_1"), CHAT)
        assert request.transport is not None
        request.transport.abort()
        client.answer({}, (b"{}",))
        assert client.gone
        gone.set()
        assert client.response is not None
        return client.response

    async with opened(handle) as (visitor, _):
        peer = await visitor.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await gone.wait()
        await peer.gone.wait()


@pytest.mark.parametrize("wish", ["close", "keep-alive"])
async def test_an_old_client_gets_no_chunks_and_the_end_of_the_connection(wish: str) -> None:
    async def act(client: HttpClient) -> None:
        client.begin({})
        await client.write(b"data: 1\n\n")

    answer = await acted(act, "GET / HTTP/1.0", connection=wish)  # it is read to its end
    assert (answer.body, answer.head.all("transfer-encoding")) == (b"data: 1\n\n", [])
    assert "keep-alive" not in answer.head.get("connection")


async def test_a_broken_stream_ends_in_an_error_event() -> None:
    async def act(client: HttpClient) -> None:
        client.begin({})
        await client.fail(Unavailable("stopping", code="gateway_stopping"))

    body = (await acted(act)).body
    assert body.startswith(b'data: {"error":{"message":"stopping [call req_1]"')
    assert b"[DONE]" not in body


async def test_nothing_can_be_written_before_the_head() -> None:
    async def act(client: HttpClient) -> None:
        with pytest.raises(ConnectionResetError):
            await client.write(b"x")
        client.begin({})

    await acted(act)


class Left:
    """A handler whose client leaves while it waits."""

    def __init__(self) -> None:
        self.client: HttpClient | None = None
        self.ready = asyncio.Event()
        self.told = asyncio.Event()
        self.found: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        client = HttpClient(request, CallId("req_1"), CHAT)
        client.on_gone = self.told.set
        client.begin({})
        await client.write(b"")
        self.ready.set()
        await self.told.wait()
        self.found.append(f"gone={client.gone}")
        try:
            await client.write(b"x")
        except ConnectionResetError:
            self.found.append("refused")
        await client.fail(Unavailable("too late"))
        raise ConnectionResetError


async def test_a_client_that_left_is_reported_once_and_gets_no_more_writes(caplog: pytest.LogCaptureFixture) -> None:
    left = Left()
    async with opened(left) as (visitor, _):
        peer = await visitor.send(visitor.request("GET", "/"))
        async with asyncio.timeout(30):
            await left.ready.wait()
            peer.reset()
            await left.told.wait()
    assert left.found == ["gone=True", "refused"]
    assert caplog.records == []


async def test_after_its_answer_nothing_is_reported() -> None:
    told: list[bool] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        client = HttpClient(request, CallId("req_1"), CHAT)
        client.on_gone = lambda: told.append(True)
        client.leave()
        return web.Response(body=b"{}")

    async with opened(handle) as (visitor, _):
        peer = await visitor.send(visitor.request("GET", "/"))
        await read_answer(peer)
        peer.reset()
        await asyncio.sleep(0.01)
    assert told == []


async def test_a_call_leaves_no_ring(gateway: Gateway, provider: Provider, stream: bool) -> None:
    """A ring would keep the request's body until the garbage collector runs, which is rare."""
    gc.collect()
    gc.freeze()  # then only new objects are listed below; nothing that is frozen is garbage
    gc.disable()
    try:
        await gateway.client.chat(stream=stream)
        kept = [thing for thing in gc.get_objects() if isinstance(thing, (Call, HttpClient))]
    finally:
        gc.enable()
    assert kept == []
