"""Channels over the control API: adding, editing, keys, tests and removal.

Long: all operations of one noun share a gateway and its fake upstream.
"""

import asyncio

import pytest

from gateway.client.control import ControlClient
from gateway.domain.advice import advice
from gateway.domain.call import FailureKind, Outcome
from gateway.domain.errors import BadRequest, NotFound, Unavailable
from gateway.domain.units import ChannelId
from gateway.domain.views import ChannelView
from gateway.store import files
from tests.control.confirming import confirming
from tests.fakes.disk import refuse
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, silence, slam, speak, whole

LIST = reply({"object": "list", "data": [{"id": "m1", "object": "model"}, {"id": "org/m2", "object": "model"}]})
CANARY = "sk-canary-0123456789-abcdefghij-tail"


@pytest.fixture
def body(provider: Provider) -> dict[str, object]:
    """What a new channel needs; its upstream lists two models."""
    provider.on("/v1/models", LIST)
    return {"name": "new", "dialect": "openai", "base_url": provider.base_url, "key": CANARY}


async def test_a_channel_without_models_asks_for_them(owner: ControlClient, body: dict[str, object]) -> None:
    channel = await owner.add_channel(body)
    assert [model.name for model in channel.models] == ["m1", "org/m2"]
    assert all(model.created for model in channel.models)
    assert (channel.groups, channel.state, channel.enabled) == (("default",), "ok", True)
    named = await owner.add_channel(body | {"name": "other", "models": [{"name": "gpt", "upstream": "gpt-2026"}]})
    assert [(model.name, model.upstream) for model in named.models] == [("gpt", "gpt-2026")]


async def test_an_address_is_given_its_root(owner: ControlClient, provider: Provider, body: dict[str, object]) -> None:
    bare = provider.base_url.removesuffix("/v1")
    channel = await owner.add_channel(body | {"base_url": bare})
    assert (channel.base_url, len(channel.models)) == (provider.base_url, 2)


async def test_keys_header_values_and_proxy_passwords_are_secret(owner: ControlClient, body: dict[str, object]) -> None:
    proxied = {"proxy": f"http://me:{CANARY}@127.0.0.1:9", "models": [{"name": "m1"}]}
    await owner.add_channel(body | proxied | {"headers": {"X-Secret": CANARY}})
    await owner.edit_channel("new", {"note": "x"})
    for path in ("/channels", "/channels/new", "/status", "/models", "/settings"):
        assert CANARY[:-4].encode() not in await owner.send(owner.build_request("GET", path))
    channel = await owner.channel("new")
    assert (channel.key, channel.headers, channel.proxy) == ("…tail", {"X-Secret": "…tail"}, "http://…@127.0.0.1:9")
    assert (await owner.edit_channel("new", {"key": "env:MY_KEY"})).key == "env:MY_KEY"


