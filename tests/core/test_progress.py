"""Watchers are told of a running call a few times a second, and money that is gone is noticed then."""

import pytest

from gateway.core.call import Call, Visit
from gateway.core.event_bus import EventBus, ProgressNotice
from gateway.core.live_calls import GAP_S, BudgetExhausted, ProgressReporter
from gateway.domain.account import Account
from gateway.domain.call import Running
from gateway.domain.group import Group
from gateway.domain.limits import Budget
from gateway.domain.token import Token
from gateway.domain.units import CallId, Nanos
from gateway.upstream.adapter import Order
from gateway.upstream.dialects import adapter
from tests.core import kit
from tests.core.clocks import NOON, Watch
from tests.core.ends import FakeClient, says
from tests.core.test_quota import Purse


class Books(Purse):
    """Remembers what it is told."""

    def __init__(self, available: int = 10**9) -> None:
        super().__init__(available)
        self.told: list[Running] = []

    def update(self, call: Running) -> None:
        self.told.append(call)


class Desk:
    """A stream that has brought some output, and who tells of it."""

    def __init__(self, token: Token | None = None, account: Account | None = None, available: int = 10**9) -> None:
        self.watch = Watch()
        self.bus = EventBus(self.watch.clock.mono)
        self.books = Books(available)
        self.teller = ProgressReporter(self.bus, self.books, self.watch.clock)
        visit = Visit(id=CallId("req_1"), key="", app="", retry=0, ts=NOON, began=self.watch.clock.mono())
        catalog = kit.catalog(account=account)
        asked = kit.ask(stream=True)
        self.call = Call(visit, asked, FakeClient(), catalog, token or kit.token(), Group(name="home"))
        self.call.price = kit.PRICE
        self.call.take_route(kit.route(), "", 1)
        self.call.answer = adapter(kit.channel().dialect).stream(
            Order(fields=asked.fields, model="m", stream=True), kit.channel()
        )

    def brings(self, words: int) -> None:
        """So many words come, a second later."""
        assert self.call.answer is not None
        self.call.answer.feed(says("word " * words))
        self.watch.advance(1)
        self.call.last_write = self.watch.clock.mono()
        self.call.first_byte = self.call.first_byte or self.call.last_write
        self.teller.moved(self.call)


async def test_a_route_is_told_to_the_books_and_to_who_watches() -> None:
    desk = Desk()
    with desk.bus.watch() as watcher:
        desk.teller.routed(desk.call)
        assert (await watcher.take(0)).notices == [ProgressNotice(desk.call.running)]
    assert desk.books.told == [desk.call.running]


def test_the_books_know_the_route_though_nobody_watches() -> None:
    desk = Desk()
    desk.teller.routed(desk.call)
    assert desk.books.told[0].channel_name == "up"


async def test_progress_tells_first_byte_tokens_and_cost_so_far() -> None:
    desk = Desk()
    with desk.bus.watch() as watcher:
        desk.brings(40)
        (notice,) = (await watcher.take(0)).notices
    assert isinstance(notice, ProgressNotice)
    running = notice.call
    assert (running.ttft, running.input, running.output) == (1000, 16, 50)
    assert running.cost == 16 * 2500 + 50 * 10_000
    assert desk.books.told == [running]


async def test_it_is_told_five_times_a_second_at_most() -> None:
    desk = Desk()
    with desk.bus.watch():
        for _ in range(100):
            desk.watch.advance(GAP_S / 10)
            desk.call.last_write = desk.watch.clock.mono()
            desk.teller.moved(desk.call)
    assert len(desk.books.told) in (9, 10, 11)


def test_the_books_know_what_runs_although_nobody_watches() -> None:
    desk = Desk()
    desk.brings(40)
    assert [call.output for call in desk.books.told] == [50]


def test_an_unpriced_stream_never_runs_out_of_money() -> None:
    desk = Desk(account=Account(stop_when_empty=True), available=0)
    desk.call.price = None
    desk.brings(10_000)


def test_a_stream_ends_when_the_accounts_money_is_gone() -> None:
    desk = Desk(account=Account(stop_when_empty=True), available=500_000)
    desk.brings(8)
    with pytest.raises(BudgetExhausted):
        desk.brings(400)


def test_what_the_call_itself_holds_is_its_to_spend() -> None:
    desk = Desk(account=Account(stop_when_empty=True), available=0)
    desk.call.held = Nanos(16 * 2500 + 100 * 10_000)
    desk.brings(80)
    with pytest.raises(BudgetExhausted):
        desk.brings(8)


def test_a_stream_ends_when_the_tokens_budget_is_gone() -> None:
    desk = Desk(kit.token(stop_when_empty=True, budgets=(Budget(nanos=Nanos(500_000)),)))
    desk.brings(8)
    with pytest.raises(BudgetExhausted):
        desk.brings(400)


def test_a_stream_goes_on_if_nobody_wants_it_stopped() -> None:
    desk = Desk(kit.token(budgets=(Budget(nanos=Nanos(1)),)), available=-(10**9))
    desk.brings(10_000)
