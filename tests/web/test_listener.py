"""Listeners close what is idle at once and the rest behind its answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from gateway.web.connection import Connection
from gateway.web.listener import Listener
from gateway.web.response import Response
from tests.fakes.client import read_answer
from tests.web.door import opened, until


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


async def quick(_: web.BaseRequest) -> Response:
    return Response(b"{}")


async def test_an_idle_connection_is_closed_at_once() -> None:
    async with opened(quick) as (client, listener):
        fresh, kept, half = [await client.connect() for _ in range(3)]
        await kept.write(client.request("GET", "/"))
        await read_answer(kept)
        await half.write(b"GET / HT")
        async with asyncio.timeout(1):
            await listener.emptied()
            for peer in (fresh, kept, half):
                await peer.gone.wait()


async def test_a_connection_that_comes_late_is_closed_as_well() -> None:
    held = Held()
    async with opened(held) as (client, listener):
        busy = await client.connect()
        await busy.write(client.request("GET", "/"))
        await held.asked.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.emptied())
            late = await client.connect()
            await late.gone.wait()
            held.go_on.set()


@asynccontextmanager
async def ending(listener: Listener, held: Held) -> AsyncIterator[None]:
    """All are told to end; what was held goes on in between."""
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.emptied())
        await until(lambda: leaving(listener))
        held.go_on.set()
        yield


def leaving(listener: Listener) -> bool:
    return all(isinstance(each, Connection) and each.leaving for each in listener.connections)


async def test_an_answer_that_is_owed_says_that_it_is_the_last() -> None:
    held = Held()
    async with opened(held) as (client, listener):
        peer = await client.connect()
        await peer.write(client.request("GET", "/") * 2)
        await held.asked.wait()
        async with ending(listener, held):
            answer = await read_answer(peer)
            await peer.gone.wait()
    assert (answer.body, answer.head.get("connection"), bytes(peer.buffer)) == (b"{}", "close", b"")


async def test_a_stream_that_had_begun_ends_properly_and_its_connection_behind_it() -> None:
    held = Held()
    async with opened(held) as (client, listener):
        peer = await client.connect()
        await peer.write(client.request("GET", "/stream"))
        await held.asked.wait()
        async with ending(listener, held):
            assert (await read_answer(peer)).body == b"the end"
            await peer.gone.wait()


async def test_a_body_on_its_way_is_taken_and_answered() -> None:
    held = Held()
    async with opened(held) as (client, listener):
        peer = await client.connect()
        await peer.write(client.request("POST", "/body", b"12345678")[:-4])
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
        peer = await client.connect(window=4096)
        await peer.write(client.request("GET", "/"))
        await peer.more()
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.emptied())
            assert len((await read_answer(peer)).body) == 32 << 20
            await peer.gone.wait()


async def test_what_is_still_there_when_the_time_is_over_is_cut() -> None:
    held = Held()
    async with opened(held) as (client, listener):
        peer = await client.connect()
        await peer.write(client.request("GET", "/"))
        await held.asked.wait()
        async with asyncio.timeout(2):
            await listener.shutdown(0.05)
            await peer.gone.wait()
            await until(lambda: not listener.connections)
