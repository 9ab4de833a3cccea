"""The stream of events: what a watcher gets, when, and how much at once.

Long: one stream carries all events, and each test needs it whole.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from aiohttp import ClientConnectionResetError, web
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.client.http import exchange
from gateway.control import events as module
from gateway.control.edits import ConfigEdits
from gateway.control.events import WatcherStream
from gateway.core.event_bus import Batch, Notice
from gateway.domain.call import Record, Running
from gateway.domain.errors import GatewayError, NotFound
from gateway.domain.events import (
    AnyEvent,
    Balance,
    CallProgress,
    CallSettled,
    CallStarted,
    EntityChanged,
    Heartbeat,
    IncidentChanged,
    Snapshot,
    StatusChanged,
    Stopping,
)
from gateway.domain.history import ChangeSource
from gateway.domain.registry import Change
from gateway.domain.units import DAY_MS, CallId, Millis
from gateway.domain.views import call_view
from tests.control.confirming import confirming
from tests.control.conftest import Surface
from tests.core.clocks import Mono
from tests.fakes.disk import REASONS, Disk
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import silence

LINE = msgspec.json.Decoder(AnyEvent)
E = TypeVar("E", bound=msgspec.Struct)


@pytest.fixture
def hand() -> Mono:
    """A clock that a test turns."""
    return Mono()


@pytest.fixture
async def feed(gateway: Gateway, hand: Mono) -> WatcherStream:
    """The stream of a watcher that has its first snapshot."""
    made = WatcherStream(ConfigEdits(gateway.engine), 10, {}, hand)
    await made.snapshot()
    return made


def said(lines: bytes) -> list[AnyEvent]:
    return [LINE.decode(line) for line in lines.splitlines()]


def running(number: int = 1) -> Running:
    return Running(id=CallId(f"req_{number}"), ts=Millis(0))


def record(number: int = 1) -> Record:
    return Record(id=CallId(f"req_{number}"), ts=Millis(0))


@asynccontextmanager
async def watching(owner: ControlClient, recent: int = 10) -> AsyncIterator[AsyncIterator[AnyEvent]]:
    """The events of one watcher, none of which may be long in coming."""
    async with aclosing(owner.events(recent)) as stream, asyncio.timeout(10):
        yield stream


async def until(stream: AsyncIterator[AnyEvent], kind: type[E]) -> E:
    async for event in stream:
        if isinstance(event, kind):
            return event
    raise AssertionError("the stream ended")


async def snapshot_of(stream: AsyncIterator[AnyEvent]) -> Snapshot:
    first = await anext(stream)
    assert isinstance(first, Snapshot)
    return first


def only(lines: bytes, kind: type[E]) -> E:
    """The event of the only line."""
    (event,) = said(lines)
    assert isinstance(event, kind)
    return event


async def test_a_snapshot_is_the_whole_present_state(feed: WatcherStream, gateway: Gateway, provider: Provider) -> None:
    snapshot = only(await feed.snapshot(), Snapshot)
    assert [token.name for token in snapshot.tokens] == ["laptop"]
    assert [channel.name for channel in snapshot.channels] == ["up"]
    assert [model.name for model in snapshot.models] == ["m"]
    assert [group.name for group in snapshot.groups] == ["default"]
    assert (snapshot.running, snapshot.recent) == ([], [])
    assert snapshot.status.instance == gateway.engine.instance


async def test_calls_are_reported_at_once_in_order(feed: WatcherStream) -> None:
    reported: list[Notice] = [
        CallStarted(call=running(1)),
        CallProgress(call=running(1)),
        record(1),
        Stopping(until_ms=Millis(9), running=[]),
    ]
    first, second, third, fourth = (
        said(await feed.lines(Batch(notices=reported[:2])))[:2]
        + said(await feed.lines(Batch(notices=reported[2:])))[:2]
    )
    assert (first, second) == (CallStarted(call=running(1)), CallProgress(call=running(1)))
    assert isinstance(third, CallSettled)
    assert third.call == call_view(record(1))
    assert fourth == Stopping(until_ms=Millis(9), running=[])


async def test_only_matching_calls_are_reported_under_their_present_names(gateway: Gateway, hand: Mono) -> None:
    edits, laptop = ConfigEdits(gateway.engine), next(iter(gateway.engine.catalog.registry.tokens.values()))
    own = [replace(record(number), token=laptop.id, token_name="laptop") for number in (1, 3)]
    for call in (own[0], record(2)):
        gateway.engine.store.books.record_refusal(call)
    feed = WatcherStream(edits, 10, {"token": ("laptop",), "words": "tok:laptop"}, hand)
    assert [call.id for call in only(await feed.snapshot(), Snapshot).recent] == ["req_1"]
    await edits.commit("", "", Change("tokens", laptop.id, replace(laptop, name="renamed")))
    by_name = WatcherStream(edits, 10, {"words": "tok:renamed"}, hand)
    for stream in (feed, by_name):
        await stream.snapshot()
        (event,) = said(await stream.lines(Batch(notices=[own[1], record(4)])))
        assert isinstance(event, CallSettled)
        assert event.call.id == "req_3"
    with pytest.raises(NotFound, match="no token 'nobody'"):
        WatcherStream(edits, 10, {"token": ("nobody",)}, hand)


async def test_a_store_that_fails_is_reported_with_the_reason(feed: WatcherStream, gateway: Gateway) -> None:
    gateway.engine.store.books.disk_errors.set(write="the disk is full")
    event, incident = said(await feed.lines(Batch(notices=[StatusChanged(status=gateway.engine.status())])))
    assert isinstance(incident, IncidentChanged)
    assert (incident.incident.channel, incident.incident.paused) == ("", True)
    gateway.engine.store.books.disk_errors.set(write="")
    assert isinstance(event, StatusChanged)
    assert (event.status.state, event.status.store_error) == ("store_failed", "the disk is full")


async def test_money_is_reported_at_most_four_times_a_second(feed: WatcherStream, gateway: Gateway, hand: Mono) -> None:
    told = 0
    for tick in range(100):
        hand.now = 1000.0 + tick / 100
        gateway.grant(1)
        told += sum(
            isinstance(e, Balance) for e in said(await feed.lines(Batch(notices=[CallStarted(call=running(tick))])))
        )
    assert 3 <= told <= 4


async def test_the_last_change_of_a_balance_is_sent(feed: WatcherStream, gateway: Gateway, hand: Mono) -> None:
    gateway.grant(5)
    first = said(await feed.lines(Batch(notices=[record()])))
    assert not any(isinstance(event, Balance) for event in first)
    hand.now += feed.next_due_s()
    only(await feed.lines(Batch()), Balance)
    assert hand.now - 1000.0 <= 0.25


async def test_money_that_did_not_move_is_not_told(feed: WatcherStream, hand: Mono) -> None:
    await feed.lines(Batch(notices=[record()]))
    hand.now += 0.25
    assert await feed.lines(Batch()) == b""


async def test_tables_are_reported_after_a_change_but_not_for_each(feed: WatcherStream, hand: Mono) -> None:
    told = 0
    for tick in range(1000):
        hand.now = 1000.0 + tick / 1000
        told += sum(isinstance(event, EntityChanged) for event in said(await feed.lines(Batch(changed=True))))
    assert 3 <= told <= 4


async def test_a_lone_change_is_reported_soon(feed: WatcherStream, hand: Mono) -> None:
    hand.now += 60
    only(await feed.lines(Batch(changed=True)), EntityChanged)
    assert feed.next_due_s() > 0.25


async def test_sums_in_the_tables_follow_the_calls_after_a_while(feed: WatcherStream, hand: Mono) -> None:
    await feed.lines(Batch(notices=[record()]))
    hand.now += 3.0
    assert [type(event) for event in said(await feed.lines(Batch()))] == [EntityChanged]
    assert await feed.lines(Batch()) == b""


async def test_tables_change_with_time_alone(feed: WatcherStream, owner: ControlClient, hand: Mono) -> None:
    """A token that had expired was shown as active by an idle console, and yesterday's budget as used up."""
    await owner.add_token({"name": "short", "expires": int(time.time() * 1000) + 1_000})
    states = []
    for passed in (1.0, 15.0, 15.0, 15.0, 15.0):
        hand.now += passed
        lines = said(await feed.lines(Batch(changed=passed == 1.0)))
        tables = [event.tokens for event in lines if isinstance(event, EntityChanged)]
        states += [token.state for tokens in tables for token in tokens if token.name == "short"]
        await asyncio.sleep(0.3)
    assert states == ["active", "expired"]


