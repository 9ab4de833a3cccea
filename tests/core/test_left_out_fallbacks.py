"""A fallback that too little is left for is left out; the model that was requested is not refused because of it."""

import json
from collections.abc import Callable

import msgspec
import pytest

from gateway.domain.budget import Budget
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect
from gateway.domain.errors import NoChannel, QuotaExceeded, UpstreamError
from gateway.domain.group import Fallback, Group
from gateway.domain.units import DOLLAR, ChannelId, Nanos
from tests.core import kit
from tests.core.ends import FakeReply, error_body
from tests.core.generous import GenerousUpstream
from tests.core.rig import Rig

CENT = DOLLAR // 100
LEFT_OUT = "fallback claude: too little money or tokens left for it"


def answer_of(rig: Rig, upstream: GenerousUpstream, made: Channel) -> Callable[[], FakeReply]:
    return lambda: upstream.reply(made, rig.upstreams.asked[-1][1])


def three_models(rig: Rig, money: int, *, broken: tuple[str, ...] = ()) -> None:
    """Model m at 10 dollars per million output tokens; a Claude model at 25 and one at 5 may answer for it."""
    upstream = GenerousUpstream()
    upstream.broken = set(broken)
    rig.put("groups", "home", Group(name="home", fallbacks=(Fallback(model="m", to=("claude", "small")),)))
    for name, dollars in (("m", 10), ("claude", 25), ("small", 5)):
        made = rig.channel(name, name, dialect=Dialect.ANTHROPIC if name == "claude" else Dialect.OPENAI)
        rig.upstreams.on(name, answer_of(rig, upstream, made))
        rig.put("prices", name, msgspec.structs.replace(kit.PRICE, model=name, output=Nanos(dollars * DOLLAR)))
    rig.grant(money - rig.books.available())


async def test_the_requested_model_is_sent_with_the_limit_that_is_left(rig: Rig) -> None:
    three_models(rig, CENT)
    answer = await rig.call()
    (_, sent) = rig.upstreams.asked[-1]
    limit = (CENT - 16 * 2500) // 10_000
    assert (rig.upstreams.order, json.loads(sent.body)["max_tokens"]) == (["m"], limit)
    assert answer.headers["x-gateway-output-limit"] == str(limit)
    assert (rig.record.held, rig.books.balance() >= 0) == (CENT, True)


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


async def test_the_requested_model_itself_must_be_affordable(rig: Rig) -> None:
    """A cheaper one answers where no channel can, not where the money is short."""
    three_models(rig, CENT)
    with pytest.raises(QuotaExceeded, match=r"this call may need \$0\.01004[ ,;]"):
        await rig.call(max_tokens=1000)
    assert rig.upstreams.order == []


async def test_a_failure_says_which_fallback_was_left_out(rig: Rig) -> None:
    three_models(rig, CENT, broken=("m", "small"))
    with pytest.raises(UpstreamError) as caught:
        await rig.call()
    assert caught.value.message.endswith(f" [{LEFT_OUT}]")
    assert "left for it" in rig.record.error


async def test_a_mistake_of_the_client_does_not(rig: Rig) -> None:
    three_models(rig, CENT)
    rig.upstreams.on("m", lambda: FakeReply(error_body("an image is not valid"), status=400))
    with pytest.raises(UpstreamError, match="not valid") as caught:
        await rig.call()
    assert "left for it" not in caught.value.message


async def test_where_no_channel_is_left_it_is_among_the_reasons(rig: Rig) -> None:
    three_models(rig, CENT)
    for name in ("m", "small"):
        rig.health.failed(ChannelId(f"ch_{name}"), FailureKind.AUTH, "invalid key")
    with pytest.raises(NoChannel, match=f"{LEFT_OUT}; 'tollkeeper why "):
        await rig.call()


async def test_a_large_request_is_looked_at_alike(rig: Rig) -> None:
    three_models(rig, 70 * CENT, broken=("m",))
    await rig.run(kit.body(messages=[{"role": "user", "content": "word " * 100_000}], max_tokens=25_000))
    assert rig.upstreams.order == ["m", "m", "small"]
