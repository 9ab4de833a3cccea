"""Tests of a whole answer: what stands on the wire for every version and method."""

import asyncio
import re
import tracemalloc
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import web

from gateway.domain.errors import TooLarge
from gateway.web import response
from gateway.web.error_responses import error_answer
from gateway.web.response import JOINED, Response, StreamedResponse
from tests.fakes.client import Client, read_answer
from tests.fakes.wire import Gone, Socket
from tests.web.door import opened, until

BODY = b'{"a": 1}'


async def answer(request: web.BaseRequest) -> Response:
    """One of each kind, by path."""
    response = Response(BODY, headers={"x-request-id": "req_1"}) if request.path == "/" else Response(status=204)
    if request.path == "/last":
        response.keep_alive = False
    return response


@pytest.mark.parametrize(
    ("version", "asked", "connection", "stays"),
    [
        ("1.1", "", "", True),
        ("1.1", "close", "close", False),
        ("1.0", "", "", False),
        ("1.0", "keep-alive", "keep-alive", True),
    ],
)
async def test_the_connection_is_kept_by_version(version: str, asked: str, connection: str, stays: bool) -> None:
    async with opened(answer) as (client, _):
        wish = f"connection: {asked}\r\n" if asked else ""
        peer = await client.send(f"GET / HTTP/{version}\r\nhost: a\r\n{wish}\r\n".encode())
        got = await read_answer(peer)
        assert got.head.line == f"HTTP/{version} 200 OK"
        assert got.body == BODY
        assert got.head.get("connection") == connection
        if stays:
            await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await read_answer(peer)).body == BODY
        else:
            await peer.gone.wait()


@pytest.mark.parametrize(
    ("version", "asked", "fields", "body"),
    [
        (
            "1.1",
            "",
            b"x-request-id: req_1\r\nTransfer-Encoding: chunked\r\n",
            b"5\r\nfirst\r\n1\r\n2\r\n4\r\nlast\r\n0\r\n\r\n",
        ),
        (
            "1.1",
            "close",
            b"Connection: close\r\nx-request-id: req_1\r\nTransfer-Encoding: chunked\r\n",
            b"5\r\nfirst\r\n1\r\n2\r\n4\r\nlast\r\n0\r\n\r\n",
        ),
        ("1.0", "keep-alive", b"x-request-id: req_1\r\n", b"first2last"),
    ],
)
async def test_a_streamed_answer_by_version(version: str, asked: str, fields: bytes, body: bytes) -> None:
    async def stream(request: web.BaseRequest) -> Response:
        streamed = StreamedResponse({"x-request-id": "req_1"}, request)
        for data in (b"first", memoryview(b"123")[1:2], b""):
            streamed.write(data)
        await streamed.write_eof(b"last")
        return streamed

    async with opened(stream) as (client, _):
        wish = f"connection: {asked}\r\n" if asked else ""
        peer = await client.send(f"GET / HTTP/{version}\r\nhost: a\r\n{wish}\r\n".encode())
        await until(lambda: peer.buffer.endswith(body))
        if version == "1.0" or asked == "close":
            await peer.gone.wait()
        sent = re.sub(rb"Date: [^\r]+ GMT", b"Date: now", bytes(peer.buffer))
        head = b"Server: tollkeeper\r\nDate: now\r\n"
        assert sent == b"HTTP/%b 200 OK\r\n%b%b\r\n%b" % (version.encode(), head, fields, body)
        peer.close()


async def test_the_head_of_a_streamed_answer_can_go_alone() -> None:
    written = asyncio.Event()

    async def stream(request: web.BaseRequest) -> Response:
        streamed = StreamedResponse({}, request)
        streamed.write(b"")
        await written.wait()
        return streamed

    async with opened(stream) as (client, _):
        peer = await client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(lambda: peer.buffer.endswith(b"chunked\r\n\r\n"))
        written.set()
        await until(lambda: peer.buffer.endswith(b"chunked\r\n\r\n0\r\n\r\n"))
        peer.close()


