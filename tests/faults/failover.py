"""Failover: sixteen troubles of an upstream that has a fallback, each with what happened to the call.

The definitions follow the public Failover Bench: one fake provider, the trouble chosen by the model's name, at most two
retries, one fallback model, ten seconds of patience for the first and for each further event. Verdicts: ``pass``;
``partial``, rescued with bad manners; ``safe``, a clean error in bounded time; ``fail``, a hang, or a truncated answer
shown as a success.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.domain.channel import ServedModel, Timeouts
from gateway.domain.group import Fallback
from gateway.domain.units import DOLLAR, Nanos
from tests.conformance.shapes import completion_faults, error_faults, stream_faults
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, chunk, cut, fail, in_steps, silence, slam, speak, story, stream, usage

LIMIT_S = 10.0
"""For the head of an answer, and between its events."""
OUTAGE_S = 60.0
BACK_S = 30.0
"""Within this time after an outage the first model must answer again."""
HOPELESS_S = 4 * LIMIT_S
WORDS = ("Well ", "said.")
TOLD = "Well said."

PASS, PARTIAL, SAFE, FAIL = "pass", "partial", "safe", "fail"


@dataclass
class Stage:
    """One trouble's own models and channels; ``slack_s`` is what a busy machine may take longer."""

    gateway: Gateway
    provider: Provider
    name: str
    slack_s: float

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

    async def call(self, *first: Script, stream: bool = True) -> "Heard":
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
        return Heard(answer, loop.time() - began, stream=stream)


@dataclass
class Heard:
    """What a client got."""

    answer: Answer
    seconds: float
    stream: bool

    @property
    def model(self) -> str:
        """The model that a complete and faultless answer names; empty if it is not such an answer."""
        if self.answer.status != 200:
            return ""
        if not self.stream:
            return "" if completion_faults(self.answer.json) else str(self.answer.json["model"])
        if stream_faults(self.answer.body) or self.answer.text != TOLD:
            return ""
        return str(self.answer.chunks[0]["model"])

    @property
    def is_cut(self) -> bool:
        """It began and ended with an error that no client takes for the end of a good answer."""
        body = self.answer.body
        return self.answer.status == 200 and DONE.strip() not in body and not stream_faults(body, error=True)

    @property
    def refused(self) -> bool:
        return self.answer.status >= 400 and not error_faults(self.answer.json)


def rescued(stage: Stage, heard: Heard, *, most: int = 3, within_s: float = HOPELESS_S) -> str:
    """The fallback answered, and the first model got no more requests, and for no longer, than is polite."""
    if heard.model != stage.backup:
        return SAFE if heard.refused else FAIL
    mannerly = len(stage.asked(stage.name)) <= most and heard.seconds <= within_s + stage.slack_s
    return PASS if mannerly else PARTIAL


def recovered(stage: Stage, heard: Heard) -> str:
    """The first model answered in the end; the fallback was not needed."""
    if heard.model == stage.name and len(stage.asked(stage.name)) == 2:
        return PASS
    return PARTIAL if heard.model == stage.backup else SAFE if heard.refused else FAIL


def ended(stage: Stage, heard: Heard, within_s: float) -> str:
    """A started answer that cannot be saved is cut in time, and no other channel gets the call."""
    if heard.model:
        return PARTIAL
    good = heard.is_cut and heard.seconds <= within_s + stage.slack_s and not stage.asked(stage.backup)
    return SAFE if good else FAIL


async def limited_for_a_moment(stage: Stage) -> str:
    heard = await stage.call(fail(429, "slow down", headers={"retry-after": "2"}), speak(*WORDS))
    verdict = recovered(stage, heard)
    asked = stage.asked(stage.name)
    return PARTIAL if verdict == PASS and asked[1].began - asked[0].began < 2 else verdict


async def limited(stage: Stage) -> str:
    return rescued(stage, await stage.call(fail(429, "slow down")))


async def failed_once(stage: Stage) -> str:
    return recovered(stage, await stage.call(fail(500), speak(*WORDS)))


async def down(stage: Stage) -> str:
    return rescued(stage, await stage.call(fail(503)))


async def reset(stage: Stage) -> str:
    return rescued(stage, await stage.call(slam), most=1)


async def silent(stage: Stage) -> str:
    return rescued(stage, await stage.call(silence), most=1, within_s=LIMIT_S + 1)


async def slow_to_begin(stage: Stage) -> str:
    return rescued(stage, await stage.call(in_steps(hangs=True)), most=1, within_s=LIMIT_S + 1)


async def cut_off(stage: Stage) -> str:
    return ended(stage, await stage.call(cut(*story(*WORDS, "And more")[:3])), LIMIT_S)


async def stalled(stage: Stage) -> str:
    return ended(stage, await stage.call(in_steps(*story(*WORDS)[:2], hangs=True)), LIMIT_S + 1)


