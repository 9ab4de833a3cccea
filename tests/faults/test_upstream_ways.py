"""Upstreams that cannot be reached. Nothing was sent, nothing is booked, and the next channel answers."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.usage import UsageSource
from gateway.upstream.http import dial
from tests.conformance.shapes import error_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.fakes.wire import Socket
from tests.upstream.http.makers import hang, listening


def refused_unbilled(gateway: Gateway, answer: Answer, reason: str) -> None:
    """What every row of these demands of a call that found no other channel."""
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert error_faults(answer.json) == []
    assert reason in answer.error["message"]
    record = gateway.records[-1]
    assert (record.outcome, record.source) == (Outcome.ERROR, UsageSource.NONE)
    assert (record.cost, record.possible) == (0, 0)
    assert {(a.kind, a.billed) for a in record.attempts} == {(FailureKind.NETWORK, False)}
    assert gateway.engine.store.books.held(("account", "")).nanos == 0


async def saved_by_the_next(gateway: Gateway, provider: Provider) -> None:
    """Another channel of lower priority answers."""
    provider.on("spare", speak())
    gateway.channel(provider.base_url, "m=spare", name="spare", priority=-1)
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    answer = await gateway.client.chat()
    assert (answer.status, answer.text) == (200, "Hello")
    assert [a.kind for a in gateway.records[-1].attempts] == [FailureKind.NETWORK, None]


async def test_a_refused_connection(gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://127.0.0.1:1/v1")
    refused_unbilled(gateway, await gateway.client.chat(), "Connection refused")
    await saved_by_the_next(gateway, provider)


@pytest.fixture
def names_of_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No name server is used: the names themselves say how they fail."""
    let_go, real = threading.Event(), socket.getaddrinfo

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "stalled.test":
            let_go.wait(20)
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(dial, "LOOK_UP_S", 0.3)
    yield
    let_go.set()


@pytest.mark.usefixtures("names_of_the_test")
async def test_a_name_that_stalls_holds_up_no_other_channel(gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://stalled.test/v1", "stalled")
    gateway.channel(provider.base_url, name="well")
    provider.on("m", speak())
    stuck = [asyncio.ensure_future(gateway.client.chat("stalled")) for _ in range(20)]
    await gateway.until(lambda: len(gateway.engine.live) == len(stuck))
    answers = await asyncio.gather(*(gateway.client.chat() for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert not any(call.done() for call in stuck)
    assert {answer.error["code"] for answer in await asyncio.gather(*stuck)} == {"upstream_unreachable"}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Channels trust the tests' authority, and are as strict as ever for the rest."""
    context = dial.tls_context()
    made = ssl.create_default_context()
    made.minimum_version = context.minimum_version
    authority.configure_trust(made)
    dial.target_of.cache_clear()
    monkeypatch.setattr(dial, "tls_context", lambda: made)
    yield
    dial.target_of.cache_clear()


def certified(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@asynccontextmanager
async def bad_tls(kind: str, authority: trustme.CA) -> AsyncIterator[int]:
    """A server on loopback with a fault of that kind; its port."""
    tls: ssl.SSLContext | None = None
    match kind:
        case "self-signed":
            tls = certified(trustme.CA())
        case "old version":
            tls = certified(authority)
            tls.set_ciphers("DEFAULT@SECLEVEL=0")
            tls.minimum_version = ssl.TLSVersion.TLSv1
            tls.maximum_version = ssl.TLSVersion.TLSv1_1
    async with listening(hang, tls) as port:
        yield port


@pytest.mark.usefixtures("trusting")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("kind", "reason"), [("self-signed", "its certificate is not accepted"), ("old version", "closed the connection")]
)
async def test_bad_tls_is_refused_with_its_reason(
    gateway: Gateway, provider: Provider, authority: trustme.CA, kind: str, reason: str
) -> None:
    async with bad_tls(kind, authority) as port:
        gateway.channel(f"https://127.0.0.1:{port}/v1", timeouts=Timeouts(connect=5.0))
        refused_unbilled(gateway, await gateway.client.chat(), reason)
        await saved_by_the_next(gateway, provider)


@pytest.mark.usefixtures("trusting")
async def test_the_key_and_the_prompt_were_not_told(gateway: Gateway, authority: trustme.CA) -> None:
    heard = bytearray()

    async def listen(peer: Socket) -> None:
        while True:
            await peer.more()
            heard.extend(peer.take(len(peer.buffer)))

    async with listening(listen, certified(trustme.CA())) as port:
        gateway.channel(f"https://127.0.0.1:{port}/v1")
        assert (await gateway.client.chat()).status == 502
    assert heard == b""