@pytest.mark.parametrize("size", [10, JOINED + 10])
@pytest.mark.parametrize("other_size", [20, JOINED + 20])
async def test_an_answer_that_is_to_go_out_soon_can_be_replaced(size: int, other_size: int) -> None:
    other = b"x" * other_size

    async def withheld(request: web.BaseRequest) -> Response:
        response = Response(b"a" * size, headers={"x-request-id": "req_1"})
        asyncio.get_running_loop().call_soon(
            lambda: response.replace(request, other, status=503, headers={"x-request-id": "req_2"})
        )
        response.send(request, soon=True)
        return response

    async with opened(withheld) as (client, _):
        peer = await client.connect()
        for _ in range(2):
            await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            got = await read_answer(peer)
            assert (got.status, got.head.get("x-request-id"), got.body == other) == (503, "req_2", True)
        peer.close()


async def test_answers_that_go_together_all_arrive() -> None:
    async def together(request: web.BaseRequest) -> Response:
        response = Response(BODY)
        response.send(request, soon=True)
        return response

    async with opened(together) as (client, _):
        peers = [await client.connect() for _ in range(5)]
        for _ in range(2):
            for peer in peers:
                await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert [(await read_answer(peer)).body for peer in peers] == [BODY] * 5


async def test_a_client_that_does_not_read_is_not_written_to_for_ever() -> None:
    handled = 0

    async def large(_: web.BaseRequest) -> Response:
        nonlocal handled
        handled += 1
        return Response(b"x" * 100_000)

    async with opened(large) as (client, _):
        peer = await client.connect(window=4096)
        peer.transport.pause_reading()
        await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 400)
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert 0 < handled < 200


@pytest.mark.parametrize("soon", [False, True])
async def test_a_large_answer_that_waits_for_its_client_is_there_once(*, soon: bool) -> None:
    size = 16 << 20

    async def large(request: web.BaseRequest) -> Response:
        tracemalloc.start()
        response = Response(b"x" * size)
        response.send(request, soon=soon)
        return response

    async with opened(large) as (client, listener):
        peer = await client.connect(window=4096)
        peer.stop_reading()
        await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(
            lambda: any(each.transport.get_write_buffer_size() for each in listener.connections if each.transport)
        )
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peer.go_on_reading()
        assert len((await read_answer(peer)).body) == size
    assert memory < 1.5 * size


async def test_a_large_answer_is_gone_before_its_client_has_the_last_of_it() -> None:
    """What waits in the transport are its last pieces: a client cannot keep the whole by leaving those unread."""
    size = 16 << 20
    response: list[Response] = []

    async def large(request: web.BaseRequest) -> Response:
        tracemalloc.start()
        response.append(Response(memoryview(b"x" * size)[:-1], b"y"))
        response[0].send(request)
        await response[0].deliver(request)
        return response[0]

    async with opened(large) as (client, _):
        peer = await client.connect(window=4096)
        peer.stop_reading()
        await peer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(lambda: response)
        peer.go_on_reading()
        while len(peer.buffer) < size - 1_000_000:
            await peer.more()
        peer.stop_reading()
        await until(lambda: not response[0]._body)  # noqa: SLF001
        await asyncio.sleep(0.1)
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peer.go_on_reading()
        body = (await read_answer(peer)).body
    assert memory < size + (8 << 20)  # of which the client's own buffer is one
    assert (len(body), body[-2:]) == (size, b"xy")


async def test_the_head_is_complete() -> None:
    async with opened(answer) as (client, _):
        head = (await client.get("/")).head
    assert [name for name, _ in head.headers] == ["content-type", "content-length", "server", "date", "x-request-id"]
    assert head.get("content-type") == "application/json"
    assert head.get("content-length") == str(len(BODY))
    assert head.get("server") == "tollkeeper"
    assert parsedate_to_datetime(head.get("date")).tzinfo is not None


