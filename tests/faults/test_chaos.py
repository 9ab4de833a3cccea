"""Whatever many channels, keys and models do at once, each call ends once, says true, and is charged what it used."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.group import Fallback, Policy
from gateway.domain.units import DOLLAR, Nanos
from tests.conformance.shapes import completion_faults, error_faults, stream_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import cut, fail, silence, slam, speak, story
from tests.fakes.wire import Gone
from tests.house import FULL

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
