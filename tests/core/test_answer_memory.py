"""All answers together are bounded; who finds no memory waits in order and not for ever, and not all for each other.

A call whose answer finds none is reported and charged truthfully: its upstream was at work.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.core.answer_memory import UNCOUNTED, AnswerMemory, AnswerShare
from gateway.domain.errors import AnswerMemoryFull, UpstreamError
from gateway.domain.settings import Settings
from gateway.domain.units import ChannelId
from gateway.domain.usage import UsageSource
from tests.core.ends import DONE, FakeReply, counts, ends, error_body, says, whole
from tests.core.rig import Rig, until

MIB = 1 << 20
PIECE = 128 << 10


class Answers:
    """The memory of a gateway whose calls are counted as a test says."""

    def __init__(self, mib: int = 256, wait_s: float = 30.0) -> None:
        self.settings = Settings(answers_mib=mib)
        self.calls: list[object] = []
        self.memory = AnswerMemory(lambda: self.settings, self.calls, wait_s)
        self.most = 0

    async def gather(self, share: AnswerShare, size: int) -> None:
        """So much of an answer, piece by piece."""
        for start in range(0, size, PIECE):
            more = min(PIECE, size - start)
            if not share.take(more):
                await share.wait(more)
            self.most = max(self.most, self.memory.used)
            await asyncio.sleep(0)

    async def answer(self, size: int, turns: int = 0) -> None:
        """One that is gathered, and delivered within so many turns of the loop."""
        with AnswerShare(self.memory) as share:
            await self.gather(share, size)
            share.set_size(size)
            for _ in range(turns):
                await asyncio.sleep(0)

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[AnswerShare]:
        """One that is gathered and waits for its client."""
        with AnswerShare(self.memory) as share:
            await self.gather(share, size)
            share.set_size(size)
            yield share


async def waiting(memory: AnswerMemory, count: int = 1) -> None:
    """Until so many wait."""
    async with asyncio.timeout(10):
        while len(memory._waiting) != count:  # noqa: SLF001, ASYNC110 - nobody else knows
            await asyncio.sleep(0)


async def test_an_ordinary_answer_is_not_counted_and_never_waits() -> None:
    answers = Answers(mib=1)
    async with answers.held(MIB + UNCOUNTED):
        with AnswerShare(answers.memory) as share:
            assert share.take(UNCOUNTED)
            share.set_size(UNCOUNTED)
            assert answers.memory.used == MIB
            assert not share.take(1)


async def test_every_running_call_counts_for_its_pocket() -> None:
    answers = Answers(mib=1)
    answers.calls += range(8)
    with AnswerShare(answers.memory) as share:
        assert share.take(MIB - 7 * UNCOUNTED)
        assert not share.take(1)


async def test_used_memory_is_what_is_held() -> None:
    answers = Answers()
    with AnswerShare(answers.memory) as first, AnswerShare(answers.memory) as second:
        assert first.take(MIB)
        assert second.take(3 * MIB)
        assert answers.memory.used == 4 * MIB - 2 * UNCOUNTED
        second.set_size(2 * MIB)
        assert answers.memory.used == 3 * MIB - 2 * UNCOUNTED
        second.set_size(5 * MIB)  # what is there is there, even where no more would be given
        assert answers.memory.used == 6 * MIB - 2 * UNCOUNTED
        second.set_size(10)
        assert answers.memory.used == MIB - UNCOUNTED
    assert answers.memory.used == 0


@pytest.mark.parametrize(
    ("mib", "size"), [(256, (64 << 20)), (100, (64 << 20)), (64, (64 << 20)), (20, 10 * MIB), (2, 2 * MIB)]
)
async def test_however_many_come_at_once_all_are_gathered_within_the_limit(mib: int, size: int) -> None:
    answers = Answers(mib)
    async with asyncio.timeout(60):
        await asyncio.gather(*(answers.answer(size, turns=number) for number in range(24)))
    assert answers.most <= mib * MIB
    assert answers.memory.used == 0


@pytest.mark.parametrize("seed", range(20))
async def test_no_order_of_sizes_and_ends_lets_them_wait_for_each_other(seed: int) -> None:
    rng = random.Random(seed)
    answers = Answers(mib=rng.choice([8, 70, 128, 256]))
    largest = min((64 << 20), answers.settings.answers_mib * MIB)
    sizes = [rng.choice([rng.randrange(largest), rng.randrange(MIB), largest]) for _ in range(30)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(answers.answer(size, turns=rng.randrange(200)) for size in sizes))
    assert answers.most <= answers.settings.answers_mib * MIB
    assert answers.memory.used == 0


async def test_waiting_calls_are_served_in_order() -> None:
    answers = Answers(mib=4)
    done: list[int] = []

    async def one(number: int) -> None:
        await answers.answer(2 * MIB)
        done.append(number)

    async with answers.held(3 * MIB), asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(one(number))
            await waiting(answers.memory, number + 1)
        assert done == []
        answers.settings = Settings(answers_mib=8)
        answers.memory.serve_waiting()
    assert done == [0, 1, 2, 3, 4]


async def test_waiting_for_memory_ends() -> None:
    answers = Answers(mib=2, wait_s=0.05)
    async with answers.held(2 * MIB):
        with pytest.raises(
            AnswerMemoryFull, match=r"larger than 2 MiB, and none ended in 0.05 s.*--answers-mib"
        ) as caught:
            await answers.answer(MIB)
        assert (caught.value.code, caught.value.retry_after_s) == ("answer_memory_full", None)
        assert answers.memory.used == 2 * MIB - UNCOUNTED


async def test_a_failed_answer_frees_its_memory_for_others() -> None:
    """Two that are gathered, and one that holds what both would need."""
    answers = Answers(mib=4, wait_s=0.3)
    async with answers.held(2 * MIB):
        first = asyncio.create_task(answers.answer(3 * MIB))
        await waiting(answers.memory)
        with pytest.raises(AnswerMemoryFull):
            await first
        await answers.answer(2 * MIB)


async def test_an_answer_larger_than_all_may_be_fails_at_once() -> None:
    answers = Answers(mib=2)
    with pytest.raises(AnswerMemoryFull, match=r"alone exceeds the limit .*\(2 MiB\); raise the limit"):
        await answers.answer(3 * MIB)
    assert answers.memory.used == 0


async def test_without_a_limit_nobody_waits() -> None:
    answers = Answers(mib=0)
    await asyncio.gather(*(answers.answer(64 << 20) for _ in range(24)))
    assert answers.most > 1024 * MIB


async def test_a_waiter_that_leaves_holds_no_memory() -> None:
    answers = Answers(mib=3)
    async with answers.held(2 * MIB):
        leaving = [asyncio.create_task(answers.answer(2 * MIB)) for _ in range(3)]
        await waiting(answers.memory, 3)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        await waiting(answers.memory, 0)
        assert answers.memory.used == 2 * MIB - UNCOUNTED
        await answers.answer(MIB)


async def test_memory_that_becomes_free_as_a_waiter_leaves_is_for_the_next_one() -> None:
    answers = Answers(mib=3)
    async with answers.held(2 * MIB) as share:
        leaving, staying = [asyncio.create_task(answers.answer(2 * MIB)) for _ in range(2)]
        await waiting(answers.memory, 2)
        leaving.cancel()
        share.set_size(0)
        await asyncio.wait([leaving, staying])
        assert (leaving.cancelled(), staying.exception()) == (True, None)
    assert answers.memory.used == 0


async def test_a_waiter_that_leaves_as_it_is_served_returns_its_memory() -> None:
    answers = Answers(mib=3)
    async with answers.held(2 * MIB) as share:
        leaving = asyncio.create_task(answers.answer(2 * MIB))
        await waiting(answers.memory)
        share.set_size(0)
        leaving.cancel()
        await asyncio.wait([leaving])
    assert answers.memory.used == 0
    await answers.answer(3 * MIB)


@pytest.fixture
def small(rig: Rig) -> Rig:
    """A gateway whose answers have a mebibyte, with two channels."""
    rig.put("settings", "", Settings(answers_mib=1))
    rig.channel("a", priority=1)
    rig.channel("b")
    return rig


async def test_an_abandoned_answer_is_charged_its_prompt_and_tried_nowhere_else(small: Rig, *, stream: bool) -> None:
    """A whole answer to a plain call, or instead of a stream."""
    small.upstreams.on(
        "a", lambda: FakeReply(*[whole("x" * 4 * MIB)[start : start + MIB] for start in range(0, 5 * MIB, MIB)])
    )
    with pytest.raises(AnswerMemoryFull):
        await small.call(stream=stream)
    record = small.record
    assert (record.status, record.code, record.source) == (503, "answer_memory_full", UsageSource.ESTIMATED)
    assert (record.input > 0, record.output, record.cost > 0) == (True, 0, True)
    assert [(attempt.channel, attempt.billed) for attempt in record.attempts] == [("a", True)]
    assert small.health.state(small.catalog.registry.channels[ChannelId("ch_a")]).name == "ok"
    assert small.answers.used == 0


async def test_a_stream_that_was_abandoned_in_the_middle_is_charged_what_was_received(small: Rig) -> None:
    large = says("y" * 3 * MIB)
    pieces = [large[start : start + MIB // 2] for start in range(0, len(large), MIB // 2)]
    small.upstreams.on("a", lambda: FakeReply(says("Hello there."), *pieces, ends(), counts(9, 12), DONE))
    await small.call(stream=True)
    assert small.client.error is not None
    assert small.client.error.code == "answer_memory_full"
    assert DONE not in small.client.body
    record = small.record
    assert (record.status, record.source) == (503, UsageSource.ESTIMATED)
    assert (record.input > 0, 0 < record.output < 10) == (True, True)
    assert small.answers.used == 0


async def test_an_answer_is_counted_until_its_client_has_it(small: Rig) -> None:
    small.upstreams.on("a", lambda: FakeReply(whole("x" * (MIB // 2))))
    small.client.reading.clear()
    task = small.start()
    await until(lambda: small.client.whole.body)
    assert MIB // 2 - UNCOUNTED < small.answers.used < MIB // 2
    assert len(small.live.calls) == 1
    small.client.reading.set()
    await task
    assert small.answers.used == 0
    assert small.record.status == 200


async def test_a_large_event_is_counted_until_its_client_has_it(small: Rig) -> None:
    small.upstreams.on("a", lambda: FakeReply(says("Hello"), says("x" * (MIB // 2)), ends(), DONE))
    task = small.start(stream=True)
    await until(lambda: small.client.body)
    small.client.reading.clear()
    await until(lambda: small.answers.used)
    assert MIB // 2 - UNCOUNTED < small.answers.used < MIB // 2
    small.client.reading.set()
    await task
    assert (small.answers.used, small.record.status) == (0, 200)


async def test_a_client_that_leaves_during_a_large_answer_gives_its_memory_back(small: Rig) -> None:
    small.upstreams.on("a", lambda: FakeReply(whole("x" * (MIB // 2))))
    small.client.reading.clear()
    task = small.start()
    await until(lambda: small.client.whole.body)
    small.client.leave()
    await task
    assert (small.answers.used, small.record.status) == (0, 200)


async def test_the_body_of_an_error_is_counted_too(small: Rig) -> None:
    small.upstreams.on("a", lambda: FakeReply(error_body("x" * (MIB // 2)), status=400))
    with AnswerShare(small.answers) as share:
        assert share.take(MIB)
        task = small.start()
        await waiting(small.answers)
        share.set_size(0)
        with pytest.raises(UpstreamError):
            await task
    assert small.answers.used == 0
