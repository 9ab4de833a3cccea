"""Connections report their loss, are bounded in number and patience, and speak JSON even of broken HTTP."""

import asyncio
import socket
import sys
from contextlib import suppress

import pytest
from aiohttp import web

from gateway.domain.settings import Settings
from gateway.web import connection_limits
from gateway.web.connection import WRITE_CHECK_S, WRITE_S, Connection, describe_parse_error
from gateway.web.connection_limits import ConnectionLimits
from tests.fakes.client import Answer, read_answer
from tests.fakes.wire import Gone
from tests.web.door import opened, until


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"{}")


class Waiting:
    """A handler that waits, and knows of the loss of its connection."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.lost = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request.protocol, Connection)
        request.protocol.on_lost = self.lost.set
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return web.Response(body=b"{}")


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_handler_learns_when_its_client_is_gone_and_continues(how: str) -> None:
    waiting = Waiting()
    async with opened(waiting) as (client, _):
        peer = await client.send(client.request("GET", "/"))
        await waiting.asked.wait()
        getattr(peer, how)()
        async with asyncio.timeout(30):
            await waiting.lost.wait()
        waiting.go_on.set()
        peer.reset()
    assert not waiting.cancelled


async def test_a_handler_is_not_told_after_its_answer() -> None:
    waiting = Waiting()
    waiting.go_on.set()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await waiting(request)
        assert isinstance(request.protocol, Connection)
        request.protocol.on_lost = None
        return response

    async with opened(answer) as (client, _):
        peer = await client.send(client.request("GET", "/"))
        await read_answer(peer)
        peer.reset()
    assert not waiting.lost.is_set()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="aiohttp begins its own task without a turn of the loop")
async def test_all_requests_of_a_connection_are_handled_in_one_task() -> None:
    tasks: list[object] = []

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())
        return web.Response(body=b"{}")

    async with opened(answer) as (client, _):
        peer = await client.connect()
        for _ in range(2):
            await peer.write(client.request("GET", "/"))
            await read_answer(peer)
        peer.reset()
    assert tasks == [tasks[0]] * 2


async def test_a_handler_that_is_cancelled_takes_its_connection_along() -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)
        return web.Response(body=b"{}")

    async with opened(answer) as (client, _):
        peer = await client.send(client.request("GET", "/"))
        with pytest.raises(Gone):
            await read_answer(peer)


async def test_a_handler_goes_on_after_a_cancellation_that_it_takes_back() -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        task.uncancel()
        await asyncio.sleep(0)
        return web.Response(body=b"{}")

    async with opened(answer) as (client, _):
        peer = await client.connect()
        for _ in range(2):
            await peer.write(client.request("GET", "/"))
            assert (await read_answer(peer)).status == 200
        peer.reset()


def identified(answer: Answer) -> bool:
    """Whether head and body say which answer of which program it is."""
    told = answer.head.get("server"), answer.head.get("x-request-id"), answer.error["gateway"]["call_id"]
    return told == ("tollkeeper", "req_of_the_door", "req_of_the_door")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk-tk-secret" + b" " * 9000 + b"x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk-tk-secret\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization Bearer sk-tk-secret\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nsk-tk-secret" + b"x" * 9000 + b": x\r\n\r\n",
        b"GET /?key=sk-tk-secret" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET /?key=sk-tk-secret HTTQ/1.1\r\n\r\n",
        b"GET sk-tk-secret HTTP/1.1\r\nHost: a\r\n\r\n",
        b"sk-tk-secret / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nsk-tk-secret\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: sk-tk-secret\r\n\r\n",
    ],
)
async def test_errors_do_not_repeat_the_request(head: bytes) -> None:
    async with opened(hello) as (client, _):
        answer = await client.raw(head)
    assert answer.refusal == (400, "bad_http", None)
    assert b"secret" not in answer.body


@pytest.mark.parametrize(("size", "status"), [(8 << 10, 200), (9000, 400)])
async def test_a_header_may_have_8_kib(size: int, status: int) -> None:
    async with opened(hello) as (client, _):
        assert (await client.get("/", {"authorization": "x" * size})).status == status


@pytest.mark.parametrize(("count", "status"), [(100, 200), (101, 400)])
async def test_a_head_may_have_a_hundred_headers(count: int, status: int) -> None:
    async with opened(hello) as (client, _):
        assert (
            await client.raw(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: x\r\n" * (count - 1) + b"\r\n")
        ).status == status


@pytest.mark.parametrize("settings", [Settings(connections=2), Settings(address_connections=2)])
async def test_too_many_connections_are_turned_away(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "is_this_machine", lambda _: False)
    async with opened(hello, ConnectionLimits(lambda: settings)) as (client, listener):
        kept = [await client.connect() for _ in range(2)]
        for peer in kept:
            await peer.write(client.request("GET", "/"))
            assert (await read_answer(peer)).status == 200
        extra = await client.connect()
        answer = await read_answer(extra)
        assert (answer.status, answer.error["code"], answer.head.get("retry-after")) == (503, "overloaded", "1")
        assert identified(answer)
        kept.pop().close()
        await until(lambda: len(listener.connections) < 2)
        assert (await client.get("/")).status == 200
        kept.pop().close()


@pytest.mark.hasty(60)
class TestPatience:
    """On a clock sixty times as fast as the wall's."""

    async def test_an_idle_connection_is_closed(self) -> None:
        async with opened(hello) as (client, _):
            began = asyncio.get_running_loop().time()
            peer = await client.connect()
            async with asyncio.timeout(2 * 75):
                await peer.gone.wait()
            assert asyncio.get_running_loop().time() - began >= 75 - 1

    async def test_an_answer_that_is_read_slowly_is_not(self) -> None:
        async def flood(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(body=b"x" * (4 << 20))

        async with opened(flood) as (client, _):
            peer = await client.connect(window=4096)
            peer.stop_reading()
            await peer.write(client.request("GET", "/"))
            for _ in range(16):
                await asyncio.sleep(WRITE_S / 3)
                peer.go_on_reading()
                while len(peer.buffer) < 256 << 10:
                    try:
                        await peer.more()
                    except Gone:
                        break
                peer.stop_reading()
                peer.take(min(len(peer.buffer), 256 << 10))
            assert not peer.gone.is_set() or not peer.reset_by_peer
            peer.reset()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such patience")
async def test_the_system_gives_up_what_nobody_here_looks_at() -> None:
    async def tell(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        sock = request.transport.get_extra_info("socket")
        return web.Response(body=str(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)).encode())

    async with opened(tell) as (client, _):
        assert float((await client.get("/")).body) == 30_000


@pytest.mark.hasty(10)
async def test_an_answer_that_nobody_reads_is_abandoned_in_time() -> None:
    async def flood(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * (32 << 20))

    async with opened(flood) as (client, listener):
        peer = await client.connect(window=4096)
        peer.stop_reading()
        await peer.write(client.request("GET", "/"))
        await until(lambda: listener.connections)
        began = asyncio.get_running_loop().time()
        await until(lambda: not listener.connections)
        assert WRITE_S - 1 < asyncio.get_running_loop().time() - began < 2 * WRITE_S - WRITE_CHECK_S


GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"

FAULTS: list[tuple[bytes, str]] = [
    (b"rubbish\r\n\r\n", "its first line does not begin with a method"),
    (b"GET / HTTQ/1.1\r\n\r\n", "its first line is not 'METHOD /path HTTP/1.1'"),
    (b"GET v1 HTTP/1.1\r\nHost: a\r\n\r\n", "the request target is not a path"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it is not valid HTTP/1.1"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50, "use http:// in the base URL"),
    (b"GET / HTTP/1.1\r\n\r\n", "it has no Host header"),
    (GET + b"Host: b\r\n\r\n", "a header that can be given once is given twice"),
    (GET + b"no colon\r\n\r\n", "a header line is malformed"),
    (GET + b"X: x\r\n" * 200 + b"\r\n", "it has more than 100 headers"),
    (GET + b"X: " + b"x" * 9000 + b"\r\n\r\n", "a line of its head is longer than 8704 bytes"),
    (GET + b"Content-Length: -1\r\n\r\n", "its Content-Length or Transfer-Encoding is malformed, or both are given"),
    (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "or both are given"),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "a chunk of its body is malformed"),
]


@pytest.mark.parametrize(("sent", "told"), FAULTS, ids=[told for _, told in FAULTS])
async def test_broken_http_is_answered_and_closed(sent: bytes, told: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(hello) as (client, _):
        peer = await client.send(sent)
        answer = await read_answer(peer)
        async with asyncio.timeout(30):
            await peer.gone.wait()
    message = answer.error["message"]
    assert message == f"the request cannot be read: {message.partition(': ')[2]}"
    assert told in message
    assert answer.refusal == (400, "bad_http", None)
    assert answer.head.get("content-type") == "application/json"
    assert identified(answer)
    assert caplog.records == []


def test_what_has_no_words_of_its_own_is_not_http() -> None:
    assert (
        describe_parse_error(None) == describe_parse_error(ValueError("header: secret")) == "it is not valid HTTP/1.1"
    )
