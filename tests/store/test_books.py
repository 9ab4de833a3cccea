"""The books: what is left is what was granted less what was spent and held, always."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT, Outcome, lost_record
from gateway.domain.errors import InternalError, Unavailable
from gateway.domain.units import DOLLAR, CallId, Millis, Nanos
from gateway.store import files
from gateway.store.books import Holds
from gateway.store.recorder import withheld_error, withheld_record
from gateway.store.store import Store
from gateway.store.tail import Tail
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.store.samples import T0, funded_store, grant, record, running, settle, store_of, token


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = funded_store(home)
    yield opened
    assert verify(opened).difference == ""
    opened.close()


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call file takes another line, and no new one can be made."""
    for owner, name in ((Tail, "append"), (files, "create")):
        monkeypatch.setattr(owner, name, lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))


def test_a_hold_is_not_available_and_not_spent(store: Store) -> None:
    store.books.open(running(1, held=700))
    assert store.books.balance() == 10 * DOLLAR
    assert store.books.available() == 10 * DOLLAR - 700
    assert store.books.held(("token", "tok_1")) == Amounts(Nanos(700), 200, 1)


def test_settling_ends_the_hold_and_charges_the_cost(store: Store) -> None:
    store.books.open(running(1, held=700))
    settled = store.books.settle(record(1, cost=500))
    assert settled.balance == store.books.balance() == store.books.available() == 10 * DOLLAR - 500
    assert store.books.spent(ACCOUNT) == Amounts(Nanos(500), 112, 1)
    assert store.calls.get(settled.id) == settled


def test_a_record_that_is_written_soon_is_charged_at_once(store: Store) -> None:
    store.books.open(running(1, held=700))
    settled = store.books.settle(record(1, cost=500), deferred=True)
    assert store.books.balance() == store.books.available() == 10 * DOLLAR - 500
    assert store.calls.count == 0
    store.books.write()
    assert store.calls.get(settled.id) == settled


def test_a_cost_above_the_hold_is_charged_in_full(store: Store) -> None:
    store.books.open(running(1, held=5))
    assert store.books.settle(record(1, cost=11 * DOLLAR)).balance == -DOLLAR


@pytest.mark.parametrize("deferred", [False, True])
def test_what_is_settled_twice_or_was_never_opened_is_our_mistake_and_is_charged_once(
    store: Store, deferred: bool
) -> None:
    store.books.open(running(1))
    store.books.settle(record(1, cost=500), deferred=deferred)
    for number in (1, 2):
        with pytest.raises(InternalError, match="is not open"):
            store.books.settle(record(number, cost=999))
    store.books.write()
    assert (store.books.spent(ACCOUNT).nanos, store.calls.count) == (500, 1)


@pytest.mark.parametrize("call_id", ["x", "req_" + "Z" * 26])
def test_a_call_opens_once_and_under_a_proper_id(store: Store, call_id: str) -> None:
    store.books.open(running(1))
    with pytest.raises(InternalError):
        store.books.open(running(1))
    with pytest.raises(InternalError):
        store.books.open(type(running(2))(id=CallId(call_id), ts=Millis(T0)))


def test_a_refused_call_is_noted_without_a_hold(store: Store) -> None:
    store.books.record_refusal(record(1, cost=0, outcome=Outcome.REFUSED, status=429))
    assert (store.calls.count, store.books.balance()) == (1, 10 * DOLLAR)


def test_news_of_a_running_call_stay_in_memory(store: Store, home: Path) -> None:
    store.books.open(running(1))
    before = (home / "inflight.log").read_bytes()
    store.books.update(running(1, output=55))
    assert store.books.running[running(1).id].output == 55
    assert (home / "inflight.log").read_bytes() == before


def test_another_channel_of_a_running_call_is_written_down(store: Store, home: Path) -> None:
    store.books.open(running(1))
    store.books.update(running(1, channel="ch_7"))
    assert store.books.held(("channel", "ch_7")).calls == 1
    assert b"ch_7" in (home / "inflight.log").read_bytes()