async def test_overrides_are_kept_shown_and_dropped(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    await owner.edit_channel("up", {"overrides": {"set": {"seed": 7}, "remove": ["user"], "system": "Be brief."}})
    answer = await gateway.client.chat(user="u")
    assert answer.head.get("x-gateway-dropped-params") == "user"
    sent = provider.last.json
    assert (sent["seed"], "user" in sent, sent["messages"][0]["content"]) == (7, False, "Be brief.")
    assert (await owner.edit_channel("up", {"overrides": None})).overrides is None
    await gateway.client.chat(user="u")
    assert provider.last.json["user"] == "u"


@pytest.mark.parametrize(
    ("given", "dialect", "host"),
    [
        ({"dialect": "openai", "preset": "groq"}, "openai", "api.groq.com/openai"),
        ({"preset": "groq"}, "openai", "api.groq.com/openai"),
        ({"preset": "anthropic"}, "anthropic", "api.anthropic.com"),
        ({"preset": "gemini"}, "gemini", "generativelanguage.googleapis.com"),
        ({"preset": "anthropic", "dialect": "openai"}, "openai", "api.anthropic.com"),
        ({"dialect": "anthropic"}, "anthropic", "api.anthropic.com"),
        ({"dialect": "gemini"}, "gemini", "generativelanguage.googleapis.com"),
    ],
)
async def test_a_preset_and_a_dialect_of_one_vendor_bring_what_is_not_given(
    owner: ControlClient, given: dict[str, str], dialect: str, host: str
) -> None:
    channel = await owner.add_channel({"name": "v", "models": [{"name": "x"}], **given})
    assert (channel.dialect, channel.preset) == (dialect, given.get("preset", ""))
    assert channel.base_url.startswith(f"https://{host}/v1")


async def test_an_edit_leaves_key_and_models_alone(owner: ControlClient, gateway: Gateway) -> None:
    channel = await owner.edit_channel("up", {"priority": 7, "limits": {"concurrent": 2, "queue_s": 5}})
    assert (channel.priority, channel.limits.concurrent, [model.name for model in channel.models]) == (7, 2, ["m"])
    assert gateway.engine.catalog.channel("up").key == "sk-upstream-canary"


async def test_a_new_channel_serves_the_only_group_whatever_its_name_is(owner: ControlClient) -> None:
    await owner.edit_group("default", {"name": "team"})
    assert (await owner.add_channel({"name": "a", "dialect": "mock"})).groups == ("team",)
    await owner.add_group({"name": "friends"})
    with pytest.raises(BadRequest, match="the field 'group' is missing; the groups are: friends, team"):
        await owner.add_channel({"name": "b", "dialect": "mock"})


async def test_models_keep_the_time_they_were_added(owner: ControlClient) -> None:
    first = (await owner.edit_channel("up", {"models": [{"name": "m"}]})).models[0].created
    later = (await owner.edit_channel("up", {"models": [{"name": "m"}, {"name": "n"}]})).models
    assert later[0].created == first
    assert later[1].created >= first


async def test_another_dialect_goes_to_its_own_address(owner: ControlClient, gateway: Gateway) -> None:
    mock = await owner.edit_channel("up", {"dialect": "mock", "models": [{"name": "m"}]})
    assert (mock.dialect, mock.base_url) == ("mock", "")
    assert (await gateway.client.chat()).status == 200
    addresses = {
        "anthropic": "https://api.anthropic.com/v1",
        "gemini": "https://generativelanguage.googleapis.com/v1beta",
    }
    for dialect, address in addresses.items():
        edited = await owner.edit_channel("up", {"dialect": dialect})
        assert (edited.dialect, edited.base_url) == (dialect, address)
        await owner.edit_channel("up", {"dialect": "mock"})
    with pytest.raises(BadRequest, match="a base URL is required"):
        await owner.edit_channel("up", {"dialect": "openai"})


async def test_another_dialect_at_the_same_address_is_undone_in_one_step(owner: ControlClient) -> None:
    before = await owner.channel("up")
    assert (await owner.edit_channel("up", {"dialect": "anthropic"})).base_url == before.base_url
    await owner.undo()
    assert (await owner.channel("up")).dialect == "openai"


async def test_a_switched_off_channel_takes_no_calls(owner: ControlClient, gateway: Gateway) -> None:
    assert (await owner.edit_channel("up", {"enabled": False})).state == "off"
    assert (await gateway.client.chat()).status == 404


async def test_its_calls_and_errors_are_counted(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(), fail(500))
    await gateway.client.chat()
    await gateway.client.chat()
    ok, _ = await gateway.settled(2)
    channel = await owner.channel("up")
    assert (channel.calls, channel.errors, channel.spent_nanos, channel.in_flight) == (2, 1, ok.cost, 0)


async def test_a_call_that_the_owner_cancelled_costs_nothing_and_is_not_its_error(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(1)
    (running,) = (await owner.calls()).calls
    await owner.cancel(running.id)
    await calling
    (record,) = await gateway.settled(1)
    assert (record.outcome, record.cost) == (Outcome.CANCELLED, 0)
    channel, summary = await owner.channel("up"), await owner.summary(by="channel")
    assert (channel.calls, channel.errors) == (1, 0)
    (row,) = summary.rows
    assert (row.calls, row.errors, row.aborts) == (1, 0, 1)
    found = {words: len((await owner.calls(words=words)).calls) for words in ("st:err", "!st:err", "st:cancelled")}
    assert found == {"st:err": 0, "!st:err": 1, "st:cancelled": 1}


async def test_a_model_that_its_upstream_does_not_have_is_named_until_it_is_tried_again(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(404, "The model `m` does not exist", code="model_not_found"), speak())
    error = (await gateway.client.chat()).json["error"]
    assert "'tollkeeper why laptop m' says when it is tried again" in advice(
        NotFound("m", code=error["code"], details=error["gateway"]), token="laptop", model="m"
    )
    channel = await owner.channel("up")
    assert (channel.state, [*channel.missing_models]) == ("ok", ["m"])
    assert channel.missing_text(gateway.engine.now()).startswith("the upstream does not have m; retry in ")
    (route,) = (await owner.model("m")).routes
    assert (route.state, route.reason.partition(",")[0]) == ("cooling", "does not have the model")
    assert (await owner.why("laptop", "m")).fix == (
        "'tollkeeper channel models up --refresh' lists what it has; "
        "'tollkeeper channel edit up --map m=NAME' calls one by this name"
    )
    (incident,) = await owner.incidents()
    assert (incident.kind, incident.paused) == (FailureKind.MISSING, True)
    assert (await owner.clear_channel("up")).missing_models == {}
    assert (await owner.model("m")).routes[0].state == "ok"
    assert [one.ended is None for one in await owner.incidents()] == [False]
    assert (await gateway.client.chat()).status == 200


async def test_an_edit_ends_only_a_pause_it_may_fix(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, "slow down", headers={"retry-after": "60"}))
    await gateway.client.chat()
    paused = await owner.channel("up")
    for harmless in ({"name": "vendor"}, {"priority": 7, "note": "the old account"}, {"groups": ["default"]}):
        await owner.edit_channel(paused.id, harmless)
        assert (await owner.channel(paused.id)).state == "cooling"
    await owner.edit_channel(paused.id, {"key": "sk-another"})
    assert (await owner.channel(paused.id)).state == "ok"


async def test_a_corrected_mapping_is_used_at_once(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("typo", fail(404, "The model `typo` does not exist"))
    for upstream, statuses in (("typo", [404, 404]), ("m", [200, 200])):
        await owner.edit_channel("up", {"models": [{"name": "fast", "upstream": upstream}]})
        assert [(await gateway.client.chat("fast")).status for _ in statuses] == statuses


async def test_a_good_test_ends_its_rest(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, headers={"retry-after": "60"}))
    provider.on("/v1/models", LIST)
    await gateway.client.chat()
    check = await owner.test_channel("up")
    channel = await owner.channel("up")
    assert (check.ok, channel.state, channel.last_check) == (True, "ok", check)


async def test_a_test_brings_back_one_missing_model(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    names = ({"name": name, "upstream": "m"} for name in ("fast", "quick"))
    await owner.edit_channel("up", {"models": [*names, {"name": "gone"}]})
    for name in ("fast", "quick", "gone"):
        gateway.engine.health.note_missing(ChannelId("ch_up"), name)
    provider.on("/v1/models", LIST)
    provider.on("m", reply(whole("m")))
    assert (await owner.test_channel("up", "fast")).ok
    assert [*(await owner.channel("up")).missing_models] == ["gone"]


async def test_a_bad_test_is_kept_and_cannot_be_undone(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", fail(401, "bad key"))
    await owner.edit_channel("up", {"note": "mine"})
    check = await owner.test_channel("up")
    assert (check.ok, "key" in check.text, (await owner.channel("up")).last_check) == (False, True, check)
    assert (await owner.undo()).text == "channel 'up' is as before"


async def test_the_built_in_channel_needs_no_network_and_its_options_have_one_spelling(owner: ControlClient) -> None:
    added = await owner.add_channel({"name": "demo", "dialect": "mock", "options": {"no-usage": True}})
    assert "demo-echo" in [model.name for model in added.models]
    assert (await owner.test_channel("demo", "demo-echo")).ok
    assert added.options == {"no_usage": True}
    edited = await owner.edit_channel("demo", {"options": {**added.options, "no-usage": False, "retry-after": 2}})
    assert edited.options == {"no_usage": False, "retry_after": 2}


FIRST, SECOND, THIRD = (f"sk-{word}-canary-0123456789" for word in ("first", "second", "third"))


def told(channel: ChannelView) -> list[tuple[int, str, str]]:
    return [(one.number, one.key, one.state) for one in channel.keys]


async def test_keys_are_added_replaced_and_removed(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST})
    assert told(await owner.add_key("up", "env:SECOND")) == [(1, "…6789", "ok"), (2, "env:SECOND", "unset")]
    replaced = await owner.replace_key("up", 1, "env:FIRST")
    assert told(replaced) == [(1, "env:FIRST", "unset"), (2, "env:SECOND", "unset")]
    assert told(await owner.remove_key("up", 1)) == [(1, "env:SECOND", "unset")]
    assert told(await owner.remove_key("up", 1)) == []
    channel = gateway.engine.catalog.channel("up")
    assert (channel.key, channel.keys) == ("", ())


async def test_a_channel_is_given_several_at_once(owner: ControlClient) -> None:
    view = await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    assert [one.number for one in view.keys] == [1, 2, 3]
    assert (view.key, view.state) == ("…6789", "ok")
    await confirming(owner).undo()
    assert len((await owner.channel("up")).keys) == 1


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"key": FIRST, "keys": [FIRST]}, "twice"),
        ({"key": "", "keys": [FIRST]}, "empty"),
        ({"key": FIRST, "keys": [""]}, "empty"),
        ({"key": FIRST, "keys": ["env:9 9"]}, "variable"),
        ({"key": FIRST, "keys": [f"k{n}" for n in range(50)]}, "50"),
    ],
)
async def test_senseless_keys_are_refused(owner: ControlClient, patch: dict[str, object], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        await owner.edit_channel("up", patch)
    with pytest.raises(BadRequest, match="remove it"):
        await owner.add_key("up", "")
    for number in (0, 2, 10**30):
        with pytest.raises(NotFound, match="numbered 1 to 1"):
            await owner.remove_key("up", number)


async def test_the_failures_of_a_key_stay_when_others_change(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND]})
    gateway.engine.health.note_failure(ChannelId("ch_up#1"), FailureKind.RATE, "429", 60)
    gateway.engine.health.note_failure(ChannelId("ch_up#2"), FailureKind.AUTH, "refused")
    view = await owner.channel("up")
    assert ([one.state for one in view.keys], view.state) == (["cooling", "attention"], "cooling")
    assert abs((view.keys[0].until_ms or 0) - (view.until_ms or 0)) < 50
    assert [one.state for one in (await owner.clear_key("up", 2)).keys] == ["cooling", "ok"]
    gateway.engine.health.note_failure(ChannelId("ch_up#2"), FailureKind.AUTH, "refused")
    view = await owner.replace_key("up", 2, THIRD)
    assert ([one.state for one in view.keys], view.state) == (["cooling", "ok"], "ok")
    assert [one.state for one in (await owner.clear_key("up", 1)).keys] == ["ok", "ok"]


