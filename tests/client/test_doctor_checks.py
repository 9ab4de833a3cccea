"""The doctor's checks: each fault is found where it is, with advice that fixes it.

Long: all checks on one fake server, in the order in which the doctor makes them.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.client.doctor_checks import check_clock, check_everything, check_proxies
from gateway.client.test_call import INPUT_BOUND, OUTPUT_CAP
from gateway.domain.diagnosis import Verdict
from gateway.domain.errors import Unavailable
from gateway.domain.group import Fallback
from gateway.domain.views import Step
from tests.client.examined import Spoil, failure, steps
from tests.control.conftest import Surface
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import fail, reply, silence, slam, speak


async def _unpriced(owner: ControlClient) -> None:
    await owner.remove_price("m")
    await owner.set_settings({"refuse_unpriced": True})


FAILURES: dict[str, tuple[Spoil, dict[str, str], str, str]] = {
    "wrong key": (lambda g, o: o.tokens(), {"key": "sk-tk-wrong"}, "the token is accepted", "token rotate"),
    "no such token": (lambda g, o: o.tokens(), {"token": "nobody"}, "the token is accepted", "token list"),
    "no token": (lambda g, o: o.remove_token("laptop"), {}, "the token is accepted", "token add"),
    "disabled": (
        lambda g, o: o.edit_token("laptop", {"enabled": False}),
        {"token": "laptop"},
        "the token is accepted",
        "'tollkeeper token enable laptop'",
    ),
    "all disabled": (lambda g, o: o.edit_token("laptop", {"enabled": False}), {}, "the token is accepted", "token add"),
    "no models": (lambda g, o: o.remove_channel("up"), {}, "the model is offered", "channel add"),
    "unknown model": (lambda g, o: o.models(), {"model": "mm"}, "the model is offered", "model list"),
    "suspended": (lambda g, o: o.set_account({"status": "suspended"}), {}, "the quota is enough", "account set"),
    "unpriced": (lambda g, o: _unpriced(o), {}, "the quota is enough", "price set m"),
}


@pytest.mark.parametrize(("spoil", "what", "name", "fix"), FAILURES.values(), ids=FAILURES)
async def test_each_failure_is_found_where_it_is(
    owner: ControlClient, gateway: Gateway, spoil: Spoil, what: dict[str, str], name: str, fix: str
) -> None:
    await spoil(gateway, owner)
    step = await failure(owner, **what)
    assert step.name == name
    assert fix in step.fix


async def test_a_server_that_does_not_listen(owner: ControlClient, gateway: Gateway) -> None:
    await gateway.client.ask("POST", "/v1/files")
    gateway.engine.address = ""
    assert (await failure(owner)).name == "the gateway answers"
    assert "the addresses" not in await made(owner)


async def test_a_near_name_is_suggested(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "gpt-large", name="more")
    assert "did you mean 'gpt-large'" in (await failure(owner, model="gtp-large")).text
    gateway.channel(provider.base_url, "gpt-larger", name="elsewhere", groups=("others",))
    assert "gpt-larger" not in (await failure(owner, model="gtp-large")).text


async def test_the_first_model_it_sees_is_taken(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "a", "b", name="more")
    provider.on("a", speak())
    assert (await steps(owner))["the model is offered"].text.startswith("token 'laptop' sees 'a': ")


ONE_CALL = INPUT_BOUND + OUTPUT_CAP
"""Tokens of a call of the doctor: nothing else fits."""


@pytest.mark.parametrize("limits", [{"rpm": 1}, {"rpd": 1}, {"tpm": ONE_CALL}, {"tpd": ONE_CALL}])
async def test_a_limit_that_is_reached_is_named(owner: ControlClient, gateway: Gateway, limits: dict[str, int]) -> None:
    await owner.edit_token("laptop", {"limits": limits})
    await gateway.call()
    step = await failure(owner)
    (option,) = limits
    assert step.fix == f"wait, or 'tollkeeper token edit laptop --{option} COUNT' raises the limit"
    assert (step.name, step.code, step.status) == ("no limit is reached", "rate_limit_exceeded", 429)


async def test_a_limit_that_no_call_can_keep_is_not_to_be_waited_for_and_holds_nothing(owner: ControlClient) -> None:
    await owner.edit_token("laptop", {"limits": {"tpm": 1}})
    step = await failure(owner)
    assert (step.name, step.code) == ("no limit is reached", "request_too_large_for_limit")
    assert step.fix == "ask for fewer tokens, or 'tollkeeper token edit laptop --tpm COUNT' raises the limit"
    assert "a test call holds" not in (await steps(owner))["the quota is enough"].text


async def test_a_limit_that_one_call_uses_up_is_not_a_fault(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_token("laptop", {"limits": {"rpm": 1}})
    step = (await steps(owner))["a real call works"]
    assert (step.result, "a limit does not allow a second call yet" in step.text) == ("ok", True)
    assert [record.status for record in await gateway.settled(2)] == [200, 429]


async def test_running_calls_count_against_a_limit(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    await owner.edit_token("laptop", {"limits": {"concurrent": 1, "queue": 0}})
    text = (await steps(owner))["no limit is reached"].text
    assert text.startswith("token 'laptop' has 1 of 1 call at once left, ")
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(3)
    assert "--concurrent" in (await failure(owner)).fix
    (running, *_) = (await owner.calls()).calls
    await owner.cancel(running.id)
    await calling


async def test_a_channel_nobody_may_ask_is_reported(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(401))
    await gateway.client.chat()
    step = await failure(owner)
    assert (step.name, step.code) == ("a channel is ready", "no_channel_available")
    assert "the upstream refused the channel's key" in step.text
    assert "channel test up" in step.fix


async def test_the_only_channel_is_tried_if_paused(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, headers={"retry-after": "60"}), speak())
    await gateway.client.chat()
    assert {channel.state for channel in await owner.channels()} == {"cooling"}
    found = await steps(owner)
    assert {step.result for step in found.values()} == {"ok"}
    assert found["a channel is ready"].text.startswith("channel 'up' would be tried first: last resort")


@pytest.mark.parametrize("script", [*(fail(status, "\x1b[2Jno") for status in (401, 402, 429, 500, 503, 529)), slam])
async def test_a_call_that_fails_is_the_last_ill_and_not_a_reason_to_start_the_server(
    owner: ControlClient, provider: Provider, script: Script
) -> None:
    provider.on("m", script)
    step = await failure(owner)
    assert (step.name, bool(step.fix)) == ("a real call works", True)
    assert ("tollkeeper serve" in step.fix, "\x1b" in step.text) == (False, False)


async def test_what_a_channel_refuses_names_the_channel(owner: ControlClient, provider: Provider) -> None:
    provider.on("m", fail(401))
    assert (await failure(owner)).fix.endswith("'tollkeeper channel edit up --key -'")


async def test_the_refused_key_of_several_is_named(owner: ControlClient, provider: Provider) -> None:
    await owner.edit_channel("up", {"keys": ["sk-second"]})
    provider.on("m", fail(401), fail(401))
    fix = (await failure(owner, model="m")).fix
    assert fix.endswith(("channel key rotate up 1 --key -'", "channel key rotate up 2 --key -'"))


async def test_a_key_that_is_nowhere_was_refused_by_nobody(owner: ControlClient, provider: Provider) -> None:
    await owner.edit_channel("up", {"key": "env:TOLLKEEPER_NOPE"})
    step = await failure(owner, model="m")
    asked = "'tollkeeper channel edit up --key -'"
    assert step.fix == f"set TOLLKEEPER_NOPE where the server runs and restart the server, or {asked}"
    assert not any("chat/completions" in exchange.path for exchange in provider.exchanges)


async def test_a_missing_price_is_a_warning_that_says_what_to_do(owner: ControlClient) -> None:
    await owner.remove_price("m")
    step = (await steps(owner))["the quota is enough"]
    assert (step.result, step.fix.split(" --")[0]) == ("warning", "'tollkeeper price set m")
    assert step.text == "'m' has no price: calls are counted but not charged, and no dollar budget stops them"


async def test_the_price_is_that_of_the_group_and_the_tightest_budget_counts(owner: ControlClient) -> None:
    await owner.set_price("m", {"input": 300_000_000, "output": 2_500_000_000})
    await owner.edit_group(
        "default", {"multiplier": 1_500_000, "budgets": [{"window": "day", "nanos": 10**9}, {"nanos": 2 * 10**9}]}
    )
    assert (await steps(owner))["the quota is enough"].text == (
        "$1.00 is left of the daily budget of group 'default'; a test call holds $0.0002472; "
        "a million tokens cost $0.45 and $3.75 (input, output), x1.5 in group 'default'"
    )


async def test_the_tightest_budget_of_tokens_counts_as_well(owner: ControlClient) -> None:
    await owner.edit_group("default", {"budgets": [{"tokens": 3_000}]})
    await owner.edit_token("laptop", {"budgets": [{"nanos": 5 * 10**8}, {"window": "month", "tokens": 2_000}]})
    assert (await steps(owner))["the quota is enough"].text.startswith(
        "$0.50 is left of the budget of token 'laptop', and 2,000 tokens are left of the monthly budget of token "
        "'laptop'; "
    )


async def test_a_price_that_is_another_model_s_is_named(owner: ControlClient) -> None:
    await owner.edit_channel("up", {"models": [{"name": "fast", "upstream": "m"}]})
    assert (await steps(owner, model="fast"))["the quota is enough"].text.endswith(", the price of 'm'")


@pytest.mark.parametrize("price", [None, {"input": 0, "output": 0}])
async def test_what_is_free_is_stopped_by_no_dollar_budget(owner: ControlClient, price: dict[str, int] | None) -> None:
    await (owner.remove_price("m") if price is None else owner.set_price("m", price))
    await owner.edit_token("laptop", {"budgets": [{"window": "day", "nanos": 0}]})
    assert {step.result for step in (await steps(owner)).values()} == {"ok", *(["warning"] if price is None else [])}


async def test_no_money_is_reported_before_a_limit_that_is_reached(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_token("laptop", {"limits": {"tpm": 1}})
    await owner.grant(-(10**11))
    step = await failure(owner)
    assert (step.name, step.code) == ("the quota is enough", "insufficient_quota")


async def test_a_group_that_pays_nothing_and_a_free_model_need_no_money(owner: ControlClient) -> None:
    await owner.edit_group("default", {"multiplier": 0})
    await owner.grant(-(10**11))
    found = await steps(owner)
    assert {step.result for step in found.values()} == {"ok"}
    assert found["the quota is enough"].text == "'m' is free in group 'default'"
    await owner.edit_group("default", {"multiplier": 1_000_000})
    await owner.set_price("m", {"input": 0, "output": 0})
    assert (await steps(owner))["the quota is enough"].result == "ok"


async def test_a_second_channel_takes_the_call(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel("http://127.0.0.1:9/v1", name="dead", priority=9)
    assert {step.result for step in (await steps(owner)).values()} == {"ok"}


LIST = reply({"object": "list", "data": [{"id": "m"}]})
HERE = "http://127.0.0.1:8655/v1"


async def made(owner: ControlClient, environ: Mapping[str, str] | None = None) -> dict[str, Step]:
    """By name."""
    return {step.name: step async for step in check_everything(owner, environ or {})}


async def test_each_channel_is_checked_for_itself(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", fail(401), LIST)
    gateway.channel("http://127.0.0.1:1/v1", name="dead")
    gateway.channel(provider.base_url, name="well", enabled=False)
    found = await made(owner)
    results = {name: step.result for name, step in found.items()}
    assert results == {
        "channel dead": "fail",
        "channel up": "fail",
        "channel well": "skipped",
        "the port": "ok",
        "the home": "ok",
        "the disk": "ok",
        "open files": "ok",
        "the addresses": "ok",
        "the clock": "skipped",
        "the store": "ok",
        "the proxy variables": "ok",
        "the prices": "ok",
    }
    assert all(bool(step.fix) == (step.result == "fail") for step in found.values())


async def test_what_programs_cannot_request_is_reported_with_advice(owner: ControlClient, gateway: Gateway) -> None:
    asked: list[tuple[str, str, dict[str, str | None]]] = [
        ("GET", "/favicon.ico", {"user-agent": "Mozilla/5.0"}),
        ("POST", "/v1/files", {"user-agent": "claude-cli/2.1"}),
        ("POST", "/proxy/v1/chat/completions", {"user-agent": "mine/1"}),
        ("OPTIONS", "/v1/models", {"user-agent": "obsidian/1", "origin": "app://obsidian.md"}),
        ("PUT", "/v1/models", {"user-agent": None}),
    ]
    for method, path, headers in asked:
        await gateway.client.ask(method, path, b"", headers)
    for _ in range(3):
        await gateway.client.ask("POST", "/v1/files", b"", {"user-agent": "claude-cli/2.1"})
    gateway.engine.pipeline.refusals.close()
    found = [step async for step in check_everything(owner, {}) if step.name == "the addresses"]
    texts = {step.text.partition(",")[0]: step for step in found}
    assert {step.result for step in found} == {"warning"}
    assert set(texts) == {
        "Claude Code requested POST /v1/files",
        "mine requested POST /proxy/v1/chat/completions",
        "obsidian requested OPTIONS /v1/models",
        "a program without a name requested PUT /v1/models",
    }
    assert "(4 times in a day)" in texts["Claude Code requested POST /v1/files"].text
    assert "not supported" in texts["Claude Code requested POST /v1/files"].fix
    assert f"set it to {gateway.base_url}" in texts["mine requested POST /proxy/v1/chat/completions"].fix
    assert "--app-origins" in texts["obsidian requested OPTIONS /v1/models"].fix
    assert all(step.fix for step in found)


@pytest.mark.parametrize(
    ("wrong", "text", "code"),
    [
        ({"equal": False, "difference": "balance: 1 != 2"}, "balance: 1 != 2", "store_differs"),
        ({"damage": ["one", "another"]}, "one; another", None),
    ],
)
async def test_books_that_differ_and_a_damaged_log(
    owner: ControlClient, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], text: str, code: str | None
) -> None:
    verdict = await owner.verify()

    async def bad() -> Verdict:
        return replace(verdict, **wrong)

    monkeypatch.setattr(owner, "verify", bad)
    step = (await made(owner))["the store"]
    assert (step.result, step.text) == ("fail", text)
    assert code in (None, step.code)


async def test_a_store_that_has_failed(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.store.books.disk_errors.set(write="the disk is full")
    step = (await made(owner))["the store"]
    gateway.engine.store.books.disk_errors.set(write="")
    assert (step.result, step.code, step.status) == ("fail", "store_unavailable", 503)
    assert (step.text, bool(step.fix)) == ("it has failed, and calls are rejected: the disk is full", True)


@pytest.mark.parametrize(
    ("code", "fix"), [("server_gone", "start it with 'tollkeeper serve'"), ("server_slow", "server.log")]
)
async def test_what_is_not_answered_is_a_failure_of_its_own(
    owner: ControlClient, monkeypatch: pytest.MonkeyPatch, code: str, fix: str
) -> None:
    async def broken(*_: object) -> None:
        raise Unavailable("the server hangs", code=code)

    for name in ("checkup", "machine", "verify"):
        monkeypatch.setattr(owner, name, broken)
    found = await made(owner)
    failed = [name for name, step in found.items() if step.result == "fail"]
    assert failed == ["channel up", "the machine", "the store"]
    assert all(fix in found[name].fix for name in failed)


async def test_without_a_server_there_is_nothing_to_look_at(owner: ControlClient, surface: Surface) -> None:
    await surface.runner.cleanup()
    assert [step.result for step in (await made(owner)).values()] == ["skipped"]


@pytest.mark.parametrize(
    ("ahead", "result", "text"),
    [
        ({}, "skipped", "no upstream sent its time"),
        ({"a": 900}, "ok", "within 1 s of the clock of channel a"),
        ({"a": 7_200_000, "b": -3_000}, "ok", "within 3 s of the clock of channel b"),
        ({"a": 7_200_000}, "fail", "7,200 s ahead of the clock of channel a"),
        ({"a": -61_000}, "fail", "61 s behind the clock of channel a"),
    ],
)
def test_the_clock_is_judged_by_the_nearest_upstream(ahead: dict[str, int], result: str, text: str) -> None:
    step = check_clock(ahead)
    assert (step.result, step.text) == (result, text)


@pytest.mark.parametrize(
    ("environ", "result"),
    [
        ({}, "ok"),
        ({"HTTP_PROXY": ""}, "ok"),
        ({"https_proxy": "http://p:1"}, "ok"),
        ({"HTTP_PROXY": "http://p:1"}, "fail"),
        ({"http_proxy": "http://p:1"}, "fail"),
        ({"ALL_PROXY": "socks5://p:1"}, "fail"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "example.com, 10.0.0.0/8"}, "fail"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "127.0.0.1,localhost"}, "ok"),
        ({"HTTP_PROXY": "http://p:1", "no_proxy": "a, 127.0.0.0/8"}, "ok"),
        ({"HTTP_PROXY": "http://p:1", "no_proxy": "*"}, "ok"),
    ],
)
def test_variables_that_lead_calls_to_a_proxy(environ: dict[str, str], result: str) -> None:
    step = check_proxies(HERE, environ)
    assert step.result == result
    assert bool(step.fix) == (result == "fail")


def test_a_name_is_spared_by_the_domain_it_ends_in() -> None:
    environ = {"HTTP_PROXY": "http://p:1", "NO_PROXY": ".home.arpa"}
    assert check_proxies("http://box.home.arpa:8655/v1", environ).result == "ok"
    assert "http://p:1" not in check_proxies("http://box:8655/v1", environ).text


async def test_several_channels_that_are_ready_accept_calls(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m", name="spare")
    step = (await steps(owner, model="m"))["a channel is ready"]
    assert sorted(step.text.removesuffix(" accept calls").split(", ")) == ["spare", "up"]


async def test_a_channel_that_serves_a_fallback_as_well_is_named_once(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "m", "m2")
    gateway.group("default", fallbacks=(Fallback(model="m", to=("m2",)),))
    assert (await steps(owner, model="m"))["a channel is ready"].text == "up accepts calls"


async def test_its_calls_are_those_of_the_doctor(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    await steps(owner, model="m")
    assert {record.app for record in await gateway.settled(2)} == {"tollkeeper-doctor"}
