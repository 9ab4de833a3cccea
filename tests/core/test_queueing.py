"""A call that finds all places in use waits for one: in order, for a limited time, and at no cost.

Long: every gate at which a call may wait, and every way in which the wait may end.
"""

import asyncio
from typing import Any

import pytest

from gateway.domain.account import Account, AccountStatus
from gateway.domain.budget import Budget
from gateway.domain.call import PASSED_MARK, FailureKind, Outcome, mark_values, wait_of
from gateway.domain.errors import InvalidToken, RateLimited, Unavailable
from gateway.domain.events import CallLeft
from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.registry import Change
from gateway.domain.units import ChannelId, Nanos
from tests.core import kit
from tests.core.ends import GOOD_STREAM, Answered, FakeClient, FakeReply, error_body, whole
from tests.core.rig import Rig, until
from tests.core.test_pipeline import caught

WAITS = [
    ({"concurrent": 1}, "token"),
    ({"concurrent": 1}, "group"),
    ({"concurrent": 1}, "channel"),
    ({"streams": 1}, "token"),
    ({"streams": 1}, "group"),
]


class Ward:
    """A rig whose one channel answers on a signal."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.gates: list[asyncio.Event] = []
        rig.channel(answer=self._behave)

    def _behave(self) -> FakeReply:
        self.gates.append(asyncio.Event())
        return FakeReply(self.gates[-1], *GOOD_STREAM) if self.stream else FakeReply(self.gates[-1], whole())

    stream = False

    def limit(self, owner: str, **limits: Any) -> None:
        if owner == "token":
            self.rig.change_token(limits=Limits(**limits))
        elif owner == "group":
            self.rig.put("groups", "home", Group(name="home", limits=Limits(**limits)))
        else:
            self.rig.channel(limits=Limits(**limits))

    def start(self, client: FakeClient | None = None, **fields: Any) -> "asyncio.Task[Answered]":
        body = kit.body(stream=self.stream, **fields)
        return asyncio.get_running_loop().create_task(self.rig.run(body, client or FakeClient()), name="call")

    async def begin(self, owner: str, **limits: Any) -> "asyncio.Task[Answered]":
        """A call that runs and takes the only place."""
        self.limit(owner, **{"concurrent": 1, **limits})
        call = self.start()
        await until(lambda: self.gates)
        return call

    async def queue(self, owner: str, *clients: FakeClient) -> "list[asyncio.Task[Answered]]":
        """A call that runs, and those of the clients, or one, that wait for its place."""
        calls = [await self.begin(owner), *map(self.start, clients or [FakeClient()])]
        await self.settle()
        return calls

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def finish(self, call: "asyncio.Task[Answered]") -> None:
        """All that run are answered, and this one is waited for."""
        self.release()
        await call

    async def follow(self, call: "asyncio.Task[Answered]") -> None:
        """The same, and the next call has its place."""
        await self.finish(call)
        await until(lambda: len(self.gates) == 2)

    def release(self) -> None:
        for gate in self.gates:
            gate.set()


@pytest.fixture
def ward(rig: Rig) -> Ward:
    return Ward(rig)


@pytest.mark.parametrize(("limits", "owner"), WAITS)
async def test_a_call_over_the_limit_waits_for_its_place(ward: Ward, limits: dict[str, int], owner: str) -> None:
    ward.stream = "streams" in limits
    ward.limit(owner, **limits)
    tasks = [ward.start() for _ in range(4)]
    for number in range(1, 5):
        await until(lambda number=number: len(ward.gates) == number)  # type: ignore[misc]
        await ward.settle()
        assert (len(ward.gates), len(ward.rig.books.running)) == (number, 1)
        ward.gates[-1].set()
    await asyncio.gather(*tasks)
    assert [record.outcome for record in ward.rig.records] == [Outcome.DONE] * 4
    waits = [wait_of(record.marks) for record in ward.rig.records]
    assert [owner in place for _, place in waits] == [False, True, True, True]


async def test_a_channel_that_is_skipped_before_and_after_the_wait_is_named_once(ward: Ward) -> None:
    ward.rig.channel("other", priority=9)
    ward.rig.health.note_failure(ChannelId("ch_other"), FailureKind.RATE, "429", 60)
    first, second = await ward.queue("token")
    await ward.follow(first)
    await ward.finish(second)
    passed = [mark_values(record.marks, PASSED_MARK) for record in ward.rig.records]
    assert passed == [["other: paused for 60 s: 429"]] * 2


async def test_each_call_adds_once_to_the_budget_of_retries_whether_it_waits_or_not(ward: Ward) -> None:
    first, second = await ward.queue("token")
    await ward.follow(first)
    await ward.finish(second)
    assert ward.rig.pipeline.attempts.chooser.retries.calls == 2


@pytest.mark.parametrize(
    ("account", "grant", "code"),
    [
        (Account(status=AccountStatus.SUSPENDED), 0, "account_suspended"),
        (Account(budgets=(Budget(nanos=Nanos(1)),)), 0, "insufficient_quota"),
        (Account(), -(10**12), "insufficient_quota"),
    ],
    ids=["suspended", "another budget", "money taken"],
)
async def test_changes_of_the_account_during_the_wait_count(
    ward: Ward, account: Account, grant: int, code: str
) -> None:
    first, second = await ward.queue("token")
    ward.rig.put("account", "", account)
    ward.rig.grant(grant)
    await ward.finish(first)
    assert (await caught_task(second)).code == code


@pytest.mark.parametrize("owner", ["token", "channel"])
@pytest.mark.parametrize("models", [(), ("other",)], ids=["removed", "another model"])
async def test_a_channel_that_is_gone_after_the_wait_gets_no_call(
    ward: Ward, owner: str, models: tuple[str, ...]
) -> None:
    first, second = await ward.queue(owner)
    (channel,) = ward.rig.store.entities.registry.channels.values()
    if models:
        ward.rig.channel("up", *models, limits=channel.limits)
    else:
        ward.rig.store.entities.apply([Change("channels", channel.id, None)])
    await ward.finish(first)
    error = await caught_task(second)
    assert (error.code, len(ward.gates)) == ("model_not_found", 1)


@pytest.mark.parametrize("owner", ["token", "channel"])
async def test_a_call_that_waited_goes_to_the_channel_that_replaced_the_one_it_waited_for(
    ward: Ward, owner: str
) -> None:
    ward.rig.upstreams.on("other", lambda: FakeReply(whole()))
    first, second = await ward.queue(owner)
    ward.rig.channel("up", enabled=False, limits=Limits(concurrent=1))
    ward.rig.channel("other")
    await ward.finish(first)
    assert (await second).headers["x-gateway-channel"] == "other"


async def test_a_call_that_waited_belongs_to_the_group_that_its_token_has_now(ward: Ward) -> None:
    ward.rig.put("groups", "work", Group(name="work", multiplier=2_000_000))
    ward.rig.channel(groups=("home", "work"))
    first, second = await ward.queue("token")
    ward.rig.change_token(group="work", name="desk")
    await ward.follow(first)
    await ward.finish(second)
    own, later = ward.rig.records
    assert (later.group, later.token_name, later.cost) == ("work", "desk", 2 * own.cost)


@pytest.mark.parametrize("owner", ["token", "channel"])
async def test_a_limit_that_was_raised_during_the_wait_counts_the_call_once(ward: Ward, owner: str) -> None:
    first, second = await ward.queue(owner)
    ward.limit(owner, concurrent=3)
    await ward.follow(first)
    scope = (owner, ward.rig.token.id if owner == "token" else "ch_up")
    assert ward.rig.limiter.concurrency.slots_taken(scope) == 1
    await ward.finish(second)


@pytest.mark.parametrize("owner", ["token", "channel"])
async def test_a_token_that_was_disabled_meanwhile_is_refused(ward: Ward, owner: str) -> None:
    first, second = await ward.queue(owner)
    ward.rig.change_token(enabled=False)
    await ward.finish(first)
    assert type(await caught_task(second)) is InvalidToken


async def test_a_rate_that_is_used_up_meanwhile_is_refused(ward: Ward) -> None:
    first = await ward.begin("token", rpm=1)
    assert type(await caught(ward.rig.call())) is RateLimited  # at once: a place would not help
    await ward.finish(first)


@pytest.mark.parametrize("owner", ["token", "channel"])
async def test_a_disk_that_refuses_the_hold_after_the_wait_leaves_nothing(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("disk full", code="store_unavailable", retry_after_s=5)

    first, second = await ward.queue(owner)
    with monkeypatch.context() as patch:
        patch.setattr(ward.rig.books, "open", full)
        await ward.finish(first)
        assert (await caught_task(second)).code == "store_unavailable"


async def test_a_client_that_leaves_the_line_costs_nothing_and_is_recorded(ward: Ward) -> None:
    client = FakeClient()
    first, second, third = await ward.queue("token", client, FakeClient())
    client.leave()
    with pytest.raises(ConnectionError):
        await second
    assert second.cancelling() == 0
    await ward.follow(first)
    await ward.finish(third)
    (left,) = [record for record in ward.rig.records if record.status == 499]
    assert (left.outcome, left.code, left.cost) == (Outcome.REFUSED, "client_closed", 0)


async def test_a_call_that_is_cancelled_in_line_leaves_nothing(ward: Ward) -> None:
    first, second, third = await ward.queue("channel", FakeClient(), FakeClient())
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await ward.follow(first)
    await ward.finish(third)


@pytest.mark.hasty(100)
@pytest.mark.parametrize(("limits", "owner"), WAITS)
async def test_the_wait_ends(ward: Ward, limits: dict[str, int], owner: str) -> None:
    ward.stream = "streams" in limits
    ward.limit(owner, queue_s=2, **limits)
    first = ward.start()
    await until(lambda: ward.gates)
    error = await caught_task(ward.start())
    codes = {"concurrent": "rate_limit_exceeded", "streams": "too_many_streams"}
    assert error.code == ("overloaded" if owner == "channel" else codes[next(iter(limits))])
    assert (error.retry_after_s, owner in error.message or "up: at its limit" in error.message) == (1.0, True)
    await ward.finish(first)


@pytest.mark.parametrize(("limits", "owner"), WAITS)
@pytest.mark.parametrize("places", [0, 1, 2])
async def test_so_many_may_wait(ward: Ward, limits: dict[str, int], owner: str, places: int) -> None:
    ward.stream = "streams" in limits
    ward.limit(owner, queue=places, **limits)
    tasks = [ward.start() for _ in range(1 + places)]
    await until(lambda: ward.gates)
    await ward.settle()
    assert type(await caught_task(ward.start())) is (Unavailable if owner == "channel" else RateLimited)
    assert not any(task.done() for task in tasks)
    while not all(task.done() for task in tasks):
        ward.release()
        await asyncio.sleep(0)


async def test_two_limits_in_turn(ward: Ward) -> None:
    """Waiting at one gate and then at the next: no call blocks another for ever, and no limit is ever passed."""
    ward.limit("token", concurrent=2)
    ward.limit("group", concurrent=1)
    ward.limit("channel", concurrent=1)
    tasks = [ward.start() for _ in range(12)]
    while not all(task.done() for task in tasks):
        assert len(ward.rig.books.running) <= 1
        ward.release()
        await asyncio.sleep(0)
    assert len(ward.rig.records) == 12


async def test_another_channel_is_better_than_waiting(ward: Ward) -> None:
    first = await ward.begin("channel")
    ward.rig.channel("other", priority=-5)
    ward.rig.upstreams.on("other", lambda: FakeReply(whole()))
    assert (await ward.start()).headers["x-gateway-channel"] == "other"
    await ward.finish(first)


async def test_waiting_is_better_than_a_paused_channel_which_is_the_last_resort(ward: Ward) -> None:
    resting = ward.rig.channel("resting")
    ward.rig.upstreams.on("resting", lambda: FakeReply(whole()))
    ward.rig.health.note_failure(resting.id, FailureKind.RATE, "429", 30)
    first, second = await ward.queue("channel")
    assert ward.rig.upstreams.order == ["up"]
    await ward.follow(first)
    ward.limit("channel", concurrent=1, queue_s=0)
    assert (await ward.start()).headers["x-gateway-channel"] == "resting"
    await ward.finish(second)


async def test_a_place_that_is_not_needed_goes_to_others(ward: Ward) -> None:
    """A better channel comes free in the moment in which the worse one gives its place."""
    ward.limit("channel", concurrent=1)
    ward.rig.channel("best", priority=5, limits=Limits(concurrent=1))
    ward.rig.upstreams.on("best", ward._behave)  # noqa: SLF001 - the same ward
    first, second = ward.start(), ward.start()
    await until(lambda: len(ward.gates) == 2)
    assert ward.rig.upstreams.order == ["best", "up"]
    third = ward.start()
    await ward.settle()
    for gate in reversed(ward.gates):
        gate.set()
    await until(lambda: len(ward.gates) == 3)
    ward.release()
    await asyncio.gather(first, second)
    assert (await third).headers["x-gateway-channel"] == "best"


async def test_a_call_that_waits_for_its_group_has_a_place_of_its_token(ward: Ward) -> None:
    """In this order only: else two of them could wait for each other."""
    ward.limit("group", concurrent=1)
    other = kit.token("other", limits=Limits(concurrent=1))
    ward.rig.put("tokens", other.id, other)
    tasks = [ward.start()]
    await until(lambda: ward.gates)
    ward.rig.token, own = other, ward.rig.token
    tasks += [ward.start(), ward.start()]
    await ward.settle()
    lines = ward.rig.limiter.concurrency
    assert (
        lines.waiting(("group", "home")),
        lines.waiting(("token", other.id)),
        lines.slots_taken(("token", other.id)),
    ) == (1, 1, 1)
    while not all(task.done() for task in tasks):
        ward.release()
        await asyncio.sleep(0)
    ward.rig.token = own


async def test_a_plain_call_that_waited_is_finished_without_its_client(ward: Ward) -> None:
    client = FakeClient()
    first, second = await ward.queue("token", client)
    await ward.follow(first)
    client.leave()
    await ward.finish(second)
    record = ward.rig.records[-1]
    assert (record.status, record.outcome, record.output) == (499, Outcome.CLIENT_CLOSED, 12)


async def test_a_call_that_leaves_while_it_waits_to_retry_returns_its_slot(ward: Ward) -> None:
    first = await ward.begin("channel")
    ward.rig.channel("bad", priority=5)
    ward.rig.upstreams.on("bad", lambda: FakeReply(error_body(), status=500))
    client = FakeClient()
    second = ward.start(client)
    await until(lambda: ward.rig.limiter.concurrency.waiting(("channel", "ch_up")))
    client.leave()
    await ward.finish(first)
    await caught_task(second)
    assert len(ward.gates) == 1


async def test_a_second_attempt_at_a_channel_needs_a_place_as_well(rig: Rig) -> None:
    """It has paused meanwhile, and another has taken the place."""
    gate = asyncio.Event()
    rig.channel(limits=Limits(concurrent=1))
    rig.upstreams.on("up", lambda: FakeReply(error_body(), status=500), lambda: FakeReply(gate, whole()))
    calls = [asyncio.ensure_future(rig.run(kit.body(), FakeClient())) for _ in range(2)]
    for _ in range(200):
        await asyncio.sleep(0)
        assert rig.limiter.concurrency.slots_taken(("channel", "ch_up")) <= 1
    assert len(rig.upstreams.asked) == 2
    gate.set()
    await asyncio.gather(*calls)


async def test_a_call_that_waited_and_failed_gives_its_place_back_once(rig: Rig) -> None:
    gate = asyncio.Event()
    rig.channel(limits=Limits(concurrent=1))
    rig.upstreams.on("up", lambda: FakeReply(gate, whole()), lambda: FakeReply(error_body(), status=500))
    first, second = (asyncio.ensure_future(rig.run(kit.body(), FakeClient())) for _ in range(2))
    await until(lambda: rig.limiter.concurrency.waiting(("channel", "ch_up")))
    gate.set()
    await first
    assert (await caught_task(second)).code == "upstream_error"
    assert rig.limiter.concurrency.slots_taken(("channel", "ch_up")) == 0


async def caught_task(task: "asyncio.Task[Answered]") -> Any:
    return await caught(_answer(task))


async def _answer(task: "asyncio.Task[Answered]") -> Answered:
    return await task


async def test_watchers_see_which_call_waits_and_for_what_until_it_is_admitted(ward: Ward) -> None:
    with ward.rig.bus.watch() as watcher:
        first, second = await ward.queue("channel")
        (waiting,) = ward.rig.pipeline.waiting.all()
        assert waiting.waits_for == "channel 'up' (1 call at once)"
        assert (waiting.held, waiting.token_name) == (0, "laptop")
        await ward.follow(first)
        assert ward.rig.pipeline.waiting.all() == []
        await ward.finish(second)
        events = (await watcher.next_batch(0)).notices
    kinds = [type(one).__name__ for one in events if getattr(one, "call", waiting).id == waiting.id]
    assert kinds[0] == "CallWaiting"
    assert "CallStarted" in kinds
    assert "CallLeft" not in kinds


async def test_a_waiting_call_can_be_cancelled_by_its_owner(ward: Ward) -> None:
    with ward.rig.bus.watch() as watcher:
        first, second = await ward.queue("token")
        (waiting,) = ward.rig.pipeline.waiting.all()
        ward.rig.pipeline.waiting.calls[waiting.id].end(Outcome.CANCELLED)
        error = await caught_task(second)
        assert (type(error), error.code) == (Unavailable, "call_cancelled")
        assert waiting.id not in ward.rig.pipeline.waiting.calls
        assert CallLeft(call_id=waiting.id) in (await watcher.next_batch(0)).notices
    await ward.finish(first)


async def test_after_a_failure_a_call_waits_for_the_next_channel_and_says_so(ward: Ward) -> None:
    first = await ward.begin("channel")
    ward.rig.channel("bad", priority=5)
    ward.rig.upstreams.on("bad", lambda: FakeReply(error_body(), status=500))
    second = ward.start()
    await until(lambda: any(call.waits_for for call in ward.rig.books.running.values()))
    await ward.settle()
    (waits,) = [call.waits_for for call in ward.rig.books.running.values() if call.waits_for]
    assert (waits, len(ward.gates)) == ("channel 'up' (1 call at once)", 1)
    await ward.follow(first)
    assert not any(call.waits_for for call in ward.rig.books.running.values())
    ward.release()
    assert (await second).headers["x-gateway-attempts"] == "3"  # the bad one is tried twice before one waits
