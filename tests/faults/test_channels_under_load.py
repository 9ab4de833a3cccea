"""One channel's trouble under load, and calls whose token or day ends while they run."""

import asyncio
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from gateway.domain.budget import Budget, Window, window_start
from gateway.domain.call import Outcome, Scope
from gateway.domain.channel import ServedModel
from gateway.domain.group import Policy
from gateway.domain.limits import Limits
from gateway.domain.price import Price, PriceHours, PriceRule
from gateway.domain.units import Millis, Nanos
from tests.fakes import law
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, chunk, event, in_steps, silence, speak, story, usage

_DAILY: Scope = ("token", "tok_daily")


async def test_calls_hung_on_one_channel_hold_up_no_other(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "dead", name="a", limits=Limits(concurrent=120))
    gateway.channel(provider.base_url, "m", name="b")
    provider.on("dead", silence)
    hung = [asyncio.ensure_future(gateway.client.chat("dead")) for _ in range(120)]
    await provider.asked(120)
    began = time.monotonic()
    answers = [await gateway.client.chat() for _ in range(50)]
    assert Counter(answer.status for answer in answers) == {200: 50}
    assert time.monotonic() - began < 5  # the benchmarks measure how long exactly
    assert not any(call.done() for call in hung)
    gateway.engine.live.cancel_all(Outcome.CANCELLED)
    assert {answer.status for answer in await asyncio.gather(*hung)} == {503}
    assert law.breaches(gateway, [provider]) == []


async def test_a_token_that_is_deleted_lets_its_stream_end(gateway: Gateway, provider: Provider) -> None:
    go_on = asyncio.Event()
    first, second, *rest = story("Hel", "lo")
    provider.on("m", in_steps(event(first) + event(second), go_on, *rest, chunk(usage=usage()), DONE))
    call = asyncio.ensure_future(gateway.client.chat(stream=True))
    await provider.asked()
    gateway.change("tokens", "tok_laptop", None)
    go_on.set()
    answer = await call
    assert (answer.status, answer.text) == (200, "Hello")
    assert (gateway.record.outcome, gateway.record.token_name) == (Outcome.DONE, "laptop")
    assert gateway.record.cost == 9 * 2_500 + 12 * 10_000
    assert (await gateway.client.chat()).status == 401


async def test_a_call_that_runs_over_midnight_is_booked_on_the_day_it_began(home: Path, provider: Provider) -> None:
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0)
    today, tomorrow = (Millis(int(day.timestamp() * 1000)) for day in (noon, noon + timedelta(days=1)))
    at, scope = [today], _DAILY
    provider.on("m", slow := Walled(), speak(prompt=1, completion=1))
    async with running(home, wall=lambda: at[0]) as gateway:
        gateway.channel(provider.base_url)
        gateway.price()
        budget = Budget(window=Window.DAY, nanos=Nanos(400_000))
        client = gateway.token("daily", budgets=(budget,), limits=Limits(rpd=1))
        call = asyncio.ensure_future(client.chat(max_tokens=20))
        await provider.asked()
        assert gateway.engine.store.books.held(scope).nanos > 200_000  # two do not fit
        at[0] = tomorrow
        assert (await client.chat(max_tokens=20)).status == 200
        slow.wall.set()
        assert (await call).status == 200
        second, first = await gateway.settled(2)
        books, day = gateway.engine.store.books, window_start(Window.DAY, tomorrow)
        assert (first.ts, second.ts, books.spent(scope, day).nanos) == (today, tomorrow, second.cost)
        assert books.spent(scope).nanos == first.cost + second.cost > second.cost > 0
        assert law.breaches(gateway, [provider]) == []
    assert law.on_disk(home) == []


async def test_a_stream_over_midnight_is_stopped_by_the_budget_of_its_own_day(home: Path, provider: Provider) -> None:
    """It costs 7,462,500, and 7,000,000 may be spent in a day, of which it holds 4,040,000."""
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0)
    today, tomorrow = (Millis(int(day.timestamp() * 1000)) for day in (noon, noon + timedelta(days=1)))
    at, go_on = [today], asyncio.Event()
    first, second, *rest = story("Hel", "word " * 800)
    pieces: list[bytes | float] = [event(second), 0.3, *map(event, rest), 0.3, DONE]
    provider.on("m", in_steps(event(first), go_on, *pieces))
    async with running(home, wall=lambda: at[0]) as gateway:
        gateway.channel(provider.base_url)
        gateway.price()
        budget = Budget(window=Window.DAY, nanos=Nanos(7_000_000))
        client = gateway.token("daily", budgets=(budget,), hold_output=400, stop_when_empty=True)
        call = asyncio.ensure_future(client.chat(max_tokens=4000, stream=True))
        await provider.asked()
        at[0] = tomorrow
        go_on.set()
        assert (await call).status == 200
        (record,) = await gateway.settled()
    assert (record.ts, record.outcome, record.finish) == (today, Outcome.STOPPED, "length")
    assert record.upstream_id == "chatcmpl-1"


async def test_calls_of_a_clock_that_was_ahead_use_up_nothing_of_today(home: Path, provider: Provider) -> None:
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0)
    today, ahead = (Millis(int(day.timestamp() * 1000)) for day in (noon, noon + timedelta(days=400)))
    at = [ahead]
    provider.on("m", speak(prompt=1, completion=1))
    async with running(home, wall=lambda: at[0]) as gateway:
        gateway.channel(provider.base_url)
        gateway.price()
        budget = Budget(window=Window.DAY, nanos=Nanos(250_000))  # one call needs 240,000
        client = gateway.token("daily", budgets=(budget,), limits=Limits(rpd=1))
        assert (await client.chat(max_tokens=20)).status == 200
        at[0] = today
        assert (await client.chat(max_tokens=20)).status == 200
        assert (await client.chat(max_tokens=20)).status == 429
        assert law.breaches(gateway, [provider]) == []
    assert law.on_disk(home) == []


async def test_the_cheapest_channel_is_that_of_the_hour(home: Path, provider: Provider) -> None:
    """``night`` costs $1 from 01:00 to 04:00 UTC on Mondays and $9 at other hours, ``day`` $3."""
    at, minute = [Millis(1_780_880_340_000)], 60_000  # 00:59 on Monday, 8 June 2026
    cheap = PriceRule(during=(PriceHours(days=("mon",), start=60, end=240),), input=Nanos(10**9), output=Nanos(10**9))
    provider.on("m", speak(prompt=1, completion=1))
    async with running(home, wall=lambda: at[0]) as gateway:
        gateway.group("default", policy=Policy.CHEAPEST)
        for name, dollars, rules in (("night", 9, (cheap,)), ("day", 3, ())):
            amount = Nanos(dollars * 10**9)
            served = ServedModel(name="m", price=Price(model="m", input=amount, output=amount, rules=rules))
            gateway.channel(provider.base_url, name=name, models=(served,))
        for moment in (0, 1, 2, 180, 181):
            at[0] = Millis(1_780_880_340_000 + moment * minute)
            assert (await gateway.client.chat(max_tokens=20)).status == 200
        records = await gateway.settled(5)
    assert [record.channel_name for record in records] == ["day", "night", "night", "night", "day"]
    assert [record.cost for record in records] == [6_000, 2_000, 2_000, 2_000, 6_000]


class Walled:
    """A good answer behind a wall."""

    def __init__(self) -> None:
        self.wall = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.until(self.wall)
        await speak(prompt=9, completion=12)(exchange)