async def test_a_refused_key_stays_refused_whatever_number_it_has(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST})
    gateway.engine.health.note_failure(ChannelId("ch_up"), FailureKind.AUTH, "refused")
    added = await owner.add_key("up", SECOND)
    assert ([one.state for one in added.keys], added.state) == (["attention", "ok"], "ok")
    await owner.add_key("up", THIRD)
    gateway.engine.health.note_failure(ChannelId("ch_up#3"), FailureKind.RATE, "429", 60)
    assert [one.state for one in (await owner.remove_key("up", 2)).keys] == ["attention", "cooling"]
    alone = await owner.remove_key("up", 1)
    assert ([one.state for one in alone.keys], alone.state) == (["cooling"], "cooling")
    assert [one.state for one in (await owner.replace_key("up", 1, "sk-fourth-canary-0123456789")).keys] == ["ok"]


async def test_the_only_key_is_as_well_as_its_channel(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.health.note_failure(ChannelId("ch_up"), FailureKind.AUTH, "refused")
    assert [one.state for one in (await owner.channel("up")).keys] == ["attention"]
    assert [one.state for one in (await owner.clear_key("up", 1)).keys] == ["ok"]


async def test_no_answer_of_any_kind_tells_a_key(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    """Each request goes out with the one key it should; no view, record or error holds more than its mask."""
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    provider.on("m", fail(401, f"bad key {FIRST}"), fail(429), speak())
    assert (await gateway.client.chat()).status == 200
    used = [exchange.head.get("authorization") for exchange in provider.exchanges if exchange.body]
    assert sorted(used) == sorted(f"Bearer {key}" for key in (FIRST, SECOND, THIRD))
    provider.on("m", fail(401, f"bad key {THIRD}"))
    answer = await gateway.client.chat()
    heard = [
        await owner.send(owner.build_request("GET", path))
        for path in ("/channels", "/channels/up", "/calls", "/status")
    ]
    for text in [answer.body, *heard]:
        assert b"canary" not in text


async def test_a_test_tries_every_key_and_uses_the_good_ones_again(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND, THIRD]})
    for number in (1, 2, 3):
        gateway.engine.health.note_failure(ChannelId(f"ch_up#{number}"), FailureKind.RATE, "429", 60)
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": "m"}]}), fail(401), fail(401))
    provider.on("m", reply(whole("m")))
    check = await owner.test_channel("up", "m")
    assert (check.ok, check.failed_keys) == (True, 2)
    assert "1 of 3 keys are accepted; it lists 1 model; key 2: no list of models" in check.text
    assert [one.state for one in (await owner.channel("up")).keys] == ["ok", "attention", "attention"]
    assert provider.last.head.get("authorization") == f"Bearer {FIRST}"


