"""Running calls are looked after: silent streams breathe, slow ones get their head, and nothing waits for ever.

Long: everything that the one slow clock does to a running call.
"""

import asyncio
import time

import pytest

from gateway.core.event_bus import EventBus
from gateway.core.live_calls import CallDeadlines, LiveCalls
from gateway.core.progress import BudgetExhausted, ProgressReporter
from gateway.core.quota import HoldPlan
from gateway.domain.account import Account
from gateway.domain.call import Outcome, Running
from gateway.domain.errors import UpstreamError
from gateway.domain.events import CallProgress
from gateway.domain.order import Order
from gateway.domain.settings import Durability, Settings
from gateway.domain.token import Token
from gateway.domain.units import DOLLAR, Nanos
from gateway.inbound.chat.api import CHAT
from gateway.upstream.dialects import new_adapter
from tests.core import kit
from tests.core.clocks import Watch
from tests.core.ends import DONE, GOOD_STREAM, FakeReply, Piece, ends, error_body, says, too_slow, unreachable
from tests.core.rig import QUICK, Rig, until
from tests.core.test_quota import Purse
from tests.upstream.makers import as_chat


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def up(rig: Rig, gate: asyncio.Event) -> Rig:
    """A stream that says one word, waits, and ends well."""
    rig.channel(answer=lambda: FakeReply(says("Hello"), gate, ends(), DONE))
    return rig


async def test_a_silent_stream_breathes(up: Rig, gate: asyncio.Event) -> None:
    task = await up.start_until(lambda: up.client.body, stream=True)
    for count in (1, 2, 3):
        await up.pass_time(QUICK.keep_alive)
        assert up.client.body.count(CHAT.keep_alive) == count
    gate.set()
    await task
    assert up.client.body.endswith(DONE)


async def test_a_stream_that_talks_does_not_breathe(up: Rig, gate: asyncio.Event) -> None:
    task = await up.start_until(lambda: up.client.body, stream=True)
    await up.pass_time(QUICK.keep_alive - 0.1)
    assert CHAT.keep_alive not in up.client.body
    gate.set()
    await task


async def test_a_plain_call_never_breathes(rig: Rig, gate: asyncio.Event) -> None:
    rig.channel(answer=lambda: FakeReply(gate, error_body(), status=500))
    task = await rig.start_until(lambda: rig.upstreams.replies)
    await rig.pass_time(QUICK.keep_alive * 3)
    assert not rig.client.begun
    gate.set()
    await asyncio.wait([task])
    assert task.exception() is not None


async def test_the_head_goes_out_if_the_first_event_is_late(rig: Rig, gate: asyncio.Event) -> None:
    rig.channel(answer=lambda: FakeReply(gate, *GOOD_STREAM))
    task = await rig.start_until(lambda: rig.upstreams.replies, stream=True)
    await rig.pass_time(QUICK.first_event - 0.1)
    assert not rig.client.begun
    await rig.pass_time(0.1)
    assert (rig.client.body, len(rig.client.heads)) == (CHAT.keep_alive, 1)
    gate.set()
    await task
    assert len(rig.client.heads) == 1
    assert rig.record.status == 200


async def answered_late(rig: Rig, gate: asyncio.Event) -> None:
    """A streamed call whose head goes out before its first event."""
    task = await rig.start_until(lambda: rig.upstreams.replies, stream=True)
    await rig.pass_time(QUICK.first_event)
    gate.set()
    await task


def test_the_head_waits_for_the_first_event_for_45_seconds() -> None:
    assert CallDeadlines().first_event == 45.0


async def test_a_head_that_goes_out_in_time_has_the_facts(rig: Rig) -> None:
    rig.channel(answer=lambda: FakeReply(*GOOD_STREAM))
    await rig.call(stream=True)
    assert rig.client.heads[0]["x-gateway-channel"] == "up"
    assert b": x-gateway" not in rig.client.body


async def test_after_an_early_head_another_channel_may_still_answer(rig: Rig, gate: asyncio.Event) -> None:
    """The head names no channel; the one that answered is reported before the end."""
    first = rig.channel("a", priority=1)
    rig.channel("b")
    rig.upstreams.on("a", lambda: FakeReply(gate, unreachable(first)))
    rig.upstreams.on("b", lambda: FakeReply(*GOOD_STREAM))
    await answered_late(rig, gate)
    assert rig.client.heads == [{}]
    assert facts_in(rig.client.body.removesuffix(DONE)) == {
        "x-gateway-channel": "b",
        "x-gateway-model": "m",
        "x-gateway-attempts": "2",
    }
    assert (rig.upstreams.order, rig.record.channel_name, rig.record.status) == (["a", "b"], "b", 200)


