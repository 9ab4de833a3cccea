"""A fallback that too little is left for is left out; the model that was requested is not refused because of it."""

import asyncio
import gc
import json
import threading
from typing import Any

import msgspec
import pytest

from gateway.core.quota import ModelNeed, need_of
from gateway.domain.budget import Budget
from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect, Overrides
from gateway.domain.errors import NoChannel, QuotaExceeded, UpstreamError
from gateway.domain.group import Fallback, Group
from gateway.domain.limits import Limits
from gateway.domain.units import DOLLAR, ChannelId, Nanos
from tests.core import kit
from tests.core.ends import FakeClient, FakeReply, error_body, whole
from tests.core.generous import GenerousUpstream
from tests.core.rig import Rig, until
from tests.core.test_pipeline import caught

CENT = DOLLAR // 100
LEFT_OUT = "fallback claude: too little money or tokens left for it"


def three_models(rig: Rig, money: int, *, broken: tuple[str, ...] = ()) -> None:
    """Model m at 10 dollars per million output tokens; a Claude model at 25 and one at 5 may answer for it."""
    upstream = GenerousUpstream()
    upstream.broken = set(broken)
    rig.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="m", to=("claude", "small")),)))
    for name, dollars in (("m", 10), ("claude", 25), ("small", 5)):
        made = rig.channel(name, name, dialect=Dialect.ANTHROPIC if name == "claude" else Dialect.OPENAI)
        rig.upstreams.on(name, upstream.at(made, rig.upstreams))
        rig.put("prices", name, msgspec.structs.replace(kit.PRICE, model=name, output=Nanos(dollars * DOLLAR)))
    rig.grant(money - rig.books.available())


@pytest.fixture
def poor(rig: Rig) -> Rig:
    three_models(rig, CENT)
    return rig


async def test_the_requested_model_is_sent_with_the_limit_that_is_left(poor: Rig) -> None:
    answer = await poor.call()
    (_, sent) = poor.upstreams.asked[-1]
    limit = (CENT - 16 * 2500) // 10_000
    assert (poor.upstreams.order, json.loads(sent.body)["max_tokens"]) == (["m"], limit)
    assert answer.headers["x-gateway-output-limit"] == str(limit)
    assert (poor.record.held, poor.books.balance() >= 0) == (CENT, True)


@pytest.mark.parametrize(
    ("money", "order"), [(CENT, ["m", "m", "small"]), (5 * CENT, ["m", "m", "claude"])], ids=["little", "enough"]
)
async def test_only_what_can_be_paid_answers_for_it(rig: Rig, money: int, order: list[str]) -> None:
    three_models(rig, money, broken=("m",))
    await rig.call()
    assert rig.upstreams.order == order
    assert 0 < rig.record.cost <= rig.record.held
    assert rig.books.balance() >= 0


async def test_a_limit_that_only_one_model_is_too_dear_for_leaves_that_one_out(rig: Rig) -> None:
    three_models(rig, CENT, broken=("m",))
    await rig.call(max_tokens=900)
    assert rig.upstreams.order == ["m", "m", "small"]
    assert rig.record.held == 16 * 2500 + 900 * 10_000


async def test_a_budget_of_tokens_leaves_it_out_as_well(rig: Rig) -> None:
    three_models(rig, DOLLAR, broken=("m",))
    rig.change_token(budgets=(Budget(tokens=500),))
    await rig.call()
    assert rig.upstreams.order == ["m", "m", "small"]
    assert rig.record.input + rig.record.output <= 500


async def test_an_expensive_fallback_that_fits_is_kept_and_held_for(rig: Rig) -> None:
    """The hold is that of the model at 15 dollars, and of its own input: it is what may be charged."""
    three_models(rig, 2 * CENT, broken=("m",))
    rig.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="m", to=("claude", "middle", "small")),)))
    made = rig.channel("middle", "middle")
    rig.upstreams.on("middle", GenerousUpstream().at(made, rig.upstreams))
    rig.put("prices", "middle", msgspec.structs.replace(kit.PRICE, model="middle", output=Nanos(15 * DOLLAR)))
    await rig.call(max_tokens=900)
    assert rig.upstreams.order == ["m", "m", "middle"]
    assert rig.record.held == 16 * 2500 + 900 * 15_000 >= rig.record.cost > 900 * 15_000


async def test_the_first_model_of_an_alias_that_can_be_paid_answers(poor: Rig) -> None:
    poor.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="fast", to=("claude", "small")),)))
    await poor.call("fast", max_tokens=900)
    assert (poor.upstreams.order, poor.record.held) == (["small"], 16 * 2500 + 900 * 5_000)
    with pytest.raises(QuotaExceeded, match=r"may need \$0\.07504; top up"):
        await poor.call("fast", max_tokens=3000)


