"""Places are taken and handed over in order, and none is ever lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.domain.errors import Unavailable
from gateway.upstream.http import pool as places_module
from gateway.upstream.http.connection import UpstreamConnection
from gateway.upstream.http.pool import ConnectionSlots, TotalSlots
from tests.upstream.http.makers import hang, listening, until


class Fixed:
    """Places, and connections for them."""

    def __init__(self, limit: int, port: int, total: TotalSlots | None = None) -> None:
        self.places = ConnectionSlots(limit, total)
        self._port = port

    async def connect(self) -> UpstreamConnection:
        """A connection for a place that was taken."""
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(
            lambda: UpstreamConnection(self.places.rest, self.places.gone), "127.0.0.1", self._port
        )
        self.places.settle(wire)
        return wire


@asynccontextmanager
async def fixed(limit: int) -> AsyncIterator[Fixed]:
    async with listening(hang) as port:
        made = Fixed(limit, port)
        yield made
        await made.places.close()


@pytest.fixture
async def one() -> AsyncIterator[Fixed]:
    async with fixed(1) as made:
        yield made


async def turns() -> None:
    """Whatever can happen now has happened: nothing here waits for anything outside."""
    for _ in range(5):
        await asyncio.sleep(0)


def _soon(places: ConnectionSlots) -> "asyncio.Task[UpstreamConnection | None]":
    return asyncio.get_running_loop().create_task(places.take())


async def test_there_are_so_many_places_and_no_more(one: Fixed) -> None:
    assert await one.places.take() is None
    waiting = _soon(one.places)
    await turns()
    assert not waiting.done()
    one.places.give_back()
    assert await waiting is None


async def test_a_connection_that_comes_free_goes_to_the_waiting_one_and_to_no_other(one: Fixed) -> None:
    await one.places.take()
    wire = await one.connect()
    waiting = _soon(one.places)
    await asyncio.sleep(0)
    one.places.rest(wire)
    assert one.places.take_idle() is None
    assert await waiting is wire


async def test_first_come_first_served(one: Fixed) -> None:
    await one.places.take()
    order: list[int] = []

    async def want(number: int) -> None:
        await one.places.take()
        order.append(number)
        one.places.give_back()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(want(number))
        await asyncio.sleep(0)
        one.places.give_back()
    assert order == [0, 1, 2, 3, 4]


async def test_who_leaves_the_queue_is_passed_over(one: Fixed) -> None:
    await one.places.take()
    first, second = _soon(one.places), _soon(one.places)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    one.places.give_back()
    assert await second is None


@pytest.mark.parametrize("what", ["place", "connection"])
async def test_what_is_given_to_one_who_leaves_in_that_moment_is_handed_on(one: Fixed, what: str) -> None:
    await one.places.take()
    wire = await one.connect()
    first, second = _soon(one.places), _soon(one.places)
    await asyncio.sleep(0)
    one.places.rest(wire) if what == "connection" else one.places.gone(wire)
    first.cancel()
    assert await second is (wire if what == "connection" else None)
    assert first.cancelled()


async def test_a_lost_connection_gives_its_place_back_once(one: Fixed) -> None:
    await one.places.take()
    wire = await one.connect()
    one.places.rest(wire)
    wire.abort()
    assert await one.places.take() is None
    assert one.places.take_idle() is None
    one.places.gone(wire)
    waiting = _soon(one.places)
    await turns()
    assert not waiting.done()
    waiting.cancel()


async def test_a_connection_lost_before_it_was_seen_keeps_no_place(one: Fixed) -> None:
    await one.places.take()
    one.places.settle(UpstreamConnection(one.places.rest, one.places.gone))
    assert await one.places.take() is None


async def test_the_connection_that_became_idle_last_is_used_first() -> None:
    async with fixed(2) as two:
        wires = []
        for _ in range(2):
            await two.places.take()
            wires.append(await two.connect())
        for wire in wires:
            two.places.rest(wire)
        assert [two.places.take_idle(), two.places.take_idle(), two.places.take_idle()] == [wires[1], wires[0], None]


async def test_what_was_idle_too_long_is_not_used(one: Fixed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "KEEP_ALIVE_S", 10.0)
    await one.places.take()
    wire = await one.connect()
    one.places.rest(wire)
    wire.idle_since -= 11
    assert one.places.take_idle() is None
    await until(lambda: not wire.alive)


async def test_what_is_idle_is_swept_away(one: Fixed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "KEEP_ALIVE_S", 0.02)
    await one.places.take()
    wire = await one.connect()
    one.places.rest(wire)
    await until(lambda: not wire.alive)
    assert await one.places.take() is None


async def test_closing_ends_connections_and_those_who_wait(one: Fixed) -> None:
    await one.places.take()
    wire = await one.connect()
    waiting = _soon(one.places)
    await asyncio.sleep(0)
    await one.places.close()
    assert not wire.alive
    with pytest.raises(OSError, match="closed"):
        await waiting
    with pytest.raises(OSError, match="closed"):
        await one.places.take()


async def test_a_connection_made_after_the_end_is_closed(one: Fixed) -> None:
    await one.places.take()
    await one.places.close()
    wire = await one.connect()
    assert not wire.alive


class TestTogether:
    """Two pools that share one place less than they would have alone."""

    @pytest.fixture
    async def pools(self) -> AsyncIterator[tuple[Fixed, Fixed]]:
        async with listening(hang) as port:
            total = TotalSlots(lambda: 2)
            first, second = Fixed(2, port, total), Fixed(2, port, total)
            yield first, second
            await first.places.close()
            await second.places.close()

    async def test_what_is_idle_elsewhere_is_closed_for_one_that_needs_a_place(
        self, pools: tuple[Fixed, Fixed]
    ) -> None:
        first, second = pools
        wires = []
        for _ in range(2):
            await first.places.take()
            wires.append(await first.connect())
        for wire in wires:
            first.places.rest(wire)
        assert await second.places.take() is None
        assert [wire.alive for wire in wires] == [False, True]

    async def test_without_a_place_anywhere_it_is_nobodys_fault(
        self, pools: tuple[Fixed, Fixed], caplog: pytest.LogCaptureFixture
    ) -> None:
        first, second = pools
        await first.places.take()
        await second.places.take()
        for _ in range(3):
            with pytest.raises(Unavailable, match="all 2 upstream connections"):
                await second.places.take()
        assert len(caplog.records) == 1
        first.places.give_back()
        assert await second.places.take() is None

    async def test_who_leaves_while_one_is_closed_takes_no_place(self, pools: tuple[Fixed, Fixed]) -> None:
        first, second = pools
        wires = []
        for _ in range(2):
            await first.places.take()
            wires.append(await first.connect())
        for wire in wires:
            first.places.rest(wire)
        leaving = _soon(second.places)
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        await until(lambda: not wires[0].alive)
        assert await second.places.take() is None
        assert wires[1].alive
