"""How a WebSocket ends, and the calls on it: clients that leave or do not read, the owner, a stop, time, memory."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config
from gateway.core.live_calls import CallDeadlines
from gateway.core.memory import CHECK_S
from gateway.domain.call import Outcome
from gateway.domain.usage import UsageSource
from gateway.v1.ports import drain, open_public_port
from gateway.v1.responses_socket import IDLE_S, SocketClient
from gateway.web import connection
from gateway.web.listener import Acceptor
from tests.fakes.audit import verify
from tests.fakes.client import Client
from tests.fakes.clock import skip
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import chunk, delta, dumps, endless, event, in_steps, speak, speak_after, story
from tests.fakes.responses import events_of, message, response
from tests.fakes.websocket import frame, said, shaken, talk
from tests.fakes.wire import turns_until
from tests.house import amount

AGE_S = IDLE_S - 60
FLOOD = endless(event(chunk(delta("x" * 60_000))), first=event(story()[0]))
BEGUN = in_steps(*story("Hel", "lo")[:2], hangs=True)
HI = frame(dumps({"type": "response.create", "model": "m", "input": "hi"}))


@pytest.fixture(autouse=True)
def _channel(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, preset="cerebras")
    provider.on("m", speak("A"))


@pytest.mark.parametrize("how", ["close frame", "fin", "reset"])
async def test_a_client_that_leaves_ends_its_call(gateway: Gateway, provider: Provider, how: str) -> None:
    provider.on("m", FLOOD)
    _, peer = await shaken(gateway.client)
    await peer.write(HI)
    await peer.more()
    peer.stop_reading()
    if how == "close frame":
        peer.go_on_reading()
        await peer.write(frame((1000).to_bytes(2), 8))
    elif how == "fin":
        peer.go_on_reading()
        peer.half_close()
    else:
        peer.reset()
    await provider.last.left()
    (record,) = await gateway.settled()
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
    assert gateway.engine.store.books.running == {}
    peer.reset()


async def test_leaving_before_the_answer_ends_the_call_and_what_waits(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak_after(asyncio.Event()))
    async with talk(gateway) as peer:
        await peer.create()
        await provider.asked()
        await peer.create("never")
    (record,) = await gateway.settled()
    assert (record.outcome, len(provider.exchanges)) == (Outcome.CLIENT_CLOSED, 1)
    assert gateway.engine.pressure.body_bytes == 0


async def test_a_client_that_leaves_at_any_moment_is_settled_once(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(*"abcdefgh"))
    for number in range(60):
        _, peer = await shaken(gateway.client)
        await peer.write(HI)
        for _ in range(number):
            await asyncio.sleep(0)
        peer.reset()
    records = await gateway.settled(1)
    assert {record.outcome for record in records} <= {Outcome.DONE, Outcome.CLIENT_CLOSED}
    assert verify(gateway.engine.store).equal
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)


class TestSilence:
    """Signs of life come every 0.1 s instead of 15 s."""

    @pytest.fixture
    def patience(self) -> CallDeadlines:
        return CallDeadlines(keep_alive=0.1, tick=0.02)

    async def test_a_comment_is_a_ping(self, gateway: Gateway, provider: Provider) -> None:
        provider.on("m", BEGUN)
        _, peer = await shaken(gateway.client)
        await peer.write(HI)
        while b"\x89\x00" not in peer.buffer:
            await peer.more()
        assert b"keep-alive" not in peer.buffer
        peer.reset()
        await gateway.settled()


class TestStall:
    """The write limit is cut from 30 s to 0.3 s."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "WRITE_S", 0.3)
        monkeypatch.setattr(connection, "WRITE_CHECK_S", 0.02)

    async def test_a_client_that_does_not_read_is_cut(self, gateway: Gateway, provider: Provider) -> None:
        provider.on("m", FLOOD)
        _, peer = await shaken(gateway.client, window=4096)
        await peer.write(HI)
        peer.stop_reading()
        await provider.last.left() if provider.exchanges else await (await provider.asked()).left()
        (record,) = await gateway.settled()
        assert (record.status, record.outcome) == (499, Outcome.CLIENT_CLOSED)
        peer.reset()


async def test_a_client_that_does_not_read_stops_its_upstream(gateway: Gateway, provider: Provider) -> None:
    """After what the system buffers, nothing more is taken from it."""
    passed = 0

    async def counted(exchange: Exchange) -> None:
        nonlocal passed
        await exchange.begin_stream()
        await exchange.piece(event(story()[0]))
        while not exchange.gone.is_set():
            await exchange.piece(event(chunk(delta("x" * 60_000))))
            passed += 60_000

    provider.on("m", counted)
    _, peer = await shaken(gateway.client, window=4096)
    await peer.write(HI)
    peer.stop_reading()
    await provider.asked()
    await asyncio.sleep(1)
    before = passed
    await asyncio.sleep(0.5)
    assert passed == before < 16 << 20
    (call,) = gateway.engine.live.calls.values()
    assert isinstance(call.context.client, SocketClient)
    peer.reset()
    await gateway.settled()


