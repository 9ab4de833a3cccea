from collections.abc import Awaitable, Callable

import pytest

from gateway.client.control import ControlClient
from gateway.client.doctor import QUESTIONS, examine
from gateway.domain.text import plain
from gateway.domain.views import Step
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, slam

NAMES = [name for name, _ in QUESTIONS]


async def steps(owner: ControlClient, *, key: str = "", token: str = "", model: str = "") -> list[Step]:
    """The whole examination; every step is asked or skipped, and what failed says what to do."""
    found = [step async for step in examine(owner, key=key, token=token, model=model)]
    assert [step.name for step in found] == NAMES
    results = [step.result for step in found]
    assert results == sorted(results, key=["ok", "fail", "skipped"].index)
    assert results.count("fail") <= 1
    for step in found:
        assert step.text == plain(step.text, 1000)
        assert bool(step.fix) == (step.result == "fail")
    return found


async def failure(owner: ControlClient, **what: str) -> Step:
    (failed,) = [step for step in await steps(owner, **what) if step.result == "fail"]
    return failed


async def test_all_is_well_and_two_real_calls_prove_it(owner: ControlClient, gateway: Gateway) -> None:
    found = await steps(owner)
    assert [step.result for step in found] == ["ok"] * len(NAMES)
    assert found[3].text == "token 'laptop' > group 'default' > channel 'up'"
    assert "for $0.000285 together" in found[-1].text
    assert [record.stream for record in await gateway.settled(2)] == [False, True]


async def test_a_given_key_is_presented(owner: ControlClient, gateway: Gateway) -> None:
    phone = gateway.token("phone")
    assert (await steps(owner, key=phone.key))[1].text == "token 'phone' is accepted; it sees 1 model"
    assert {record.token_name for record in await gateway.settled(2)} == {"phone"}


async def test_a_named_token_is_used_without_its_key(owner: ControlClient, gateway: Gateway) -> None:
    gateway.token("phone")
    assert "'phone'" in (await steps(owner, token="phone"))[1].text
    assert {record.token_name for record in await gateway.settled(2)} == {"phone"}


async def test_a_server_that_does_not_listen(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.address = ""
    step = await failure(owner)
    assert step.name == "the gateway answers"
    assert "tollkeeper serve" in step.fix


async def test_a_server_that_is_gone(owner: ControlClient, surface: object) -> None:
    await surface.runner.cleanup()  # type: ignore[attr-defined]
    assert (await failure(owner)).name == "the gateway answers"


Spoil = Callable[[Gateway, ControlClient], Awaitable[object]]

ILLS: dict[str, tuple[Spoil, dict[str, str], str, str]] = {
    "wrong key": (lambda g, o: o.tokens(), {"key": "sk-tk-wrong"}, "the token is accepted", "token rotate"),
    "no such token": (lambda g, o: o.tokens(), {"token": "nobody"}, "the token is accepted", "token list"),
    "no token": (lambda g, o: o.remove_token("laptop"), {}, "the token is accepted", "token add"),
    "disabled": (
        lambda g, o: o.edit_token("laptop", {"enabled": False}),
        {"token": "laptop"},
        "the token is accepted",
        "token enable",
    ),
    "expired": (
        lambda g, o: o.edit_token("laptop", {"expires": 1}),
        {"token": "laptop"},
        "the token is accepted",
        "--expires",
    ),
    "all disabled": (lambda g, o: o.edit_token("laptop", {"enabled": False}), {}, "the token is accepted", "token add"),
    "no models": (lambda g, o: o.remove_channel("up"), {}, "the model exists", "channel add"),
    "unknown model": (lambda g, o: o.models(), {"model": "mm"}, "the model exists", "model list"),
    "switched off": (
        lambda g, o: o.edit_channel("up", {"enabled": False}),
        {"model": "m"},
        "the model exists",
        "channel enable up",
    ),
    "other group": (
        lambda g, o: o.edit_channel("up", {"groups": []}),
        {"model": "m"},
        "the group includes it",
        "channel edit up --group default",
    ),
    "group's patterns": (
        lambda g, o: o.edit_group("default", {"models": ["x*"]}),
        {"model": "m"},
        "the group includes it",
        "group edit default --models",
    ),
    "token's patterns": (
        lambda g, o: o.edit_token("laptop", {"models": ["x*"]}),
        {"model": "m"},
        "the group includes it",
        "token edit laptop --models",
    ),
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


async def _unpriced(owner: ControlClient) -> None:
    await owner.remove_price("m")
    await owner.set_settings({"refuse_unpriced": True})


@pytest.mark.parametrize(("spoil", "what", "name", "fix"), ILLS.values(), ids=ILLS)
async def test_each_ill_is_found_where_it_is(
    owner: ControlClient, gateway: Gateway, spoil: Spoil, what: dict[str, str], name: str, fix: str
) -> None:
    await spoil(gateway, owner)
    step = await failure(owner, **what)
    assert step.name == name
    assert fix in step.fix


async def test_a_near_name_is_suggested(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "gpt-large", name="more")
    assert "did you mean 'gpt-large'" in (await failure(owner, model="gtp-large")).text


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
    assert "no price" in (await steps(owner))[4].text


async def test_a_free_model_needs_no_money(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 0, "output": 0})
    await owner.grant(-(10**11))
    assert (await steps(owner))[4].result == "ok"


async def test_a_second_channel_stands_in(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://127.0.0.1:9/v1", name="dead", priority=9)
    assert [step.result for step in await steps(owner)] == ["ok"] * len(NAMES)
