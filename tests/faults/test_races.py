"""Many calls at once: at the same money, ended at any moment, and whatever channels, keys and models do meanwhile."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.budget import Budget, Window
from gateway.domain.call import Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.group import Fallback, Policy
from gateway.domain.limits import Limits
from gateway.domain.units import DOLLAR, Nanos
from tests.conformance.shapes import completion_faults, error_faults, stream_faults
from tests.fakes import law
from tests.fakes.client import HELLO, Answer, Client, Doc
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import cut, fail, silence, slam, speak, speak_after, story
from tests.fakes.wire import PATIENCE_S, Gone
from tests.house import FULL

CAPPED: Doc = {"model": "m", "messages": HELLO, "max_tokens": 10}


async def hold_of(gateway: Gateway, provider: Provider) -> int:
    """Nano-dollars held for one capped call, found by making one."""
    provider.on("m", speak(prompt=1, completion=1))
    assert (await gateway.client.post(CAPPED)).status == 200
    return (await gateway.settled())[-1].held


def volley(client: Client, count: int, **fields: Any) -> list[asyncio.Task[Answer]]:
    """So many calls at once."""
    return [asyncio.ensure_future(client.post({**CAPPED, **fields})) for _ in range(count)]


async def ended(tasks: list[asyncio.Task[Answer]], count: int) -> None:
    """Wait until so many of them have their answer."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(task.done() for task in tasks) < count:
            await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)


async def tally(tasks: list[asyncio.Task[Answer]]) -> Counter[tuple[int, str]]:
    """How often which status and code came back."""
    answers = await asyncio.gather(*tasks)
    return Counter((a.status, "" if a.status == 200 else a.error["code"]) for a in answers)


def walled() -> tuple[Script, asyncio.Event]:
    """A good upstream that answers nobody until the event is set."""
    wall = asyncio.Event()
    return speak_after(wall, speak(prompt=1, completion=1)), wall


@pytest.mark.parametrize(
    ("status", "count", "edit"),
    [
        (401, 1, {"key": "sk-upstream-new"}),
        (401, 1, {"keys": ("sk-upstream-new",)}),
        (500, 4, {"timeouts": Timeouts(total=500)}),
        (429, 1, {"cleared": True}),
    ],
    ids=["another key", "one more key", "other timeouts", "cleared by hand"],
)
async def test_what_failed_before_an_edit_pauses_no_edited_channel(
    gateway: Gateway, provider: Provider, status: int, count: int, edit: Doc
) -> None:
    wall = asyncio.Event()
    provider.on("m", speak_after(wall, fail(status)))
    channel = gateway.channel(provider.base_url)
    calls = volley(gateway.client, count)
    await provider.asked(count)
    if edit.pop("cleared", False):
        gateway.engine.health.clear(channel.id)
    gateway.change("channels", channel.id, replace(channel, **edit))
    wall.set()
    await ended(calls, count)
    assert gateway.engine.channel_state(gateway.engine.catalog.channel("up")).name == "ok"


async def test_a_good_answer_to_the_old_key_says_nothing_of_the_new_key(gateway: Gateway, provider: Provider) -> None:
    wall = asyncio.Event()
    provider.on("m", speak_after(wall))
    channel = gateway.channel(provider.base_url)
    calls = volley(gateway.client, 1)
    await provider.asked(1)
    gateway.change("channels", channel.id, replace(channel, key="sk-upstream-new"))
    provider.on("m", fail(401))
    await gateway.client.chat()
    wall.set()
    await ended(calls, 1)
    assert gateway.engine.channel_state(gateway.engine.catalog.channel("up")).name == "attention"