async def test_others_have_their_turn_between_frames_that_came_together(gateway: Gateway) -> None:
    _, peer = await shaken(gateway.client)
    await peer.write(frame(b"{}", 2) * 100)
    assert await turns_until(100, b'"status":415', peer) > 20
    peer.reset()


async def test_a_client_that_pings_and_does_not_read_is_not_read_from(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    _, peer = await shaken(gateway.client, window=4096)
    peer.stop_reading()
    pings = frame(bytes(125), 9) * 1000
    sent = 0
    try:
        async with asyncio.timeout(1):
            while sent < 400:
                await peer.write(pings)
                sent += 1
    except TimeoutError:
        pass
    assert sent < 400
    peer.reset()
    await asyncio.sleep(0.1)
    assert not caplog.records


async def test_the_owner_cancels_a_call_and_the_connection_stays(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak_after(asyncio.Event()), FLOOD, speak("A"))
    async with talk(gateway) as peer:
        await peer.create()
        await provider.asked()
        assert gateway.engine.cancel(next(iter(gateway.engine.live.calls)))
        last = await peer.last()
        assert (last["type"], last["status"], last["error"]["code"]) == ("error", 503, "call_cancelled")
        await peer.create()
        assert (await peer.event())["type"] == "response.created"
        assert gateway.engine.cancel(next(iter(gateway.engine.live.calls)))
        assert (await peer.last())["type"] == "response.failed"
        assert said(await peer.response()) == "A"
    outcomes = [record.outcome for record in await gateway.settled(3)]
    assert outcomes == [Outcome.CANCELLED, Outcome.CANCELLED, Outcome.DONE]
    assert verify(gateway.engine.store).equal


async def test_a_key_that_was_replaced_ends_the_connection(gateway: Gateway, provider: Provider) -> None:
    async with talk(gateway, gateway.token("guest")) as peer:
        await peer.response()
        gateway.token("guest")
        status, code = await peer.error()
        assert (status, code) == (401, "key_replaced")
        assert await peer.closed() == 1008
    assert len(provider.exchanges) == 1


@asynccontextmanager
async def second_door(gateway: Gateway, tmp_path: Path) -> AsyncIterator[tuple[Acceptor, Client]]:
    """A port that a test can close, and a client of it."""
    async with open_public_port(gateway.engine, Config(home=tmp_path, host="127.0.0.1", port=0)) as door:
        port = int(gateway.engine.address.rpartition(":")[2].partition("/")[0])
        yield door, Client(port, gateway.client.key)


@pytest.mark.parametrize("late_fields", [{}, {"generate": False}], ids=["call", "warm-up"])
async def test_a_stop_closes_idle_connections_and_lets_an_answer_end(
    gateway: Gateway, provider: Provider, tmp_path: Path, late_fields: dict[str, Any]
) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    async with (
        second_door(gateway, tmp_path) as (door, client),
        talk(gateway, client) as idle,
        talk(gateway, client) as busy,
        asyncio.TaskGroup() as group,
    ):
        await busy.create()
        await provider.asked()
        await busy.create("too late", **late_fields)
        group.create_task(drain(gateway.engine, door, 20, asyncio.Event()))
        assert await idle.closed() == 1001
        go.set()
        assert (await busy.last())["type"] == "response.completed"
        late = await busy.last()
        assert (late["type"], late["status"], late["error"]["code"]) == ("error", 503, "gateway_stopping")
        assert await busy.closed() == 1001
    assert [record.outcome for record in gateway.records if not record.code] == [Outcome.DONE]


async def test_an_answer_longer_than_a_stop_fails(gateway: Gateway, provider: Provider, tmp_path: Path) -> None:
    provider.on("m", BEGUN)
    async with (
        second_door(gateway, tmp_path) as (door, client),
        talk(gateway, client) as peer,
        asyncio.TaskGroup() as group,
    ):
        await peer.create()
        assert (await peer.event())["type"] == "response.created"
        group.create_task(drain(gateway.engine, door, 0, asyncio.Event()))
        assert (await peer.last())["type"] == "response.failed"
        assert await peer.closed() == 1001
    assert [record.outcome for record in await gateway.settled()] == [Outcome.STOPPED]
    assert verify(gateway.engine.store).equal


@pytest.mark.hasty(20)
async def test_a_client_that_answers_no_ping_is_disconnected(gateway: Gateway) -> None:
    """Who answers stays, who does not is left."""
    _, dumb = await shaken(gateway.client)
    async with talk(gateway) as alive, asyncio.TaskGroup() as group:
        reading = group.create_task(alive.socket.receive())
        await asyncio.wait_for(dumb.gone.wait(), 120)
        assert not reading.done()
        reading.cancel()
    dumb.reset()


@pytest.mark.hasty(2)
async def test_an_idle_connection_is_closed(gateway: Gateway) -> None:
    async with talk(gateway) as peer:
        await peer.response()
        await skip(IDLE_S)
        assert await peer.closed() == 1000


@pytest.mark.hasty(2)
async def test_an_old_connection_ends_before_the_next_request(gateway: Gateway) -> None:
    async with talk(gateway) as peer:
        await peer.response()
        for _ in range(6):
            await skip(AGE_S)
            await peer.response()
        await skip(AGE_S)
        last = await peer.last()
        assert (last["status"], last["error"]["code"]) == (400, "websocket_connection_limit_reached")
        assert await peer.closed() == 1000


async def test_a_frame_counts_while_it_arrives(gateway: Gateway) -> None:
    peers = [(await shaken(gateway.client))[1] for _ in range(4)]
    assert gateway.engine.pressure.max_body_bytes == 256 << 20
    gateway.engine.pressure.max_body_bytes = 4_000_000
    begin = frame(b"x" * 1_600_000)[:1_200_000]
    for peer in peers[:3]:
        await peer.write(begin)
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 3_600_000)
    with suppress(ConnectionError):
        await peers[3].write(begin)
    (record,) = await gateway.settled()
    assert record.code == "out_of_memory"
    for peer in peers:
        peer.reset()
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)


