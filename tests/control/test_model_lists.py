import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gateway.client.control import ControlClient
from gateway.control.model_lists import RETRY_MS, channels_due, refresh_due
from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect, ServedModel, UpstreamModels
from gateway.domain.errors import BadRequest, Conflict, UpstreamError
from gateway.domain.settings import Settings
from gateway.domain.units import HOUR_MS, ChannelId, Millis
from tests.core import kit
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import fail, reply, slam, speak_after

NAMES = ("gpt-5", "gpt-5-preview", "o3")


def lists(*names: str) -> Script:
    return reply({"object": "list", "data": [{"id": name, "context_length": 8} for name in names]})


@pytest.fixture
def body(provider: Provider) -> dict[str, object]:
    provider.on("/v1/models", lists(*NAMES))
    return {"name": "new", "dialect": "openai", "base_url": provider.base_url}


def names(models: Sequence[Any]) -> list[str]:
    return [model.name for model in models]


async def states(owner: ControlClient, ref: str = "new") -> dict[str, str]:
    return {model.name: model.state for model in (await owner.channel_listing(ref)).models}


async def test_without_models_all_that_is_listed_is_offered_and_kept_up_to_date(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    channel = await owner.add_channel(body)
    assert (channel.patterns, names(channel.models), channel.list_error) == (("*",), list(NAMES), "")
    provider.on("/v1/models", lists("gpt-5", "gpt-6"))
    listing = await owner.refresh_channel("new")
    assert {model.name: model.state for model in listing.models} == {
        "gpt-5": "offered",
        "gpt-6": "new",
        "gpt-5-preview": "gone",
        "o3": "gone",
    }
    assert listing.unpriced == ["gpt-5", "gpt-6"]
    assert names((await owner.channel("new")).models) == ["gpt-5", "gpt-6"]
    assert "gpt-6" in names(await owner.models())


async def test_a_name_that_another_channel_takes_while_the_list_is_fetched_is_refused(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    await owner.add_channel(body)
    answered = asyncio.Event()
    provider.on("/v1/models", speak_after(answered, lists(*NAMES)))
    asked = len(provider.exchanges)
    edit = asyncio.create_task(owner.edit_channel("new", {"name": "taken", "patterns": ["*"], "key": "sk-other-key"}))
    await provider.asked(asked + 1)
    provider.on("/v1/models", lists(*NAMES))
    await owner.add_channel({**body, "name": "taken"})
    answered.set()
    with pytest.raises(Conflict, match="already a channel 'taken'"):
        await edit


async def test_the_log_names_new_models_without_a_price(
    owner: ControlClient, provider: Provider, body: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    await owner.add_channel(body)
    provider.on("/v1/models", lists("gpt-5", "gpt-6"))
    with caplog.at_level(logging.WARNING, "tollkeeper"):
        await owner.refresh_channel("new")
        await owner.refresh_channel("new")
    told = "channel 'new' lists new models without a price, which no dollar budget stops: gpt-6"
    assert [one.getMessage() for one in caplog.records].count(told) == 1
    provider.on("/v1/models", lists("gpt-5", "gpt-6", *(f"new-{i}" for i in range(9))))
    with caplog.at_level(logging.WARNING, "tollkeeper"):
        await owner.refresh_channel("new")
    assert caplog.records[-1].getMessage().endswith(" new-0, new-1, new-2, new-3, new-4 and 4 more")


async def test_patterns_choose_and_names_may_be_mapped_beside_them(
    owner: ControlClient, body: dict[str, object], gateway: Gateway
) -> None:
    models = [{"name": "fast", "upstream": "o3"}]
    channel = await owner.add_channel(body | {"patterns": ["gpt-*", "!*-preview"], "models": models})
    assert [(m.name, m.upstream_name, m.live) for m in channel.models] == [
        ("fast", "o3", False),
        ("gpt-5", "gpt-5", True),
    ]
    assert await states(owner) == {"gpt-5": "offered", "gpt-5-preview": "kept_out", "o3": "offered"}
    seen = await gateway.client.ask("GET", "/v1/models")
    assert [model["id"] for model in seen.json["data"]] == ["fast", "gpt-5", "m"]


async def test_models_without_a_usable_name_are_left_out_and_counted(
    owner: ControlClient, body: dict[str, object], provider: Provider
) -> None:
    provider.on("/v1/models", lists("gpt-5", "gpt\x1b[2J", " ", "x" * 5000, "gpt-5"))
    assert names((await owner.add_channel(body)).models) == ["gpt-5"]
    assert (await owner.channel_listing("new")).unnamed == 2
    provider.on("/v1/models", lists("gpt-5", "gpt\x1b[2J"))
    assert (await owner.refresh_channel("new")).unnamed == 1


async def test_patterns_may_stand_among_the_models(owner: ControlClient, body: dict[str, object]) -> None:
    channel = await owner.add_channel(body | {"models": [{"name": "o*"}, {"name": "mine"}]})
    assert (channel.patterns, names(channel.models)) == (("o*",), ["mine", "o3"])


async def test_a_pattern_that_lets_nothing_in_is_reported(owner: ControlClient, body: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match=r"it lists 3 models, but not one matches claude-\*") as caught:
        await owner.add_channel(body | {"patterns": ["claude-*"]})
    assert caught.value.code == "no_model_list"
    with pytest.raises(BadRequest):
        await owner.add_channel(body | {"patterns": ["!"]})


async def test_new_patterns_select_from_the_list_there_is(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    await owner.add_channel(body)
    asked = len(provider.exchanges)
    assert names((await owner.edit_channel("new", {"patterns": ["o*"]})).models) == ["o3"]
    assert len(provider.exchanges) == asked
    channel = await owner.edit_channel("new", {"patterns": []})
    assert [(model.name, model.live) for model in channel.models] == [("o3", False)]


async def test_a_context_that_the_upstream_does_not_list_is_that_of_the_price_list(
    owner: ControlClient, provider: Provider, body: dict[str, object], gateway: Gateway
) -> None:
    provider.on("/v1/models", reply({"data": [{"id": "x"}]}))
    await owner.add_channel({**body, "known_prices": False})
    gateway.price("x", context=128_000, source="a list")
    (row,) = (await owner.channel_listing("new")).models
    assert (row.context, row.known_context, row.context_source) == (None, 128_000, "a list")


async def test_what_the_owner_takes_away_does_not_come_back(owner: ControlClient, body: dict[str, object]) -> None:
    channel = await owner.add_channel(body)
    kept = msgspec.to_builtins(channel.models[:2])
    channel = await owner.edit_channel("new", {"models": kept})
    assert channel.patterns == ("*", "!o3")
    await owner.refresh_channel("new")
    assert names((await owner.channel("new")).models) == list(NAMES[:2])


async def test_a_named_model_beside_the_same_patterns_leaves_theirs_as_they_are(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    await owner.add_channel(body)
    provider.on("/v1/models", lists(*NAMES, "gpt-6"))
    await owner.refresh_channel("new")
    created = {model.name: model.created for model in (await owner.channel("new")).models}
    mine = {"name": "mine", "upstream": "o3"}
    channel = await owner.edit_channel("new", {"models": [mine], "patterns": ["*"]})
    assert (channel.patterns, names(channel.models)) == (("*",), ["mine", *NAMES, "gpt-6"])
    assert {model.name: model.created for model in channel.models if model.live} == created
    channel = await owner.edit_channel("new", {"models": [], "patterns": ["*"]})
    assert names(channel.models) == [*NAMES, "gpt-6"]


async def test_a_named_model_is_given_what_the_last_list_says_of_it(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    provider.on("/v1/models", reply({"data": [{"id": "a", "context_length": 9}, {"id": "b", "context_length": 7}]}))
    await owner.add_channel(body | {"models": [{"name": "a"}]})
    channel = await owner.edit_channel("new", {"models": [{"name": "a"}, {"name": "b"}], "patterns": []})
    assert [(model.name, model.context) for model in channel.models] == [("a", 9), ("b", 7)]


async def test_while_the_upstream_is_down_the_last_list_is_served_and_marked(
    owner: ControlClient, provider: Provider, body: dict[str, object]
) -> None:
    await owner.add_channel(body)
    before = (await owner.channel_listing("new")).time_ms
    provider.on("/v1/models", slam)
    listing = await owner.refresh_channel("new")
    assert (listing.stale, listing.time_ms, len(listing.models)) == (True, before, 3)
    assert "cannot be reached" in listing.error
    channel = await owner.channel("new")
    assert (channel.list_error, names(channel.models)) == (listing.error, list(NAMES))
    provider.on("/v1/models", lists(*NAMES))
    assert not (await owner.refresh_channel("new")).stale


async def test_the_list_of_another_address_is_not_used(owner: ControlClient, body: dict[str, object]) -> None:
    await owner.add_channel(body)
    with pytest.raises(BadRequest) as caught:
        await owner.edit_channel("new", {"base_url": "http://127.0.0.1:1/v1"})
    assert caught.value.code == "no_model_list"
    assert caught.value.message.count("channel 'new'") == 1
    channel = await owner.edit_channel("new", {"key": "another", "timeouts": {"connect": 1}})
    assert names(channel.models) == list(NAMES)


@pytest.mark.parametrize("script", [lists(), fail(500), reply(b"<html>")])
async def test_without_a_list_no_model_is_removed(
    owner: ControlClient, provider: Provider, body: dict[str, object], script: Script
) -> None:
    await owner.add_channel(body)
    provider.on("/v1/models", script)
    assert (await owner.refresh_channel("new")).stale
    assert names((await owner.channel("new")).models) == list(NAMES)


async def test_models_named_by_the_owner_are_shown_as_gone(owner: ControlClient, body: dict[str, object]) -> None:
    await owner.add_channel(body | {"models": [{"name": "gpt-5"}, {"name": "retired"}]})
    assert await states(owner) == {"gpt-5": "offered", "gpt-5-preview": "kept_out", "o3": "kept_out", "retired": "gone"}
    channel = await owner.channel("new")
    assert [(model.name, model.context) for model in channel.models] == [("gpt-5", 8), ("retired", None)]


async def test_a_model_with_several_names_is_shown_under_its_own(owner: ControlClient, body: dict[str, object]) -> None:
    models = [{"name": "gpt-5"}, {"name": "fast", "upstream": "gpt-5"}, {"name": "quick", "upstream": "o3"}]
    await owner.add_channel(body | {"models": models})
    found = {row.name: row for row in (await owner.channel_listing("new")).models}
    assert (found["gpt-5"].public, found["o3"].public) == ("gpt-5", "quick")


@pytest.mark.parametrize(("given", "path"), [("", "/v1"), ("/v1", "/v1"), ("/v1/chat/completions", "/v1")])
async def test_the_root_is_found_out_when_models_are_named_too(
    owner: ControlClient, provider: Provider, body: dict[str, object], given: str, path: str
) -> None:
    root = provider.base_url.removesuffix("/v1")
    channel = await owner.add_channel(body | {"base_url": root + given, "models": [{"name": "gpt-5"}]})
    assert channel.base_url == root + path
    assert (await owner.edit_channel("new", {"base_url": root})).base_url == root + path


async def test_a_known_place_and_a_native_dialect_are_not_searched(owner: ControlClient) -> None:
    """Neither gets a request: nothing outside this machine could answer here."""
    for more in ({"preset": "groq"}, {"dialect": "gemini"}):
        channel = await owner.add_channel({"name": str(more), "models": [{"name": "x"}], **more})
        assert channel.listed_ms is None


async def test_an_upstream_that_is_not_there_keeps_its_address(owner: ControlClient) -> None:
    body = {"name": "off", "dialect": "openai", "base_url": "http://127.0.0.1:1/api", "models": [{"name": "x"}]}
    assert (await owner.add_channel(body)).base_url == "http://127.0.0.1:1/api"


async def test_the_upstream_s_price_is_shown_beside_the_model(
    owner: ControlClient, provider: Provider, body: dict[str, object], gateway: Gateway
) -> None:
    pricing = {"prompt": "0.0000025", "completion": "0.00001"}
    provider.on("/v1/models", reply({"data": [{"id": "x", "context_length": 9, "pricing": pricing}]}))
    await owner.add_channel({**body, "known_prices": False})
    (model,) = (m for m in await owner.models() if m.name == "x")
    assert model.published is not None
    assert (model.context, model.price, model.published.input, model.published.output) == (
        9,
        None,
        2_500_000_000,
        10**10,
    )
    (row,) = (await owner.channel_listing("new")).models
    assert (row.context, row.known_context, row.context_source) == (9, 9, "upstream")
    seen = (await gateway.client.ask("GET", "/v1/models/x")).json
    assert (seen["context_length"], seen["pricing"]) == (9, {"input": "2.50", "output": "10.00"})
    await owner.set_price("x", {"input": 10**9, "output": 10**9})
    assert (await gateway.client.ask("GET", "/v1/models/x")).json["pricing"] == {"input": "1.00", "output": "1.00"}


async def test_a_removed_channel_takes_its_list_along_and_fetches_it_when_it_is_back(
    owner: ControlClient, body: dict[str, object], gateway: Gateway
) -> None:
    channel = await owner.add_channel(body)
    await owner.remove_channel("new")
    assert gateway.engine.catalog.registry.lists == {}
    await owner.undo()
    assert (await owner.channel("new")).models == channel.models
    assert [one.name for one in channels_due(gateway.engine.catalog.registry, gateway.engine.now())] == ["new"]


async def test_a_failed_first_list_is_waited_for(gateway: Gateway, provider: Provider, owner: ControlClient) -> None:
    provider.on("/v1/models", fail(500))
    gateway.channel(provider.base_url, name="live", patterns=("*",))
    await refresh_due(gateway.engine)
    assert [*channels_due(gateway.engine.catalog.registry, gateway.engine.now())] == []
    assert (await owner.channel("live")).list_error
    assert (await owner.channel("live")).listed_ms is None
    with pytest.raises(UpstreamError):
        await owner.refresh_channel("live")
    provider.on("/v1/models", lists(*NAMES))
    listing = await owner.refresh_channel("live")
    assert ([model.state for model in listing.models], listing.stale) == (["offered"] * 3 + ["gone"], False)


async def test_a_channel_that_waits_for_its_first_list_can_be_edited(owner: ControlClient, gateway: Gateway) -> None:
    was = (ServedModel(name="gpt-was", live=True),)
    gateway.channel("http://127.0.0.1:1/v1", name="off", patterns=("*",), models=was)
    for patch in ({"priority": 5}, {"enabled": False}, {"key": "another"}, {"patterns": ["gpt-*"]}):
        await owner.edit_channel("off", patch)
    channel = await owner.channel("off")
    assert (channel.priority, channel.state, channel.patterns, names(channel.models)) == (
        5,
        "off",
        ("gpt-*",),
        ["gpt-was"],
    )
    assert "cannot be reached" in channel.list_error


NOW = Millis(1_800_000_000_000)
LIVE = msgspec.structs.replace(kit.channel("up"), patterns=("*",))
DAY = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("more", "listed", "asked"),
    [
        ({}, {"time": NOW - DAY}, True),
        ({}, {"time": NOW - DAY + 1}, False),
        ({}, None, True),
        ({"patterns": ()}, {"time": 0}, False),
        ({"enabled": False}, {"time": 0}, False),
        ({"dialect": Dialect.MOCK}, {"time": 0}, False),
        ({}, {"time": 0, "tried": NOW - RETRY_MS + 1, "error": "down"}, False),
        ({}, {"time": 0, "tried": NOW - RETRY_MS, "error": "down"}, True),
    ],
)
def test_channels_are_due(more: dict[str, Any], listed: dict[str, Any] | None, asked: bool) -> None:
    channel = msgspec.structs.replace(LIVE, **more)
    there = {} if listed is None else {channel.id: UpstreamModels(channel=channel.id, **listed)}
    registry = msgspec.structs.replace(kit.registry(channel), lists=there)
    assert [*channels_due(registry, NOW)] == ([channel] if asked else [])
    never = msgspec.structs.replace(registry, settings=Settings(refresh_models_h=0))
    assert [*channels_due(never, NOW)] == []


async def test_all_that_is_due_is_fetched_and_a_dead_one_delays_no_other(gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", lists(*NAMES))
    gateway.channel("http://127.0.0.1:1/v1", "old", name="dead", patterns=("*",))
    gateway.channel(provider.base_url, name="alive", patterns=("gpt-*",), models=(ServedModel(name="was", live=True),))
    async with asyncio.timeout(10):
        await refresh_due(gateway.engine)
    registry = gateway.engine.catalog.registry
    assert names(registry.channels[ChannelId("ch_alive")].models) == ["gpt-5", "gpt-5-preview"]
    assert names(registry.channels[ChannelId("ch_dead")].models) == ["old"]
    assert [bool(registry.lists[ChannelId(id)].error) for id in ("ch_alive", "ch_dead")] == [False, True]


async def test_a_refresh_forgets_nothing_of_a_channel_s_health(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, headers={"retry-after": "60"}))
    provider.on("/v1/models", lists("m", "n"))
    channel = gateway.channel(provider.base_url, patterns=("*",))
    await gateway.client.chat()
    await refresh_due(gateway.engine)
    assert names(gateway.engine.catalog.registry.channels[channel.id].models) == ["m", "n"]
    assert gateway.engine.health.state(channel).name == "cooling"


async def test_a_new_key_that_is_refused_needs_attention_at_once(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", lists("m"), fail(401), fail(503))
    await owner.edit_channel("up", {"patterns": ["*"]})
    await owner.batch("channels", {"up": {"key": "sk-mistyped"}})
    saved = await owner.channel("up")
    assert (saved.state, "key" in saved.reason) == ("attention", True)
    (one,) = await owner.incidents()
    assert (one.kind, one.paused) == (FailureKind.AUTH, True)
    assert (await owner.edit_channel("up", {"key": "sk-good"})).state == "ok"


@pytest.mark.parametrize("way", ["added", "replaced"])
async def test_a_new_key_among_several_is_tried(owner: ControlClient, provider: Provider, way: str) -> None:
    provider.on("/v1/models", fail(401))
    if way == "added":
        view = await owner.add_key("up", "sk-mistyped")
        assert [key.state for key in view.keys] == ["ok", "attention"]
    else:
        view = await owner.replace_key("up", 1, "sk-mistyped")
        assert (view.state, [key.state for key in view.keys]) == ("attention", ["attention"])
    provider.on("/v1/models", fail(503))
    assert (await owner.replace_key("up", len(view.keys), "sk-good")).state == "ok"