async def test_silence_is_broken_by_a_beat(feed: WatcherStream, hand: Mono) -> None:
    assert feed.next_due_s() == 15.0
    assert await feed.lines(Batch()) == b""
    hand.now += 15.0
    assert [type(event) for event in said(await feed.lines(Batch()))] == [Heartbeat]
    assert feed.next_due_s() == 15.0


async def test_a_watcher_that_fell_behind_gets_everything_again(feed: WatcherStream) -> None:
    await feed.lines(Batch(notices=[CallStarted(call=running())]))
    only(await feed.lines(Batch(behind=True)), Snapshot)


async def test_a_watcher_gets_everything_again_when_old_calls_are_deleted(
    feed: WatcherStream, owner: ControlClient, gateway: Gateway
) -> None:
    """The older records have other numbers then, so a console that asks for number 2 would get another call."""
    log, now = gateway.engine.store.calls.log, gateway.engine.now()
    for number, age in enumerate((20, 10, 0)):
        log.append([replace(record(number), ts=Millis(now - age * DAY_MS))], in_new_file=True)
    assert only(await feed.lines(Batch(behind=True)), Snapshot).older == 0
    await confirming(owner).set_settings({"keep_days": 5})
    log.sync()
    log.seal()
    snapshot = only(await feed.lines(Batch()), Snapshot)
    assert [call.id for call in snapshot.recent] == [record(2).id, record(1).id]
    assert [type(event) for event in said(await feed.lines(Batch()))] == []