def test_spending_of_a_window_counts_by_the_start_of_the_call(store: Store) -> None:
    store.books.spent(("token", "tok_1"), Millis(T0 + 5))
    for i in (1, 6, 11):
        settle(store, i)
    assert store.books.spent(("token", "tok_1"), Millis(T0 + 5)).calls == 2
    assert store.books.last_used(token(1)) == T0 + 11


def test_a_hold_that_cannot_be_written_holds_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda *_: 0)
        with pytest.raises(Unavailable) as caught:
            store.books.open(running(1))
    assert (caught.value.code, caught.value.retry_after_s) == ("store_unavailable", 5.0)
    assert store.books.available() == 10 * DOLLAR


def test_a_full_disk_loses_no_settlement_and_admits_no_call(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        store.books.open(running(i))
    with monkeypatch.context() as patch:
        full(patch)
        settled = [store.books.settle(record(i)) for i in range(3)]
        assert (store.calls.count, store.books.healthy) == (0, False)
        assert store.books.spent(ACCOUNT).calls == 3
        with pytest.raises(InternalError):
            store.books.settle(record(1, cost=9))
        with pytest.raises(Unavailable):
            store.books.open(running(9))
        assert verify(store).equal
    store.books.open(running(9))
    assert store.books.healthy
    assert store.calls.find(limit=9) == settled[::-1]


def test_a_good_answer_whose_record_is_refused_costs_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in (1, 2, 3):
        store.books.open(running(i, held=700))
    store.books.spent(("token", "tok_1"), Millis(T0 - 5))
    with monkeypatch.context() as patch:
        full(patch)
        kept = store.books.settle(record(1, cost=500))
        failed = store.books.settle(record(2, cost=30, status=502))
        soon = store.books.settle(record(3, cost=800), deferred=True)
        assert (soon.status, store.books.balance()) == (200, 10 * DOLLAR - 830)
        store.books.write()
        later = store.books.final_record(soon)
        assert [(one.status, one.code, one.cost, one.possible) for one in (kept, failed, later)] == [
            (503, "store_failed", 0, 500),
            (502, "", 30, 0),
            (503, "store_failed", 0, 800),
        ]
        assert [one.balance for one in (kept, failed, later)] == [10 * DOLLAR, 10 * DOLLAR - 30, 10 * DOLLAR - 30]
        assert store.books.balance() == store.books.available() == 10 * DOLLAR - 30
        assert store.books.spent(("token", "tok_1"), Millis(T0 - 5)) == Amounts(Nanos(0), 0, 1)
        assert verify(store).difference == ""
    sync_store(store)
    assert store.calls.find(limit=9) == [later, failed, kept]
    assert verify(store).equal


def test_the_client_gets_what_the_record_says() -> None:
    kept = withheld_record(record(1, cost=500, parts={"searches": 2}, variant="flex"), "Input/output error")
    assert (kept.input, kept.parts, kept.variant, kept.cost, kept.possible) == (0, {}, "", 0, 500)
    error = withheld_error(kept)
    assert (error.message, error.code, error.retry_after_s) == (kept.error, "store_failed", 5.0)
    assert "(Input/output error), so its answer is withheld and nothing is charged" in kept.error


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError(5, "refused")])
async def test_an_unsynced_record_stands_and_no_call_begins(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store.books.open(running(1))
    store.books.settle(record(1, cost=500))
    with monkeypatch.context() as patch:
        patch.setattr(store.calls.log, "sync", lambda: (_ for _ in ()).throw(error))
        with pytest.raises(Unavailable):
            await store.books.wait_until_synced()
        with pytest.raises(Unavailable):
            store.books.open(running(2))
    await store.books.wait_until_synced()
    assert (store.books.healthy, store.books.balance(), verify(store).equal) == (True, 10 * DOLLAR - 500, True)


def test_a_full_disk_does_not_fill_the_memory_with_refused_calls(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        full(patch)
        for i in range(1000 + 50):
            store.books.record_refusal(record(i, cost=0, status=429, outcome=Outcome.REFUSED))
        assert len(store.books.counters.backlog()) == 1000


def test_calls_that_a_crash_cut_off_are_lost_once(home: Path) -> None:
    store = funded_store(home)
    settle(store, 1)
    for i in (2, 3):
        store.books.open(running(i, held=700))
    image = crashed(home)
    for _ in range(2):
        again = store_of(image)
        assert [call.outcome for call in again.calls.find(limit=9)] == [Outcome.LOST, Outcome.LOST, Outcome.DONE]
        assert verify(again).equal
        again.close()
    store.close()


def test_a_lost_call_costs_nothing_and_is_possible_cost_of_its_channel() -> None:
    found = lost_record(running(2, held=700))
    assert (found.cost, found.possible, found.held, found.status) == (0, 700, 700, 0)
    assert (found.channel, found.outcome) == ("ch_0", Outcome.LOST)


def crashed(home: Path) -> Path:
    """What a crash at this moment would leave, in a home of its own."""
    image = Path(tempfile.mkdtemp(dir=home.parent)) / "home"
    shutil.copytree(home, image)
    return image


class Life(RuleBasedStateMachine):
    """Random lives of a store: calls open, settle and crash; the law of conservation holds at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name) / "home"
        self.store = store_of(self.home, segment_bytes=3000)
        self.rng = random.Random(1)
        self.next = 0
        self.granted = self.spent = 0
        self.open: dict[int, int] = {}

    @rule()
    def top_up(self) -> None:
        self.granted += DOLLAR
        grant(self.store, 1, f"g{self.granted}")

    @rule()
    def begin(self) -> None:
        held = self.rng.randrange(10_000)
        self.store.books.open(running(self.next, held=held))
        self.open[self.next] = held
        self.next += 1

    @precondition(lambda self: self.open)
    @rule()
    def end(self) -> None:
        number = self.rng.choice(list(self.open))
        del self.open[number]
        cost = self.rng.randrange(20_000)
        self.spent += cost
        self.store.books.settle(record(number, cost=cost))

    @rule()
    def sync(self) -> None:
        sync_store(self.store)

    @rule()
    def restart(self) -> None:
        before, self.home = self.store, crashed(self.home)
        before.close()
        self.store = store_of(self.home, segment_bytes=3000)
        self.open.clear()

    @invariant()
    def money_is_conserved(self) -> None:
        books = self.store.books
        assert books.balance() == self.granted - self.spent
        assert books.available() == books.balance() - sum(self.open.values())
        assert len(books.running) == len(self.open)
        assert self.store.calls.count == self.next - len(self.open)

    def teardown(self) -> None:
        assert verify(self.store).difference == ""
        self.store.close()
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


def test_a_hold_counts_for_all_that_the_call_draws_on() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.add(running(6))
    assert holds.held(ACCOUNT) == Amounts(10_000, 400, 2)  # type: ignore[arg-type]
    assert holds.held(("token", "tok_1")).calls == 2
    assert (holds.held(("channel", "ch_1")).calls, holds.held(("channel", "ch_0")).calls) == (1, 1)
    assert holds.held(("group", "vip")).calls == 1


def test_calls_that_began_before_a_window_hold_nothing_of_it() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.add(running(6))
    for since, calls in ((running(1).ts, 2), (running(1).ts + 1, 1), (running(6).ts + 1, 0)):
        assert holds.held(ACCOUNT, Millis(since)).calls == len(holds.running_in(ACCOUNT, Millis(since))) == calls


def test_a_hold_ends_once() -> None:
    holds = Holds()
    holds.add(running(1))
    assert (holds.remove(running(1).id), holds.remove(running(1).id)) == (True, False)
    assert (holds.held(ACCOUNT), dict(holds.running)) == (Amounts(), {})


def test_a_call_that_changes_its_channel_takes_its_hold_along() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.replace(msgspec.structs.replace(running(1), channel="ch_9", output=5))
    assert (holds.held(("channel", "ch_1")).calls, holds.held(("channel", "ch_9")).calls) == (0, 1)
    assert holds.held(ACCOUNT).calls == 1
    assert holds.running[CallId(running(1).id)].output == 5


def test_news_of_a_call_that_has_ended_are_ignored() -> None:
    holds = Holds()
    holds.replace(running(1))
    assert (holds.held(ACCOUNT).calls, len(holds.running)) == (0, 0)
