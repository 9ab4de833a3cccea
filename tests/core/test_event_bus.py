import asyncio
from typing import Any

import pytest

from gateway.core.event_bus import Batch, EventBus
from gateway.domain.call import Record, Running
from gateway.domain.events import CallProgress, CallStarted
from gateway.domain.units import CallId, Millis


@pytest.fixture
def bus() -> EventBus:
    return EventBus()


def running(number: int = 1, **more: Any) -> Running:
    return Running(id=CallId(f"req_{number}"), ts=Millis(0), **more)


def record(number: int = 1) -> Record:
    return Record(id=CallId(f"req_{number}"), ts=Millis(0))


async def test_later_progress_supersedes_earlier(bus: EventBus) -> None:
    with bus.watch() as watcher:
        for tokens in range(50):
            bus.publish_progress(running(output=tokens))
        batch = await watcher.next_batch(0)
    assert batch.notices == [CallProgress(call=running(output=49))]


async def test_a_settled_call_has_no_progress_any_more(bus: EventBus) -> None:
    with bus.watch() as watcher:
        bus.publish_progress(running())
        bus.publish_record(record())
        batch = await watcher.next_batch(0)
    assert batch.notices == [record()]


async def test_a_watcher_that_falls_behind_learns_it_once_and_then_continues(bus: EventBus) -> None:
    with bus.watch() as watcher:
        for number in range(1000 * 3):
            bus.publish_record(record(number))
        assert await watcher.next_batch(0) == Batch(behind=True)
        bus.publish_record(record(7))
        assert await watcher.next_batch(0) == Batch(notices=[record(7)])


async def test_nothing_is_lost_below_the_limit(bus: EventBus) -> None:
    with bus.watch() as watcher:
        for number in range(1000):
            bus.publish_record(record(number))
        batch = await watcher.next_batch(0)
    assert [n.id for n in batch.notices if isinstance(n, Record)] == [f"req_{n}" for n in range(1000)]


async def test_changes_are_reported_once_however_many_there_were(bus: EventBus) -> None:
    with bus.watch() as watcher:
        bus.publish_change()
        bus.publish_change()
        assert await watcher.next_batch(0) == Batch(changed=True)
        assert await watcher.next_batch(0) == Batch()


async def test_a_waiting_watcher_wakes_up(bus: EventBus) -> None:
    with bus.watch() as watcher:
        waiting = asyncio.create_task(watcher.next_batch(60))
        await asyncio.sleep(0)
        bus.publish(CallStarted(call=running()))
        assert (await waiting).notices == [CallStarted(call=running())]


async def test_closing_ends_a_waiting_watcher(bus: EventBus) -> None:
    with bus.watch() as watcher:
        waiting = asyncio.create_task(watcher.next_batch(60))
        await asyncio.sleep(0)
        bus.close()
        assert await waiting == Batch()
        assert watcher.ended.is_set()


async def test_one_who_is_busy_can_be_called_at_the_end(bus: EventBus) -> None:
    called: list[bool] = []
    with bus.watch() as watcher:
        watcher.on_end = lambda: called.append(True)
        bus.close()
    assert called == [True]


async def test_one_who_comes_after_the_end_sees_the_end(bus: EventBus) -> None:
    bus.close()
    with bus.watch() as watcher:
        assert watcher.ended.is_set()


async def test_what_was_reported_before_the_end_is_still_there(bus: EventBus) -> None:
    with bus.watch() as watcher:
        bus.publish_record(record())
        bus.close()
        assert await watcher.next_batch(0) == Batch(notices=[record()])


async def test_watchers_do_not_disturb_each_other(bus: EventBus) -> None:
    with bus.watch() as fast, bus.watch() as slow:
        for number in range(1000 + 1):
            bus.publish_record(record(number))
            assert len((await fast.next_batch(0)).notices) == 1
        assert await slow.next_batch(0) == Batch(behind=True)


def test_watching_ends_with_its_block(bus: EventBus) -> None:
    with bus.watch(), bus.watch():
        assert len(bus.watchers) == 2
    assert not bus.watchers
