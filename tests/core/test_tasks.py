"""Background tasks are kept, named, and never silent."""

import asyncio
import gc
import logging

import pytest

from gateway.core.tasks import Tasks


async def test_a_task_is_kept_until_it_ends() -> None:
    tasks, done = Tasks(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    tasks.spawn(work(), "work")
    gc.collect()
    await done.wait()


async def test_what_a_task_raised_is_logged_once_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("broken")

    with caplog.at_level(logging.ERROR, "tollkeeper"):
        await asyncio.wait([Tasks().spawn(work(), "sweeper")])
        await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["task sweeper ended in ValueError('broken')"]


async def test_closing_ends_what_still_runs(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()
    running = [tasks.spawn(asyncio.sleep(3600), f"sleeper {i}") for i in range(3)]
    await tasks.close()
    assert [task.cancelled() for task in running] == [True] * 3
    assert caplog.records == []


async def test_closing_twice_is_closing_once() -> None:
    tasks = Tasks()
    ended = tasks.spawn(asyncio.sleep(0), "short")
    await ended
    await tasks.close()
    await tasks.close()
    assert ended.result() is None
