import json
from email.utils import formatdate

import pytest

from gateway.client.control import ControlClient
from gateway.control.probe import probe
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, Dialect, Overrides, key_id
from gateway.domain.errors import NotFound
from gateway.domain.units import ChannelId
from gateway.domain.views import Step
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import choice, fail, reply, slam, whole
from tests.fakes.responses import either, message, respond
from tests.v1.test_every_api import upstream

LIST = reply({"object": "list", "data": [{"id": "m", "object": "model"}]})
GOOD = reply(whole("m", choice("ok"), spent={"prompt_tokens": 14, "completion_tokens": 2, "total_tokens": 16}))


@pytest.fixture
def channel(gateway: Gateway, provider: Provider) -> Channel:
    provider.on("/v1/models", LIST)
    provider.on("m", GOOD)
    return gateway.engine.catalog.channel("up")


async def test_the_free_check_is_made_alone(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    check = await probe(gateway.engine, channel, "")
    assert (check.ok, check.text) == (True, "it lists 1 model")
    assert [exchange.path for exchange in provider.exchanges] == ["/v1/models"]


async def test_a_real_call_reports_its_tokens(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    check = await probe(gateway.engine, channel, "m")
    assert check.ok
    assert check.text.startswith("'m' answered with 14 input and 2 output tokens")
    assert provider.last.json["stream"] is False


@pytest.mark.parametrize("name", ["text-embedding-m", "vectors=text-embedding-m"])
async def test_a_model_for_embeddings_is_tested_by_them(gateway: Gateway, provider: Provider, name: str) -> None:
    channel = gateway.channel(provider.base_url, name)
    provider.on("/v1/models", LIST)
    provider.on("text-embedding-m", upstream())
    check = await probe(gateway.engine, channel, name.partition("=")[0])
    assert (check.ok, "answered with 9 input and 0 output tokens" in check.text) == (True, True)
    assert (provider.last.path, "stream" in provider.last.json) == ("/v1/embeddings", False)
    assert gateway.records == []
    other = gateway.channel(provider.base_url, "text-embedding-m", dialect=Dialect.ANTHROPIC)
    text = (await probe(gateway.engine, other, "text-embedding-m")).text
    assert text.startswith("the call failed: it speaks anthropic, which has no embeddings")


@pytest.mark.parametrize("keys", [[], ["sk-second-canary"]])
async def test_only_a_good_call_ends_the_pause_for_lack_of_credit(
    owner: ControlClient, gateway: Gateway, provider: Provider, keys: list[str]
) -> None:
    """Any account lists its models, also an empty one."""
    await owner.edit_channel("up", {"key": "sk-upstream-canary", "keys": keys})
    for name in ("ch_up#1", "ch_up#2") if keys else ("ch_up",):
        gateway.engine.health.note_failure(ChannelId(name), FailureKind.QUOTA, "no credit", 600)
    provider.on("/v1/models", LIST)
    check = await owner.test_channel("up")
    assert (check.ok, (await owner.channel("up")).state) == (True, "cooling")
    assert "it stays paused: only a call to a model shows whether it has credit again" in check.text
    provider.on("m", fail(402))
    assert not (await owner.test_channel("up", "m")).ok
    assert (await owner.channel("up")).state == "cooling"
    provider.on("m", GOOD)
    check = await owner.test_channel("up", "m")
    assert (check.ok, "stays paused" in check.text) == (True, False)
    assert (await owner.channel("up")).state == "ok"


async def test_the_owners_parameters_go_along(gateway: Gateway, provider: Provider) -> None:
    channel = gateway.channel(provider.base_url, overrides=Overrides(system="be brief", set={"temperature": 0}))
    provider.on("/v1/models", LIST)
    provider.on("m", GOOD)
    assert (await probe(gateway.engine, channel, "m")).ok
    sent = provider.last.json
    assert (sent["temperature"], sent["messages"][0]) == (0, {"role": "system", "content": "be brief"})


@pytest.mark.parametrize(
    ("native", "status", "ok"),
    [
        *((respond(message("ok")), status, True) for status in (400, 404)),
        (fail(404, "Invalid URL (POST /v1/responses)"), 404, False),
    ],
)
async def test_a_model_that_is_only_in_responses_answers(
    gateway: Gateway, provider: Provider, native: Script, status: int, *, ok: bool
) -> None:
    channel = gateway.channel(provider.base_url)
    provider.on("/v1/models", LIST)
    provider.on("m", either(native, fail(status, "This model is only supported in v1/responses.")))
    check = await probe(gateway.engine, channel, "m")
    assert (check.ok, "only supported in v1/responses" in check.text) == (ok, not ok)


async def test_keys_are_not_refused_where_there_is_no_list(gateway: Gateway, provider: Provider) -> None:
    several = gateway.channel(provider.base_url, keys=("sk-second-canary",))
    provider.on("/v1/models", fail(404), fail(404), fail(401), fail(404))
    provider.on("m", GOOD)
    check = await probe(gateway.engine, several, "m")
    assert (check.ok, check.failed_keys, "are accepted" in check.text) == (True, 0, False)
    check = await probe(gateway.engine, several, "m")
    assert (check.ok, check.failed_keys) == (True, 1)
    assert provider.last.head.get("authorization") == "Bearer sk-second-canary"


async def test_only_keys_that_were_refused_are_counted_as_refused(gateway: Gateway, provider: Provider) -> None:
    several = gateway.channel(provider.base_url, keys=("sk-second-canary",))
    provider.on("/v1/models", fail(401), fail(503))
    assert (await probe(gateway.engine, several, "")).text.startswith("1 of 2 keys are refused; key 1: ")


async def test_the_call_is_made_with_an_accepted_key(gateway: Gateway, provider: Provider) -> None:
    several = gateway.channel(provider.base_url, keys=("sk-second-canary",))
    provider.on("/v1/models", fail(503), LIST)
    provider.on("m", GOOD)
    assert (await probe(gateway.engine, several, "m")).ok
    assert provider.last.head.get("authorization") == "Bearer sk-second-canary"


async def test_an_only_key_is_not_one_of_several_that_were_refused(
    gateway: Gateway, provider: Provider, channel: Channel
) -> None:
    provider.on("/v1/models", fail(401))
    check = await probe(gateway.engine, channel, "")
    assert (check.ok, check.failed_keys) == (False, 0)


@pytest.mark.parametrize("script", [fail(401), fail(500), slam, reply(b"<html>"), reply({"choices": []})])
async def test_a_failure_is_reported(gateway: Gateway, provider: Provider, channel: Channel, script: object) -> None:
    provider.on("m", script)  # type: ignore[arg-type]
    check = await probe(gateway.engine, channel, "m")
    assert not check.ok
    assert check.text.startswith("the call failed: ")
    assert ".;" not in check.text


async def test_one_failure_is_reported_once_and_without_the_channel_s_name(gateway: Gateway) -> None:
    channel = gateway.channel("http://127.0.0.1:9/v1", "m")
    check = await probe(gateway.engine, channel, "m")
    assert check.text.startswith("neither a call nor the list of models works: the upstream cannot be reached")
    assert (await probe(gateway.engine, channel, "")).text.startswith("no list of models: the upstream cannot be")
    assert "channel" not in check.text


async def test_models_the_upstream_has_no_longer_are_named(gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", LIST)
    channel = gateway.channel(provider.base_url, "m", "old=ancient")
    assert "missing: old" in (await probe(gateway.engine, channel, "")).text


async def test_a_model_it_does_not_serve_is_not_asked(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    with pytest.raises(NotFound, match="it serves: m"):
        await probe(gateway.engine, channel, "other")
    assert provider.exchanges == []


async def test_what_an_upstream_says_is_made_harmless(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    provider.on("/v1/models", fail(400, "\x1b]0;owned\x07"))
    assert "\x1b" not in (await probe(gateway.engine, channel, "")).text


CHECKUP_LIST = reply({"object": "list", "data": [{"id": "m"}, {"id": "n"}]})


async def step(owner: ControlClient, name: str = "up") -> Step:
    return (await owner.checkup(name)).step


async def test_a_channel_that_is_well(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", CHECKUP_LIST)
    found = await step(owner)
    text = "its key is accepted; it lists 2 models"
    assert found == Step(name="channel up", result="ok", text=text)
    assert [exchange.path for exchange in provider.exchanges] == ["/v1/models"]


@pytest.mark.parametrize(
    ("script", "result", "told"),
    [
        (fail(401), "fail", "channel edit up --key"),
        (fail(404), "ok", "channel test up"),
        (fail(500, "\x1b[2Joops"), "fail", "oops"),
    ],
    ids=["a key that is refused", "no list, which may be well", "an upstream that fails"],
)
async def test_answers_become_results(
    owner: ControlClient, provider: Provider, script: Script, result: str, told: str
) -> None:
    provider.on("/v1/models", script)
    found = await step(owner)
    assert (found.name, found.result, told in found.text + found.fix) == ("channel up", result, True)
    assert "channel 'up'" not in found.text
    assert "\x1b" not in found.text


async def test_every_key_is_tried(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, keys=("sk-second-canary",))
    provider.on("/v1/models", CHECKUP_LIST, CHECKUP_LIST, CHECKUP_LIST, fail(401))
    assert "its 2 keys are accepted" in (await step(owner)).text
    found = await step(owner)
    assert (found.result, "key 2: " in found.text) == ("fail", True)
    assert "channel key rotate up 2 --key -" in found.fix
    sent = [exchange.head.get("authorization") for exchange in provider.exchanges]
    assert sent == ["Bearer sk-upstream-canary", "Bearer sk-second-canary"] * 2


async def test_a_key_that_was_replaced_during_its_test_is_not_held_for_refused(
    owner: ControlClient, gateway: Gateway, provider: Provider, channel: Channel
) -> None:
    async def refuse_late(exchange: Exchange) -> None:
        gateway.channel(provider.base_url, key="sk-new-canary")
        await fail(401)(exchange)

    provider.on("/v1/models", refuse_late)
    assert not (await probe(gateway.engine, channel, "")).ok
    assert (await owner.channel("up")).state == "ok"


@pytest.mark.parametrize(("model", "number"), [("", 2), ("m", 1)])
async def test_a_key_that_was_replaced_during_its_test_is_not_taken_for_accepted(
    gateway: Gateway, provider: Provider, model: str, number: int
) -> None:
    several = gateway.channel(provider.base_url, keys=("sk-second-canary",))
    state_id, health = several.state_ids[number - 1], gateway.engine.health

    async def answer_late(exchange: Exchange) -> None:
        gateway.channel(provider.base_url, key="sk-new-1-canary", keys=("sk-new-2-canary",))
        health.note_failure(state_id, FailureKind.AUTH, "refused")
        await (GOOD if model else LIST)(exchange)

    provider.on("/v1/models", LIST, LIST if model else answer_late)
    provider.on("m", answer_late)
    assert (await probe(gateway.engine, several, model)).ok
    assert health.state_of(state_id).name == "attention"


async def test_a_variable_that_is_not_set(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, key="env:TOLLKEEPER_TEST_NOT_SET")
    found = await step(owner)
    assert (found.result, "TOLLKEEPER_TEST_NOT_SET is not set" in found.text) == ("fail", True)


@pytest.mark.parametrize(
    ("base_url", "proxy", "said"),
    [
        ("http://127.0.0.1:1/v1", "", "Connection refused (127.0.0.1:1)"),
        ("http://a..b/v1", "", "the name is not a host name (a..b:80)"),
        (
            "http://a..b/v1",
            "http://127.0.0.1:1",
            "the proxy 127.0.0.1:1 cannot be reached: Connection refused (on the way to a..b:80)",
        ),
    ],
)
async def test_a_host_that_is_not_reached(
    owner: ControlClient, gateway: Gateway, base_url: str, proxy: str, said: str
) -> None:
    gateway.channel(base_url, proxy=proxy)
    found = await step(owner)
    assert (found.result, found.text) == ("fail", f"the upstream cannot be reached: {said}")
    servers = "do the proxy and the upstream run?" if proxy else "does the upstream run?"
    assert f"and {servers} If the address is wrong" in found.fix
    assert f"channel edit up --{'proxy' if proxy else 'base-url'} URL" in found.fix


@pytest.mark.parametrize(("proxy", "setting"), [("http://127.0.0.1:1", "proxy"), ("", None)])
async def test_an_unreachable_proxy_is_the_setting_to_change(gateway: Gateway, proxy: str, setting: str | None) -> None:
    gateway.channel("http://127.0.0.1:1/v1", proxy=proxy)
    error = json.loads((await gateway.client.chat()).body)["error"]
    assert (error["code"], error["gateway"].get("setting")) == ("upstream_unreachable", setting)


async def test_what_is_off_is_left_alone_and_the_mock_needs_no_network(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:1/v1", enabled=False)
    assert (await step(owner)).result == "skipped"
    gateway.channel("", name="demo", dialect=Dialect.MOCK, key="")
    assert (await step(owner, "demo")).text == "it lists 3 models"


async def test_a_look_does_not_end_a_rest(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", CHECKUP_LIST)
    gateway.engine.health.note_failure(ChannelId("ch_up"), FailureKind.AUTH, "invalid key")
    found = await step(owner)
    assert (found.result, found.fix.partition(" --")[0]) == ("warning", "'tollkeeper channel test up")
    assert found.text.endswith("it lists 2 models, but its key was refused before: invalid key")
    assert (await owner.channel("up")).state == "attention"


async def test_one_refused_key_of_several_is_named(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, keys=("sk-second-canary",))
    provider.on("/v1/models", CHECKUP_LIST, CHECKUP_LIST)
    gateway.engine.health.note_failure(key_id(ChannelId("ch_up"), 2), FailureKind.AUTH, "invalid key")
    found = await step(owner)
    assert (found.result, "but key 2 was refused before" in found.text) == ("warning", True)
    assert "'tollkeeper channel key rotate up 2 --key -' replaces the key" in found.fix


@pytest.mark.parametrize(("date", "ahead_s"), [(-3600, 3600), (90, -90), (None, None)])
async def test_how_far_the_clocks_are_apart(
    owner: ControlClient, gateway: Gateway, provider: Provider, date: int | None, ahead_s: int | None
) -> None:
    headers = {} if date is None else {"date": formatdate(gateway.engine.now() / 1000 + date, usegmt=True)}
    provider.on("/v1/models", reply({"data": [{"id": "m"}]}, headers=headers))
    ahead = (await owner.checkup("up")).ahead_ms
    assert ahead == (None if ahead_s is None else pytest.approx(ahead_s * 1000, abs=2000))


async def test_the_time_of_an_earlier_response_is_not_compared(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("/v1/models", LIST, slam)
    old = formatdate(gateway.engine.now() / 1000 - 3600, usegmt=True)
    await owner.checkup("up")
    gateway.engine.upstreams.dates[ChannelId("ch_up")] = old
    found = await owner.checkup("up")
    assert (found.step.result, found.ahead_ms) == ("fail", None)