async def test_without_a_good_key_the_test_fails(owner: ControlClient, provider: Provider) -> None:
    await owner.edit_channel("up", {"key": FIRST, "keys": [SECOND]})
    provider.on("/v1/models", fail(401))
    check = await owner.test_channel("up")
    assert (check.ok, "0 of 2 keys are accepted" in check.text) == (False, True)


async def test_a_key_that_was_refused_and_is_given_again_is_tried_again(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_channel("up", {"key": FIRST})
    gateway.engine.health.note_failure(ChannelId("ch_up"), FailureKind.AUTH, "401")
    assert (await owner.edit_channel("up", {"note": "x"})).state == "attention"
    again = await owner.edit_channel("up", {"key": FIRST})
    assert (again.state, again.unchanged) == ("ok", True)
    assert not (await owner.edit_channel("up", {"key": SECOND})).unchanged


async def test_a_key_that_could_not_be_saved_changes_nothing(
    owner: ControlClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.health.note_failure(ChannelId("ch_up"), FailureKind.AUTH, "401")
    monkeypatch.setattr(files, "replace", refuse)
    with pytest.raises(Unavailable):
        await owner.edit_channel("up", {"key": FIRST})
    assert (await owner.channel("up")).state == "attention"


async def test_keys_that_are_given_to_channels_again_are_tried_again(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "n", name="two")
    for name in ("up", "two"):
        gateway.engine.health.note_failure(gateway.engine.catalog.channel(name).id, FailureKind.AUTH, "401")
    await owner.batch("channels", {name: {"key": FIRST} for name in ("up", "two")})
    assert [(await owner.channel(name)).state for name in ("up", "two")] == ["ok", "ok"]


@pytest.mark.parametrize(("status", "state"), [(401, "attention"), (403, "ok"), (500, "ok")])
async def test_a_key_that_a_test_finds_refused_needs_attention(
    owner: ControlClient, gateway: Gateway, provider: Provider, status: int, state: str
) -> None:
    """A restricted key may be refused the list, and make calls. The incident begins now, not when somebody looks."""
    provider.on("/v1/models", fail(status), reply({"object": "list", "data": [{"id": "m"}]}))
    assert not (await owner.test_channel("up")).ok
    incidents = gateway.engine.incident_watch.incidents.newest()
    assert [(one.kind, one.paused) for one in incidents] == [(FailureKind.AUTH, True)] * (status == 401)
    assert (await owner.channel("up")).state == state
    assert (await owner.test_channel("up")).ok
    assert not any(one.paused for one in incidents)
    assert (await owner.channel("up")).state == "ok"


@pytest.mark.parametrize(("preset", "meant"), [("opnai", "openai"), ("zzz", "")])
async def test_an_unknown_preset_names_the_known_ones(owner: ControlClient, preset: str, meant: str) -> None:
    with pytest.raises(BadRequest, match=f"unknown preset '{preset}'") as caught:
        await owner.add_channel({"name": "new", "preset": preset, "key": CANARY})
    assert "The presets are: openai, " in caught.value.message
    assert (f"Did you mean '{meant}'?" in caught.value.message) == bool(meant)
    with pytest.raises(BadRequest, match=f"unknown preset '{preset}'"):
        await owner.edit_channel("up", {"preset": preset})


async def test_variables_that_are_not_set_are_named(
    owner: ControlClient, body: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLKEEPER_TEST_SET", "sk-x")
    monkeypatch.delenv("TOLLKEEPER_TEST_UNSET", raising=False)
    models = {"models": [{"name": "gpt"}], "headers": {"X-Team": "env:TOLLKEEPER_TEST_UNSET"}}
    channel = await owner.add_channel(body | models | {"key": "env:TOLLKEEPER_TEST_SET"})
    assert channel.missing_variables == ("TOLLKEEPER_TEST_UNSET",)
    assert (await owner.edit_channel("new", {"headers": {}})).missing_variables == ()


async def test_a_channel_that_needs_attention_shows_its_owner_what_the_upstream_said(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(401, "This key was revoked on Monday."))
    answer = await gateway.client.chat()
    view = await owner.channel("up")
    assert (view.state, "This key was revoked on Monday." in view.reason) == ("attention", True)
    assert b"revoked" not in answer.body


async def test_what_a_channel_may_have_billed_for_a_call_that_another_answered_is_its_own(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    (up,) = gateway.engine.catalog.registry.channels.values()
    gateway.channel(up.base_url, name="spare", priority=-1)
    provider.on("m", slam, speak())
    assert (await gateway.client.chat(max_tokens=100)).status == 200
    (record,) = await gateway.settled()
    assert [(attempt.channel, attempt.billed) for attempt in record.attempts] == [("up", True), ("spare", False)]
    possible = {view.name: view.possible_nanos for view in await owner.channels()}
    assert possible == {"up": record.possible_elsewhere["ch_up"], "spare": 0}
    assert 0 < possible["up"] <= record.held
    assert (
        (await owner.call(record.id)).possible_nanos == (await owner.summary()).total.possible_nanos == possible["up"]
    )
    assert (await owner.verify()).equal