async def test_what_was_left_out_before_a_wait_may_answer_after_it(rig: Rig) -> None:
    three_models(rig, CENT, broken=("m", "small"))
    rig.change_token(limits=Limits(concurrent=1))
    gate = asyncio.Event()
    good = rig.channel("good", "other")
    rig.upstreams.on("good", lambda: FakeReply(gate, whole()))
    first = await rig.start_until(lambda: rig.upstreams.order == [good.name], "other", max_tokens=1)
    second = asyncio.get_running_loop().create_task(rig.run(kit.body(max_tokens=900), FakeClient()))
    await until(lambda: len(rig.pipeline.waiting.all()) == 1)
    rig.grant(DOLLAR)
    gate.set()
    await asyncio.gather(first, second)
    assert rig.upstreams.order == ["good", "m", "m", "claude"]


async def test_a_request_that_is_too_long_says_it_as_well(poor: Rig) -> None:
    """A model with a longer context might have answered."""
    body = error_body("maximum context length is 8000 tokens", code="context_length_exceeded")
    poor.upstreams.on("m", lambda: FakeReply(body, status=400))
    assert (await caught(poor.call())).message.endswith(f" [{LEFT_OUT}]")


async def test_nothing_of_such_a_call_stays_in_memory(poor: Rig) -> None:
    gc.collect()
    gc.disable()
    try:
        before = refusals_in_memory()
        for _ in range(3):
            poor.grant(CENT - poor.books.available())
            await poor.call(max_tokens=900)
        poor.client.on_gone = None  # as an HTTP client does at the end
        await asyncio.sleep(0)
        assert len(poor.records) == 3
        assert refusals_in_memory() == before
    finally:
        gc.enable()


def refusals_in_memory() -> int:
    """Also those that tests before kept."""
    return sum(isinstance(one, QuotaExceeded) for one in gc.get_objects())


async def test_the_advised_limit_is_one_that_is_admitted(poor: Rig) -> None:
    limit = (CENT - 16 * 2500) // 25_000
    for caps in ({"max_tokens": None}, {"max_tokens": limit + 1}, {"max_completion_tokens": 90_000}):
        error = await caught(poor.call("claude", **caps))
        assert error.message.endswith(f"; or send it with an output limit of at most {limit} tokens")
    await poor.call("claude", max_tokens=limit)
    assert CENT - 25_000 < poor.records[-1].held <= CENT


@pytest.mark.parametrize(
    "fields",
    [{"n": 2}, {"messages": [{"role": "user", "content": "x" * 13_000}]}, {"thinking": {"budget_tokens": 9000}}],
)
async def test_no_limit_is_advised_where_none_would_help(poor: Rig, fields: dict[str, Any]) -> None:
    with pytest.raises(QuotaExceeded) as error:
        await poor.call("claude", **fields)
    assert "output limit" not in error.value.message
    poor.channel("claude", "claude", dialect=Dialect.ANTHROPIC, overrides=Overrides(remove=("max_tokens",)))
    with pytest.raises(QuotaExceeded) as error:
        await poor.call("claude", max_tokens=100)
    assert "output limit" not in error.value.message


async def test_the_requested_model_itself_must_be_affordable(poor: Rig) -> None:
    """A cheaper one answers where no channel can, not where the money is short."""
    with pytest.raises(QuotaExceeded, match=r"this call may need \$0\.01004[ ,;]"):
        await poor.call(max_tokens=1000)
    assert poor.upstreams.order == []


async def test_a_mistake_of_the_client_does_not(poor: Rig) -> None:
    poor.upstreams.on("m", lambda: FakeReply(error_body("an image is not valid"), status=400))
    with pytest.raises(UpstreamError, match="not valid") as error:
        await poor.call()
    assert "left for it" not in error.value.message


async def test_where_no_channel_is_left_it_is_among_the_reasons(poor: Rig) -> None:
    for name in ("m", "small"):
        poor.health.note_failure(ChannelId(f"ch_{name}"), FailureKind.AUTH, "invalid key")
    with pytest.raises(NoChannel, match=f"{LEFT_OUT}; 'tollkeeper why "):
        await poor.call()


async def test_a_large_request_is_looked_at_alike_beside_the_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noted(*args: Any, **fields: Any) -> ModelNeed:
        threads.append(threading.current_thread().name)
        return need_of(*args, **fields)

    monkeypatch.setattr("gateway.core.admission.need_of", noted)
    three_models(rig, 175 * CENT, broken=("m",))
    await rig.run(kit.body(messages=[{"role": "user", "content": "word " * 250_000}], max_tokens=62_500))
    assert rig.upstreams.order == ["m", "m", "small"]
    assert len(threads) == 3
    assert all(name.startswith("tollkeeper-large") for name in threads)
