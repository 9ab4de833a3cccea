"""The list of models, a wrong key, a large request."""

import json

import pytest
from openai import AuthenticationError, NotFoundError

from tests.conformance.sdk import openai, raised
from tests.conformance.shapes import model_faults, models_faults
from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import reply, speak


async def test_models_are_listed_alike_each_time(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "a/b:free", "zeta=hidden-name")
    first, second = await gateway.client.get("/v1/models"), await gateway.client.get("/v1/models")
    assert models_faults(first.json) == []
    assert first.body == second.body
    async with openai(gateway) as client:
        assert [model.id async for model in client.models.list()] == ["a/b:free", "m", "zeta"]


async def test_the_list_does_not_depend_on_any_upstream(gateway: Gateway, provider: Provider) -> None:
    # Deviation: models are configured with their channel, so listing asks no upstream that could fail it.
    provider.other = reply(b"broken", status=500)
    gateway.channel("http://127.0.0.1:9/v1", "down-1", name="down")
    assert [model["id"] for model in (await gateway.client.get("/v1/models")).json["data"]] == ["down-1", "m"]
    assert provider.exchanges == []


async def test_one_model_is_found_by_its_id_in_any_spelling(gateway: Gateway, provider: Provider) -> None:
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


@pytest.mark.parametrize("key", ["sk-tk-wrong", "x"])
async def test_a_wrong_key_is_refused_at_the_first_attempt(gateway: Gateway, provider: Provider, key: str) -> None:
    async with openai(gateway, api_key=key) as client:
        error = await raised(client)
    assert isinstance(error, AuthenticationError)
    assert len(gateway.records) == 1
    assert provider.exchanges == []


async def test_two_megabytes_reach_the_upstream_intact(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * (1 << 19)}}
    sent = {"model": "m", "messages": [*HELLO, {"role": "user", "content": [image]}]}
    assert (await gateway.client.post(sent)).status == 200
    assert provider.last.json == sent
    assert len(provider.last.body) >= len(json.dumps(image))