async def test_before_the_head_is_due_a_failure_has_its_status(rig: Rig, gate: asyncio.Event) -> None:
    up = rig.channel()
    rig.upstreams.on("up", lambda: FakeReply(gate, too_slow(up)))
    task = await rig.start_until(lambda: rig.upstreams.replies, stream=True)
    await rig.pass_time(QUICK.first_event - 0.1)
    gate.set()
    with pytest.raises(UpstreamError):
        await task
    assert (rig.client.begun, rig.record.status) == (False, 504)


async def test_after_an_early_head_a_failure_is_an_event(rig: Rig, gate: asyncio.Event) -> None:
    rig.channel(answer=lambda: FakeReply(gate, error_body(), status=500))
    await answered_late(rig, gate)
    assert rig.client.heads == [{}]
    assert rig.client.error is not None
    assert facts_in(rig.client.body)["x-gateway-channel"] == "up"
    assert (rig.record.status, rig.record.cost, rig.record.outcome) == (502, 0, Outcome.ERROR)


async def test_after_an_early_head_a_stream_without_money_has_the_facts_too(rig: Rig, gate: asyncio.Event) -> None:
    rig.put("account", "", Account(stop_when_empty=True))
    rig.grant(-DOLLAR + 200_000)
    rig.channel()
    words: list[Piece] = [says("word " * 100), lambda: rig.watch.advance(1)]
    rig.upstreams.on("up", lambda: FakeReply(gate, *words * 10, ends(), DONE))
    await answered_late(rig, gate)
    assert rig.record.outcome is Outcome.STOPPED
    assert facts_in(rig.client.body.removesuffix(DONE))["x-gateway-channel"] == "up"


def facts_in(body: bytes) -> dict[str, str]:
    """The facts of the call in the comments at the end of a body."""
    lines = body.decode().splitlines()
    facts = dict(line.removeprefix(": ").split(": ", 1) for line in lines if line.startswith(": x-gateway-"))
    return {name: facts[name] for name in ("x-gateway-channel", "x-gateway-model", "x-gateway-attempts")}


async def test_a_settled_call_gets_no_head_from_here(rig: Rig) -> None:
    """Its answer is on its way elsewhere: two heads would tear the connection."""
    call = kit.call()
    call.result.settled = True
    await rig.live._keep_alive(call)  # noqa: SLF001 - the moment is not visible from outside
    assert not call.context.client.begun


async def test_deadlines_count_although_every_tick_is_late(rig: Rig) -> None:
    live = LiveCalls(lambda: 9.0, rig.tasks, CallDeadlines(tick=0.02))
    call = kit.call()
    call.delivery.deadline = 8.0
    live.enter(call)

    async def lag() -> None:
        for _ in range(9):
            time.sleep(0.05)  # noqa: ASYNC251 - nothing else runs meanwhile
            await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await lag()
    live.calls.clear()
    assert call.result.ended_by is Outcome.TIMEOUT


async def test_a_write_that_waits_gets_no_keep_alive(up: Rig, gate: asyncio.Event) -> None:
    up.client.reading.clear()
    task = await up.start_until(lambda: up.client.begun, stream=True)
    await up.pass_time(QUICK.keep_alive)
    up.client.reading.set()
    gate.set()
    await task
    assert up.record.status == 200
    assert CHAT.keep_alive not in up.client.body


async def test_a_stream_that_keeps_sending_has_no_deadline(up: Rig, gate: asyncio.Event) -> None:
    task = await up.start_until(lambda: up.client.body, stream=True)
    await up.pass_time(100_000)
    gate.set()
    await task
    assert up.record.status == 200


async def test_a_client_gone_unnoticed_is_noticed_by_a_breath(up: Rig) -> None:
    task = await up.start_until(lambda: up.client.body, stream=True)
    up.client.gone = True
    await up.pass_time(QUICK.keep_alive)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert up.record.outcome is Outcome.CLIENT_CLOSED


async def test_a_running_call_is_listed_until_it_ends(up: Rig, gate: asyncio.Event) -> None:
    assert up.live.empty.is_set()
    task = await up.start_until(lambda: up.client.body, stream=True)
    assert (len(up.live.calls), up.live.empty.is_set()) == (1, False)
    gate.set()
    await task
    assert (list(up.live.calls), up.live.empty.is_set()) == ([], True)


async def test_nothing_ticks_while_nothing_runs(up: Rig, gate: asyncio.Event) -> None:
    gate.set()
    await up.call(stream=True)
    ticks: list[str] = []
    up.live.on_tick = lambda: ticks.append("tick")
    up.live.on_idle = lambda: ticks.append("rest")
    for ticking in (True, False):
        assert up.live._ticking  # noqa: SLF001 - an idle gateway sleeps
        await up.pass_time(1)
        assert up.live._ticking is ticking  # noqa: SLF001
    assert ticks == ["tick", "tick", "rest"]


