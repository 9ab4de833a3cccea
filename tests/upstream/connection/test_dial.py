"""Connections come about over the first address that answers, with TLS that is checked, or end in an error."""

import asyncio
import datetime as dt
import socket
import ssl

import pytest
import trustme

from gateway.upstream.http.dial import Address, Dialer, DialTarget, NameLookups
from tests.fakes.wire import Socket
from tests.upstream.connection.makers import Talk, hang, listening

FOUR: Address = (socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.1", 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def _certified(authority: trustme.CA, name: str, expires: dt.datetime | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, not_after=expires).configure_cert(context)
    return context


async def _dial(port: int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Socket:
    async with asyncio.timeout(5):
        made = await Dialer().dial(DialTarget(host, port, tls), Socket)
    made.transport.abort()
    return made


async def test_a_plain_connection() -> None:
    async with listening(hang) as port:
        await _dial(port)


async def test_a_refused_connection_raises() -> None:
    with pytest.raises(ConnectionRefusedError):
        await _dial(1)


async def test_tls_with_a_good_certificate(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    async with listening(hang, _certified(authority, "127.0.0.1")) as port:
        await _dial(port, trusting)


async def test_an_unknown_authority_is_refused(trusting: ssl.SSLContext) -> None:
    async with listening(hang, _certified(trustme.CA(), "127.0.0.1")) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await _dial(port, trusting)


async def test_another_name_is_refused(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    async with listening(hang, _certified(authority, "other.test")) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
            await _dial(port, trusting)


async def test_an_expired_certificate_is_refused(authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    async with listening(hang, _certified(authority, "127.0.0.1", past)) as port:
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
                await Dialer().dial(DialTarget("127.0.0.1", port, trusting), Socket)
        async with asyncio.timeout(5):
            await left.wait()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[list[Address]]:
    """What look-ups find, one after the other; the last one stays."""
    answers: list[list[Address]] = []

    async def look_up(self: NameLookups, host: str, port: int, family: int) -> list[Address]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(family, proto, address, port) for family, proto, address, _ in found]

    monkeypatch.setattr(NameLookups, "look_up", look_up)
    return answers


async def test_an_address_that_refuses_gives_way_to_the_next(looked_up: list[list[Address]]) -> None:
    looked_up.append([(socket.AF_INET6, socket.IPPROTO_TCP, "::1", 0), FOUR])
    async with listening(hang) as port:
        await _dial(port, host="both.test")


async def test_the_system_finds_localhost() -> None:
    async with listening(hang) as port:
        await _dial(port, host="localhost")


async def test_addresses_are_remembered_until_they_fail(looked_up: list[list[Address]]) -> None:
    old, new = [(socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.2", 0)], [FOUR]
    looked_up += [new, old, new]
    async with listening(hang) as port:
        dialer = Dialer()
        for _ in range(2):
            (await dialer.dial(DialTarget("moved.test", port, None), Socket)).transport.abort()
        assert len(looked_up) == 2
    with pytest.raises(ConnectionRefusedError):
        await dialer.dial(DialTarget("moved.test", port, None), Socket)
    with pytest.raises(ConnectionRefusedError):
        await dialer.dial(DialTarget("moved.test", port, None), Socket)
    assert looked_up == [new]
