"""Connections are counted before they are taken, and those that are too many are turned away with an answer."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from aiohttp import web

from gateway.domain.settings import Settings
from gateway.web.connection import Connection
from gateway.web.connection_limits import ConnectionLimits
from gateway.web.listener import Acceptor, Listener, listening
from gateway.web.response import Response
from tests.fakes.client import Answer, Client, read_answer
from tests.web.door import new_id, opened, until


async def quick(_: web.BaseRequest) -> Response:
    return Response(b"{}")


async def test_a_flood_is_answered_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also those that have sent their request before the first read."""
    limits = ConnectionLimits(Settings, lambda: 10)
    async with opened(quick, limits) as (client, listener):
        kept = [await client.connect() for _ in range(10)]
        await until(lambda: len(listener.connections) == 10)

        async def come() -> Answer:
            peer = await client.send(client.request("POST", "/", b"x" * 1000))
            answer = await read_answer(peer)
            peer.close()
            return answer

        answers = await asyncio.gather(*(come() for _ in range(32)))
        assert {answer.refusal for answer in answers} == {(503, "overloaded", None)}
        assert len([r for r in caplog.records if "turned away" in r.getMessage()]) == 1
        kept.pop().close()
        await until(lambda: limits.open == 9)
        assert (await client.get("/")).status == 200


async def test_more_are_turned_away_than_may_linger() -> None:
    limits = ConnectionLimits(Settings, lambda: 1)
    async with opened(quick, limits) as (client, _):
        await client.connect()
        await until(lambda: limits.open == 1)
        silent = [await client.connect() for _ in range(3 * 32)]
        for peer in silent:
            assert (await read_answer(peer)).status == 503


async def test_a_lack_of_files_or_memory_is_logged_once_and_neither_ends_it_nor_makes_it_spin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    accept, tries = loop.sock_accept, []
    files, memory = (errno.EMFILE, "Too many open files"), (errno.ENOMEM, "Cannot allocate memory")
    failures = [files, memory, files, memory]

    async def full_at_first(sock: socket.socket) -> tuple[socket.socket, object]:
        tries.append(loop.time())
        if failures:
            raise OSError(*failures.pop())
        return await accept(sock)

    monkeypatch.setattr(loop, "sock_accept", full_at_first)
    async with opened(quick) as (client, _):
        assert (await client.get("/")).status == 200
    assert all(later - earlier >= 0.1 * 0.9 for earlier, later in pairwise(tries[:5]))
    assert [record.getMessage() for record in caplog.records] == [
        "the system has no room for more connections: Cannot allocate memory",
        "the system has no room for more connections: Too many open files",
    ]


async def test_a_connection_that_is_lost_at_once_is_not_counted() -> None:
    limits = ConnectionLimits(Settings)
    async with opened(quick, limits) as (client, listener):
        for _ in range(20):
            (await client.connect()).reset()
        assert (await client.get("/")).status == 200
        await until(lambda: not listener.connections)
        assert limits.open == 0


async def test_closed_it_accepts_no_more_and_keeps_what_it_has() -> None:
    limits = ConnectionLimits(Settings)
    listener = Listener(quick, limits, new_id)
    sockets = listening("127.0.0.1", 0)
    acceptor = Acceptor(sockets, listener)
    async with asyncio.TaskGroup() as group:
        group.create_task(acceptor.run())
        client = Client(acceptor.port)
        peer = await client.connect()
        await until(lambda: limits.open == 1)
        acceptor.close()
        await until(lambda: all(sock.fileno() == -1 for sock in sockets))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", acceptor.port), 1)
        await peer.write(client.request("GET", "/"))
        assert (await read_answer(peer)).status == 200
        peer.close()
        await until(lambda: limits.open == 0)
    await listener.shutdown(0.05)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "0.0.0.0"])
