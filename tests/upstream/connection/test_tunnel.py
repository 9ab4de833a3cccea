"""The way through a proxy leads to the host, or is told to have failed before anything was sent there."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from gateway.domain.urls import Proxy
from gateway.upstream.http.dial import HEAD_LIMIT, Dialer, DialTarget
from tests.fakes.wire import Socket
from tests.upstream.connection.makers import Talk, hang, listening

OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def proxying(answer: bytes, heard: list[str]) -> AsyncIterator[int]:
    """A proxy that notes what it is asked, says this, and then passes bytes on to where it was asked to."""

    async def talk(peer: Socket) -> None:
        head = await peer.read_head()
        heard.extend([head.line, head.get("host"), head.get("proxy-authorization")])
        await peer.write(answer)
        if answer != OPEN:
            await peer.gone.wait()
            return
        host, _, port = head.line.split()[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        with_peer = asyncio.create_task(_pump(peer, writer))
        try:
            while data := await reader.read(65536):
                await peer.write(data)
        finally:
            with_peer.cancel()
            writer.transport.abort()

    async with listening(talk) as port:
        yield port


async def _pump(peer: Socket, writer: asyncio.StreamWriter) -> None:
    while True:
        if not peer.buffer:
            await peer.more()
        writer.write(peer.take(len(peer.buffer)))


async def _dial(proxy: Proxy, port: int, tls: ssl.SSLContext | None = None) -> Socket:
    async with asyncio.timeout(5):
        return await Dialer(proxy).dial(DialTarget("127.0.0.1", port, tls), Socket)


async def test_the_proxy_is_asked_for_the_host_and_shown_what_opens_it() -> None:
    heard: list[str] = []
    async with listening(hang) as port, proxying(OPEN, heard) as there:
        made = await _dial(Proxy("127.0.0.1", there, "Basic eA=="), port)
        made.transport.abort()
    assert heard == [f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"127.0.0.1:{port}", "Basic eA=="]


async def test_tls_is_spoken_with_the_host_and_not_with_the_proxy() -> None:
    authority = trustme.CA()
    certified = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(certified)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with listening(hang, certified) as port, proxying(OPEN, []) as there:
        made = await _dial(Proxy("127.0.0.1", there), port, trusting)
        assert made.transport.get_extra_info("ssl_object") is not None
        made.transport.abort()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "user and password"),
        (b"HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\nno", "does not lead there \\(HTTP 403\\)"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "does not lead there"),
        (b"\x05\x00garbage\r\n\r\n", "no answer that makes sense"),
        (b"x" * (HEAD_LIMIT + 10), "no answer that makes sense"),
        (OPEN + b"more", "bytes that nobody asked for"),
    ],
)
async def test_a_proxy_that_refuses_or_lies(answer: bytes, text: str) -> None:
    async with proxying(answer, []) as there:
        with pytest.raises(OSError, match=text):
            await _dial(Proxy("127.0.0.1", there), 9)


def _silent(data: bytes) -> Talk:
    async def talk(peer: Socket) -> None:
        await peer.read_head()
        await peer.write(data)

    return talk


async def test_a_proxy_that_hangs_up() -> None:
    async with listening(_silent(b"HTTP/1.1 200 OK\r\n")) as there:
        with pytest.raises(OSError, match=r"no answer that makes sense|reset"):
            await _dial(Proxy("127.0.0.1", there), 9)


async def test_a_proxy_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"the proxy 127\.0\.0\.1:1 cannot be reached: Connection refused"):
        await _dial(Proxy("127.0.0.1", 1), 9)


async def test_one_that_says_nothing_can_be_left() -> None:
    async with listening(hang) as there:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Dialer(Proxy("127.0.0.1", there)).dial(DialTarget("127.0.0.1", 9, None), Socket)