async def test_head_gets_the_size_and_no_body() -> None:
    async with opened(answer) as (client, _):
        peer = await client.send(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n")
        first, second = await read_answer(peer, bodyless=True), await read_answer(peer)
    assert first.head.get("content-length") == str(len(BODY))
    assert second.body == BODY


async def test_204_has_neither_body_nor_size_and_a_last_answer_closes() -> None:
    async with opened(answer) as (client, _):
        peer = await client.send(b"GET /last HTTP/1.1\r\nhost: a\r\n\r\n")
        got = await read_answer(peer, bodyless=True)
        await peer.gone.wait()
    assert got.head.line == "HTTP/1.1 204 No Content"
    assert {name for name, _ in got.head.headers} == {"server", "date", "connection"}
    assert got.head.get("connection") == "close"


async def test_a_client_that_left_is_not_an_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def cut(request: web.BaseRequest) -> Response:
        assert request.transport is not None
        request.transport.abort()
        return Response(BODY)

    async with opened(cut) as (client, _):
        peer = await client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await peer.gone.wait()
    assert not caplog.records


BLOCK = b"x" * 65_536
MANY = 100 << 20


async def refuse(_: web.BaseRequest) -> Response:
    """An answer that does not wait for the body."""
    status, headers, body = error_answer(TooLarge("too large"))
    return Response(body, status=status, headers=headers)


async def sending(client: Client, size: int = MANY, *, method: str = "POST") -> Socket:
    """A connection over which the head of such a request has gone; nothing is read from it yet."""
    peer = await client.connect()
    peer.stop_reading()
    await peer.write(client.request(method, "/", headers={"content-length": str(size)}))
    return peer


async def test_a_long_upload_can_read_its_refusal_however_slowly_it_was_sent() -> None:
    """It takes longer than a connection whose body nobody wants was kept before."""
    async with opened(refuse) as (client, _):
        peer = await sending(client)
        for _ in range(16):
            await peer.write(BLOCK)
            await asyncio.sleep(0.1)
        peer.go_on_reading()
        got = await read_answer(peer)
        async with asyncio.timeout(30):
            await peer.gone.wait()
    assert got.refusal == (413, "request_too_large", None)
    assert got.head.get("connection") == "close"
    assert not peer.reset_by_peer


async def test_a_short_body_that_nobody_wants_does_not_end_its_connection() -> None:
    async with opened(refuse) as (client, _):
        peer = await client.connect()
        for _ in range(2):
            await peer.write(client.request("POST", "/", headers={"content-length": str(64 << 10)}))
            assert (await read_answer(peer)).head.get("connection") == ""
            await peer.write(BLOCK)


async def test_a_silent_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "QUIET_S", 0.1)
    async with opened(refuse) as (client, listener):
        await sending(client)
        await until(lambda: listener.connections)
        await until(lambda: not listener.connections)


@pytest.mark.parametrize("end", ["reset", "close", "stop"])
async def test_a_connection_whose_rest_is_dropped_is_counted_until_it_ends(end: str) -> None:
    async with opened(refuse) as (client, listener):
        peer = await sending(client)
        await peer.write(BLOCK)
        await until(lambda: listener.connections)
        await asyncio.sleep(0.05)
        assert listener.limits.open == 1
        if end == "stop":
            await listener.shutdown(1.0)
        elif end == "reset":
            peer.transport.abort()
        else:
            peer.transport.close()
        await until(lambda: not listener.connections)
        assert listener.limits.open == 0


@pytest.mark.parametrize(("bound", "value"), [("LINGER_BYTES", 1 << 20), ("LINGER_S", 0.3)])
async def test_endless_senders_are_cut_off(monkeypatch: pytest.MonkeyPatch, bound: str, value: float) -> None:
    monkeypatch.setattr(response, bound, value)
    async with opened(refuse) as (client, _):
        peer = await sending(client)
        sent = 0
        async with asyncio.timeout(20):
            while not peer.transport.is_closing() and sent < MANY:
                await peer.write(BLOCK)
                sent += len(BLOCK)
                await asyncio.sleep(0.002)
    assert sent < MANY


@pytest.mark.parametrize("coding", ["content-length: {}\r\n", ""])
async def test_what_follows_a_connect_is_not_a_request(coding: str) -> None:
    smuggled = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    head = f"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n{coding.format(len(smuggled))}\r\n"
    async with opened(refuse) as (client, _):
        peer = await client.send(head.encode() + smuggled)
        assert (await read_answer(peer)).head.get("connection") == "close"
        with pytest.raises(Gone):
            await read_answer(peer)
