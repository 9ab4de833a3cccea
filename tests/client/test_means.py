import asyncio

import pytest

from gateway.client.control import ControlClient
from tests.client.examined import Spoil, failure, steps
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, silence, slam


async def _unpriced(owner: ControlClient) -> None:
    await owner.remove_price("m")
    await owner.set_settings({"refuse_unpriced": True})


ILLS: dict[str, tuple[Spoil, dict[str, str], str, str]] = {
    "suspended": (lambda g, o: o.set_account({"status": "suspended"}), {}, "the quota suffices", "account set"),
    "no money": (lambda g, o: o.grant(-(10**11)), {}, "the quota suffices", "account grant"),
    "token budget": (
        lambda g, o: o.edit_token("laptop", {"budgets": [{"window": "day", "nanos": 0}]}),
        {},
        "the quota suffices",
        "token edit laptop",
    ),
    "group budget": (
        lambda g, o: o.edit_group("default", {"budgets": [{"tokens": 0}]}),
        {},
        "the quota suffices",
        "group edit default",
    ),
    "unpriced": (
        lambda g, o: _unpriced(o),
        {},
        "the quota suffices",
        "price set m",
    ),
}


@pytest.mark.parametrize(("spoil", "what", "name", "fix"), ILLS.values(), ids=ILLS)
async def test_each_ill_is_found_where_it_is(
    owner: ControlClient, gateway: Gateway, spoil: Spoil, what: dict[str, str], name: str, fix: str
) -> None:
    await spoil(gateway, owner)
    step = await failure(owner, **what)
    assert step.name == name
    assert fix in step.fix


@pytest.mark.parametrize("limits", [{"rpm": 1}, {"rpd": 1}, {"tpm": 20}, {"tpd": 21}])
@pytest.mark.parametrize("noun", ["token", "group"])
async def test_a_limit_that_is_reached_is_named(
    owner: ControlClient, gateway: Gateway, noun: str, limits: dict[str, int]
) -> None:
    await gateway.client.chat()
    await gateway.settled()
    await (
        owner.edit_token("laptop", {"limits": limits})
        if noun == "token"
        else owner.edit_group("default", {"limits": limits})
    )
    step = await failure(owner)
    assert step.name == "no limit is reached"
    assert f"{noun} edit" in step.fix
    assert f"--{next(iter(limits))}" in step.fix


async def test_calls_that_run_count_against_their_limit(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    await owner.edit_token("laptop", {"limits": {"concurrent": 1}})
    assert (await steps(owner))["no limit is reached"].text == "token 'laptop' is below its limits"
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(3)
    assert "--concurrent" in (await failure(owner)).fix
    (running, *_) = await owner.calls()
    await owner.cancel(running.id)
    await calling


async def test_a_resting_channel_is_told_with_its_reason(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(429, "slow down", headers={"retry-after": "60"}))
    await gateway.client.chat()
    step = await failure(owner)
    assert step.name == "a channel takes calls"
    assert "slow down" in step.text
    assert "channel test up" in step.fix


@pytest.mark.parametrize("script", [fail(401), fail(500), slam])
async def test_a_call_that_fails_is_the_last_ill(owner: ControlClient, provider: Provider, script: object) -> None:
    provider.on("m", script)  # type: ignore[arg-type]
    assert (await failure(owner)).name == "a real call works"


async def test_no_price_is_no_ill(owner: ControlClient) -> None:
    await owner.remove_price("m")
    assert "no price" in (await steps(owner))["the quota suffices"].text


async def test_a_free_model_needs_no_money(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 0, "output": 0})
    await owner.grant(-(10**11))
    assert (await steps(owner))["the quota suffices"].result == "ok"


async def test_a_second_channel_stands_in(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://127.0.0.1:9/v1", name="dead", priority=9)
    assert {step.result for step in (await steps(owner)).values()} == {"ok"}
