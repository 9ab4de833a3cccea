import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest, Conflict, NotFound
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, speak

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
    assert (channel.groups, channel.state, channel.enabled) == (["default"], "ok", True)


async def test_a_channel_with_models_has_those_alone(owner: ControlClient, body: dict[str, object]) -> None:
    channel = await owner.add_channel(body | {"models": [{"name": "gpt", "upstream": "gpt-2026"}]})
    assert [(model.name, model.upstream) for model in channel.models] == [("gpt", "gpt-2026")]


async def test_an_address_without_its_root_is_completed(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    bare = provider.base_url.removesuffix("/v1")
    channel = await owner.add_channel(body | {"base_url": bare})
    assert (channel.base_url, len(channel.models)) == (provider.base_url, 2)


@pytest.mark.parametrize("script", [fail(404), fail(401), reply(b"<html>"), reply({"object": "list", "data": []})])
async def test_without_a_list_it_says_to_name_the_models(
    owner: ControlClient, provider: Provider, body: dict[str, object], script: object
) -> None:
    provider.on("/v1/models", script)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="--models") as caught:
        await owner.add_channel(body)
    assert (caught.value.code, caught.value.param) == ("no_model_list", "models")
    assert [channel.name for channel in await owner.channels()] == ["up"]


async def test_hostile_names_in_a_list_are_left_out(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    names = ["good", "\x1b[2J", "", " ", "x" * 5000, "good"]
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": name} for name in names]}))
    assert [model.name for model in (await owner.add_channel(body)).models] == ["good"]


async def test_the_key_and_header_values_are_never_told(owner: ControlClient, body: dict[str, object]) -> None:
    await owner.add_channel(body | {"headers": {"X-Secret": CANARY}})
    await owner.edit_channel("new", {"note": "x"})
    for path in ("/channels", "/channels/new", "/status", "/models", "/settings"):
        assert CANARY[:-4].encode() not in (await owner.send("GET", path)).body
    channel = await owner.channel("new")
    assert (channel.key, channel.headers) == ("…tail", {"X-Secret": "…tail"})


async def test_the_password_of_a_proxy_is_never_told(owner: ControlClient, body: dict[str, object]) -> None:
    await owner.add_channel(body | {"proxy": f"http://me:{CANARY}@127.0.0.1:9", "models": [{"name": "m1"}]})
    assert (await owner.channel("new")).proxy == "http://…@127.0.0.1:9"
    for path in ("/channels", "/channels/new"):
        assert CANARY.encode() not in (await owner.send("GET", path)).body


async def test_overrides_are_kept_shown_and_dropped(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    await owner.edit_channel("up", {"overrides": {"set": {"seed": 7}, "remove": ["user"], "system": "Be brief."}})
    answer = await gateway.client.chat(user="u")
    assert answer.head.get("x-gateway-dropped-params") == "user"
    sent = provider.last.json
    assert (sent["seed"], "user" in sent, sent["messages"][0]["content"]) == (7, False, "Be brief.")
    assert (await owner.edit_channel("up", {"overrides": None})).overrides is None
    await gateway.client.chat(user="u")
    assert provider.last.json["user"] == "u"


async def test_references_are_told_as_they_are(owner: ControlClient, body: dict[str, object]) -> None:
    assert (await owner.add_channel(body | {"key": "env:MY_KEY", "models": [{"name": "m"}]})).key == "env:MY_KEY"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"name": None}, "name"),
        ({"dialect": None}, "dialect"),
        ({"dialect": "smtp"}, "dialect"),
        ({"base_url": "http://169.254.169.254/v1"}, "base_url"),
        ({"base_url": "https://u:p@example.com"}, "base_url"),
        ({"groups": ["nobody"]}, "groups"),
        ({"models": [{"name": "a"}, {"name": "a"}]}, "models"),
        ({"models": ["a"]}, "models"),
        ({"weight": -1}, "weight"),
        ({"id": "ch_x"}, "id"),
        ({"last_check": None}, "last_check"),
        ({"timeouts": {"connect": 0}}, "timeouts"),
        ({"limits": {"rps": 1}}, "limits.rps"),
        ({"preset": "nosuch"}, "preset"),
    ],
)
async def test_senseless_channels_are_refused(
    owner: ControlClient, body: dict[str, object], more: dict[str, object], param: str
) -> None:
    whole = {name: value for name, value in (body | more).items() if value is not None or name == "last_check"}
    with pytest.raises(BadRequest) as caught:
        await owner.add_channel(whole)
    assert caught.value.param == param


async def test_a_preset_brings_its_address(owner: ControlClient) -> None:
    channel = await owner.add_channel({"name": "g", "dialect": "openai", "preset": "groq", "models": [{"name": "x"}]})
    assert channel.base_url == "https://api.groq.com/openai/v1"


