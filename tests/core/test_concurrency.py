"""Places are never given twice, never lost, and go to who came first."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from gateway.core.concurrency import ConcurrencyLimiter
from gateway.core.rate_scopes import ConcurrencyGate, GateKey
from gateway.domain.errors import RateLimited, Unavailable


def gate(name: str = "a", limit: int = 1, queue: int = 64, wait_s: float = 60) -> ConcurrencyGate:
    return ConcurrencyGate(
        key=("token", name), label=f"token '{name}'", name="calls in flight", limit=limit, queue=queue, wait_s=wait_s
    )


@pytest.fixture
async def lines() -> AsyncIterator[ConcurrencyLimiter]:
    """Lines in which nothing is left at the end."""
    made = ConcurrencyLimiter()
    yield made
    assert made._lines == {}  # noqa: SLF001 - an empty line would be a leak


@pytest.fixture
def one(lines: ConcurrencyLimiter) -> Iterator[ConcurrencyGate]:
    """A gate whose only place is taken until the end."""
    made = gate()
    lines.enter([made.key])
    yield made
    lines.leave([made.key])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def waiters(lines: ConcurrencyLimiter, *gates: Iterable[ConcurrencyGate]) -> list["asyncio.Task[GateKey]"]:
    return [asyncio.get_running_loop().create_task(lines.wait(list(some)), name="waits") for some in gates]


@pytest.mark.parametrize("limit", [1, 4])
async def test_there_is_room_up_to_the_limit(lines: ConcurrencyLimiter, limit: int) -> None:
    one = gate(limit=limit)
    for count in range(limit):
        assert lines.has_room(one)
        assert lines.full([one]) is None
        assert lines.slots_taken(one.key) == count
        lines.enter([one.key])
    assert not lines.has_room(one)
    assert lines.full([one]) == one
    for _ in range(limit):
        lines.leave([one.key])
    assert lines.has_room(one)


async def test_a_gate_where_the_call_has_a_slot_is_not_full_for_it(lines: ConcurrencyLimiter) -> None:
    one, other = gate("a"), gate("b")
    lines.enter([one.key])
    assert lines.full([one, other], held=[one.key]) is None
    lines.leave([one.key])


async def test_places_go_to_who_came_first(lines: ConcurrencyLimiter, one: ConcurrencyGate) -> None:
    tasks = waiters(lines, [one], [one], [one])
    await turns()
    assert lines.waiting(one.key) == 3
    for count in range(3):
        assert [task.done() for task in tasks] == [number < count for number in range(3)]
        lines.leave([one.key])
        await turns()
        assert lines.slots_taken(one.key) == 1


async def test_a_call_that_leaves_the_queue_takes_no_slot(lines: ConcurrencyLimiter, one: ConcurrencyGate) -> None:
    first, second = waiters(lines, [one], [one])
    await turns()
    first.cancel()
    await turns()
    assert lines.waiting(one.key) == 1
    lines.leave([one.key])
    assert await second == one.key


async def test_a_call_that_is_cancelled_as_it_gets_a_slot_passes_it_on(
    lines: ConcurrencyLimiter, one: ConcurrencyGate
) -> None:
    first, second = waiters(lines, [one], [one])
    await turns()
    lines.leave([one.key])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == one.key


async def test_one_may_wait_at_several_and_takes_one_place(lines: ConcurrencyLimiter) -> None:
    a, b = gate("a"), gate("b")
    lines.enter([a.key, b.key])
    both, only_b = waiters(lines, [a, b], [b])
    await turns()
    lines.leave([a.key])
    assert await both == a.key
    assert lines.waiting(b.key) == 1
    lines.leave([b.key])
    assert await only_b == b.key
    lines.leave([a.key, b.key])


@pytest.mark.hasty(100)
@pytest.mark.parametrize("wait_s", [1, 3])
async def test_the_wait_is_bounded(lines: ConcurrencyLimiter, wait_s: int) -> None:
    one = gate(wait_s=wait_s)
    lines.enter([one.key])
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(RateLimited) as caught:
        await lines.wait([one])
    assert loop.time() - began >= wait_s
    assert f"no slot came free in {wait_s} s; end some, or raise the limit: " in caught.value.message
    assert caught.value.message.endswith("'tollkeeper token edit NAME --concurrent COUNT'")
    assert caught.value.details == {"limit": 1, "limit_name": "calls in flight", "limit_of": "token", "used": 1}
    assert lines.waiting(one.key) == 0
    lines.leave([one.key])


async def test_too_many_streams_have_their_own_code(lines: ConcurrencyLimiter) -> None:
    one = ConcurrencyGate(key=("token streams", "a"), label="token 'a'", name="streams", limit=1, queue=0, wait_s=0)
    lines.enter([one.key])
    with pytest.raises(
        RateLimited, match=r"limit of streams at a time \(1\); .* edit NAME --streams COUNT'$"
    ) as caught:
        await lines.wait([one])
    assert (caught.value.code, caught.value.retry_after_s) == ("too_many_streams", 1.0)
    lines.leave([one.key])


async def test_a_limit_that_is_raised_lets_those_in_who_wait(lines: ConcurrencyLimiter) -> None:
    one, other = gate("a"), gate("b")
    lines.enter([one.key, other.key])
    tasks = waiters(lines, [one], [one], [one], [other])
    await turns()
    lines.apply_limits(lambda: {one.key: gate("a", limit=3), other.key: other})
    await turns()
    assert [task.done() for task in tasks] == [True, True, False, False]
    lines.apply_limits(lambda: {other.key: other})
    await turns()
    assert [task.done() for task in tasks] == [True, True, True, False]
    lines.leave([one.key] * 4)
    lines.leave([other.key])
    await tasks[3]
    lines.leave([other.key])


async def test_a_limit_that_is_lowered_lets_nobody_in_before_its_time(lines: ConcurrencyLimiter) -> None:
    one = gate("a", limit=2)
    lines.enter([one.key, one.key])
    (task,) = waiters(lines, [one])
    await turns()
    lines.apply_limits(lambda: {one.key: gate("a", limit=1)})
    lines.leave([one.key])
    await turns()
    assert not task.done()
    assert not lines.has_room(one)  # not for one that still uses the old limit
    assert lines.full([one]) == one
    lines.leave([one.key])
    await task
    lines.leave([one.key])


async def test_a_limit_that_was_raised_while_calls_waited_is_lowered_for_later_ones(lines: ConcurrencyLimiter) -> None:
    """Two calls run since it was three, and now it is one again."""
    tight, wide = gate("a", limit=1), gate("a", limit=3)
    lines.enter([tight.key])
    (first,) = waiters(lines, [tight])
    await turns()
    lines.apply_limits(lambda: {wide.key: wide})
    await first
    lines.apply_limits(lambda: {tight.key: tight})
    (second,) = waiters(lines, [tight])
    await turns()
    assert not second.done()
    lines.leave([tight.key, tight.key])
    await second
    lines.leave([tight.key])


async def test_a_call_that_leaves_the_head_of_the_queue_lets_the_next_ones_in(lines: ConcurrencyLimiter) -> None:
    """The second came when the limit had been raised."""
    tight, wide = gate("a", limit=1), gate("a", limit=2)
    lines.enter([tight.key])
    first, second = waiters(lines, [tight], [wide])
    await turns()
    assert not second.done()
    first.cancel()
    assert await second == wide.key
    lines.leave([wide.key, wide.key])


async def test_closing_ends_all_waits(lines: ConcurrencyLimiter, one: ConcurrencyGate) -> None:
    tasks = waiters(lines, [one], [one])
    await turns()
    lines.close(Unavailable("stopping"))
    for task in tasks:
        with pytest.raises(Unavailable):
            await task
    with pytest.raises(Unavailable):
        await lines.wait([one])


@pytest.mark.parametrize("seed", range(20))
async def test_never_too_many_never_one_forgotten(lines: ConcurrencyLimiter, seed: int) -> None:
    """50 at once before 4 slots, some cancelled while they wait or run; all others get through in order."""
    chance = random.Random(seed)
    one = gate(limit=4, queue=100)
    order: list[int] = []
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        if lines.full([one]) is None:
            lines.enter([one.key])
        else:
            await lines.wait([one])
        try:
            order.append(number)
            most = max(most, lines.slots_taken(one.key))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
        finally:
            lines.leave([one.key])

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(call(number), name=f"call {number}") for number in range(50)]
    for _ in range(20):
        await asyncio.sleep(0)
        chance.choice(tasks).cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 4
    assert order == sorted(order)
    assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
    assert set(order) >= {number for number, end in enumerate(ends) if end is None}
