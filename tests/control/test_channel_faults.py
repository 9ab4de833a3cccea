"""What is wrong with a channel is reported at the field to correct; one that was never tried is not called good."""

from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, slam, speak


@pytest.fixture
def body(provider: Provider) -> dict[str, object]:
    """What a new channel needs; its upstream lists a model."""
    provider.on("/v1/models", reply({"object": "list", "data": [{"id": "m1"}]}))
    return {"name": "new", "dialect": "openai", "base_url": provider.base_url}


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        (fail(404), "base_url"),
        (fail(405), "base_url"),
        (fail(401), "key"),
        (fail(500), "models"),
        (fail(429), "models"),
        (reply(b"<html>"), "base_url"),
        (reply({"hello": "world"}), "base_url"),
        (reply({"object": "list", "data": []}), "models"),
        (slam, "base_url"),
    ],
)
async def test_without_a_list_it_says_to_name_the_models(
    owner: ControlClient, provider: Provider, body: dict[str, object], script: object, wrong: str
) -> None:
    provider.on("/v1/models", script)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="no list of models from channel") as caught:
        await owner.add_channel(body)
    assert (caught.value.code, caught.value.param) == ("no_model_list", wrong)
    assert ("name its models: 'tollkeeper channel add NAME --models a,b,c'" in caught.value.message) == (wrong != "key")
    assert ".;" not in caught.value.message
    assert [channel.name for channel in await owner.channels()] == ["up"]


@pytest.mark.parametrize("url", ["https://api.example.com/v1", "HTTP://127.0.0.1:8080", "wss://x.example", "ftp://h/m"])
@pytest.mark.parametrize(
    "more",
    [
        lambda url: {"models": [{"name": url}]},
        lambda url: {"models": [{"name": "m", "upstream": url}]},
        lambda url: {"patterns": [f"{url}*"]},
        lambda url: {"models": [{"name": "m"}], "patterns": [f"!{url}"]},
    ],
    ids=["name", "upstream", "pattern", "exclusion"],
)
async def test_a_url_cannot_name_a_model(owner: ControlClient, body: dict[str, object], more: Any, url: str) -> None:
    with pytest.raises(BadRequest, match=r"is a URL, not the name of a model.*\(--base-url\)") as caught:
        await owner.add_channel(body | more(url))
    assert caught.value.param == "models"
    assert [channel.name for channel in await owner.channels()] == ["up"]


@pytest.mark.parametrize("name", ["hf.co/unsloth/qwen3:Q4", "openai/gpt-4o", "ft:gpt-4o:me::x", "models/gemini-3"])
async def test_names_may_have_slashes_and_colons(owner: ControlClient, body: dict[str, object], name: str) -> None:
    assert (await owner.add_channel(body | {"models": [{"name": name}]})).models[0].name == name


@pytest.mark.parametrize(
    "act",
    [
        lambda owner: owner.add_token({"name": "ci", "models": ["https://x.example/v1"]}),
        lambda owner: owner.edit_group("default", {"models": ["https://x.example/v1"]}),
        lambda owner: owner.edit_group("default", {"fallbacks": [{"model": "m", "to": ["https://x.example/v1"]}]}),
        lambda owner: owner.set_price("https://x.example/v1", {"input": 1, "output": 1}),
    ],
    ids=["token", "group", "fallback", "price"],
)
async def test_no_other_place_takes_a_url_for_a_model(owner: ControlClient, act: Any) -> None:
    with pytest.raises(BadRequest, match="is a URL, not the name of a model"):
        await act(owner)


async def test_a_channel_is_untested_until_a_call_succeeds(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(400), speak())
    assert (await owner.channel("up")).untested
    await gateway.call()
    assert (await owner.channel("up")).shown_state == "untested"
    await gateway.call()
    view = await owner.channel("up")
    assert (view.untested, view.shown_state) == (False, "ok")


async def test_a_channel_is_untested_until_a_test_succeeds(owner: ControlClient, provider: Provider) -> None:
    provider.on("/v1/models", fail(500), reply({"object": "list", "data": [{"id": "m"}]}))
    for ok in (False, True):
        assert (await owner.test_channel("up")).ok == ok
        assert (await owner.channel("up")).untested != ok
    assert not (await owner.add_channel({"name": "demo", "dialect": "mock"})).untested