async def test_waiting_for_the_disk_is_not_ended(up: Rig, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    up.put("settings", "", Settings(durability=Durability.CALL))
    disk = asyncio.Event()
    monkeypatch.setattr(up.books, "wait_until_synced", disk.wait)
    gate.set()
    task = await up.start_until(lambda: up.records, stream=True)
    up.live.cancel_all(Outcome.STOPPED)
    disk.set()
    await task
    assert (up.record.outcome, up.client.body.endswith(DONE)) == (Outcome.DONE, True)


async def test_an_owner_who_ends_a_stalled_stream_does_not_wait_for_ever(up: Rig) -> None:
    up.client.reading.clear()
    task = await up.start_until(lambda: up.client.begun, stream=True)
    up.live.cancel_all(Outcome.STOPPED)
    await until(lambda: up.records)
    assert not task.done()
    up.client.leave()
    await task
    assert up.record.outcome is Outcome.STOPPED


class Books(Purse):
    """Remembers the reports."""

    def __init__(self, available: int, account: Account | None) -> None:
        super().__init__(available, account or Account())
        self.told: list[Running] = []

    def update(self, call: Running) -> None:
        self.told.append(call)


class Desk:
    """A stream that has some output, and the reporter of it."""

    def __init__(self, token: Token | None = None, account: Account | None = None, available: int = 10**9) -> None:
        self.watch = Watch()
        self.bus = EventBus()
        self.books = Books(available, account)
        self.teller = ProgressReporter(self.bus, self.books)
        origin = kit.origin(began=self.watch.clock.mono())
        self.call = kit.call(origin=origin, catalog=kit.catalog(), token=token or kit.token())
        self.call.begin_attempt(kit.route(), "")
        self.call.attempt.stream = as_chat(new_adapter(kit.channel().dialect)).stream(
            Order(fields=self.call.context.request.fields, model="m", stream=True), kit.channel()
        )

    def brings(self, words: int) -> None:
        """So many words come, a second later."""
        assert self.call.attempt.stream is not None
        self.call.attempt.stream.feed(says("word " * words))
        self.watch.advance(1)
        self.call.delivery.last_write = self.watch.clock.mono()
        self.call.delivery.first_byte = self.call.delivery.first_byte or self.call.delivery.last_write
        self.teller.note_output(self.call)


async def test_a_route_is_reported_to_the_books_and_to_watchers() -> None:
    desk = Desk()
    with desk.bus.watch() as watcher:
        desk.teller.report_route(desk.call)
        assert (await watcher.next_batch(0)).notices == [CallProgress(call=desk.call.running)]
    assert desk.books.told == [desk.call.running]


def test_the_books_know_the_route_though_nobody_watches() -> None:
    desk = Desk()
    desk.teller.report_route(desk.call)
    assert desk.books.told[0].channel_name == "up"


async def test_progress_tells_first_byte_tokens_and_cost_so_far() -> None:
    desk = Desk()
    with desk.bus.watch() as watcher:
        desk.brings(40)
        (notice,) = (await watcher.next_batch(0)).notices
    assert isinstance(notice, CallProgress)
    running = notice.call
    assert (running.ttft, running.input, running.output) == (1000, 16, 50)
    assert running.cost == 16 * 2500 + 50 * 10_000
    assert desk.books.told == [running]


async def test_it_is_reported_five_times_a_second_at_most() -> None:
    desk = Desk()
    with desk.bus.watch():
        for _ in range(100):
            desk.watch.advance(0.2 / 10)
            desk.call.delivery.last_write = desk.watch.clock.mono()
            desk.teller.note_output(desk.call)
    assert len(desk.books.told) in (9, 10, 11)


async def test_what_came_last_is_reported_although_nothing_more_comes(rig: Rig, gate: asyncio.Event) -> None:
    more = asyncio.Event()
    rig.channel(answer=lambda: FakeReply(says("One"), more, says(" two three four five"), gate, ends(), DONE))
    task = await rig.start_until(lambda: rig.client.body, stream=True)
    (first,) = rig.books.running.values()
    rig.watch.advance(0.2 / 2)
    more.set()
    await until(lambda: b"five" in rig.client.body)
    assert [call.output for call in rig.books.running.values()] == [first.output]
    await rig.pass_time(1)
    (last,) = rig.books.running.values()
    assert (last.output > first.output, last.cost > first.cost) == (True, True)
    gate.set()
    await task


def test_the_books_know_what_runs_although_nobody_watches() -> None:
    desk = Desk()
    desk.brings(40)
    assert [call.output for call in desk.books.told] == [50]


def test_an_unpriced_stream_never_runs_out_of_money() -> None:
    desk = Desk(account=Account(stop_when_empty=True), available=0)
    desk.call.attempt.price = None
    desk.brings(10_000)


def test_what_the_call_itself_holds_is_its_to_spend() -> None:
    desk = Desk(account=Account(stop_when_empty=True), available=0)
    desk.call.hold = HoldPlan(Nanos(16 * 2500 + 100 * 10_000))
    desk.brings(80)
    with pytest.raises(BudgetExhausted):
        desk.brings(8)