async def test_a_whole_call_is_watched(owner: ControlClient, gateway: Gateway) -> None:
    async with watching(owner) as stream:
        await snapshot_of(stream)
        await gateway.client.chat()
        started, settled = await until(stream, CallStarted), await until(stream, CallSettled)
        assert started.call.id == settled.call.id == gateway.record.id
        balance = await until(stream, Balance)
    assert balance.account.spent_nanos == gateway.record.cost


async def test_a_refused_call_is_watched(owner: ControlClient, gateway: Gateway) -> None:
    async with watching(owner) as stream:
        await anext(stream)
        await gateway.client.chat("no-such-model")
        settled = await until(stream, CallSettled)
    assert (settled.call.status, settled.call.outcome) == (404, "refused")


async def test_a_change_is_watched_by_all(owner: ControlClient) -> None:
    async with watching(owner) as one, watching(owner) as two:
        await anext(one)
        await anext(two)
        await owner.add_token({"name": "phone"})
        for stream in (one, two):
            changed = await until(stream, EntityChanged)
            assert [token.name for token in changed.tokens] == ["laptop", "phone"]


async def test_the_last_names_of_what_was_removed_are_watched(owner: ControlClient, gateway: Gateway) -> None:
    gateway.token("ci")
    await owner.edit_token("ci", {"name": "build"})
    async with watching(owner) as stream:
        snapshot = await snapshot_of(stream)
        await owner.remove_token("build")
        changed = await until(stream, EntityChanged)
        assert (snapshot.removed_names, changed.removed_names) == ({}, {"tok_ci": "build"})


async def test_whether_calls_without_a_price_are_refused_is_watched(owner: ControlClient) -> None:
    async with watching(owner) as stream:
        snapshot = await snapshot_of(stream)
        await owner.set_settings({"refuse_unpriced": True})
        changed = await until(stream, EntityChanged)
        assert (snapshot.refuses_unpriced, changed.refuses_unpriced) == (False, True)


