"""Rig: a pipeline over the real store, with both ends and the clock in the test's hands."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gateway.config import Config
from gateway.core.admission import today_of
from gateway.core.answer_memory import AnswerMemory
from gateway.core.attempts import AnswerSender, Attempts
from gateway.core.auth import new_call_id
from gateway.core.catalog import Catalog
from gateway.core.channel_health import ChannelHealth
from gateway.core.channel_limits import ChannelLimits
from gateway.core.chooser import Chooser
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.live_calls import CallDeadlines, LiveCalls
from gateway.core.pipeline import Pipeline
from gateway.core.preparation import Preparer, Worker
from gateway.core.progress import ProgressReporter
from gateway.core.ratelimit import Limiter
from gateway.core.retry import RetryBudget
from gateway.core.tasks import Tasks
from gateway.domain.account import Account, Grant
from gateway.domain.call import Record
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from gateway.domain.registry import Change, Entity, Table
from gateway.domain.token import Token
from gateway.domain.units import DOLLAR, Millis, Nanos
from gateway.inbound.api import HttpRequest
from gateway.store.store import Store
from gateway.upstream.learned_params import LearnedParams
from tests.core import kit
from tests.core.clocks import NOON, Watch
from tests.core.ends import Answered, FakeClient, FakeUpstreams
from tests.fakes.audit import verify
from tests.fakes.syncing import ManualSyncer

QUICK = CallDeadlines(first_event=2.0, keep_alive=3.0, tick=3600)
"""Judged by the clock in the test's hands, and looked at when the test says so."""


class Rig:
    """The parts, and short words for what tests do with them."""

    def __init__(self, home: Path) -> None:
        self.watch = Watch()
        self.draw: Callable[[int], int] = lambda _: 0
        clock = self.watch.clock
        self.store = Store(Config(home=home), now=clock.wall, syncer=ManualSyncer)
        self.books = self.store.books
        self.upstreams = FakeUpstreams()
        self.bus = EventBus()
        self.health = ChannelHealth(clock.mono, self.bus.publish_change)
        self.limiter = Limiter(clock.mono, today_of(self.books, clock.wall))
        self.tasks, self.worker = Tasks(), Worker()
        self.live = LiveCalls(clock.mono, self.tasks, QUICK)
        self.answers = AnswerMemory(lambda: self.store.entities.registry.settings, self.live.calls)
        self.pipeline = Pipeline(
            books=self.books,
            catalog=lambda: self.catalog,
            attempts=self._attempts(clock),
            live=self.live,
            answers=self.answers,
        )
        self.meter = self.pipeline.meter
        self.token = kit.token()
        self.client = FakeClient()
        self.put("account", "", Account())
        self.put("groups", "home", Group(name="home"))
        self.put("prices", "m", kit.PRICE)
        self.put("tokens", self.token.id, self.token)
        self.grant(DOLLAR)

    def _attempts(self, clock: Clock) -> Attempts:
        progress = ProgressReporter(self.bus, self.books)
        self.live.report = progress.report_output
        running, worker = self.live.calls.__len__, self.worker
        return new_attempts(
            self.upstreams, self.health, self.limiter, progress, clock, draw=self._drawn, running=running, worker=worker
        )

    def _drawn(self, tickets: int) -> int:
        return self.draw(tickets)

    def put(self, table: Table, key: str, value: Entity) -> None:
        self.store.entities.apply([Change(table, key, value)])

    def channel(
        self, name: str = "up", *models: str, answer: Callable[..., Any] | None = None, **fields: Any
    ) -> Channel:
        """Add a channel; ``answer`` makes each of its answers."""
        if answer is not None:
            self.upstreams.on(name, answer)
        made = kit.channel(name, *models, **{"groups": ("home",), **fields})
        self.put("channels", made.id, made)
        return made

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.store.entities.registry, NOON)

    def change_token(self, **fields: Any) -> Token:
        self.token = msgspec.structs.replace(self.token, **fields)
        self.put("tokens", self.token.id, self.token)
        return self.token

    def price(self, **fields: Any) -> None:
        self.put("prices", "m", msgspec.structs.replace(kit.PRICE, **fields) if fields else kit.PRICE)

    def grant(self, nanos: int) -> None:
        number = f"gr_{len(self.store.entities.registry.grants)}"
        self.put("grants", number, Grant(id=number, nanos=Nanos(nanos), time=Millis(0)))

    async def call(self, model: str = "m", **fields: Any) -> Answered:
        return await self.run(kit.body(model, **fields))

    async def run(self, body: bytes, client: FakeClient | None = None) -> Answered:
        clock = self.watch.clock
        now = clock.wall()
        origin = kit.origin(id=new_call_id(now), app="test", ts=now, began=clock.mono())
        client = client or self.client
        await self.pipeline.run(origin, self.token, HttpRequest(body=body, target="/", headers={}), client)
        return client.whole

    def start(self, model: str = "m", **fields: Any) -> "asyncio.Task[Answered]":
        """A call in a task of its own, as the web surface has it."""
        return asyncio.get_running_loop().create_task(self.call(model, **fields), name="call")

    async def start_until(
        self, condition: Callable[[], object], model: str = "m", **fields: Any
    ) -> "asyncio.Task[Answered]":
        """The same, once something is so."""
        task = self.start(model, **fields)
        await until(condition)
        return task

    async def pass_time(self, seconds: float) -> None:
        """Turn the clock, let the slow clock of the live calls see it, and run all that follows from it."""
        self.watch.advance(seconds)
        self.live._tick()  # noqa: SLF001 - the loop's own timer would make tests depend on how busy the machine is
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def records(self) -> list[Record]:
        """Oldest first."""
        return self.store.calls.find(limit=1000)[::-1]

    @property
    def record(self) -> Record:
        """The only one."""
        (record,) = self.records
        return record

    @property
    def spent(self) -> int:
        return self.store.entities.granted - self.books.balance()

    def check(self) -> None:
        """P1 and P3 when nothing runs: every hold has ended, once, and every nano-dollar is where it belongs."""
        assert dict(self.live.calls) == {}
        assert dict(self.books.running) == {}
        assert self.books.available() == self.books.balance() == self.store.entities.granted - self.spent
        assert self.spent == sum(record.cost for record in self.records)
        assert len({record.id for record in self.records}) == len(self.records)
        assert self.limiter.concurrency._lines == {}  # noqa: SLF001 - every place was given back
        assert verify(self.store).difference == ""


def new_attempts(
    sender: AnswerSender,
    health: ChannelHealth,
    limiter: Limiter,
    progress: ProgressReporter,
    clock: Clock,
    *,
    draw: Callable[[int], int] = lambda _: 0,
    running: Callable[[], int] = lambda: 10,
    worker: Worker | None = None,
) -> Attempts:
    """Returns what makes the attempts of calls. ``running`` returns how many calls run."""
    retries, limits = RetryBudget(clock.mono, running), ChannelLimits(limiter, progress)
    return Attempts(
        sender=sender,
        preparer=Preparer(LearnedParams(), worker or Worker(), clock.wall),
        chooser=Chooser(health=health, draw=draw, retries=retries, channel_limits=limits, mono=clock.mono),
        progress=progress,
        clock=clock,
    )


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


@contextmanager
def rigged(home: Path) -> Iterator[Rig]:
    """A rig whose books are checked at the end."""
    rig = Rig(home)
    try:
        yield rig
        rig.check()
    finally:
        rig.store.close()
