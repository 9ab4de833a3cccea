"""Failover: sixteen troubles of an upstream that has a fallback, all at once. TOLLKEEPER_FULL=1: in real time.

The definitions follow the public Failover Bench: one fake provider, at most two retries, one fallback model, ten
seconds of patience for the first and for each further event. Thirteen calls are rescued, with no more requests and no
later than is polite; three that had begun end in an error, in bounded time, and nobody else gets them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from gateway.domain.channel import ServedModel, Timeouts
from gateway.domain.group import Fallback
from gateway.domain.units import DOLLAR, Nanos
from tests.conformance.shapes import completion_faults, error_faults, stream_faults
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, chunk, cut, fail, in_steps, silence, slam, speak, story, stream, usage
from tests.house import FULL

FACTOR, SLACK_S = (1, 0.5) if FULL else (10, 6.0)
"""How fast the clock of the loop is, and what a busy machine may take longer."""
LIMIT_S = 10.0
"""For the head of an answer, and between its events."""
OUTAGE_S = 60.0
BACK_S = 30.0
"""Within this time after an outage the first model must answer again."""
HOPELESS_S = 4 * LIMIT_S
WORDS = ("Well ", "said.")


@dataclass
class Stage:
    """One trouble's own models and channels."""

    gateway: Gateway
    provider: Provider
    name: str

    def __post_init__(self) -> None:
        self.backup = f"{self.name}-backup"
        patience = Timeouts(connect=5, head=LIMIT_S, idle=LIMIT_S, total=60)
        for which, model, context in (("first", self.name, 8_000), ("second", self.backup, 200_000)):
            served = (ServedModel(name=model, context=context),)
            self.gateway.channel(self.provider.base_url, name=f"{self.name} {which}", models=served, timeouts=patience)
        self.gateway.price(self.name)
        self.gateway.price(self.backup, Nanos(5 * DOLLAR), Nanos(20 * DOLLAR))
        self.provider.on(self.backup, speak(*WORDS))

    def asked(self, model: str) -> list[Exchange]:
        """The provider's requests for a model."""
        return [exchange for exchange in self.provider.exchanges if exchange.body and exchange.json["model"] == model]

    async def call(self, *first: Script, stream: bool = True, within_s: float = HOPELESS_S) -> Answer:
        """One call, when the first model behaves so."""
        if first:
            self.provider.on(self.name, *first)
        loop, client = asyncio.get_running_loop(), self.gateway.client
        began, peer = loop.time(), await client.connect()
        try:
            await peer.write(client.chat_bytes(self.name, **({"stream": True} if stream else {})))
            answer = await read_answer(peer, patience_s=HOPELESS_S)
        finally:
            peer.close()
        assert loop.time() - began <= within_s + SLACK_S
        return answer


def model_of(answer: Answer) -> str:
    """The model that a complete and faultless stream names."""
    assert (answer.status, answer.text, stream_faults(answer.body)) == (200, "".join(WORDS), [])
    return str(answer.chunks[0]["model"])


async def rescued(stage: Stage, *first: Script, most: int = 3, within_s: float = HOPELESS_S) -> None:
    """The fallback answered, and the first model got no more requests, and for no longer, than is polite."""
    assert model_of(await stage.call(*first, within_s=within_s)) == stage.backup
    assert len(stage.asked(stage.name)) <= most


async def recovered(stage: Stage, *first: Script) -> None:
    """The first model answered in the end; the fallback was not needed."""
    assert model_of(await stage.call(*first)) == stage.name
    assert len(stage.asked(stage.name)) == 2


async def ended(stage: Stage, first: Script, *, within_s: float) -> None:
    """A started answer that cannot be saved ends in an error in time, and no other channel gets the call."""
    answer = await stage.call(first, within_s=within_s)
    assert (answer.status, stream_faults(answer.body, error=True)) == (200, [])
    assert DONE.strip() not in answer.body
    assert stage.asked(stage.backup) == []


async def limited_for_a_moment(stage: Stage) -> None:
    await recovered(stage, fail(429, "slow down", headers={"retry-after": "2"}), speak(*WORDS))
    first, second = stage.asked(stage.name)
    assert second.began - first.began >= 2


async def malformed(stage: Stage) -> None:
    good = story(*WORDS, model=stage.name)
    answer = await stage.call(in_steps(*good[:2], b'data: {"id":"chatcmpl-1","choi\n\n', *good[2:], DONE))
    assert model_of(answer) == stage.name