async def malformed(stage: Stage) -> str:
    good = story(*WORDS, model=stage.name)
    heard = await stage.call(in_steps(*good[:2], b'data: {"id":"chatcmpl-1","choi\n\n', *good[2:], DONE))
    return PASS if heard.model == stage.name else SAFE if heard.refused or heard.is_cut else FAIL


async def without_done(stage: Stage) -> str:
    script = stream(*story(*WORDS, model=stage.name), chunk(usage=usage()), done=False)
    heard = await stage.call(script)
    return PASS if heard.model == stage.name and heard.seconds < LIMIT_S else FAIL


async def too_long(stage: Stage) -> str:
    words = "This model's maximum context length is 8000 tokens"
    return rescued(stage, await stage.call(fail(400, words, code="context_length_exceeded")), most=1)


async def filtered(stage: Stage) -> str:
    heard = await stage.call(fail(400, "flagged", code="content_filter"))
    told = heard.refused and heard.answer.status == 400 and heard.answer.error["code"] == "content_filter"
    return PASS if told and not stage.asked(stage.backup) else FAIL


async def cut_and_no_prefill(stage: Stage) -> str:
    """The fallback refuses to go on with a begun answer; nobody may ask it to."""
    stage.provider.on(stage.backup, fail(400, "the last message must be of the user"))
    return ended(stage, await stage.call(cut(*story(*WORDS, "And more")[:3])), LIMIT_S)


async def flapping(stage: Stage) -> str:
    """Down for a minute, then well: every call is answered, trials are few, and the first model comes back."""
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()

    async def primary(exchange: Exchange) -> None:
        script = fail(503) if loop.time() - began < OUTAGE_S else speak(*WORDS)
        await script(exchange)

    heard: list[tuple[float, str]] = []
    while (now := loop.time() - began) < OUTAGE_S + BACK_S + 5:
        answer = await stage.call(*([] if heard else [primary]))
        heard.append((now, answer.model))
        await asyncio.sleep(1.0)
    if any(not model for _, model in heard):
        return FAIL
    trials = [exchange for exchange in stage.asked(stage.name) if exchange.began - began < OUTAGE_S]
    back = [at for at, model in heard if model == stage.name and at >= OUTAGE_S]
    mannerly = len(trials) <= OUTAGE_S / 10 + 4  # those that opened the breaker, then one in ten seconds
    return PASS if mannerly and back and back[0] <= OUTAGE_S + BACK_S + stage.slack_s else PARTIAL


async def accounted(stage: Stage) -> str:
    """Answer, headers, record and charge all name the model that answered."""
    heard = await stage.call(fail(503), stream=False)
    record = next(record for record in stage.gateway.records if record.model == stage.name)
    verdict = PASS if heard.model == stage.backup else FAIL
    true = (
        heard.answer.head.get("x-gateway-model") == stage.backup
        and int(heard.answer.head.get("x-gateway-attempts")) == len(record.attempts)
        and record.cost == 9 * 5_000 + 12 * 20_000
        and record.cost == round(float(heard.answer.head.get("x-gateway-cost")) * DOLLAR)
        and record.attempts[-1].model == stage.backup
        and json.loads(heard.answer.body)["usage"]["prompt_tokens"] == record.input
    )
    return verdict if true else FAIL


SCENARIOS: Sequence[tuple[str, Callable[[Stage], Awaitable[str]], str]] = (
    ("429 with Retry-After", limited_for_a_moment, PASS),
    ("429 without Retry-After", limited, PASS),
    ("500 once", failed_once, PASS),
    ("503 for good", down, PASS),
    ("reset before headers", reset, PASS),
    ("silence", silent, PASS),
    ("slow first token", slow_to_begin, PASS),
    ("cut mid-stream", cut_off, SAFE),
    ("stall mid-stream", stalled, SAFE),
    ("malformed chunk", malformed, PASS),
    ("no [DONE]", without_done, PASS),
    ("context length", too_long, PASS),
    ("content filter", filtered, PASS),
    ("cut, fallback rejects prefill", cut_and_no_prefill, SAFE),
    ("flapping primary", flapping, PASS),
    ("fail-over accounting", accounted, PASS),
)


async def verdicts(gateway: Gateway, provider: Provider, slack_s: float) -> list[str]:
    """All of them at once, in the order of the table."""
    names = [f"s{number:02}" for number in range(1, len(SCENARIOS) + 1)]
    gateway.group("default", fallbacks=tuple(Fallback(model=name, to=(f"{name}-backup",)) for name in names))
    stages = [Stage(gateway, provider, name, slack_s) for name in names]
    return list(await asyncio.gather(*(play(stage) for (_, play, _), stage in zip(SCENARIOS, stages, strict=True))))