@pytest.mark.parametrize(("preset", "dialect"), [("anthropic", "anthropic"), ("gemini", "gemini"), ("groq", "openai")])
async def test_a_preset_implies_its_dialect(owner: ControlClient, preset: str, dialect: str) -> None:
    channel = await owner.add_channel({"name": "v", "preset": preset, "models": [{"name": "x"}]})
    assert (channel.dialect, channel.preset, channel.base_url[:8]) == (dialect, preset, "https://")


async def test_a_preset_with_another_dialect_is_taken_at_its_word(owner: ControlClient) -> None:
    body = {"name": "v", "preset": "anthropic", "dialect": "openai", "models": [{"name": "x"}]}
    assert (await owner.add_channel(body)).dialect == "openai"


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
async def test_a_dialect_of_one_vendor_brings_its_address(owner: ControlClient, dialect: str) -> None:
    channel = await owner.add_channel({"name": "v", "dialect": dialect, "models": [{"name": "x"}]})
    assert channel.base_url.startswith("https://")


async def test_a_name_is_used_once(owner: ControlClient, body: dict[str, object]) -> None:
    with pytest.raises(Conflict):
        await owner.add_channel(body | {"name": "up"})


async def test_an_edit_leaves_key_and_models_alone(owner: ControlClient, gateway: Gateway) -> None:
    channel = await owner.edit_channel("up", {"priority": 7, "limits": {"concurrent": 2, "queue_s": 5}})
    assert (channel.priority, channel.limits.concurrent, [model.name for model in channel.models]) == (7, 2, ["m"])
    assert gateway.engine.catalog.channel("up").key == "sk-upstream-canary"


async def test_models_keep_the_time_they_were_added(owner: ControlClient) -> None:
    first = (await owner.edit_channel("up", {"models": [{"name": "m"}]})).models[0].created
    later = (await owner.edit_channel("up", {"models": [{"name": "m"}, {"name": "n"}]})).models
    assert later[0].created == first
    assert later[1].created >= first


async def test_the_dialect_is_for_life(owner: ControlClient) -> None:
    with pytest.raises(BadRequest):
        await owner.edit_channel("up", {"dialect": "mock"})


async def test_a_switched_off_channel_takes_no_calls(owner: ControlClient, gateway: Gateway) -> None:
    assert (await owner.edit_channel("up", {"enabled": False})).state == "off"
    assert (await gateway.client.chat()).status == 404


async def test_a_removed_channel_is_gone(owner: ControlClient) -> None:
    await owner.remove_channel("up")
    with pytest.raises(NotFound):
        await owner.channel("up")


async def test_its_calls_and_errors_are_counted(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(), fail(500))
    await gateway.client.chat()
    await gateway.client.chat()
    ok, _ = await gateway.settled(2)
    channel = await owner.channel("up")
    assert (channel.calls, channel.errors, channel.spent_nanos, channel.in_flight) == (2, 1, ok.cost, 0)


async def test_a_resting_channel_tells_why_and_is_cleared(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(429, "slow down", headers={"retry-after": "60"}))
    await gateway.client.chat()
    channel = await owner.channel("up")
    assert (channel.state, channel.until_ms is not None) == ("cooling", True)
    assert "slow down" in channel.reason
    assert (await owner.clear_channel("up")).state == "ok"


async def test_a_good_test_ends_its_rest(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, headers={"retry-after": "60"}))
    provider.on("/v1/models", LIST)
    await gateway.client.chat()
    check = await owner.test_channel("up")
    channel = await owner.channel("up")
    assert (check.ok, channel.state, channel.last_check) == (True, "ok", check)


async def test_a_bad_test_is_kept_and_changes_nothing_else(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", fail(401, "bad key"))
    check = await owner.test_channel("up")
    assert (check.ok, (await owner.channel("up")).last_check) == (False, check)
    assert "--key" in check.text or "key" in check.text


async def test_a_test_cannot_be_undone_for_it_changes_nothing_of_the_owner_s(
    owner: ControlClient, provider: Provider
) -> None:
    provider.on("/v1/models", LIST)
    await owner.edit_channel("up", {"note": "mine"})
    await owner.test_channel("up")
    assert await owner.undo() == "changed channel 'up'"


async def test_the_upstream_s_models_are_listed(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", LIST)
    assert [model.name for model in await owner.channel_models("up")] == ["m1", "org/m2"]


async def test_the_built_in_channel_needs_no_network(owner: ControlClient) -> None:
    channel = await owner.add_channel({"name": "demo", "dialect": "mock"})
    assert "demo-echo" in [model.name for model in channel.models]
    assert (await owner.test_channel("demo", "demo-echo")).ok


async def test_a_knob_is_stored_in_one_spelling(owner: ControlClient) -> None:
    added = await owner.add_channel({"name": "demo", "dialect": "mock", "options": {"no-usage": True}})
    assert added.options == {"no_usage": True}
    edited = await owner.edit_channel("demo", {"options": {**added.options, "no-usage": False, "retry-after": 2}})
    assert edited.options == {"no_usage": False, "retry_after": 2}
