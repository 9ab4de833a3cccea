"""Clients that leave, stall, dribble or talk out of turn."""

import asyncio

import psutil
import pytest

from gateway.domain.call import Outcome
from gateway.domain.usage import UsageSource
from gateway.web import connection
from tests.fakes.client import read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import DONE, chunk, delta, endless, event, fail, in_steps, silence, speak, story
from tests.fakes.wire import Gone, Socket, turns_until
from tests.faults.refusals import nothing_happened

SOON_S = 1.0
"""The goal is 0.1 s on a quiet machine."""


def leave(peer: Socket, how: str) -> float:
    """End a connection by FIN or by RST; the moment."""
    {"fin": peer.close, "rst": peer.reset}[how]()
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_gone_before_the_first_byte(gateway: Gateway, provider: Provider, how: str) -> None:
    provider.on("m", silence)
    peer = await gateway.client.send(gateway.client.chat_bytes(stream=True))
    exchange = await provider.asked()
    left_at = leave(peer, how)
    assert await exchange.left() - left_at < SOON_S
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.cost) == (499, Outcome.CLIENT_CLOSED, 0)
    assert record.possible == record.held > 0
    peer.reset()


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
async def test_gone_within_the_request(gateway: Gateway, provider: Provider, share: float, how: str) -> None:
    request = gateway.client.chat_bytes()
    peer = await gateway.client.send(request[: int(len(request) * share)])
    await asyncio.sleep(0.01)
    leave(peer, how)
    assert (await gateway.client.get("/health")).status == 200
    nothing_happened(gateway, provider)


async def test_gone_at_any_moment_settles_once(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(*"abcdefgh", prompt=9, completion=12))
    for number in range(60):
        peer = await gateway.client.send(gateway.client.chat_bytes(stream=number % 2 == 0))
        for _ in range(number // 2):
            await asyncio.sleep(0)
        peer.reset()
    records = await gateway.settled(1)
    assert len(records) <= 60
    assert {record.outcome for record in records} <= {Outcome.DONE, Outcome.CLIENT_CLOSED}


class TestStall:
    """The write limit is cut from 30 s to 0.3 s."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "WRITE_S", 0.3)
        monkeypatch.setattr(connection, "WRITE_CHECK_S", 0.02)

    async def test_a_reader_that_stops_is_cut(self, gateway: Gateway, provider: Provider) -> None:
        provider.on("m", endless(event(chunk(delta("x" * 60_000))), first=event(story()[0])))
        async with gateway.client.streaming(window=4096) as answer:
            answer.socket.stop_reading()
            await provider.last.left()
            (record,) = await gateway.settled()
        assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
        assert record.output > 0


@pytest.mark.hasty(60)
class TestDribble:
    """On a clock sixty times as fast as the wall's."""

    @pytest.mark.parametrize("sent", [b"", b"GET /v1/mod", b"GET /v1/models HTTP/1.1\r\nhost: x\r\n"])
    async def test_half_a_head_is_abandoned(self, gateway: Gateway, provider: Provider, sent: bytes) -> None:
        began = asyncio.get_running_loop().time()
        peer = await gateway.client.send(sent)
        await asyncio.wait_for(peer.gone.wait(), 300)
        assert asyncio.get_running_loop().time() - began < 150
        peer.close()
        nothing_happened(gateway, provider)


async def test_a_connection_is_good_after_an_error(gateway: Gateway, provider: Provider, stream: bool) -> None:
    provider.on("m", fail(400, "no"), speak())
    peer = await gateway.client.connect()
    for path in ("/nope", "/v1/models"):
        await peer.write(gateway.client.request("GET", path))
        await read_answer(peer)
    for status in (400, 200):
        await peer.write(gateway.client.chat_bytes(stream=stream))
        assert (await read_answer(peer)).status == status
    peer.close()


async def test_others_have_their_turn_between_requests_that_came_together(gateway: Gateway) -> None:
    peer = await gateway.client.send(gateway.client.request("GET", "/health") * 100)
    assert await turns_until(100, b"HTTP/1.1 200", peer) > 20
    peer.close()


@pytest.mark.parametrize(("key", "status"), [("wrong", 401), ("", 401)])
async def test_an_unread_body_is_no_request(gateway: Gateway, provider: Provider, key: str, status: int) -> None:
    smuggled = gateway.client.chat_bytes()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    peer = await gateway.client.send(gateway.client.request("POST", "/v1/chat/completions", smuggled, headers))
    assert (await read_answer(peer)).status == status
    try:
        await peer.write(gateway.client.request("GET", "/health"))
        assert (await read_answer(peer)).json["status"] == "ok"
    except Gone:
        pass
    peer.reset()
    nothing_happened(gateway, provider)


async def test_a_connection_is_closed_or_clean_after_a_body_too_large(gateway: Gateway, provider: Provider) -> None:
    headers = {"content-type": "application/json", "content-length": str(40 << 20)}
    peer = await gateway.client.send(gateway.client.request("POST", "/v1/chat/completions", headers=headers))
    assert (await read_answer(peer)).status == 413
    await peer.write(b"x" * 1000 + gateway.client.chat_bytes())
    with pytest.raises((Gone, TimeoutError)):
        await read_answer(peer, patience_s=2)
    peer.reset()
    nothing_happened(gateway, provider)


async def test_the_next_request_may_come_during_a_stream(gateway: Gateway, provider: Provider) -> None:
    go_on = asyncio.Event()
    provider.on("m", in_steps(go_on, *story("a"), DONE), speak())
    peer = await gateway.client.send(gateway.client.chat_bytes(stream=True))
    await provider.asked()
    await peer.write(gateway.client.chat_bytes())
    go_on.set()
    assert [(await read_answer(peer)).text for _ in range(2)] == ["a", "Hello"]
    peer.close()


async def test_connections_that_come_and_go_leave_nothing(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    process = psutil.Process()
    for _ in range(50):
        (await gateway.client.connect()).reset()
    files, memory = process.num_fds(), process.memory_info().rss
    for _ in range(500):
        peer = await gateway.client.send(b"GET /v1/models HTTP/1.1\r\n")
        peer.reset()
    assert (await gateway.client.get("/health")).status == 200
    await gateway.until(lambda: process.num_fds() <= files + 4)
    assert process.memory_info().rss - memory < 8 << 20
    assert len(caplog.records) <= 20
