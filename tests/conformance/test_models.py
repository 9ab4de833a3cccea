"""Cases 1 to 7: models and plumbing."""

import json

import pytest
from openai import AuthenticationError, NotFoundError

from gateway.domain.units import ChannelId
from tests.conformance.sdk import openai, raised
from tests.conformance.shapes import error_faults, model_faults, models_faults
from tests.fakes.client import HELLO, Client
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import reply, speak


async def test_01_models_are_listed_alike_each_time(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "a/b:free", "zeta=hidden-name")
    first, second = await gateway.client.get("/v1/models"), await gateway.client.get("/v1/models")
    assert models_faults(first.json) == []
    assert first.body == second.body
    async with openai(gateway) as client:
        assert [model.id async for model in client.models.list()] == ["a/b:free", "m", "zeta"]


async def test_02_no_routes_are_an_empty_list(gateway: Gateway) -> None:
    gateway.change("channels", "ch_up", None)
    empty = (await gateway.client.get("/v1/models")).json
    assert (empty["object"], empty["data"], empty["has_more"]) == ("list", [], False)


async def test_03_the_list_does_not_depend_on_any_upstream(gateway: Gateway, provider: Provider) -> None:
    # Deviation: models are configured with their channel, so listing asks no upstream that could fail it.
    provider.other = reply(b"broken", status=500)
    gateway.channel("http://127.0.0.1:9/v1", "down-1", name="down")
    assert [model["id"] for model in (await gateway.client.get("/v1/models")).json["data"]] == ["down-1", "m"]
    assert provider.exchanges == []


async def test_03_an_upstream_that_lists_null_offers_nothing(gateway: Gateway, provider: Provider) -> None:
    provider.other = reply({"object": "list", "data": None})
    channel = gateway.engine.catalog.registry.channels[ChannelId("ch_up")]
    assert await gateway.engine.upstreams.fetch_models(channel) == []


async def test_04_one_model_is_found_by_its_id_in_any_spelling(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "a/b:free")
    async with openai(gateway) as client:
        assert (await client.models.retrieve("a/b:free")).id == "a/b:free"
        with pytest.raises(NotFoundError) as caught:
            await client.models.retrieve("nope")
    assert caught.value.code == "model_not_found"
    for path in ("/v1/models/a/b:free", "/v1/models/a%2Fb:free", "/v1/models/a%2Fb%3Afree"):
        entry = (await gateway.client.get(path)).json
        assert entry["id"] == "a/b:free"
        assert model_faults(entry) == []


async def test_04_models_that_others_serve_are_not_found(gateway: Gateway, provider: Provider) -> None:
    gateway.group("other")
    gateway.channel(provider.base_url, "secret", name="theirs", groups=("other",))
    assert (await gateway.client.get("/v1/models/secret")).refusal == (404, "model_not_found", "model")
    assert (await gateway.client.chat("secret")).refusal == (404, "model_not_found", "model")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/nope", {}, 404),
        ("PUT", "/v1/models", {}, 405),
        ("DELETE", "/v1/models/m", {}, 405),
        ("POST", "/v1/chat/completions", {"content-length": str(40 << 20), "content-type": "application/json"}, 413),
    ],
)
async def test_05_every_refusal_is_json_with_an_id(
    gateway: Gateway, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await gateway.client.ask(method, path, headers=headers)
    assert answer.status == status
    assert error_faults(answer.json) == []
    assert answer.head.get("content-type").startswith("application/json")
    assert answer.head.get("x-request-id").startswith("req_")
    if status == 405:
        assert answer.head.get("allow") != ""


async def test_06_health_needs_no_key_and_no_upstream(gateway: Gateway, provider: Provider) -> None:
    for path in ("/health", "/v1/health"):
        answer = await Client(gateway.port).get(path)
        assert (answer.status, answer.json["status"]) == (200, "ok")
    assert provider.exchanges == []


@pytest.mark.parametrize("key", ["sk-tk-wrong", "x"])
async def test_06_a_wrong_key_is_refused_at_the_first_attempt(gateway: Gateway, provider: Provider, key: str) -> None:
    async with openai(gateway, api_key=key) as client:
        error = await raised(client)
    assert isinstance(error, AuthenticationError)
    assert len(gateway.records) == 1
    assert provider.exchanges == []


async def test_06_no_key_is_refused_everywhere_else(gateway: Gateway) -> None:
    for path in ("/v1/models", "/v1/models/m"):
        answer = await Client(gateway.port).get(path)
        assert (answer.status, answer.error["code"]) == (401, "missing_api_key")
        assert answer.head.get("www-authenticate") == "Bearer"


async def test_07_two_megabytes_reach_the_upstream_intact(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * (1 << 19)}}
    sent = {"model": "m", "messages": [*HELLO, {"role": "user", "content": [image]}]}
    assert (await gateway.client.post(sent)).status == 200
    assert provider.last.json == sent
    assert len(provider.last.body) >= len(json.dumps(image))