async def without_done(stage: Stage) -> None:
    script = stream(*story(*WORDS, model=stage.name), chunk(usage=usage()), done=False)
    assert model_of(await stage.call(script, within_s=LIMIT_S - SLACK_S)) == stage.name


async def too_long(stage: Stage) -> None:
    words = "This model's maximum context length is 8000 tokens"
    await rescued(stage, fail(400, words, code="context_length_exceeded"), most=1)


async def filtered(stage: Stage) -> None:
    answer = await stage.call(fail(400, "flagged", code="content_filter"))
    assert (answer.status, answer.error["code"], error_faults(answer.json)) == (400, "content_filter", [])
    assert stage.asked(stage.backup) == []


async def cut_and_no_prefill(stage: Stage) -> None:
    """The fallback refuses to go on with a begun answer; nobody may ask it to."""
    stage.provider.on(stage.backup, fail(400, "the last message must be of the user"))
    await ended(stage, cut(*story(*WORDS, "And more")[:3]), within_s=LIMIT_S)


async def flapping(stage: Stage) -> None:
    """Down for a minute, then well: every call is answered, trials are few, and the first model comes back."""
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()

    async def primary(exchange: Exchange) -> None:
        script = fail(503) if loop.time() - began < OUTAGE_S else speak(*WORDS)
        await script(exchange)

    stage.provider.on(stage.name, primary)
    heard: list[tuple[float, str]] = []
    while (now := loop.time() - began) < OUTAGE_S + BACK_S + 5:
        heard.append((now, model_of(await stage.call())))
        await asyncio.sleep(1.0)
    trials = [exchange for exchange in stage.asked(stage.name) if exchange.began - began < OUTAGE_S]
    assert len(trials) <= OUTAGE_S / 10 + 4  # those that opened the breaker, then one in ten seconds
    back = [at for at, model in heard if model == stage.name and at >= OUTAGE_S]
    assert min(back) <= OUTAGE_S + BACK_S + SLACK_S


async def accounted(stage: Stage) -> None:
    """Answer, headers, record and charge all name the model that answered."""
    answer = await stage.call(fail(503), stream=False)
    record = next(record for record in stage.gateway.records if record.model == stage.name)
    head, attempts = answer.head, record.attempts
    assert (answer.status, completion_faults(answer.json), answer.json["model"]) == (200, [], stage.backup)
    assert (head.get("x-gateway-model"), attempts[-1].model) == (stage.backup, stage.backup)
    assert int(head.get("x-gateway-attempts")) == len(attempts)
    assert record.cost == 9 * 5_000 + 12 * 20_000 == round(float(head.get("x-gateway-cost")) * DOLLAR)
    assert json.loads(answer.body)["usage"]["prompt_tokens"] == record.input


SCENARIOS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "429 with Retry-After": limited_for_a_moment,
    "429 without Retry-After": lambda stage: rescued(stage, fail(429, "slow down")),
    "500 once": lambda stage: recovered(stage, fail(500), speak(*WORDS)),
    "503 for good": lambda stage: rescued(stage, fail(503)),
    "reset before headers": lambda stage: rescued(stage, slam, most=1),
    "silence": lambda stage: rescued(stage, silence, most=1, within_s=LIMIT_S + 1),
    "slow first token": lambda stage: rescued(stage, in_steps(hangs=True), most=1, within_s=LIMIT_S + 1),
    "cut mid-stream": lambda stage: ended(stage, cut(*story(*WORDS, "And more")[:3]), within_s=LIMIT_S),
    "stall mid-stream": lambda stage: ended(stage, in_steps(*story(*WORDS)[:2], hangs=True), within_s=LIMIT_S + 1),
    "malformed chunk": malformed,
    "no [DONE]": without_done,
    "context length": too_long,
    "content filter": filtered,
    "cut, fallback rejects prefill": cut_and_no_prefill,
    "flapping primary": flapping,
    "fail-over accounting": accounted,
}


@pytest.fixture
def haste() -> float:
    """Pauses are as long as they are."""
    return 1.0


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.hasty(FACTOR)
@pytest.mark.long
async def test_each_trouble_is_survived_or_ends_in_an_error_in_time(gateway: Gateway, provider: Provider) -> None:
    rules = tuple(Fallback(model=name, to=(f"{name}-backup",)) for name in SCENARIOS)
    gateway.group("default", fallbacks=rules)
    stages = {name: Stage(gateway, provider, name) for name in SCENARIOS}
    await asyncio.gather(*(play(stages[name]) for name, play in SCENARIOS.items()))
