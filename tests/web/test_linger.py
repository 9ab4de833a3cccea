"""A client that is refused in the middle of its request can read why; how long it may go on sending is bounded."""

import asyncio

import pytest
from aiohttp import web

from gateway.domain.errors import TooLarge
from gateway.web import response
from gateway.web.error_responses import answer
from gateway.web.response import SHORT, Response
from tests.fakes.client import Client, read_answer
from tests.fakes.wire import Gone, Socket
from tests.web.door import opened, until

BLOCK = b"x" * 65_536
MANY = 100 << 20


async def refuse(_: web.BaseRequest) -> Response:
    """An answer that does not wait for the body."""
    status, headers, body = answer(TooLarge("too large"))
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
        async with asyncio.timeout(5):
            await peer.gone.wait()
    assert got.refusal == (413, "request_too_large", None)
    assert got.head.get("connection") == "close"
    assert not peer.reset_by_peer


async def test_a_short_body_that_nobody_wants_does_not_end_its_connection() -> None:
    async with opened(refuse) as (client, _):
        peer = await client.connect()
        for _ in range(2):
            await peer.write(client.request("POST", "/", headers={"content-length": str(SHORT)}))
            assert (await read_answer(peer)).head.get("connection") == ""
            await peer.write(BLOCK)


async def test_who_stops_sending_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "QUIET_S", 0.1)
    async with opened(refuse) as (client, listener):
        await sending(client)
        await until(lambda: listener.connections)
        await until(lambda: not listener.connections)


@pytest.mark.parametrize(("bound", "value"), [("LINGER_BYTES", 1 << 20), ("LINGER_S", 0.3)])
async def test_who_does_not_stop_sending_is_left(monkeypatch: pytest.MonkeyPatch, bound: str, value: float) -> None:
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
        peer = await client.connect()
        await peer.write(head.encode() + smuggled)
        assert (await read_answer(peer)).head.get("connection") == "close"
        with pytest.raises(Gone):
            await read_answer(peer)
