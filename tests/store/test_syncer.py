"""The syncer works in its own thread, once for all who wait."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gateway.store.recorder import Syncer

LONG = 60.0


class Work:
    """Counts its rounds; a round can be held up, and can fail."""

    def __init__(self) -> None:
        self.rounds = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.thread = ""

    def __call__(self) -> None:
        self.rounds += 1
        self.thread = threading.current_thread().name
        self.begun.set()
        assert self.go_on.wait(LONG)
        if self.error:
            raise self.error


def done() -> bool:
    return True


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def syncer(work: Work) -> Iterator[Syncer]:
    """One that works only for who waits."""
    made = Syncer(work, done, LONG)
    yield made
    made.close()


async def test_a_waiting_one_is_served_at_once_by_another_thread(work: Work, syncer: Syncer) -> None:
    await syncer.wait()
    assert (work.rounds, work.thread) == (1, "tollkeeper-sync")


async def test_all_who_wait_are_served_by_one_round(work: Work, syncer: Syncer) -> None:
    work.go_on.clear()
    first = asyncio.ensure_future(syncer.wait())
    await asyncio.to_thread(work.begun.wait, LONG)
    rest = [asyncio.ensure_future(syncer.wait()) for _ in range(20)]
    await asyncio.sleep(0)
    work.go_on.set()
    await asyncio.gather(first, *rest)
    assert work.rounds == 2


@pytest.mark.parametrize("error", [OSError(5, "refused"), ValueError("a bug")])
async def test_an_error_reaches_the_waiting_ones_and_the_next_round_may_succeed(
    work: Work, syncer: Syncer, error: Exception
) -> None:
    work.error = error
    with pytest.raises(type(error), match=str(error.args[-1])):
        await syncer.wait()
    work.error = None
    await syncer.wait()


async def test_one_that_no_longer_waits_does_no_harm(work: Work, syncer: Syncer) -> None:
    work.go_on.clear()
    waiting = asyncio.ensure_future(syncer.wait())
    await asyncio.to_thread(work.begun.wait, LONG)
    waiting.cancel()
    work.go_on.set()
    await syncer.wait()
    assert waiting.cancelled()


def test_what_is_written_while_it_works_is_worked_on_in_another_round() -> None:
    begun, again = threading.Event(), threading.Event()

    def work() -> None:
        if begun.is_set():
            again.set()
        else:
            begun.set()
            worker.wake()

    worker = Syncer(work, done, 0.001)
    worker.wake()
    assert again.wait(LONG)
    worker.close()


def test_nothing_written_is_not_work_and_the_end_works_once_more() -> None:
    work = Work()
    syncer = Syncer(work, done, 0.001)
    assert not work.begun.wait(0.05)
    syncer.close()
    assert work.rounds == 1


@pytest.mark.parametrize("failure", ["work", "tidy", "unfinished"])
def test_an_unfinished_round_is_repeated_without_being_asked(monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    monkeypatch.setattr("gateway.store.recorder.RETRY_S", 0.001)
    rounds: list[int] = []
    enough = threading.Event()

    def work() -> None:
        rounds.append(1)
        if failure == "work" and len(rounds) < 3:
            raise OSError(5, "refused")

    def tidy() -> bool:
        if failure == "tidy" and len(rounds) < 3:
            raise OSError(5, "refused")
        if len(rounds) == 3:
            enough.set()
        return len(rounds) >= 3

    syncer = Syncer(work, tidy, 0.001)
    syncer.wake()
    assert enough.wait(LONG)
    syncer.close()


async def test_after_failed_work_nothing_is_tidied() -> None:
    tidied: list[bool] = []

    def tidy() -> bool:
        tidied.append(True)
        return True

    work = Work()
    work.error = OSError(5, "refused")
    syncer = Syncer(work, tidy, LONG)
    with pytest.raises(OSError, match="refused"):
        await syncer.wait()
    syncer.close()
    assert not tidied


async def test_a_waiting_one_does_not_wait_for_the_tidying() -> None:
    go_on = threading.Event()
    syncer = Syncer(Work(), lambda: go_on.wait(LONG), LONG)
    await syncer.wait()
    go_on.set()
    syncer.close()


def test_it_ends_whatever_it_is_doing() -> None:
    for _ in range(200):
        syncer = Syncer(Work(), done, 0.0001)
        syncer.wake()
        syncer.close()