async def test_it_listens_at_every_address_of_its_host(host: str) -> None:
    sockets = listening(host, 0)
    try:
        assert sockets
        assert len({sock.family for sock in sockets}) == len(sockets)
    finally:
        for sock in sockets:
            sock.close()


async def test_a_port_in_use_is_an_error_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use") as caught:
        listening("localhost", other.getsockname()[1])
    assert caught.value.errno == errno.EADDRINUSE


class Held:
    """A handler that answers when it is let, plainly or in a stream by path."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse | Response:
        if request.path == "/stream":
            stream = web.StreamResponse()
            await stream.prepare(request)
            self.asked.set()
            await self.go_on.wait()
            await stream.write(b"the end")
            return stream
        if request.path == "/body":
            await request.content.readany()
        self.asked.set()
        await self.go_on.wait()
        return Response(await request.content.read() or b"{}")


@pytest.fixture
def held() -> Held:
    return Held()


async def test_an_idle_connection_is_closed_at_once() -> None:
    async with opened(quick) as (client, listener):
        fresh, kept, half = [await client.connect() for _ in range(3)]
        await kept.write(client.request("GET", "/"))
        await read_answer(kept)
        await half.write(b"GET / HT")
        async with asyncio.timeout(1):
            await listener.close_connections()
            for peer in (fresh, kept, half):
                await peer.gone.wait()


async def test_a_connection_that_comes_late_is_closed_as_well(held: Held) -> None:
    async with opened(held) as (client, listener):
        await client.send(client.request("GET", "/"))
        await held.asked.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.close_connections())
            late = await client.connect()
            await late.gone.wait()
            held.go_on.set()


@asynccontextmanager
async def ending(listener: Listener, held: Held) -> AsyncIterator[None]:
    """All get the signal to end; what was held continues in between."""
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.close_connections())
        await until(lambda: leaving(listener))
        held.go_on.set()
        yield


def leaving(listener: Listener) -> bool:
    return all(isinstance(each, Connection) and each.closing for each in listener.connections)


async def test_an_answer_that_is_owed_says_that_it_is_the_last(held: Held) -> None:
    async with opened(held) as (client, listener):
        peer = await client.send(client.request("GET", "/") * 2)
        await held.asked.wait()
        async with ending(listener, held):
            answer = await read_answer(peer)
            await peer.gone.wait()
    assert (answer.body, answer.head.get("connection"), bytes(peer.buffer)) == (b"{}", "close", b"")


async def test_a_stream_that_had_begun_ends_properly_and_its_connection_behind_it(held: Held) -> None:
    async with opened(held) as (client, listener):
        peer = await client.send(client.request("GET", "/stream"))
        await held.asked.wait()
        async with ending(listener, held):
            assert (await read_answer(peer)).body == b"the end"
            await peer.gone.wait()


async def test_a_body_on_its_way_is_taken_and_answered(held: Held) -> None:
    async with opened(held) as (client, listener):
        peer = await client.send(client.request("POST", "/body", b"12345678")[:-4])
        await held.asked.wait()
        async with ending(listener, held):
            await peer.write(b"5678")
            answer = await read_answer(peer)
            await peer.gone.wait()
    assert (answer.body, answer.head.get("connection")) == (b"5678", "close")


async def test_an_answer_on_its_way_arrives_whole() -> None:
    async def flood(_: web.BaseRequest) -> Response:
        return Response(b"x" * (32 << 20))

    async with opened(flood) as (client, listener):
        peer = await client.send(client.request("GET", "/"), window=4096)
        await peer.more()
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.close_connections())
            assert len((await read_answer(peer)).body) == 32 << 20
            await peer.gone.wait()


async def test_what_is_still_there_when_the_time_is_over_is_cut(held: Held) -> None:
    async with opened(held) as (client, listener):
        peer = await client.send(client.request("GET", "/"))
        await held.asked.wait()
        async with asyncio.timeout(2):
            await listener.shutdown(0.05)
            await peer.gone.wait()
            await until(lambda: not listener.connections)