async def test_a_small_frame_without_memory_is_refused_and_a_call_goes_on(gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    async with talk(gateway) as peer:
        await peer.create("first")
        await provider.asked()
        gateway.engine.pressure.max_body_bytes = gateway.engine.pressure.body_bytes + 20
        await peer.create("second")
        refused = await peer.last()
        go.set()
        assert (refused["status"], refused["error"]["code"]) == (503, "out_of_memory")
        assert (await peer.last())["type"] == "response.completed"
    records = await gateway.settled(2)
    assert sorted(record.status for record in records) == [200, 503]


@pytest.mark.hasty(2)
async def test_without_memory_for_another_call_no_connection_begins(gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    running = asyncio.create_task(gateway.client.chat())
    await provider.asked()
    gateway.settings(memory_mib=1)
    await skip(CHECK_S)
    head, peer = await shaken(gateway.client)
    assert head.status == 503
    peer.close()
    go.set()
    await running
    records = await gateway.settled(2)
    assert sorted(record.code for record in records) == ["", "out_of_memory"]


async def test_a_socket_remembers_within_bounds(gateway: Gateway) -> None:
    """It counts as requests do, and there is none if it would take half of the memory for these."""
    gateway.grant(10**13)
    async with talk(gateway) as peer:
        ids = [(await peer.response("x" * 1000))["id"] for _ in range(6)]
        assert 6_000 < gateway.engine.pressure.body_bytes < 20_000
        assert said(await peer.response(previous=ids[0])) == "A"
        gateway.engine.pressure.max_body_bytes = 1 << 20
        big = await peer.response("y" * 700_000)
        assert (await peer.error(previous=big["id"]))[1] == "previous_response_not_found"
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("native", [False, True])
async def test_a_cut_anywhere_is_never_a_success(gateway: Gateway, provider: Provider, *, native: bool) -> None:
    """The upstream is cut, or the connection, at random places; continuation goes on beside it."""
    count, chance, ends = amount(80, 2500), random.Random(7), Counter[str]()
    gateway.grant(10**13)
    body = b"".join(map(event, story(*"abcdefgh"))) + b"data: [DONE]\n\n"
    if native:
        gateway.channel(provider.base_url, preset="vllm")
        body = b"".join(events_of(response(message("abcdefgh"))))

    async def cut(exchange: Exchange) -> None:
        await exchange.begin_stream()
        share = chance.random() * 1.3
        await exchange.piece(body[: int(share * len(body))])
        if share >= 1:
            await exchange.finish()
        else:
            exchange.socket.close() if chance.random() < 0.5 else exchange.socket.reset()

    provider.on("m", cut)
    left = iter(range(count))

    async def caller() -> None:
        for number in left:
            if number % 3 == 0:
                ends[await _cut_short(gateway, chance)] += 1
                continue
            async with talk(gateway) as peer:
                previous = None
                for _ in range(3):
                    await peer.create(f"turn {number}", previous=previous)
                    last = await peer.last()
                    ends[last["type"]] += 1
                    if last["type"] != "response.completed":
                        break
                    assert said(last["response"]) == "abcdefgh"
                    previous = last["response"]["id"]

    await asyncio.gather(*(caller() for _ in range(8)))
    records = await gateway.settled(1)
    assert min(ends["response.completed"], ends["response.failed"], ends["cut"]) > 0
    done = [record for record in records if record.outcome is Outcome.DONE]
    assert len(done) >= ends["response.completed"]
    assert gateway.engine.store.books.running == {}
    assert verify(gateway.engine.store).equal
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)


async def _cut_short(gateway: Gateway, chance: random.Random) -> str:
    """A client that is lost while it sends its frame or reads."""
    _, peer = await shaken(gateway.client)
    await peer.write(HI[: chance.randrange(1, len(HI))] if chance.random() < 0.5 else HI)
    for _ in range(chance.randrange(60)):
        await asyncio.sleep(0)
    peer.reset()
    return "cut"