async def test_what_the_old_address_refuses_is_not_left_out_at_the_new_one(
    gateway: Gateway, provider: Provider
) -> None:
    wall = asyncio.Event()
    provider.on("m", speak_after(wall, fail(400, "Unsupported parameter: 'seed'")), speak())
    channel = gateway.channel(provider.base_url)
    call = asyncio.ensure_future(gateway.client.chat(seed=1))
    await provider.asked(1)
    gateway.change(
        "channels", channel.id, replace(channel, base_url=provider.base_url.replace("127.0.0.1", "localhost"))
    )
    wall.set()
    assert (await call).status == 200
    await gateway.client.chat(seed=2)
    assert [exchange.json.get("seed") for exchange in provider.exchanges] == [1, None, 2]


async def test_without_a_cap_the_rest_goes_to_one(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", silence)
    gateway.grant(1_000_000 - gateway.engine.store.books.available())
    racers = [asyncio.ensure_future(gateway.client.chat()) for _ in range(20)]
    await ended(racers, 19)
    await provider.asked()
    assert gateway.engine.store.books.available() >= 0
    (running,) = gateway.engine.store.books.running
    assert gateway.engine.cancel(running)
    assert await tally(racers) == {(429, "insufficient_quota"): 19, (503, "call_cancelled"): 1}


@pytest.mark.parametrize("tight", ["token", "group", "account", "concurrent", "rpm"])
async def test_the_tightest_limit_wins_and_holds_nothing(gateway: Gateway, provider: Provider, tight: str) -> None:
    hold = await hold_of(gateway, provider)
    fits = 7
    tightly, loosely = Nanos(hold * fits + hold // 2), Nanos(hold * 150)
    gateway.group("g", budgets=(Budget(window=Window.DAY, nanos=tightly if tight == "group" else loosely),))
    gateway.channel(provider.base_url, groups=("g",))
    client = gateway.token(
        "racer",
        group="g",
        budgets=(Budget(window=Window.DAY, nanos=tightly if tight == "token" else loosely),),
        limits=Limits(
            concurrent=fits if tight == "concurrent" else 150, rpm=fits if tight == "rpm" else 1000, queue_s=0
        ),
    )
    books = gateway.engine.store.books
    gateway.grant((tightly if tight == "account" else loosely) - books.available())
    script, wall = walled()
    provider.on("m", script)
    racers = volley(client, 60)
    await ended(racers, 60 - fits)
    await provider.asked(1 + fits)
    assert law.breaches(gateway, [provider]) == []
    assert len(books.running) == fits
    for scope in (("account", ""), ("group", "g"), ("token", "tok_racer")):
        assert books.held(scope).nanos == fits * hold
    wall.set()
    assert (await tally(racers))[200, ""] == fits


async def test_top_ups_and_calls_at_once_are_exact(gateway: Gateway, provider: Provider) -> None:
    chance = random.Random(14)
    provider.on("m", speak(prompt=7, completion=5))
    granted = gateway.engine.catalog.registry.granted

    async def spend(times: int) -> int:
        return sum([(await gateway.client.post(CAPPED)).status == 200 for _ in range(times)])

    async def top_up() -> int:
        total = 0
        for _ in range(150):
            given = chance.randrange(-1_000, 1_000_000)
            gateway.grant(given)
            total += given
            await asyncio.sleep(0)
        return total

    *good, added = await asyncio.gather(*(spend(25) for _ in range(12)), top_up())
    books = gateway.engine.store.books
    await gateway.settled(300)
    assert sum(good) == 300
    assert books.balance() == granted + added - 300 * (7 * 2_500 + 5 * 10_000)
    assert books.available() == books.balance()


async def test_a_call_ended_at_any_step_is_settled_once(gateway: Gateway, provider: Provider, stream: bool) -> None:
    provider.on("m", speak(*"abcdef", prompt=9, completion=12))
    body = {**CAPPED, "stream": stream}
    seen: set[Outcome] = set()
    for steps in range(80):
        call = asyncio.ensure_future(gateway.client.post(body))
        for _ in range(steps):
            await asyncio.sleep(0)
        gateway.engine.live.cancel_all(Outcome.CANCELLED)
        assert (await call).status in {200, 503}
        seen.add((await gateway.settled(steps + 1))[-1].outcome)
        assert law.breaches(gateway, [provider]) == []
    assert seen == {Outcome.DONE, Outcome.CANCELLED}


CALLS = 400 if FULL else 120
CALLERS = 16
MODELS = {"a": ("b", "c"), "b": ("c",), "c": ("a",)}
PRICES = {"a": (1, 2), "b": (5, 20), "c": (3, 9)}
"""Dollars per million tokens."""


@dataclass
class Weather:
    """What the upstream does to each request, by chance."""

    chance: random.Random

    async def __call__(self, exchange: Exchange) -> None:
        if "bad" in exchange.head.get("authorization"):
            await fail(401)(exchange)
            return
        script = self._script()
        await asyncio.sleep(self.chance.random() * 0.05)
        await script(exchange)

    def _script(self) -> Script:
        bad: list[Script] = [
            fail(500),
            fail(503),
            fail(429),
            fail(429, headers={"retry-after": "1"}),
            slam,
            silence,
            cut(*story("Hel", "lo")[:2]),
        ]
        return speak("Hel", "lo", prompt=7, completion=11) if self.chance.random() < 0.6 else self.chance.choice(bad)


def fits(answer: Answer, asked: str, *, stream: bool) -> str:
    """What the answer is; it must be whole, or say that it is not."""
    if answer.status != 200:
        assert error_faults(answer.json) == []
        assert answer.status in {429, 502, 503, 504}
        return "refused"
    if stream and b"[DONE]" not in answer.body:
        assert stream_faults(answer.body, error=True) == []
        return "broken off"
    assert (stream_faults(answer.body) if stream else completion_faults(answer.json)) == []
    assert answer.text == "Hello"
    model = answer.chunks[0]["model"] if stream else answer.json["model"]
    assert model in (asked, *MODELS[asked])
    return "own" if model == asked else "fallback"


@pytest.mark.slow
@pytest.mark.hasty(10)
@pytest.mark.parametrize("policy", list(Policy))
async def test_every_call_ends_once_and_costs_its_usage(gateway: Gateway, provider: Provider, policy: Policy) -> None:
    chance = random.Random(policy)
    weather = Weather(chance)
    for model, prices in PRICES.items():
        provider.on(model, weather)
        gateway.price(model, *(Nanos(dollars * DOLLAR) for dollars in prices))
    quick = Timeouts(connect=2, head=1, idle=1, total=20)
    for number, served in enumerate((("a", "b"), ("b", "c"), ("a", "c"), ("a",))):
        keys = ("sk-bad-0123456789", "sk-good-9876543210") if number % 2 else ()
        gateway.channel(provider.base_url, *served, name=f"c{number}", priority=number % 2, keys=keys, timeouts=quick)
    rules = tuple(Fallback(model=model, to=others) for model, others in MODELS.items())
    gateway.group("default", fallbacks=rules, policy=policy, sticky=policy is Policy.FASTEST)
    gateway.grant(10**13)
    ends: Counter[str] = Counter()

    async def call(number: int) -> None:
        model, stream = chance.choice("abc"), chance.random() < 0.5
        messages = [{"role": "user", "content": f"conversation {number % 20}"}]
        try:
            answer = await gateway.client.chat(model, stream=stream, messages=messages, max_tokens=50)
        except Gone:
            ends["broken off"] += 1
            return
        ends[fits(answer, model, stream=stream)] += 1

    left = iter(range(CALLS))

    async def caller() -> None:
        for number in left:
            await call(number)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    records = await gateway.settled(CALLS)
    assert len(records) == sum(ends.values()) == CALLS
    assert min(ends["own"], ends["fallback"]) > 0
    for record in records:
        if record.status == 200 and record.outcome is Outcome.DONE:
            dollars = PRICES[record.attempts[-1].model or record.model]
            assert record.cost == 7 * dollars[0] * 1000 + 11 * dollars[1] * 1000
        assert record.cost <= record.held