async def test_the_snapshot_holds_what_runs_and_ran(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    for _ in range(3):
        await gateway.client.chat()
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(4)
    async with watching(owner, recent=2) as stream:
        snapshot = await snapshot_of(stream)
    assert [call.id for call in snapshot.recent] == [record.id for record in gateway.records[:0:-1]]
    assert snapshot.older == 1
    (call,) = snapshot.running
    assert snapshot.account.held_nanos == call.held > 0
    await owner.cancel(call.id)
    await calling


async def test_calls_whose_records_the_disk_refuses_are_shown(
    owner: ControlClient, gateway: Gateway, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest come first, like all others."""
    await gateway.client.chat()
    disk = Disk(monkeypatch, home)
    disk.judge = lambda operation: REASONS["EIO"] if operation.file.startswith("usage/") else None
    answers = [await gateway.client.chat() for _ in range(2)]
    assert answers[0].error["code"] == "store_failed"
    ids = [answer.head.get("x-request-id") for answer in answers]
    async with watching(owner, recent=2) as stream:
        snapshot = await snapshot_of(stream)
    assert (await owner.call(ids[0])).code == "store_failed"
    assert [call.id for call in snapshot.recent] == ids[::-1]
    assert snapshot.older == 1
    disk.heal()
    await gateway.until(lambda: gateway.engine.store.books.healthy)


async def test_watchers_are_counted_and_forgotten(owner: ControlClient, gateway: Gateway) -> None:
    console = ControlClient(owner.endpoint, source=ChangeSource(via="console", session="one"))
    async with watching(console) as stream:
        await anext(stream)
        assert (await owner.status()).watchers == 1
    await gateway.until(lambda: not gateway.engine.bus.watchers)


async def test_only_consoles_are_open_consoles(owner: ControlClient, gateway: Gateway) -> None:
    follower = ControlClient(owner.endpoint, source=ChangeSource(via="command", command="serve"))
    async with watching(follower) as stream:
        await anext(stream)
        assert len(gateway.engine.bus.watchers) == 1
        assert (await owner.status()).watchers == 0


async def test_a_slow_reader_costs_the_calls_nothing_and_catches_up(owner: ControlClient, gateway: Gateway) -> None:
    bus = gateway.engine.bus
    async with exchange(owner.endpoint, owner.build_request("GET", "/events?recent=1")) as stream:
        lines = stream.lines()
        assert isinstance(LINE.decode(await anext(lines)), Snapshot)
        times = []
        for number in range(1000 * 20):
            began = time.thread_time()
            bus.publish_record(record(number))
            times.append(time.thread_time() - began)
            if number % 100 == 0:
                await asyncio.sleep(0)
        assert sorted(times)[-20] < 0.01  # the garbage of all tests is collected in some of the longest ones
        async with asyncio.timeout(10):
            kinds = [type(LINE.decode(await anext(lines)))]
            while kinds[-1] is not Snapshot:
                kinds.append(type(LINE.decode(await anext(lines))))
    assert len(kinds) < 1000 * 20


async def test_the_end_of_the_server_ends_the_stream_at_once(owner: ControlClient, surface: Surface) -> None:
    async with watching(owner) as stream:
        await anext(stream)
        began = asyncio.get_running_loop().time()
        closing = asyncio.create_task(surface.runner.cleanup())
        assert [event async for event in stream] == []
        await closing
        assert asyncio.get_running_loop().time() - began < 1.0


async def test_a_stuck_reader_does_not_hold_the_end(owner: ControlClient, surface: Surface, gateway: Gateway) -> None:
    async with exchange(owner.endpoint, owner.build_request("GET", "/events")):
        for number in range(50):
            for _ in range(100):
                gateway.engine.bus.publish_record(msgspec.structs.replace(record(number), error="x" * 2000))
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await surface.runner.cleanup()
        assert asyncio.get_running_loop().time() - began < 2.5


async def test_a_reader_that_is_stuck_is_abandoned(
    owner: ControlClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STUCK_S", 0.05)
    async with exchange(owner.endpoint, owner.build_request("GET", "/events")):
        for _ in range(400):
            if not gateway.engine.bus.watchers:
                return
            for number in range(50):
                gateway.engine.bus.publish_record(msgspec.structs.replace(record(number), error="x" * 5000))
            await asyncio.sleep(0.01)
    raise AssertionError("it is still waited for")


async def test_events_of_a_server_that_is_gone_raise(owner: ControlClient, surface: Surface) -> None:
    await surface.runner.cleanup()
    with pytest.raises(GatewayError):
        async with watching(owner) as stream:
            await anext(stream)


async def test_a_bug_while_telling_ends_the_stream_and_is_logged(
    owner: ControlClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("insides")

    async with watching(owner) as stream:
        await anext(stream)
        monkeypatch.setattr(module, "call_view", broken)
        gateway.engine.bus.publish_record(record())
        with contextlib.suppress(GatewayError):
            assert [event async for event in stream] == []
    assert "insides" in caplog.text


async def test_a_watcher_that_leaves_during_a_write_is_no_error(
    surface: Surface, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def write(*_: object) -> None:
        raise ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "write", write)
    with contextlib.suppress(GatewayError):
        async for _ in ControlClient(surface.unix).events():
            pass
    assert not caplog.records
