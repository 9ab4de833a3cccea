import asyncio

import pytest

from gateway.client.control import ControlClient
from tests.client.examined import Spoil, failure, steps
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, silence, slam, speak


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
    await (
        owner.edit_token("laptop", {"limits": limits})
        if noun == "token"
        else owner.edit_group("default", {"limits": limits})
    )
    await gateway.client.chat()
    await gateway.settled()
    step = await failure(owner)
    assert step.name == "no limit is reached"
    name = "laptop" if noun == "token" else "default"
    (option,) = limits
    assert step.fix == f"wait, or 'tollkeeper {noun} edit {name} --{option} COUNT' raises the limit"
    assert (step.code, step.status) == ("rate_limit_exceeded", 429)


async def test_a_limit_that_no_call_can_keep_is_not_to_be_waited_for(owner: ControlClient) -> None:
    await owner.edit_token("laptop", {"limits": {"tpm": 1}})
    step = await failure(owner)
    assert (step.name, step.code) == ("no limit is reached", "request_too_large_for_limit")
    assert step.fix == "ask for fewer tokens, or 'tollkeeper token edit laptop --tpm COUNT' raises the limit"


async def test_a_limit_that_one_call_uses_up_is_no_ill(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_token("laptop", {"limits": {"rpm": 1}})
    step = (await steps(owner))["a real call works"]
    assert (step.result, "after it a limit lets no second one pass yet" in step.text) == ("ok", True)
    assert [record.status for record in await gateway.settled(2)] == [200, 429]


async def test_calls_that_run_count_against_their_limit(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    await owner.edit_token("laptop", {"limits": {"concurrent": 1, "queue": 0}})
    text = (await steps(owner))["no limit is reached"].text
    assert text.startswith("token 'laptop' has 1 of 1 calls at once left, ")
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(3)
    assert "--concurrent" in (await failure(owner)).fix
    (running, *_) = (await owner.calls()).calls
    await owner.cancel(running.id)
    await calling


async def test_a_channel_that_nobody_may_ask_is_told_with_its_reason(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(401))
    await gateway.client.chat()
    step = await failure(owner)
    assert (step.name, step.code) == ("a channel takes calls", "no_channel_available")
    assert "the upstream refused the channel's key" in step.text
    assert "channel test up" in step.fix


async def test_the_only_channel_is_asked_though_it_rests(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(429, headers={"retry-after": "60"}), speak())
    await gateway.client.chat()
    assert {channel.state for channel in await owner.channels()} == {"cooling"}
    found = await steps(owner)
    assert {step.result for step in found.values()} == {"ok"}
    assert found["a channel takes calls"].text.startswith("channel 'up' would be asked: last resort")


@pytest.mark.parametrize("script", [fail(401), fail(500), slam])
async def test_a_call_that_fails_is_the_last_ill(owner: ControlClient, provider: Provider, script: object) -> None:
    provider.on("m", script)  # type: ignore[arg-type]
    assert (await failure(owner)).name == "a real call works"


async def test_what_a_channel_refuses_names_the_channel(owner: ControlClient, provider: Provider) -> None:
    provider.on("m", fail(401))
    assert (await failure(owner)).fix.endswith("'tollkeeper channel edit up --key KEY'")


async def test_of_several_keys_a_refused_one_is_named(owner: ControlClient, provider: Provider) -> None:
    await owner.edit_channel("up", {"keys": ["sk-second"]})
    provider.on("m", fail(401), fail(401))
    fix = (await failure(owner, model="m")).fix
    assert fix.endswith(("channel key rotate up 1 --key KEY'", "channel key rotate up 2 --key KEY'"))


async def test_a_key_that_is_nowhere_was_refused_by_nobody(owner: ControlClient, provider: Provider) -> None:
    await owner.edit_channel("up", {"key": "env:TOLLKEEPER_NOPE"})
    step = await failure(owner, model="m")
    asked = "'tollkeeper channel edit up --key KEY'"
    assert step.fix == f"set TOLLKEEPER_NOPE where the server runs and restart that, or {asked}"
    assert not any("chat/completions" in exchange.path for exchange in provider.exchanges)


async def test_no_price_is_no_ill(owner: ControlClient) -> None:
    await owner.remove_price("m")
    assert "no price" in (await steps(owner))["the quota suffices"].text


@pytest.mark.parametrize("price", [None, {"input": 0, "output": 0}])
async def test_what_costs_nothing_is_stopped_by_no_budget_in_dollars(
    owner: ControlClient, price: dict[str, int] | None
) -> None:
    await (owner.remove_price("m") if price is None else owner.set_price("m", price))
    await owner.edit_token("laptop", {"budgets": [{"window": "day", "nanos": 0}]})
    assert {step.result for step in (await steps(owner)).values()} == {"ok"}


@pytest.mark.parametrize(("amounts", "option"), [({"nanos": 0}, "--budget"), ({"tokens": 0}, "--tokens-budget")])
async def test_a_budget_of_the_account_is_not_mended_by_a_grant(
    owner: ControlClient, amounts: dict[str, int], option: str
) -> None:
    await owner.set_account({"budgets": [{"window": "day", **amounts}]})
    fix = f"'tollkeeper account set {option} day=AMOUNT' raises it"
    assert (await failure(owner)).fix == fix
    assert (await owner.why("laptop", "m")).fix == fix


async def test_no_money_is_told_before_a_limit_that_is_reached(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_token("laptop", {"limits": {"tpm": 1}})
    await owner.grant(-(10**11))
    step = await failure(owner)
    assert (step.name, step.code) == ("the quota suffices", "insufficient_quota")


async def test_a_group_that_pays_nothing_needs_no_money(owner: ControlClient) -> None:
    await owner.edit_group("default", {"multiplier": 0})
    await owner.grant(-(10**11))
    found = await steps(owner)
    assert {step.result for step in found.values()} == {"ok"}
    assert found["the quota suffices"].text == "'m' is free in group 'default'"


async def test_a_free_model_needs_no_money(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 0, "output": 0})
    await owner.grant(-(10**11))
    assert (await steps(owner))["the quota suffices"].result == "ok"


async def test_a_second_channel_stands_in(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://127.0.0.1:9/v1", name="dead", priority=9)
    assert {step.result for step in (await steps(owner)).values()} == {"ok"}
