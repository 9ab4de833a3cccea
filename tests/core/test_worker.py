"""Large work is done in a thread of its own, one after another."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from gateway.core.preparation import Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


async def test_it_is_done_in_another_thread_while_the_loop_goes_on(worker: Worker) -> None:
    done = threading.Event()
    work = asyncio.ensure_future(worker.run(lambda: (done.wait(10), threading.current_thread())))
    await asyncio.sleep(0.01)
    assert not work.done()
    done.set()
    assert (await work)[1] is not threading.current_thread()


async def test_one_thing_after_another(worker: Worker) -> None:
    now, most = [0], [0]

    def work() -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        time.sleep(0.002)
        now[0] -= 1

    await asyncio.gather(*(worker.run(work) for _ in range(10)))
    assert most == [1]


async def test_an_error_reaches_who_waits(worker: Worker) -> None:
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await worker.run(work)


async def test_what_nobody_waits_for_is_not_begun(worker: Worker) -> None:
    go_on, begun = threading.Event(), []
    first = asyncio.ensure_future(worker.run(lambda: go_on.wait(10)))
    second = asyncio.ensure_future(worker.run(lambda: begun.append(2)))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.wait([second])
    go_on.set()
    await first
    await worker.run(lambda: begun.append(3))
    assert begun == [3]
