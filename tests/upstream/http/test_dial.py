"""Connections come about over the first address that answers, with TLS that is checked, or end in an error."""

import asyncio
import datetime as dt
import socket
import ssl
import threading
from typing import Any

import pytest
import trustme
from aiohappyeyeballs import AddrInfoType

from gateway.domain.urls import Proxy
from gateway.upstream.http import dial
from gateway.upstream.http.dial import Dialer, Target, look_up
from tests.fakes.wire import Socket
from tests.upstream.http.makers import OPEN, Talk, certified, hang, listening, proxying


def _at(address: str, family: int = socket.AF_INET) -> AddrInfoType:
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def _dial(port: int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Socket:
    async with asyncio.timeout(30):
        _, made = await Dialer().dial(Target(host, port, tls), Socket)
    made.transport.abort()
    return made


async def test_a_plain_connection() -> None:
    async with listening(hang) as port:
        await _dial(port)


async def test_tls_with_a_good_certificate(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    async with listening(hang, certified(authority, "127.0.0.1")) as port:
        await _dial(port, trusting)


def test_old_versions_of_tls_are_refused() -> None:
    assert dial.tls_context().minimum_version is ssl.TLSVersion.TLSv1_2


async def test_an_unknown_authority_is_refused(trusting: ssl.SSLContext) -> None:
    async with listening(hang, certified(trustme.CA(), "127.0.0.1")) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await _dial(port, trusting)


async def test_another_name_is_refused(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    async with listening(hang, certified(authority, "other.test")) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
            await _dial(port, trusting)


async def test_an_expired_certificate_is_refused(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    async with listening(hang, certified(authority, "127.0.0.1", past)) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            await _dial(port, trusting)


async def _garbage(peer: Socket) -> None:
    await peer.more()
    await peer.write(b"no TLS at all, but enough of it\r\n" * 10)
    await peer.gone.wait()


async def _goodbye(peer: Socket) -> None:
    await peer.more()


@pytest.mark.parametrize("talk", [_garbage, _goodbye], ids=["garbage", "goodbye"])
async def test_a_peer_without_tls_raises(talk: Talk, trusting: ssl.SSLContext) -> None:
    async with listening(talk) as port:
        with pytest.raises(OSError):  # noqa: PT011 - the words are the system's
            await _dial(port, trusting)


async def test_a_handshake_that_hangs_can_be_left(trusting: ssl.SSLContext) -> None:
    left = asyncio.Event()

    async def silent(peer: Socket) -> None:
        await peer.gone.wait()
        left.set()

    async with listening(silent) as port:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await Dialer().dial(Target("127.0.0.1", port, trusting), Socket)
        async with asyncio.timeout(30):
            await left.wait()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[list[AddrInfoType]]:
    """What look-ups find, one after the other; the last one stays."""
    answers: list[list[AddrInfoType]] = []

    async def look_up(host: str, port: int) -> list[AddrInfoType]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(info[0], info[1], info[2], info[3], (info[4][0], port)) for info in found]

    monkeypatch.setattr(dial, "look_up", look_up)
    return answers


async def test_an_address_that_refuses_gives_way_to_the_next(looked_up: list[list[AddrInfoType]]) -> None:
    looked_up.append([_at("::1", socket.AF_INET6), _at("127.0.0.1")])
    async with listening(hang) as port:
        await _dial(port, host="both.test")


async def test_the_system_finds_localhost() -> None:
    async with listening(hang) as port:
        await _dial(port, host="localhost")


async def test_addresses_are_remembered_until_they_fail(looked_up: list[list[AddrInfoType]]) -> None:
    old, new = [_at("127.0.0.2")], [_at("127.0.0.1")]
    looked_up += [new, old, new]
    async with listening(hang) as port:
        dialer = Dialer()
        for _ in range(2):
            transport, _ = await dialer.dial(Target("moved.test", port, None), Socket)
            transport.abort()
        assert len(looked_up) == 2
    with pytest.raises(ConnectionRefusedError):
        await dialer.dial(Target("moved.test", port, None), Socket)
    with pytest.raises(ConnectionRefusedError):
        await dialer.dial(Target("moved.test", port, None), Socket)
    assert looked_up == [new]


async def test_a_name_is_found() -> None:
    found = await look_up("localhost", 80)
    assert ("127.0.0.1", 80) in [place for *_, place in found]


@pytest.mark.parametrize("name", ["no-such-host.invalid", "bad..name", "x" * 300])
async def test_a_name_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        await look_up(name, 80)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Look-ups that hang until they are let go."""
    let_go = threading.Event()

    def hang(*_args: object, **_kwargs: object) -> list[Any]:
        let_go.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(dial, "LOOK_UP_S", 0.05)
    yield let_go
    let_go.set()


async def test_a_stuck_look_up_is_abandoned(stuck: threading.Event) -> None:
    with pytest.raises(OSError, match="not found within"):
        await Dialer().addresses("slow.test", 80)


async def test_a_stuck_look_up_holds_up_only_its_own_channel(stuck: threading.Event) -> None:
    mine, others = Dialer(), Dialer()
    waiting = asyncio.get_running_loop().create_task(mine.addresses("slow.test", 80))
    await asyncio.sleep(0)
    stuck.set()
    assert await others.addresses("slow.test", 80) == []
    assert await waiting == []


async def test_many_who_ask_for_one_name_share_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def find(*args: object, **_kwargs: object) -> list[Any]:
        asked.append(args)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", find)
    mine = Dialer()
    await asyncio.gather(*(mine.addresses("busy.test", 80) for _ in range(12)))
    assert len(asked) == 1


async def test_a_caller_that_leaves_does_not_cancel_the_look_up_of_others(stuck: threading.Event) -> None:
    mine, loop = Dialer(), asyncio.get_running_loop()
    first, second = (loop.create_task(mine.addresses("busy.test", 80)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    stuck.set()
    assert await second == []


async def _dial_tunnel(proxy: Proxy, port: int, tls: ssl.SSLContext | None = None) -> Socket:
    async with asyncio.timeout(30):
        _, made = await Dialer(proxy).dial(Target("127.0.0.1", port, tls), Socket)
        return made


async def test_the_proxy_gets_the_host_and_its_credentials() -> None:
    heard: list[str] = []
    async with listening(hang) as port, proxying(OPEN, heard) as there:
        made = await _dial_tunnel(Proxy("127.0.0.1", there, "Basic eA=="), port)
        made.transport.abort()
    assert heard == [f"CONNECT 127.0.0.1:{port} HTTP/1.1", f"127.0.0.1:{port}", "Basic eA=="]


async def test_tls_is_spoken_with_the_host_and_not_with_the_proxy(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    async with listening(hang, certified(authority, "127.0.0.1")) as port, proxying(OPEN, []) as there:
        made = await _dial_tunnel(Proxy("127.0.0.1", there), port, trusting)
        assert made.transport.get_extra_info("ssl_object") is not None
        made.transport.abort()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "requires a user and password"),
        (b"HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\nno", "refuses to connect there \\(HTTP 403\\)"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "refuses to connect there"),
        (b"\x05\x00garbage\r\n\r\n", "an answer that is not valid"),
        (b"x" * ((16 * 1024) + 10), "an answer that is not valid"),
        (OPEN + b"more", "unexpected data"),
    ],
)
async def test_a_proxy_that_refuses_or_lies(answer: bytes, text: str) -> None:
    async with proxying(answer, []) as there:
        with pytest.raises(OSError, match=text):
            await _dial_tunnel(Proxy("127.0.0.1", there), 9)


async def test_a_proxy_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"the proxy 127\.0\.0\.1:1 cannot be reached: Connection refused"):
        await _dial_tunnel(Proxy("127.0.0.1", 1), 9)


async def test_one_that_says_nothing_can_be_left() -> None:
    async with listening(hang) as there:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Dialer(Proxy("127.0.0.1", there)).dial(Target("127.0.0.1", 9, None), Socket)
